// Padding with the elements of x itself, padding between elements, and other rearrangements that
// are composed of the functions of layout.h.
#pragma once

#include <utility>
#include <vector>

#include <stave/core/tensor/scalar.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// How x continues beyond its ends, for x = a b c:
enum class PadMode {
  reflect,    ///< c b | a b c | b a: the end is not repeated
  symmetric,  ///< b a | a b c | c b: the end is repeated
  edge,       ///< a a | a b c | c c; PyTorch's "replicate"
  wrap        ///< b c | a b c | a b; PyTorch's "circular"
};
/// x with widths[axis] = {before, after} more elements along each axis, which continue x as the
/// mode says, as often as it takes. A negative width removes elements. `reflect` repeats the
/// element of an axis of length 1. This is NumPy's pad. Throws ShapeError for an empty axis, which
/// cannot continue.
Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, PadMode mode);

/// The numbers of elements of padding before, after and between the elements of an axis.
struct PadWidths {
  Index before = 0, after = 0, between = 0;
};
/// x with elements of `value` around and between its elements, as jax.lax.pad. Negative widths
/// before and after remove elements of the result. Throws ShapeError for a negative width between
/// elements.
Tensor pad_between(const Tensor& x, const std::vector<PadWidths>& widths, Scalar value = 0);

/// The tensors broadcast to their common shape.
std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& xs);
/// The shape to which all shapes broadcast; [] if there are none. Throws ShapeError if there is no
/// such shape.
Shape broadcast_shapes(std::initializer_list<Shape> shapes);
Shape broadcast_shapes(std::span<const Shape> shapes);
/// x with two axes exchanged.
Tensor swapaxes(const Tensor& x, Index axis1, Index axis2);
/// x turned by `times` right angles in the plane of two axes, from the first towards the second, as
/// NumPy's rot90.
Tensor rot90(const Tensor& x, Index times = 1, Index axis1 = 0, Index axis2 = 1);

}  // namespace stave
