// The functions of layout.h that call one operation of layout.cpp, or a few.

#include <stave/core/ops/layout.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// Returns the shape with -1 replaced by the length that gives `count` elements in all.
Shape inferred(Shape shape, Index count) {
  Index* unknown = std::find(shape.begin(), shape.end(), Index{-1});
  if (unknown == shape.end()) return shape;
  *unknown = 1;
  const Index others = shape.elements();
  if (others <= 0 || count % others != 0) {
    *unknown = -1;
    fail<ShapeError>("reshape: the length -1 in {} cannot be inferred for {} elements", shape, count);
  }
  *unknown = count / others;
  return shape;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape target = inferred(shape, require_defined(x, "reshape").size());
  if (target == x.shape()) return x;
  return apply(op_reshape, {x}, make_intrusive<ShapeAttributes>(std::move(target)));
}

Tensor permute_dims(const Tensor& x, const Shape& axes) {
  Shape normalized = axes;
  for (Index& axis : normalized) axis = normalize_axis(axis, require_defined(x, "permute_dims").rank(), "permute_dims");
  if (normalized == all_axes_of(x.rank())) return x;
  return apply(op_permute_dims, {x}, make_intrusive<PermuteAttributes>(std::move(normalized)));
}

Tensor transpose(const Tensor& x) {
  Shape axes = all_axes_of(require_defined(x, "transpose").rank());
  std::reverse(axes.begin(), axes.end());
  return permute_dims(x, axes);
}

Tensor matrix_transpose(const Tensor& x) {
  if (require_defined(x, "matrix_transpose").rank() < 2)
    fail<ShapeError>("matrix_transpose: shape {} has fewer than 2 axes", x.shape());
  Shape axes = all_axes_of(x.rank());
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return permute_dims(x, axes);
}

Tensor expand_dims(const Tensor& x, const Shape& axes) {
  Shape shape = require_defined(x, "expand_dims").shape();
  for (Index axis : Axes(axes).normalize(x.rank() + axes.rank(), "expand_dims")) shape.insert(shape.begin() + axis, 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  for (Index length : require_defined(x, "squeeze").shape())
    if (length != 1) shape.push_back(length);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  Shape shape = require_defined(x, "squeeze").shape();
  const Shape dropped = axes.normalize(x.rank(), "squeeze");
  for (std::size_t i = dropped.size(); i-- > 0;) {
    const Index* length = shape.begin() + dropped[i];
    if (*length != 1)
      fail<ShapeError>("squeeze: axis {} of shape {} has length {}, not 1", dropped[i], x.shape(), *length);
    shape.erase(length);
  }
  return reshape(x, shape);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (shape == require_defined(x, "broadcast_to").shape()) return x;
  return apply(op_broadcast_to, {x}, make_intrusive<ShapeAttributes>(shape));
}

Tensor flip(const Tensor& x) { return flip(x, all_axes); }

Tensor flip(const Tensor& x, const Axes& axes) {
  const Shape flipped = axes.normalize(require_defined(x, "flip").rank(), "flip");
  if (flipped.empty()) return x;
  Shape starts = repeated(x.rank(), 0), steps = repeated(x.rank(), 1);
  for (Index axis : flipped) {
    starts[static_cast<std::size_t>(axis)] = x.shape(axis) - 1;
    steps[static_cast<std::size_t>(axis)] = -1;
  }
  return named("flip", [&] { return slice_of(x, std::move(starts), x.shape(), std::move(steps)); });
}

// A value of a lane under vmap has no storage of its own, so its strides do not show whether it is
// contiguous.
Tensor contiguous(const Tensor& x) {
  if (require_defined(x, "contiguous").is_contiguous() && x.node().storage) return x;
  return named("contiguous", [&] { return apply(op_copy, {x}); });
}

Tensor concat(const std::vector<Tensor>& xs, Index axis) {
  if (xs.empty()) fail<ShapeError>("concat: nothing to join");
  stave_detail::check_defined(xs, "concat");
  if (xs[0].rank() == 0) fail<ShapeError>("concat: a tensor of rank 0 has no axis to join along: use stack");
  const int along = normalize_axis(axis, xs[0].rank(), "concat");
  if (xs.size() == 1) return xs[0];
  Dtype dtype = xs[0].dtype();
  for (const Tensor& x : xs) dtype = promote(dtype, x.dtype());
  Inputs inputs;
  for (const Tensor& x : xs) inputs.push_back(astype(x, dtype));
  return apply(op_concat, std::move(inputs), make_intrusive<AxisAttributes>(along));
}

Tensor stack(const std::vector<Tensor>& xs, Index axis) {
  if (xs.empty()) fail<ShapeError>("stack: nothing to join");
  stave_detail::check_defined(xs, "stack");
  const int along = normalize_axis(axis, xs[0].rank() + 1, "stack");
  for (const Tensor& x : xs)
    if (x.shape() != xs[0].shape()) fail<ShapeError>("stack: shapes {} and {} differ", xs[0].shape(), x.shape());
  const auto joined = [&](const std::vector<Tensor>& parts) {
    return named("stack", [&] { return concat(parts, along); });
  };
  if (along == xs[0].rank()) {
    std::vector<Tensor> columns;
    for (const Tensor& x : xs) columns.push_back(expand_dims(x, along));
    return joined(columns);
  }
  // One reshape of the result in place of one for each input.
  Shape shape = xs[0].shape();
  shape.insert(shape.begin() + along, static_cast<Index>(xs.size()));
  return reshape(joined(xs), shape);
}

namespace {

// Returns a + b, or on overflow the nearest number that Index holds.
Index plus(Index a, Index b) {
  Index sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<Index>::min() : std::numeric_limits<Index>::max();
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, Scalar value) {
  if (widths.size() != require_defined(x, "pad").shape().size())
    fail<ShapeError>("pad: {} pairs of widths for shape {}: give one for each axis", widths.size(), x.shape());
  if (value.kind == Scalar::Kind::floating && !is_inexact(x.dtype()))
    fail<DtypeError>("pad: the value {} does not fit {}: convert x with astype", value.floating, x.dtype());
  value = stave_detail::naming("pad", [&] { return stave_detail::converted_number(value, x.dtype()); });
  Shape kept = x.shape(), first = repeated(x.rank(), 0), padded = x.shape(), starts = first;
  const Shape ones = repeated(x.rank(), 1);
  for (std::size_t axis = 0; axis < widths.size(); ++axis) {
    const auto [before, after] = widths[axis];
    kept[axis] = plus(plus(kept[axis], std::min<Index>(before, 0)), std::min<Index>(after, 0));
    if (kept[axis] < 0)
      fail<ShapeError>("pad: widths {{{}, {}}} cut more than length {} of axis {}", before, after, x.shape()[axis],
                       axis);
    first[axis] = before < 0 ? -before : 0;
    starts[axis] = std::max<Index>(before, 0);
    padded[axis] = plus(plus(kept[axis], starts[axis]), std::max<Index>(after, 0));
  }
  return named("pad", [&] {
    const Tensor middle = kept == x.shape() ? x : slice_of(x, std::move(first), kept, ones);
    return padded == kept ? middle : pad_into(middle, std::move(padded), std::move(starts), ones, value);
  });
}

}  // namespace stave
