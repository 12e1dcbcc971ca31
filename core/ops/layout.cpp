// The records of layout operations: shape inference, derivatives, batching, and the views by which
// most of them copy nothing. The functions of layout.h are in layout_functions.cpp
// and rearrange.cpp, basic indexing is in basic_index.cpp.
//
// All operations are linear, except that pad adds a constant. They come in pairs of transposes:
// slice and pad, broadcast_to and sum, a permutation and its inverse.

#include <stave/core/ops/layout.h>

#include <algorithm>

#include <stave/core/op/depends.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>

namespace stave {

using namespace stave_detail;

namespace {

void check_lengths(const Shape& shape, const char* operation) {
  for (Index length : shape)
    if (length < 0) fail<ShapeError>("{}: shape {} has a negative length", operation, shape);
  // Throws if there are too many elements.
  stave_detail::naming(operation, [&] { return shape.elements(); });
}

// Returns true if start, start + step, ... (`length` numbers) are in [0, size).
bool within(Index start, Index length, Index step, Index size) {
  if (length < 0 || step == 0) return false;
  if (length == 0) return true;
  Index last;
  if (__builtin_mul_overflow(length - 1, step, &last) || __builtin_add_overflow(start, last, &last)) return false;
  return start >= 0 && start < size && last >= 0 && last < size;
}

// ---- reshape --------------------------------------------------------------------------------

void infer_reshape(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  const Shape& shape = call.as<ShapeAttributes>().shape;
  check_lengths(shape, "reshape");
  if (shape.elements() != x.size())
    fail<ShapeError>("reshape: shape {} holds {} elements, but {} holds {}: a length of -1 is inferred", x.shape(),
                     x.size(), shape, shape.elements());
  outputs.push_back({shape, x.dtype()});
}

// Returns the strides of the same elements in another shape, or nullopt if no strides express it.
// Axes whose strides continue one another form a chunk, and the new axes must tile each chunk
// exactly. This is NumPy's rule for reshapes without a copy, in PyTorch's implementation.
std::optional<Strides> reshaped_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  if (target.elements() == 0 || shape.empty()) return contiguous_strides(target);
  Strides result = repeated(target.rank(), 0);
  std::size_t next = target.size();  // the new axes from this one on have strides already
  Index base = strides.back();       // the stride of the chunk's innermost axis
  Index chunk = 1, tiled = 1;        // elements of the chunk, and of the new axes that tile it
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

// ---- permute_dims ---------------------------------------------------------------------------

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

// ---- broadcast_to ---------------------------------------------------------------------------

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

// Returns a view in which an axis that repeats has stride 0.
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

// The cotangent is summed over the repeated axes.
Tensor vjp_broadcast_to(const VjpContext& c, int) {
  const Shape& from = c.shape(0);
  const Shape& to = c.as<ShapeAttributes>().shape;
  const std::size_t extra = to.size() - from.size();
  Shape axes;
  for (std::size_t axis = 0; axis < to.size(); ++axis)
    if (axis < extra || from[axis - extra] != to[axis]) axes.push_back(static_cast<Index>(axis));
  return reshape(sum(c.ct(), axes), from);
}

// The batch stays in front of the new axes: [B, s...] -> [B, 1..., s...] -> [B, shape...].
Outputs batch_broadcast_to(const BatchContext& c) {
  const Shape& to = c.as<ShapeAttributes>().shape;
  Shape aligned = repeated(to.rank() + 1, 1);
  aligned[0] = c.size;
  std::copy(c.in(0).shape().begin() + 1, c.in(0).shape().end(), aligned.end() - (c.in(0).rank() - 1));
  return apply(op_broadcast_to, {reshape(c.in(0), aligned)}, c.attributes()->batched(c.size));
}

// ---- slice and pad --------------------------------------------------------------------------

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

Tensor vjp_onto_slice(const VjpContext& c, Tensor sum) {
  const auto& attributes = c.as<SliceAttributes>();
  if (std::ranges::any_of(attributes.steps, [](Index step) { return step != 1; }))
    return add(std::move(sum), vjp_slice(c, 0));
  Tensor part = add(slice_of(sum, attributes.starts, attributes.lengths, attributes.steps), c.ct());
  Tensor starts = from<Index>(attributes.starts, Shape(sum.rank()), sum.device());
  return apply(op_dynamic_update_slice, moved(std::move(sum), std::move(part), std::move(starts)),
               make_intrusive<DynamicSliceAttributes>(0, attributes.lengths));
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

// The padding is constant, so its tangent is 0.
Outputs jvp_pad(const JvpContext& c) {
  const auto& attributes = c.as<PadAttributes>();
  return pad_into(c.tangent(0), attributes.shape, attributes.starts, attributes.steps, 0);
}

Tensor vjp_pad(const VjpContext& c, int) {
  const auto& attributes = c.as<PadAttributes>();
  return slice_of(c.ct(), attributes.starts, c.shape(0), attributes.steps);
}

// ---- concat ---------------------------------------------------------------------------------

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
    // Throws if there are too many elements.
    stave_detail::naming("concat", [&] { return shape.elements(); });
  }
  outputs.push_back({std::move(shape), first.dtype()});
}

// Returns where an input of concat begins in the result. For many inputs the positions of all are
// computed once, in an array that the backward pass keeps for this call.
Index concat_start(const VjpContext& c, std::size_t axis, std::size_t input) {
  constexpr std::size_t few = 16;
  const std::size_t count = c.input_abstracts.size();
  Index start = 0;
  if (!c.cache || count <= few) {
    for (std::size_t i = 0; i < input; ++i) start += c.shape(i)[axis];
    return start;
  }
  if (c.cache->empty()) {
    const Shape shape{static_cast<Index>(count)};
    StoragePtr storage = allocate_storage(cpu, int64, shape, "the positions of concat's inputs");
    auto* const starts = static_cast<Index*>(storage->data);
    for (std::size_t i = 0; i < count; start += c.shape(i++)[axis]) starts[i] = start;
    c.cache->push_back(Tensor(NodePtr(new Node(int64, cpu, shape, std::move(storage)))));
  }
  return static_cast<const Index*>((*c.cache)[0].node().data())[input];
}

Tensor vjp_concat(const VjpContext& c, int input) {
  const auto axis = static_cast<std::size_t>(c.as<AxisAttributes>().axis);
  const Shape& lengths = c.shape(static_cast<std::size_t>(input));
  Shape starts = repeated(lengths.rank(), 0);
  starts[axis] = concat_start(c, axis, static_cast<std::size_t>(input));
  return slice_of(c.ct(), std::move(starts), lengths, repeated(lengths.rank(), 1));
}

}  // namespace

