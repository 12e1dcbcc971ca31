// Layout operations: their records (inference, derivatives, batching, and the views that make them free), then the
// functions of layout.h, which are written with them. Basic indexing stands in basic_index.cpp.
//
// All are linear, and come in pairs of transposes: slice and pad, broadcast_to and sum, a permutation and its inverse.

#include <stave/core/ops/layout.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>

namespace stave {

using stave_detail::fail, stave_detail::given, stave_detail::named, stave_detail::view_of;

namespace {

Shape repeated(int rank, Index value) {
  Shape shape;
  shape.resize(static_cast<std::size_t>(rank), value);
  return shape;
}

Shape all_axes_of(int rank) {
  Shape axes = repeated(rank, 0);
  std::iota(axes.begin(), axes.end(), Index{0});
  return axes;
}

void check_lengths(const Shape& shape, const char* operation) {
  for (Index length : shape)
    if (length < 0) fail<ShapeError>("{}: shape {} has a negative length", operation, shape);
  stave_detail::naming(operation, [&] { return shape.elements(); });  // throws if there are too many
}

Tensor slice_of(const Tensor& x, Shape starts, Shape lengths, Shape steps) {
  return apply(op_slice, {x}, make_intrusive<SliceAttributes>(std::move(starts), std::move(lengths), std::move(steps)));
}

Tensor pad_into(const Tensor& x, Shape shape, Shape starts, Shape steps, Scalar value) {
  return apply(op_pad, {x},
               make_intrusive<PadAttributes>(std::move(shape), std::move(starts), std::move(steps), value));
}

// True if start, start + step, ... (length of them) lie in [0, size).
bool within(Index start, Index length, Index step, Index size) {
  if (length < 0 || step == 0) return false;
  if (length == 0) return true;
  Index last;
  if (__builtin_mul_overflow(length - 1, step, &last) || __builtin_add_overflow(start, last, &last)) return false;
  return start >= 0 && start < size && last >= 0 && last < size;
}

// ---- reshape ----------------------------------------------------------------------------------------------

void infer_reshape(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const Shape& shape = call.as<ShapeAttributes>().shape;
  check_lengths(shape, "reshape");
  if (shape.elements() != x.size())
    fail<ShapeError>("reshape: shape {} holds {} elements, but {} holds {}: a length of -1 is inferred", x.shape(),
                     x.size(), shape, shape.elements());
  outputs.push_back({shape, x.dtype()});
}

// Strides of the same elements in another shape; none if no strides express it. Axes whose strides continue one another
// form a chunk; the new axes must tile each chunk exactly. (NumPy's rule for reshapes without a copy, PyTorch's way.)
std::optional<Strides> reshaped_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  if (target.elements() == 0 || shape.empty()) return contiguous_strides(target);
  Strides result = repeated(target.rank(), 0);
  std::size_t next = target.size();  // new axes from here on are done
  Index base = strides.back();       // the stride of the chunk's innermost axis
  Index chunk = 1, tiled = 1;        // elements of the chunk, and of the new axes laid into it
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    chunk *= shape[axis];
    if (axis > 0 && (shape[axis - 1] == 1 || strides[axis - 1] == chunk * base)) continue;
    while (next > 0 && (tiled < chunk || target[next - 1] == 1)) {
      result[--next] = tiled * base;
      tiled *= target[next];
    }
    if (tiled != chunk) return std::nullopt;
    if (axis > 0) base = strides[axis - 1];
    chunk = tiled = 1;
  }
  return result;
}

Tensor view_reshape(const Call& call) {
  const Tensor& x = call.input(0);
  const Shape& shape = call.as<ShapeAttributes>().shape;
  std::optional<Strides> strides = reshaped_strides(x.shape(), x.strides(), shape);
  return strides ? view_of(x, shape, std::move(*strides), x.node().offset) : Tensor();
}

// ---- permute_dims -----------------------------------------------------------------------------------------

void infer_permute_dims(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const Shape& axes = call.as<PermuteAttributes>().axes;
  const Shape identity = all_axes_of(x.rank());
  if (axes.size() != identity.size() || !std::is_permutation(axes.begin(), axes.end(), identity.begin()))
    fail<ShapeError>("permute_dims: axes {} must name each axis of shape {} once", axes, x.shape());
  Shape shape = axes;
  for (Index& length : shape) length = x.shape()[static_cast<std::size_t>(length)];
  outputs.push_back({std::move(shape), x.dtype()});
}

