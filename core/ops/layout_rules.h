// Helpers for the rules and functions of layout operations. For .cpp files of the library.
#pragma once

#include <numeric>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

inline Shape repeated(int rank, Index value) {
  Shape shape;
  shape.resize(static_cast<std::size_t>(rank), value);
  return shape;
}

inline Shape all_axes_of(int rank) {
  Shape axes = repeated(rank, 0);
  std::iota(axes.begin(), axes.end(), Index{0});
  return axes;
}

inline Tensor slice_of(const Tensor& x, Shape starts, Shape lengths, Shape steps) {
  return apply(op_slice, {x}, make_intrusive<SliceAttributes>(std::move(starts), std::move(lengths), std::move(steps)));
}

inline Tensor pad_into(const Tensor& x, Shape shape, Shape starts, Shape steps, Scalar value) {
  return apply(op_pad, {x},
               make_intrusive<PadAttributes>(std::move(shape), std::move(starts), std::move(steps), value));
}

/// For Op::reuses: the result may take the memory of input 0, a part of which it replaces.
inline bool reuses_first(const Attributes*, std::size_t input) { return input == 0; }
/// Returns true if the result is input 0 with a part of it replaced, as for dynamic_update_slice.
inline bool replaces_part(const Op& op) { return op.reuses == reuses_first; }

}  // namespace stave_detail
