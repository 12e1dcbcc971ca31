// What check_grads and check_op share.
#pragma once

#include <span>
#include <vector>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

using namespace stave;

/// A normal tensor for each of floats, zeros for others.
std::vector<Tensor> random_like(std::span<const Tensor> xs, std::uint64_t seed);
/// The cotangents of f's inputs at xs for those of its outputs; of outputs that are no floats there is none.
Outputs pulled_back(FlatFunction f, std::span<const Tensor> xs, std::vector<Tensor> cotangents);
/// Relative to the size of the values: 1e-6 if all are float64, else 1e-2.
double tolerance_for(std::span<const Tensor> xs);

}  // namespace stave_detail