Tensor view_permute_dims(const Call& call) {
  const Tensor& x = call.input(0);
  Strides strides = call.as<PermuteAttributes>().axes;
  for (Index& stride : strides) stride = x.strides()[static_cast<std::size_t>(stride)];
  return view_of(x, call.abstract_outputs()[0].shape, std::move(strides), x.node().offset);
}

Tensor vjp_permute_dims(const VjpContext& c, int) {
  const Shape& axes = c.as<PermuteAttributes>().axes;
  Shape inverse = axes;
  for (std::size_t i = 0; i < axes.size(); ++i) inverse[static_cast<std::size_t>(axes[i])] = static_cast<Index>(i);
  return permute_dims(c.ct(), inverse);
}

// ---- broadcast_to -----------------------------------------------------------------------------------------

void infer_broadcast_to(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const Shape& from = x.shape();
  const Shape& to = call.as<ShapeAttributes>().shape;
  check_lengths(to, "broadcast_to");
  if (from.size() > to.size()) fail<ShapeError>("broadcast_to: shape {} has more axes than {}", from, to);
  const std::size_t extra = to.size() - from.size();
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] != 1 && from[axis] != to[axis + extra])
      fail<ShapeError>("broadcast_to: shape {} does not broadcast to {}: length {} at axis {} is neither 1 nor {}",
                       from, to, from[axis], axis, to[axis + extra]);
  outputs.push_back({to, x.dtype()});
}

// An axis that repeats has stride 0.
Tensor broadcast_view(const Tensor& x, const Shape& to) {
  const Node& from = x.node();
  const std::size_t extra = to.size() - from.shape.size();
  NodePtr node(new Node(from.dtype, from.device, to, from.storage));
  node->offset = from.offset;
  for (std::size_t axis = 0; axis < to.size(); ++axis)
    node->strides[axis] = axis >= extra && from.shape[axis - extra] == to[axis] ? from.strides[axis - extra] : 0;
  return Tensor(std::move(node));
}

Tensor view_broadcast_to(const Call& call) { return broadcast_view(call.input(0), call.as<ShapeAttributes>().shape); }

// What was repeated is summed.
Tensor vjp_broadcast_to(const VjpContext& c, int) {
  const Shape& from = c.shape(0);
  const Shape& to = c.as<ShapeAttributes>().shape;
  const std::size_t extra = to.size() - from.size();
  Shape axes;
  for (std::size_t axis = 0; axis < to.size(); ++axis)
    if (axis < extra || from[axis - extra] != to[axis]) axes.push_back(static_cast<Index>(axis));
  return reshape(sum(c.ct(), axes), from);
}

// The new axes stand behind the batch: [B, s...] -> [B, 1..., s...] -> [B, shape...].
Outputs batch_broadcast_to(const BatchContext& c) {
  const Shape& to = c.as<ShapeAttributes>().shape;
  Shape aligned = repeated(to.rank() + 1, 1);
  aligned[0] = c.size;
  std::copy(c.in(0).shape().begin() + 1, c.in(0).shape().end(), aligned.end() - (c.in(0).rank() - 1));
  return apply(op_broadcast_to, {reshape(c.in(0), aligned)}, c.attributes()->batched(c.size));
}

// ---- slice and pad ----------------------------------------------------------------------------------------

void infer_slice(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const auto& attributes = call.as<SliceAttributes>();
  const auto& [starts, lengths, steps] = std::tie(attributes.starts, attributes.lengths, attributes.steps);
  bool fits = starts.rank() == x.rank() && lengths.rank() == x.rank() && steps.rank() == x.rank();
  for (std::size_t axis = 0; fits && axis < starts.size(); ++axis)
    fits = within(starts[axis], lengths[axis], steps[axis], x.shape()[axis]);
  if (!fits)
    fail<IndexError>("slice: starts {}, lengths {} and steps {} do not lie within shape {}", starts, lengths, steps,
                     x.shape());
  outputs.push_back({lengths, x.dtype()});
}

Tensor view_slice(const Call& call) {
  const Tensor& x = call.input(0);
  const auto& attributes = call.as<SliceAttributes>();
  Index offset = x.node().offset;
  Strides strides = x.strides();
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (attributes.lengths[axis] > 0) offset += attributes.starts[axis] * strides[axis];
    strides[axis] *= attributes.steps[axis];
  }
  return view_of(x, attributes.lengths, std::move(strides), offset);
}

Tensor vjp_slice(const VjpContext& c, int) {
  const auto& attributes = c.as<SliceAttributes>();
  return pad_into(c.ct(), c.shape(0), attributes.starts, attributes.steps, 0);
}

