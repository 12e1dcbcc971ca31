// Random draws by rejection, for distributions. Every element runs the same number of rounds
// and takes the first accepted value. So the draws need no data-dependent branch. They can be
// batched by vmap, which gives the same numbers as a loop over the keys.
//
// All parameters broadcast to the given shape. Draws of integers are int32 and are computed in
// float64.
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
/// Returns draws from the von Mises distribution around 0, in [-pi, pi], in the dtype of the
/// concentration. Derivatives with respect to concentration throw TransformError.
Tensor draw_von_mises(const Key& key, const Tensor& concentration, const Shape& shape);

Tensor draw_poisson(const Key& key, const Tensor& rate, const Shape& shape);
/// Returns numbers of successes among `count` trials of probability sigmoid(logits).
Tensor draw_binomial(const Key& key, const Tensor& count, const Tensor& logits, const Shape& shape);
/// Returns numbers of good items among `draws` of good + bad ones.
Tensor draw_hypergeometric(const Key& key, const Tensor& good, const Tensor& bad, const Tensor& draws,
                           const Shape& shape);
Tensor draw_zipf(const Key& key, const Tensor& exponent, const Shape& shape);

}  // namespace stave_detail
