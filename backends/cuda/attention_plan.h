// Parameters of the attention kernels. A task is one tile: up to `score_tile` rows and
// `result_columns` columns of one matrix of the result. A block computes tasks in turn.
#pragma once

#include <algorithm>

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// The number of queries, and of keys, in a tile of scores.
inline constexpr int score_tile = 32;
/// The number of columns of the result in a tile.
template <class T>
inline constexpr int result_columns = sizeof(T) == 8 ? 32 : 64;

enum class AttentionResult { of_queries, of_keys, of_values, means };

/// One operand, which is a batch of matrices. Steps are in elements.
struct AttentionOperand {
  const void* data = nullptr;
  Index rows = 0, columns = 0, row_step = 0, column_step = 0;
};

struct AttentionArgs {
  enum Operand { q, k, v, total, ct, shift, mask, operands };

  AttentionOperand operand[operands];
  // Maps the index of a matrix in the batch to the offset where it begins in each operand.
  IndexMap<operands> stack;
  bool has_mask, mask_is_bool, causal;
  double scale;
  AttentionResult result;
  void* out;
  void* totals;
  Index rows, columns;  // the size of one matrix of the result
  // The number of tiles along the rows and the columns of a matrix, and the number of matrices.
  Index row_tiles, column_tiles, matrices;

  STAVE_BOTH Index tasks() const { return matrices * row_tiles * column_tiles; }
};

class AttentionPlan {
 public:
  /// Plans one kernel. `in` is the inputs of the operation, in the order of attention.h. `out` is
  /// the means or one of the gradients.
  AttentionPlan(const stave::AttentionAttributes& attention, AttentionResult result, std::span<const View> in,
                const View& out)
      : plan_(stack(in[0].shape, 2), strides_of(in, result)) {
    const bool means = result == AttentionResult::means;
    const std::size_t given = means ? 3 : 6;
    for (std::size_t i = 0; i < given; ++i) set(static_cast<int>(i), in[i], i == 3 || i == 5);
    args_.has_mask = in.size() > given;
    if (args_.has_mask) set(AttentionArgs::mask, in[given], false);
    args_.mask_is_bool = args_.has_mask && in[given].dtype == stave::bool_;
    args_.causal = attention.causal;
    args_.scale = attention.scale;
    args_.result = result;
    args_.out = out.data;
    args_.rows = out.shape[out.shape.size() - 2];
    args_.columns = out.shape.back();
    const Index together = out.dtype == stave::float64 ? result_columns<double> : result_columns<float>;
    args_.row_tiles = (args_.rows + score_tile - 1) / score_tile;
    // The means have at least one column tile, because that tile also writes the totals.
    args_.column_tiles = std::max<Index>(means, (args_.columns + together - 1) / together);
    args_.matrices = plan_.elements();
  }

  AttentionArgs on_host() const { return with(plan_.on_host()); }
  AttentionArgs on_device(const Launch& launch) const { return with(plan_.on_device(launch)); }

 private:
  static constexpr int operands = AttentionArgs::operands;

  static std::span<const Index> stack(std::span<const Index> x, std::size_t kept) { return x.first(x.size() - kept); }
  /// Returns the strides of each operand's batch axes. An absent operand gets the strides of q.
  static OperandStrides<operands> strides_of(std::span<const View> in, AttentionResult result) {
    const std::size_t given = result == AttentionResult::means ? 3 : 6;
    OperandStrides<operands> strides;
    for (std::size_t i = 0; i < operands; ++i) {
      const bool is_mask = i == AttentionArgs::mask, there = is_mask ? in.size() > given : i < given;
      const View& x = there ? in[is_mask ? given : i] : in[0];
      strides[i] = stack(x.strides, there && (i == AttentionArgs::total || i == AttentionArgs::shift) ? 1 : 2);
    }
    return strides;
  }
  void set(int i, const View& x, bool numbers) {
    const std::size_t last = x.shape.size() - 1;
    AttentionOperand& to = args_.operand[i];
    to.data = x.data;
    to.rows = x.shape[numbers ? last : last - 1];
    to.row_step = x.strides[numbers ? last : last - 1];
    to.columns = numbers ? 1 : x.shape[last];
    to.column_step = numbers ? 0 : x.strides[last];
  }
  AttentionArgs with(const IndexMap<operands>& map) const {
    AttentionArgs args = args_;
    args.stack = map;
    return args;
  }

  AttentionArgs args_{};
  IndexPlan<operands> plan_;
};

}  // namespace stave_cuda