void infer_pad(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const auto& attributes = call.as<PadAttributes>();
  const auto& [shape, starts, steps] = std::tie(attributes.shape, attributes.starts, attributes.steps);
  check_lengths(shape, "pad");
  bool fits = shape.rank() == x.rank() && starts.rank() == x.rank() && steps.rank() == x.rank();
  for (std::size_t axis = 0; fits && axis < starts.size(); ++axis)
    fits = within(starts[axis], x.shape()[axis], steps[axis], shape[axis]);
  if (!fits)
    fail<ShapeError>("pad: shape {} at starts {}, steps {} does not lie within {}", x.shape(), starts, steps, shape);
  outputs.push_back({shape, x.dtype()});
}

// The padding is constant: its tangent is 0.
Outputs jvp_pad(const JvpContext& c) {
  const auto& attributes = c.as<PadAttributes>();
  return pad_into(c.tangent(0), attributes.shape, attributes.starts, attributes.steps, 0);
}

Tensor vjp_pad(const VjpContext& c, int) {
  const auto& attributes = c.as<PadAttributes>();
  return slice_of(c.ct(), attributes.starts, c.shape(0), attributes.steps);
}

// ---- concat -----------------------------------------------------------------------------------------------

void infer_concat(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& first = call.input(0);
  const auto axis = static_cast<std::size_t>(call.as<AxisAttributes>().axis);
  Shape shape = first.shape();
  for (const Tensor& x : call.inputs().subspan(1)) {
    if (x.dtype() != first.dtype())
      fail<DtypeError>("concat: dtypes {} and {} differ: convert with astype", first.dtype(), x.dtype());
    Shape joined = x.shape();
    if (joined.size() == shape.size()) joined[axis] = shape[axis];
    if (joined != shape)
      fail<ShapeError>("concat: shapes {} and {} do not join along axis {}: the other lengths must agree",
                       first.shape(), x.shape(), axis);
    shape[axis] += x.shape()[axis];
    stave_detail::naming("concat", [&] { return shape.elements(); });  // throws if there are too many
  }
  outputs.push_back({std::move(shape), first.dtype()});
}

Tensor vjp_concat(const VjpContext& c, int input) {
  const auto axis = static_cast<std::size_t>(c.as<AxisAttributes>().axis);
  const Shape& lengths = c.shape(static_cast<std::size_t>(input));
  Shape starts = repeated(lengths.rank(), 0);
  for (int i = 0; i < input; ++i) starts[axis] += c.shape(static_cast<std::size_t>(i))[axis];
  return slice_of(c.ct(), std::move(starts), lengths, repeated(lengths.rank(), 1));
}

}  // namespace

// ---- the records ------------------------------------------------------------------------------------------

constinit const Op op_reshape{
    .id = OpId::reshape,
    .name = "reshape",
    .infer = infer_reshape,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return reshape(c.ct(), c.shape(0)); },
    .batch = batch_in_front,
    .view = view_reshape,
};

constinit const Op op_permute_dims{
    .id = OpId::permute_dims,
    .name = "permute_dims",
    .infer = infer_permute_dims,
    .derivative = Derivative::linear,
    .vjp = vjp_permute_dims,
    .batch = batch_in_front,
    .view = view_permute_dims,
};

constinit const Op op_broadcast_to{
    .id = OpId::broadcast_to,
    .name = "broadcast_to",
    .infer = infer_broadcast_to,
    .derivative = Derivative::linear,
    .vjp = vjp_broadcast_to,
    .batch = batch_broadcast_to,
    .view = view_broadcast_to,
};

constinit const Op op_slice{
    .id = OpId::slice,
    .name = "slice",
    .infer = infer_slice,
    .derivative = Derivative::linear,
    .vjp = vjp_slice,
    .batch = batch_in_front,
    .view = view_slice,
};

constinit const Op op_pad{
    .id = OpId::pad,
    .name = "pad",
    .infer = infer_pad,
    .reads = {0},
    .jvp = jvp_pad,
    .vjp = vjp_pad,
    .batch = batch_in_front,
};

constinit const Op op_concat{
    .id = OpId::concat,
    .name = "concat",
    .infer = infer_concat,
    .derivative = Derivative::linear,
    .vjp = vjp_concat,
    .batch = batch_in_front,
};

// ---- layout.h ---------------------------------------------------------------------------------------------

namespace {

// The shape with its length of -1 replaced by what makes it hold `count` elements.
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
  Shape target = inferred(shape, given(x, "reshape").size());
  if (target == x.shape()) return x;
  return apply(op_reshape, {x}, make_intrusive<ShapeAttributes>(std::move(target)));
}

