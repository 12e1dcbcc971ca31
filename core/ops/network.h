// Layers of neural networks: embedding and dropout. They are composed of other operations.
#pragma once

#include <optional>

#include <stave/core/ops/random.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct EmbeddingOptions {
  [[no_unique_address]] ByName by_name{};
  std::optional<Index> padding{};  ///< a row of the table that gets no gradient
};
/// The rows `ids` of a table [rows, ...]: table[ids], of shape ids.shape + table.shape[1:]. The ids
/// may have any integer dtype. An id outside [0, rows), negative ones included, throws IndexError.
/// This is PyTorch's embedding.
Tensor embedding(const Tensor& table, const Tensor& ids, EmbeddingOptions options = {});

/// x with each element replaced by 0 with probability `rate`, in [0, 1], else divided by 1 - rate,
/// so that the mean is preserved. Lanes of a vmap that share a key lose the same elements;
/// with split keys each lane loses its own. Integers become default_dtype().
Tensor dropout(const Key& key, const Tensor& x, double rate);

}  // namespace stave
