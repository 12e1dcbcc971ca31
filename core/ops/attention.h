// Attention: weighted means of values, where the weights say how well queries match keys.
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct AttentionOptions {
  [[no_unique_address]] ByName by_name{};
  /// [..., queries, keys]: bools that are true where the query attends to the key, or numbers
  /// that are added to the scores, -inf to exclude a key.
  Tensor mask{};
  bool causal = false;            ///< query i attends only to the keys 0, ..., i
  std::optional<double> scale{};  ///< a factor of the scores; 1 / sqrt(d) if it is not given
};
/// Returns softmax(scale q k^T + mask) v [..., queries, e], for q [..., queries, d],
/// k [..., keys, d] and v [..., keys, e]. Leading axes broadcast. The result is 0 for a query that
/// attends to no key.
/// This is PyTorch's scaled_dot_product_attention, and JAX's dot_product_attention with
/// the heads before the sequence.
///
/// The scores are computed block by block, and again in the backward pass. They are never stored:
/// beyond operands and results, memory is needed for one number per query. Second derivatives,
/// forward mode and the derivative by the mask compute the whole matrix of scores.
///
/// Integers become default_dtype(); 16-bit floats are computed in float32. Throws ShapeError for
/// shapes that do not fit.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});

}  // namespace stave
