// Padding with elements of x, padding between elements, and the other functions of rearrange.h.

#include <stave/core/ops/rearrange.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// Returns the positions in an axis of `length` elements that continue it from -before on.
Tensor continued(Index before, Index length, Index count, PadMode mode) {
  const UnderFrame past_all_handlers(nullptr);
  const Tensor place = arange(-before, count - before, 1, int64);
  // Positions in a period that goes there and back.
  const auto there_and_back = [&](Index period, Index last) {
    const Tensor within = place % period;
    return minimum(within, last - within);
  };
  switch (mode) {
    case PadMode::edge: return clip(place, 0, length - 1);
    case PadMode::wrap: return place % length;
    case PadMode::symmetric: return there_and_back(2 * length, 2 * length - 1);
    case PadMode::reflect: break;
  }
  return length == 1 ? zeros_like(place) : there_and_back(2 * (length - 1), 2 * (length - 1));
}

Tensor continued_along(const Tensor& x, int axis, Index before, Index after, PadMode mode) {
  const Index length = x.shape(axis);
  Index count;
  if (__builtin_add_overflow(before, length, &count) || __builtin_add_overflow(count, after, &count))
    fail<ShapeError>("pad: widths {{{}, {}}} and length {} of axis {} are too much for an axis", before, after, length,
                     axis);
  if (before <= 0 && after <= 0) {
    if (count < 0)
      fail<ShapeError>("pad: widths {{{}, {}}} cut more than length {} of axis {}", before, after, length, axis);
    return before == 0 && after == 0 ? x : entries(x, axis, -before, count);
  }
  if (length == 0) fail<ShapeError>("pad: axis {} of shape {} has no element that could continue it", axis, x.shape());
  if (count < 0)
    fail<ShapeError>("pad: widths {{{}, {}}} cut more than length {} of axis {}", before, after, length, axis);
  return take(x, to(continued(before, length, count, mode), x.device()), axis);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, PadMode mode) {
  if (widths.size() != require_defined(x, "pad").shape().size())
    fail<ShapeError>("pad: {} pairs of widths for shape {}: give one for each axis", widths.size(), x.shape());
  return named("pad", [&] {
    Tensor padded = x;
    for (std::size_t axis = 0; axis < widths.size(); ++axis)
      padded = continued_along(padded, static_cast<int>(axis), widths[axis].first, widths[axis].second, mode);
    return padded;
  });
}

Tensor pad_between(const Tensor& x, const std::vector<PadWidths>& widths, Scalar value) {
  if (widths.size() != require_defined(x, "pad_between").shape().size())
    fail<ShapeError>("pad_between: {} widths for shape {}: give one for each axis", widths.size(), x.shape());
  if (value.kind == Scalar::Kind::floating && !is_inexact(x.dtype()))
    fail<DtypeError>("pad_between: the value {} does not fit {}: convert x with astype", value.floating, x.dtype());
  return named("pad_between", [&] {
    const Scalar number = converted_number(value, x.dtype());
    Shape shape = x.shape(), steps;
    std::vector<std::pair<Index, Index>> around;
    for (std::size_t axis = 0; axis < widths.size(); ++axis) {
      const auto [before, after, between] = widths[axis];
      if (between < 0) fail<ShapeError>("pad_between: {} elements between those of axis {}", between, axis);
      shape[axis] += std::max<Index>(shape[axis] - 1, 0) * between;
      steps.push_back(between + 1);
      around.emplace_back(before, after);
    }
    const Tensor spread = shape == x.shape() ? x : pad_into(x, shape, repeated(x.rank(), 0), std::move(steps), number);
    return pad(spread, around, number);
  });
}

std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& xs) {
  check_defined(xs, "broadcast_arrays");
  Shape shape;
  for (const Tensor& x : xs) shape = broadcast_shapes(shape, x.shape(), "broadcast_arrays");
  std::vector<Tensor> result;
  for (const Tensor& x : xs) result.push_back(broadcast_to(x, shape));
  return result;
}

Shape broadcast_shapes(std::span<const Shape> shapes) {
  Shape common;
  for (const Shape& shape : shapes) common = broadcast_shapes(common, shape, "broadcast_shapes");
  return common;
}
Shape broadcast_shapes(std::initializer_list<Shape> shapes) {
  return broadcast_shapes(std::span<const Shape>(shapes.begin(), shapes.size()));
}

Tensor swapaxes(const Tensor& x, Index axis1, Index axis2) {
  const int rank = require_defined(x, "swapaxes").rank();
  const int first = normalize_axis(axis1, rank, "swapaxes"), second = normalize_axis(axis2, rank, "swapaxes");
  Shape axes = all_axes_of(rank);
  std::swap(axes[static_cast<std::size_t>(first)], axes[static_cast<std::size_t>(second)]);
  return permute_dims(x, axes);
}

Tensor rot90(const Tensor& x, Index times, Index axis1, Index axis2) {
  const int rank = require_defined(x, "rot90").rank();
  const int first = normalize_axis(axis1, rank, "rot90"), second = normalize_axis(axis2, rank, "rot90");
  if (first == second) fail<ShapeError>("rot90: axes {} and {} of shape {} are the same", axis1, axis2, x.shape());
  return named("rot90", [&] {
    switch ((times % 4 + 4) % 4) {
      case 1: return swapaxes(flip(x, second), first, second);
      case 2: return flip(x, {first, second});
      case 3: return flip(swapaxes(x, first, second), second);
      default: return x;
    }
  });
}

}  // namespace stave
