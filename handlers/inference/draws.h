// Random draws by rejection, for distributions.cpp. Every element runs the same number of rounds
// and takes the first accepted value. So the draws need no data-dependent branch. They can be
// batched by vmap, which gives the same numbers as a loop over the keys.
#pragma once

#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns draws from Gamma(concentration, 1) of the given shape, to which concentration
/// broadcasts. The dtype is that of concentration, float32 or float64. Derivatives with respect to
/// concentration throw TransformError.
Tensor standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
/// Returns the logarithm of draws from Gamma(concentration, 1). It stays finite even if the draw
/// itself would underflow, as for a small concentration.
Tensor log_standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
/// Returns int32 draws from a Poisson distribution, of the given shape, to which rate broadcasts.
Tensor poisson(const Key& key, const Tensor& rate, const Shape& shape);

}  // namespace stave_detail
