// Random draws of integers by rejection, for distributions for which random_samplers.h has no
// function, or one with a small bias (binomial). Every element runs the same number of rounds and
// takes the first accepted value. So the draws need no data-dependent branch. They can be batched
// by vmap, which gives the same numbers as a loop over the keys.
//
// All parameters broadcast to the given shape. Draws are int32 and are computed in float64.
#pragma once

#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns numbers of successes among `count` trials of probability sigmoid(logits).
Tensor draw_binomial(const Key& key, const Tensor& count, const Tensor& logits, const Shape& shape);
/// Returns draws from the zeta distribution with this exponent.
Tensor draw_zipf(const Key& key, const Tensor& exponent, const Shape& shape);

}  // namespace stave_detail
