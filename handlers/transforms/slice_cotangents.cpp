#include <stave/handlers/transforms/slice_cotangents.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout_rules.h>

namespace stave_detail {

namespace {

// Returns the only axis along which the slice does not take all of a value.
std::optional<std::size_t> only_sliced_axis(const SliceAttributes& slice, const Shape& whole) {
  std::optional<std::size_t> found;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    if (slice.steps[axis] != 1 || slice.lengths[axis] == 0) return std::nullopt;
    if (slice.lengths[axis] == whole[axis]) continue;
    if (found) return std::nullopt;
    found = axis;
  }
  return found;
}

}  // namespace

bool SliceCotangents::add(const SliceAttributes& slice, const Shape& whole, const Tensor& cotangent) {
  const std::optional<std::size_t> axis = only_sliced_axis(slice, whole);
  if (!axis || (!empty() && *axis != axis_)) return false;
  const Index start = slice.starts[*axis], length = slice.lengths[*axis];
  const auto length_of = [&](const Tensor& part) { return part.shape()[*axis]; };
  const auto next = parts_.lower_bound(start);
  if (next != parts_.end() && next->first == start && length_of(next->second) == length) {
    next->second = stave::add(std::move(next->second), cotangent);
    return true;
  }
  if (next != parts_.end() && next->first < start + length) return false;
  if (next != parts_.begin()) {
    const auto& [start_before, before] = *std::prev(next);
    if (start_before + length_of(before) > start) return false;
  }
  whole_ = whole;
  axis_ = *axis;
  parts_.emplace_hint(next, start, cotangent);
  return true;
}

Tensor SliceCotangents::take() {
  const std::map<Index, Tensor> parts = std::exchange(parts_, {});
  if (parts.size() == 1) {
    Shape starts = repeated(whole_.rank(), 0);
    starts[axis_] = parts.begin()->first;
    return pad_into(parts.begin()->second, whole_, std::move(starts), repeated(whole_.rank(), 1), 0);
  }
  Inputs pieces;
  Index end = 0;
  const auto fill_to = [&](Index start) {
    Shape gap = whole_;
    gap[axis_] = start - end;
    const Tensor& first = parts.begin()->second;
    if (start > end) pieces.push_back(zeros(gap, first.dtype(), first.device()));
  };
  for (const auto& [start, part] : parts) {
    fill_to(start);
    pieces.push_back(part);
    end = start + part.shape()[axis_];
  }
  fill_to(whole_[axis_]);
  return apply(op_concat, std::move(pieces), make_intrusive<AxisAttributes>(static_cast<int>(axis_)));
}

}  // namespace stave_detail
