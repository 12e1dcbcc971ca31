// Layout functions: views of the same data where strides can express the result, copies otherwise;
// also joining, padding and slicing.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {
/// Throws ShapeError unless `found`, the length of the axis, is the n of unstack<n>.
void check_entries(const stave::Tensor& x, stave::Index axis, std::size_t found, std::size_t n);
}  // namespace stave_detail

namespace stave {

// Basic indexing is an operator of Tensor itself: x(1, slice(2, none), ellipsis, newaxis).
inline constexpr Tensor::NoneType none{};
inline constexpr Tensor::Ellipsis ellipsis{};
inline constexpr Tensor::NewAxis newaxis{};

/// One bound of a slice: an integer, which counts from the end if it is negative, or `none`.
struct SliceBound {
  std::optional<Index> value;
  SliceBound(Tensor::NoneType) {}
  template <std::integral Integer>
  SliceBound(Integer index) : value(static_cast<Index>(index)) {}
};
/// A slice start:stop:step, as in Python. Without arguments it takes all entries; slice(1, none)
/// takes all but the first, slice(none, none, -1) all in reverse order. Bounds beyond the axis are
/// clamped, as in Python. Indices (not slices) out of range throw IndexError.
inline Tensor::Slice slice() { return {}; }
inline Tensor::Slice slice(SliceBound stop) { return {std::nullopt, stop.value, std::nullopt}; }
inline Tensor::Slice slice(SliceBound start, SliceBound stop, SliceBound step = none) {
  return {start.value, stop.value, step.value};
}

/// The elements of x in row-major order in another shape; one length may be -1 and is inferred.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Returns x with its axes permuted: axis i of the result is axis axes[i] of x.
Tensor permute_dims(const Tensor& x, const Shape& axes);
/// x with its axes in reverse order.
Tensor transpose(const Tensor& x);
/// x with its last two axes exchanged.
Tensor matrix_transpose(const Tensor& x);
/// x with axes moved from `sources` to `destinations`; the other axes keep their order.
Tensor moveaxis(const Tensor& x, const Shape& sources, const Shape& destinations);
/// x with new axes of length 1, at these positions among the axes of the result, in any order.
Tensor expand_dims(const Tensor& x, const Shape& axes);
/// x without the given axes of length 1, or without all of these. Throws ShapeError if a given axis
/// is longer than 1.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Axes& axes);
/// A view of x in which axes of length 1, and new leading axes, repeat.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// x with the order of its elements reversed along axes, by default along all.
Tensor flip(const Tensor& x);
Tensor flip(const Tensor& x, const Axes& axes);
/// The diagonals x[..., i, i + offset] of the matrices that two axes of x form, along a new last
/// axis.
/// The result is a view if these matrices are contiguous.
Tensor diagonal(const Tensor& x, Index offset = 0, Index axis1 = -2, Index axis2 = -1);
/// For a vector, the matrix that has it on the k-th diagonal above the main one and zeros
/// elsewhere; for matrices, their k-th diagonal.
Tensor diag(const Tensor& x, Index k = 0);
/// The sum of the diagonal, with the dtype of sum.
Tensor trace(const Tensor& x, Index offset = 0, Index axis1 = -2, Index axis2 = -1);
/// All elements of x in row-major order in contiguous memory. The result is x itself if it is
/// contiguous.
Tensor contiguous(const Tensor& x);

/// The tensors joined along an existing axis; dtypes are promoted.
Tensor concat(const std::vector<Tensor>& xs, Index axis = 0);
/// The tensors joined along a new axis; dtypes are promoted.
Tensor stack(const std::vector<Tensor>& xs, Index axis = 0);
/// x with widths[axis] = {before, after} elements of `value` around it along each axis.
/// A negative width removes elements.
Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, Scalar value = 0);
/// The entries of x along an axis, as views: the inverse of stack.
std::vector<Tensor> unstack(const Tensor& x, Index axis = 0);
/// The n entries of x along an axis, where n is known at compile time. Throws ShapeError if there
/// are not n entries.
///   const auto [mean, deviation] = unstack<2>(x, -1);
template <std::size_t n>
std::array<Tensor, n> unstack(const Tensor& x, Index axis = 0) {
  const std::vector<Tensor> entries = unstack(x, axis);
  stave_detail::check_entries(x, axis, entries.size(), n);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Tensor, n>{entries[i]...};
  }(std::make_index_sequence<n>());
}

/// x[1:] - x[:-1] along an axis, applied n times, so the axis loses n entries. For bools:
/// whether neighbours differ.
Tensor diff(const Tensor& x, Index n = 1, Index axis = -1);
/// x with its entries moved by `shift` places along an axis; entries pushed out at one end enter
/// at the other. Without an axis, the flattened tensor is rolled. A single shift applies to all
/// given axes.
Tensor roll(const Tensor& x, Index shift);
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes);
/// x repeated as a whole, counts[axis] times along each axis, as NumPy's tile. The shorter of x's
/// shape and `counts` is padded with ones in front.
Tensor tile(const Tensor& x, const Shape& counts);
/// x with entry i repeated counts[i] times along an axis; a single count applies to all entries.
/// Without an axis, the entries are those of the flattened tensor.
Tensor repeat(const Tensor& x, const Shape& counts);
Tensor repeat(const Tensor& x, const Shape& counts, Index axis);
/// Vectors (or numbers) as the coordinates of a grid: entry p of result i is xs[i][p[i]].
/// The indexing "xy" exchanges the first two axes of all results. Results are views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, std::string_view indexing = "xy");

}  // namespace stave