Tensor permute_dims(const Tensor& x, const Shape& axes) {
  Shape normalized = axes;
  for (Index& axis : normalized) axis = normalize_axis(axis, given(x, "permute_dims").rank(), "permute_dims");
  if (normalized == all_axes_of(x.rank())) return x;
  return apply(op_permute_dims, {x}, make_intrusive<PermuteAttributes>(std::move(normalized)));
}

Tensor transpose(const Tensor& x) {
  Shape axes = all_axes_of(given(x, "transpose").rank());
  std::reverse(axes.begin(), axes.end());
  return permute_dims(x, axes);
}

Tensor matrix_transpose(const Tensor& x) {
  if (given(x, "matrix_transpose").rank() < 2)
    fail<ShapeError>("matrix_transpose: shape {} has fewer than 2 axes", x.shape());
  Shape axes = all_axes_of(x.rank());
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return permute_dims(x, axes);
}

Tensor moveaxis(const Tensor& x, Index source, Index destination) {
  const int from = normalize_axis(source, given(x, "moveaxis").rank(), "moveaxis");
  const int to = normalize_axis(destination, x.rank(), "moveaxis");
  Shape axes = all_axes_of(x.rank());
  axes.erase(axes.begin() + from);
  axes.insert(axes.begin() + to, from);
  return permute_dims(x, axes);
}

Tensor expand_dims(const Tensor& x, Index axis) {
  Shape shape = given(x, "expand_dims").shape();
  shape.insert(shape.begin() + normalize_axis(axis, x.rank() + 1, "expand_dims"), 1);
  return reshape(x, shape);
}

Tensor expand_dims(const Tensor& x, const Shape& axes) {
  Shape shape = given(x, "expand_dims").shape();
  for (Index axis : Axes(axes).normalize(x.rank() + axes.rank(), "expand_dims")) shape.insert(shape.begin() + axis, 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  for (Index length : given(x, "squeeze").shape())
    if (length != 1) shape.push_back(length);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  Shape shape = given(x, "squeeze").shape();
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
  if (shape == given(x, "broadcast_to").shape()) return x;
  return apply(op_broadcast_to, {x}, make_intrusive<ShapeAttributes>(shape));
}

Tensor flip(const Tensor& x) { return flip(x, all_axes); }

Tensor flip(const Tensor& x, const Axes& axes) {
  const Shape flipped = axes.normalize(given(x, "flip").rank(), "flip");
  if (flipped.empty()) return x;
  Shape starts = repeated(x.rank(), 0), steps = repeated(x.rank(), 1);
  for (Index axis : flipped) {
    starts[static_cast<std::size_t>(axis)] = x.shape(axis) - 1;
    steps[static_cast<std::size_t>(axis)] = -1;
  }
  return named("flip", [&] { return slice_of(x, std::move(starts), x.shape(), std::move(steps)); });
}

// A lane's value has no storage of its own, so its strides say nothing.
Tensor contiguous(const Tensor& x) {
  if (given(x, "contiguous").is_contiguous() && x.node().storage) return x;
  return named("contiguous", [&] { return apply(op_copy, {x}); });
}

Tensor concat(const std::vector<Tensor>& xs, Index axis) {
  if (xs.empty()) fail<ShapeError>("concat: nothing to join");
  stave_detail::check_given(xs, "concat");
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
  stave_detail::check_given(xs, "stack");
  const int along = normalize_axis(axis, xs[0].rank() + 1, "stack");
  std::vector<Tensor> expanded;
  for (const Tensor& x : xs) {
    if (x.shape() != xs[0].shape()) fail<ShapeError>("stack: shapes {} and {} differ", xs[0].shape(), x.shape());
    expanded.push_back(expand_dims(x, along));
  }
  return named("stack", [&] { return concat(expanded, along); });
}

namespace {

// The sum, or the number nearest to it.
Index plus(Index a, Index b) {
  Index sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<Index>::min() : std::numeric_limits<Index>::max();
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::pair<Index, Index>>& widths, Scalar value) {
  if (widths.size() != given(x, "pad").shape().size())
    fail<ShapeError>("pad: {} pairs of widths for shape {}: give one for each axis", widths.size(), x.shape());
  if (value.kind == Scalar::Kind::floating && !is_float(x.dtype()))
    fail<DtypeError>("pad: the value {} is no {}: convert x with astype", value.floating, x.dtype());
  value = stave_detail::naming("pad", [&] { return stave_detail::held(value, x.dtype()); });
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

namespace stave_detail {

Tensor broadcast_quietly(const Tensor& x, const Shape& shape) {
  const bool watched = current && current->nearest;
  if (watched || x.node().notes || !x.node().storage) return broadcast_to(x, shape);
  return broadcast_view(x, shape);
}

}  // namespace stave_detail
