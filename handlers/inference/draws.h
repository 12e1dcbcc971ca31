// Draws that need rejection, for distributions.cpp: as many rounds for each element, of which it takes the first accepted one, so they
// need no decision, batch under vmap, and are the same for split keys and in a loop.
#pragma once

#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Of Gamma(concentration, 1), of this shape, to which concentration broadcasts; its logarithm, which does not vanish where concentration
/// is small. In concentration's dtype, float32 or float64. Derivatives by it throw TransformError.
Tensor standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
Tensor log_standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape);
/// int32.
Tensor poisson(const Key& key, const Tensor& rate, const Shape& shape);

}  // namespace stave_detail
