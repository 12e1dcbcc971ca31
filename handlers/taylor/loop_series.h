// Programs of Taylor coefficients, and the series of a recorded loop.
#pragma once

#include <vector>

#include <stave/core/program/program.h>

namespace stave_detail {

using namespace stave;

/// Returns the program of Taylor mode. Its inputs are those of the program, then the coefficients
/// of order 1 of the wanted ones, then those of order 2, and so on up to `order`; its outputs are
/// those of the program, then the coefficients of order 1 of each (zeros for an output that is not
/// a float), and so on. Throws the errors of jet_flat, and TransformError if a rule reads a value.
Program jet_of(const Program& program, int order, const std::vector<bool>& wanted, std::span<const Tensor> examples);

}  // namespace stave_detail