// ---- operation records ----------------------------------------------------------------------

constinit const Op op_reshape{
    .id = OpId::reshape,
    .name = "reshape",
    .takes_complex = true,
    .infer = infer_reshape,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return reshape(c.ct(), c.shape(0)); },
    .batch = batch_in_front,
    .view = view_reshape,
    .moves_elements = true,
};

constinit const Op op_permute_dims{
    .id = OpId::permute_dims,
    .name = "permute_dims",
    .takes_complex = true,
    .infer = infer_permute_dims,
    .derivative = Derivative::linear,
    .vjp = vjp_permute_dims,
    .batch = batch_in_front,
    .view = view_permute_dims,
    .moves_elements = true,
};

constinit const Op op_broadcast_to{
    .id = OpId::broadcast_to,
    .name = "broadcast_to",
    .takes_complex = true,
    .infer = infer_broadcast_to,
    .derivative = Derivative::linear,
    .vjp = vjp_broadcast_to,
    .batch = batch_broadcast_to,
    .view = view_broadcast_to,
    .moves_elements = true,
};

constinit const Op op_slice{
    .id = OpId::slice,
    .name = "slice",
    .takes_complex = true,
    .infer = infer_slice,
    .derivative = Derivative::linear,
    .vjp = vjp_slice,
    .vjp_onto = vjp_onto_slice,
    .batch = batch_in_front,
    .view = view_slice,
    .moves_elements = true,
};

constinit const Op op_pad{
    .id = OpId::pad,
    .name = "pad",
    .takes_complex = true,
    .infer = infer_pad,
    .reads = {0},
    .jvp = jvp_pad,
    .vjp = vjp_pad,
    .batch = batch_in_front,
    .depends = [](const DependsContext& c) -> Outputs {
      const auto& to = c.as<PadAttributes>();
      return pad_into(c.set(0), to.shape, to.starts, to.steps, 0);
    },
    .moves_elements = true,
};

constinit const Op op_concat{
    .id = OpId::concat,
    .name = "concat",
    .takes_complex = true,
    .infer = infer_concat,
    .derivative = Derivative::linear,
    .vjp = vjp_concat,
    .batch = batch_in_front,
    .moves_elements = true,
};

}  // namespace stave

namespace stave_detail {

Tensor broadcast_quietly(const Tensor& x, const Shape& shape) {
  const bool has_handler = current && current->nearest;
  if (has_handler || x.node().notes || !x.node().storage) return broadcast_to(x, shape);
  return broadcast_view(x, shape);
}

}  // namespace stave_detail
