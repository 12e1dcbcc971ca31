// Attention: weighted means of values, by how well queries meet keys.
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct AttentionOptions {
  [[no_unique_address]] ByName by_name{};
  /// [..., queries, keys]: bool, true where the key takes part; or numbers that are added to the scores, -inf for a key that does not.
  Tensor mask{};
  bool causal = false;            ///< query i meets the keys 0, ..., i alone
  std::optional<double> scale{};  ///< of the scores: 1 / sqrt(d), unless it is given
};
/// softmax(scale q k^T + mask) v, for q [..., queries, d], k [..., keys, d], v [..., keys, e] and a mask: [..., queries, e]. Leading axes
/// broadcast. PyTorch's; JAX's dot_product_attention with the heads before the sequence. A query that no key takes part for gets zeros.
///
/// The scores are computed block by block, and again in the backward pass, and never kept: beside operands and results there is a number
/// for each query. Second derivatives, forward mode and the derivative by the mask compute them whole.
///
/// Integers become default_dtype(); halves are computed in float32. Throws ShapeError for shapes that do not fit.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});

}  // namespace stave
