// Layout: views of the same data where strides can express them, copies where not. And joining, padding, slicing.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {
/// Throws ShapeError unless unstack<n> finds n entries.
void check_entries(const stave::Tensor& x, stave::Index axis, std::size_t found, std::size_t n);
}  // namespace stave_detail

namespace stave {

// Basic indexing, on Tensor itself: x(1, slice(2, none), ellipsis, newaxis).
inline constexpr Tensor::NoneType none{};
inline constexpr Tensor::Ellipsis ellipsis{};
inline constexpr Tensor::NewAxis newaxis{};

/// One bound of a slice: an integer, negative from the end, or `none`.
struct SliceBound {
  std::optional<Index> value;
  SliceBound(Tensor::NoneType) {}
  template <std::integral Integer>
  SliceBound(Integer index) : value(static_cast<Index>(index)) {}
};
/// Python's start:stop:step. slice() is everything, slice(1, none) all but the first, slice(none, none, -1) reversed.
/// Bounds beyond the axis are cut, as in Python; indices (not slices) out of range throw IndexError.
inline Tensor::Slice slice() { return {}; }
inline Tensor::Slice slice(SliceBound stop) { return {std::nullopt, stop.value, std::nullopt}; }
inline Tensor::Slice slice(SliceBound start, SliceBound stop, SliceBound step = none) {
  return {start.value, stop.value, step.value};
}

/// The same elements in row-major order in another shape; one length may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Axis i of the result is axis axes[i] of x.
Tensor permute_dims(const Tensor& x, const Shape& axes);
/// The axes in reverse order.
Tensor transpose(const Tensor& x);
/// The last two axes exchanged.
Tensor matrix_transpose(const Tensor& x);
/// Axes moved from `source` to `destination`, the others in order.
Tensor moveaxis(const Tensor& x, const Shape& sources, const Shape& destinations);
/// New axes of length 1: axes of the result, in any order.
Tensor expand_dims(const Tensor& x, const Shape& axes);
/// Without the given axes (or all axes) of length 1. Throws ShapeError for a longer one.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Axes& axes);
/// A view in which axes of length 1, and new leading ones, repeat.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// The order of elements reversed along axes.
Tensor flip(const Tensor& x);
Tensor flip(const Tensor& x, const Axes& axes);
/// x[..., i, i + offset] along a new last axis, for the matrices of two axes; a view if the matrices are contiguous.
Tensor diagonal(const Tensor& x, Index offset = 0, Index axis1 = -2, Index axis2 = -1);
/// Of a vector the matrix that has it on its diagonal (k-th above the main one) and zeros beside it; of matrices their diagonal.
Tensor diag(const Tensor& x, Index k = 0);
/// The sum of the diagonal; dtypes as those of sum.
Tensor trace(const Tensor& x, Index offset = 0, Index axis1 = -2, Index axis2 = -1);
/// All elements, in row-major order, in memory of its own kind: x itself if it is contiguous.
Tensor contiguous(const Tensor& x);

/// Joined along an existing axis; dtypes are promoted.
Tensor concat(const std::vector<Tensor>& xs, Index axis = 0);
/// Joined along a new axis.
Tensor stack(const std::vector<Tensor>& xs, Index axis = 0);
/// widths[axis] = {before, after}: that many elements of `value` around x; negative widths cut.
Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, Scalar value = 0);
/// The inverse of stack: x's entries along an axis, as views.
std::vector<Tensor> unstack(const Tensor& x, Index axis = 0);
/// The same where their number is known: const auto [mean, deviation] = unstack<2>(x, -1);
template <std::size_t n>
std::array<Tensor, n> unstack(const Tensor& x, Index axis = 0) {
  const std::vector<Tensor> entries = unstack(x, axis);
  stave_detail::check_entries(x, axis, entries.size(), n);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Tensor, n>{entries[i]...};
  }(std::make_index_sequence<n>());
}

/// x[1:] - x[:-1] along an axis, n times over: n entries less. Bools: whether they differ.
Tensor diff(const Tensor& x, Index n = 1, Index axis = -1);
/// Entries moved by `shift` places along an axis; those pushed out at one end come in at the other. Without an axis: of the
/// flattened tensor. Of several axes, one shift may serve all.
Tensor roll(const Tensor& x, Index shift);
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes);
/// x, as a whole, counts[axis] times along each axis; the shorter of x's shape and counts gets ones in front.
Tensor tile(const Tensor& x, const Shape& counts);
/// Each entry `count` times along an axis, or entry i counts[i] times (counts of one number: as that number). Without an axis: of the flattened tensor.
Tensor repeat(const Tensor& x, const Shape& counts);
Tensor repeat(const Tensor& x, const Shape& counts, Index axis);
/// Vectors (or numbers) as the coordinates of a grid: entry p of result i is xs[i][p[i]]; "xy" exchanges the first two axes
/// of all results. Views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, std::string_view indexing = "xy");

}  // namespace stave
