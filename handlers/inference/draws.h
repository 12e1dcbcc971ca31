// Random draws that need rejection, for distributions.cpp. Every element runs the same number
// of rounds and takes the first accepted value. So the draws need no data-dependent branch,
// batch under vmap, and give the same numbers for split keys as in a loop.
#pragma once

#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns draws from Gamma(concentration, 1) of this shape, to which concentration broadcasts.
/// The dtype is that of concentration, float32 or float64. Derivatives by concentration throw
/// TransformError.
Tensor standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
/// Returns the logarithm of draws from Gamma(concentration, 1). It stays finite even if the draw
/// itself would underflow, as for a small concentration.
Tensor log_standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
/// Returns int32 draws from a Poisson distribution, of this shape, to which rate broadcasts.
Tensor poisson(const Key& key, const Tensor& rate, const Shape& shape);

}  // namespace stave_detail
