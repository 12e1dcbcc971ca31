// Attention: weighted means of values, where the weights say how well queries match keys.
#pragma once

#include <optional>

#include <stave/core/ops/random.h>
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
  /// Whether consecutive heads of queries share a head of keys and values: q is [..., h g, queries,
  /// d], k and v are [..., h, keys, ...]. This is PyTorch's enable_gqa. A mask has h g heads, or
  /// one.
  bool grouped_queries = false;
  /// The probability, in [0, 1), that a weight is replaced by 0; the others are divided by 1 -
  /// dropout. It needs a key, and computes the whole matrix of weights.
  double dropout = 0;
  std::optional<Key> key{};
};
/// Returns softmax(scale q k^T + mask) v [..., queries, e], for q [..., queries, d],
/// k [..., keys, d] and v [..., keys, e]. Leading axes broadcast. The result is 0 for a query that
/// attends to no key.
/// This is PyTorch's scaled_dot_product_attention, and JAX's dot_product_attention with
/// the heads before the sequence.
///
/// The scores are computed block by block, and again in the backward pass. They are never stored:
/// beyond operands and results, memory is needed for one number per query. Second derivatives,
/// forward mode and the derivative with respect to the mask compute the whole matrix of scores.
///
/// Integers become default_dtype(); 16-bit floats are computed in float32. Throws ShapeError for
/// shapes that do not fit.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});

}  // namespace stave
