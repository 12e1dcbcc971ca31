// Functions that check_grads and check_op share.
#pragma once

#include <span>
#include <vector>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

using namespace stave;

/// Returns a tensor of normal random numbers for each floating tensor, and zeros for the others.
std::vector<Tensor> random_like(std::span<const Tensor> xs, std::uint64_t seed);
/// Returns the cotangents of f's inputs at xs, given cotangents of its outputs. Cotangents that
/// are not floating are ignored. Throws DtypeError if an input is not floating.
Outputs pulled_back(FlatFunction f, std::span<const Tensor> xs, std::vector<Tensor> cotangents);
/// Throws TransformError if Taylor coefficients of f at xs take a number of operations that grows
/// exponentially with the order. It is defined in handlers/taylor/check_towers.cpp.
void check_tower_growth(FlatFunction f, std::span<const Tensor> xs);
/// Returns the default tolerance of CheckGradsOptions and CheckOpOptions for these inputs: 1e-6
/// if all are float64, else 1e-2.
double tolerance_for(std::span<const Tensor> xs);

}  // namespace stave_detail
