// Parts of networks that look up and leave out. Composed of other operations.
#pragma once

#include <optional>

#include <stave/core/ops/random.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct EmbeddingOptions {
  [[no_unique_address]] ByName by_name{};
  std::optional<Index> padding{};  ///< a row that is looked up, but is a constant to derivatives
};
/// Rows of a table [rows, ...]: table[ids], of shape ids.shape + table.shape[1:]. ids are of any integer dtype; one outside [0, rows)
/// throws IndexError, negative ones too. PyTorch's.
Tensor embedding(const Tensor& table, const Tensor& ids, EmbeddingOptions options = {});

/// Each element is 0 with probability `rate`, in [0, 1], else x / (1 - rate), so that the mean stays. Where lanes of a vmap share a key
/// they lose the same elements; with split keys each loses its own. Integers become default_dtype().
Tensor dropout(const Key& key, const Tensor& x, double rate);

}  // namespace stave
