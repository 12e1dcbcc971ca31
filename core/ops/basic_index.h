// BasicIndex: the slice and the reshape that carry out an index of integers, slices and new axes.
// For the .cpp files of core/ops.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// The slice and the reshape that carry out basic indexing, built subscript by subscript.
struct BasicIndex {
  const Shape& shape;
  std::size_t axis = 0;  // the axis of x to which the next subscript applies
  Shape starts = {}, lengths = {}, steps = {};
  Shape result = {};

  void take(Index start, Index length, Index step) {
    starts.push_back(start);
    lengths.push_back(length);
    steps.push_back(step);
    ++axis;
  }
  void whole_axes(std::size_t count) {
    for (; count > 0; --count) {
      result.push_back(shape[axis]);
      take(0, shape[axis], 1);
    }
  }
  void add(Index index) {
    const Index size = shape[axis];
    if (index < -size || index >= size)
      fail<IndexError>("index {} is out of range for axis {} of length {} (shape {})", index, axis, size, shape);
    take(index < 0 ? index + size : index, 1, 1);
  }
  // Takes a slice as Python's slice.indices() does: bounds are clamped to [0, size], for negative
  // steps to [-1, size - 1].
  void add(const Tensor::Slice& slice) {
    const Index size = shape[axis];
    const Index step = (std::max)(slice.step.value_or(1), -(std::numeric_limits<Index>::max)());
    if (step == 0) fail<IndexError>("slice: the step for axis {} is 0", axis);
    const Index low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const auto cut = [&](Index bound) { return std::clamp(bound < 0 ? bound + size : bound, low, high); };
    const Index start = slice.start ? cut(*slice.start) : step > 0 ? low : high;
    const Index stop = slice.stop ? cut(*slice.stop) : step > 0 ? high : low;
    const Index distance = step > 0 ? stop - start : start - stop;
    const Index length = distance <= 0 ? 0 : (distance - 1) / std::abs(step) + 1;
    result.push_back(length);
    take(length == 0 ? 0 : start, length, length > 1 ? step : 1);
  }
  bool everything() const {
    return lengths == shape && std::all_of(steps.begin(), steps.end(), [](Index step) { return step == 1; });
  }
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace stave_detail
