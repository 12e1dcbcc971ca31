#include <stave/core/program/row_blocks.h>

#include <algorithm>

#include <stave/core/program/fused.h>

namespace stave_detail {

bool computes_rows_separately(const Op& op, const Attributes* attributes, int rank) {
  if (rank == 0) return false;
  if (op.elementwise || op.id == OpId::copy || op.id == OpId::astype) return true;
  if (const auto* fused = dynamic_cast<const FusedAttributes*>(attributes)) {
    const auto& reductions = fused->region->reductions();
    return std::none_of(reductions.begin(), reductions.end(), [&](const Region::Reduction& reduction) {
      return std::find(reduction.axes.begin(), reduction.axes.end(), -rank) != reduction.axes.end();
    });
  }
  if (!Region::admits_reduction(op)) return false;
  const Shape& axes = static_cast<const ReduceAttributes*>(attributes)->axes;
  return std::find(axes.begin(), axes.end(), 0) == axes.end();
}

bool rows_agree(const Node& value, const Node& storage) {
  if (value.shape.empty() || storage.shape.empty() || value.shape[0] != storage.shape[0]) return false;
  const Index row = storage.shape.elements() / std::max<Index>(1, storage.shape[0]);
  Index last = value.offset;
  for (std::size_t axis = 1; axis < value.shape.size(); ++axis) {
    if (value.strides[axis] < 0) return false;
    last += (value.shape[axis] - 1) * value.strides[axis];
  }
  return value.strides[0] == row && value.offset >= 0 && last < row;
}

}  // namespace stave_detail
