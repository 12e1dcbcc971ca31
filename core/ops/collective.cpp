// The collective operations, between the places (lanes or processes) of a named axis. All but pmax
// and pmin are linear, and their transposes are collectives too: a place that sent a value to many
// places receives the sum of their cotangents.
#include <stave/core/ops/collective.h>

#include <algorithm>

#include <stave/core/op/define.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/named_axis.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

using C = CollectiveAttributes;

[[noreturn]] void fail_no_axis(const char* what, const std::string& axis_name) {
  fail<TransformError>(
      "{}: no axis named \"{}\" exists here: call it inside vmap(f, {{.axis_name = \"{}\"}}), or, in a program of "
      "several processes, inside Ranks(\"{}\")",
      what, axis_name, axis_name, axis_name);
}

// ---- shapes ---------------------------------------------------------------------------------

void infer_same(const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); }
void infer_extreme(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Dtype dtype = call.input(0).dtype();
  if (is_complex(dtype)) fail_complex(call.op(), dtype);
  infer_same(call, outputs);
}
void infer_gather(const Call& call, SmallVector<Abstract, 1>& outputs) {
  outputs.push_back(abstract(call.input(0)));
  Shape& shape = outputs.back().shape;
  shape.insert(shape.begin(), call.as<C>().size);
}
void infer_scatter(const Call& call, SmallVector<Abstract, 1>& outputs) {
  infer_same(call, outputs);
  outputs.back().shape.erase(outputs.back().shape.begin());
}
void infer_index(const Call&, SmallVector<Abstract, 1>& outputs) { outputs.push_back({Shape{}, int32}); }

// ---- batching: the axis of places stays in front --------------------------------------------

template <bool before, bool after>
Outputs batch_places(const BatchContext& c) {
  const Tensor x = c.batched_in(0);
  Tensor result = apply(c.call.op(), {before ? moveaxis(x, 1, 0) : x}, c.attributes());
  return {after ? moveaxis(result, 0, 1) : std::move(result)};
}

// ---- execution ------------------------------------------------------------------------------

// Throws if the collective has no communicator. Such a collective only reaches the backend if no
// handler has the axis.
Tensor check_bound(const Call& call) {
  const auto& c = call.as<C>();
  if (!c.by) fail_no_axis(call.op().name, c.axis_name);
  return {};
}

// Returns the record with kernels that pass the views to the communicator.
template <const Op& op>
constexpr Op exchanged(Op record) {
  record.cpu = [](const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs) {
    const auto& c = static_cast<const C&>(*attributes);
    c.by->exchange(op, c, inputs[0], outputs[0]);
  };
  record.cuda = [](void* stream, const Attributes* attributes, std::span<const View> in, std::span<const View> out) {
    const auto& c = static_cast<const C&>(*attributes);
    c.by->exchange_on_device(stream, op, c, in[0], out[0]);
  };
  return record;
}

// ---- derivatives ----------------------------------------------------------------------------

Tensor again(const Op& op, Tensor x, const C& c) { return apply(op, {std::move(x)}, AttributesPtr(&c)); }

// d pmax(x) / dx: places (lanes or processes) that have the maximum share the derivative equally.
// They are counted in float32 if x has 16-bit floats, which cannot represent large counts.
template <class Context>
Tensor shares(const Context& c) {
  const Tensor winner = astype(c.in(0) == c.out(), computed_in(c.in(0).dtype()));
  return winner / again(op_psum, winner, c.template as<C>());
}
Tensor shared(const Tensor& x, const Tensor& shares) { return scale(astype(x, shares.dtype()), shares); }

constexpr Op collective_extreme(const char* name) {
  return Op{.name = name,
            .infer = infer_extreme,
            .reads = {0b1 | ValueSet::outputs},
            .jvp = [](const JvpContext& c) -> Outputs {
              return astype(again(op_psum, shared(c.tangents[0], shares(c)), c.as<C>()), c.tangents[0].dtype());
            },
            .vjp =
                [](const VjpContext& c, int) {
                  const Tensor each = shares(c);
                  return astype(shared(again(op_psum, astype(c.ct(), each.dtype()), c.as<C>()), each), c.dtype(0));
                },
            .batch = batch_in_front,
            .view = check_bound};
}

constexpr Op linear_op(const char* name, decltype(Op::infer) infer, decltype(Op::vjp) vjp, decltype(Op::batch) batch) {
  return Op{
      .name = name, .infer = infer, .derivative = Derivative::linear, .vjp = vjp, .batch = batch, .view = check_bound};
}

// The derivative rule of a collective whose transpose is `op` with the same attributes.
template <const Op& op>
Tensor vjp_by_transpose(const VjpContext& c, int) {
  return again(op, c.ct(), c.as<C>());
}

Tensor transposed_permutation(const VjpContext& c, int) {
  auto back = make_intrusive<C>(c.as<C>());
  for (auto& [from, to] : back->pairs) std::swap(from, to);
  return apply(op_ppermute, {c.ct()}, std::move(back));
}

}  // namespace

constinit const Op op_psum =
    exchanged<op_psum>(linear_op("psum", infer_same, vjp_by_transpose<op_psum>, batch_in_front));
constinit const Op op_pmax = exchanged<op_pmax>(collective_extreme("pmax"));
constinit const Op op_pmin = exchanged<op_pmin>(collective_extreme("pmin"));
constinit const Op op_all_gather = exchanged<op_all_gather>(
    linear_op("all_gather", infer_gather, vjp_by_transpose<op_reduce_scatter>, batch_places<false, true>));
constinit const Op op_reduce_scatter = exchanged<op_reduce_scatter>(
    linear_op("reduce_scatter", infer_scatter, vjp_by_transpose<op_all_gather>, batch_places<true, false>));
constinit const Op op_all_to_all = exchanged<op_all_to_all>(
    linear_op("all_to_all", infer_same, vjp_by_transpose<op_all_to_all>, batch_places<true, true>));
constinit const Op op_ppermute =
    exchanged<op_ppermute>(linear_op("ppermute", infer_same, transposed_permutation, batch_in_front));
// axis_index has no kernel: the handler that answers knows the place's number, so no data is
// exchanged.
constinit const Op op_axis_index{
    .name = "axis_index", .infer = infer_index, .derivative = Derivative::zero, .view = check_bound};

// ---- attributes -----------------------------------------------------------------------------

std::string CollectiveAttributes::str() const {
  std::string text = fmt::format("\"{}\" of {}", axis_name, size);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    text += fmt::format("{}{}>{}", i == 0 ? " " : ",", pairs[i].first, pairs[i].second);
  return text;
}

AttributesPtr CollectiveAttributes::bound(CommunicatorPtr communicator) const {
  auto same = make_intrusive<C>(*this);
  same->by = std::move(communicator);
  return same;
}

const CollectiveAttributes* unbound_collective(const Op& op, const Attributes* attributes) noexcept {
  if (op.id != OpId::own || op.view != check_bound) return nullptr;
  const auto& c = static_cast<const C&>(*attributes);
  return c.by ? nullptr : &c;
}

// ---- all places at once ---------------------------------------------------------------------

namespace {

// Returns x with its rows permuted: for each pair {from, to} row `to` of the result is row `from`
// of x. All other rows are 0.
Tensor permuted(const Tensor& x, const C& c) {
  std::vector<std::int32_t> sources(static_cast<std::size_t>(c.size), static_cast<std::int32_t>(c.size));
  for (const auto& [from, to] : c.pairs) sources[static_cast<std::size_t>(to)] = static_cast<std::int32_t>(from);
  const bool all = c.pairs.size() == sources.size();
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()), {0, 0});
  widths[0].second = 1;
  Tensor indices;
  {
    UnderFrame past_all_handlers(nullptr);
    indices = from(sources, {c.size, 1}, x.device());
  }
  return gather(all ? x : pad(x, widths, 0), indices);
}

Tensor summed(const Tensor& x) { return astype(sum(x, 0), x.dtype()); }

}  // namespace

OfAllPlaces result_at_all_places(const Op& op, const CollectiveAttributes& c, const Tensor& x) {
  if (&op == &op_psum) return {summed(x), true};
  if (&op == &op_pmax) return {max(x, 0), true};
  if (&op == &op_pmin) return {min(x, 0), true};
  if (&op == &op_all_gather) return {x, true};
  if (&op == &op_reduce_scatter) return {summed(x), false};
  if (&op == &op_all_to_all) return {moveaxis(x, 0, 1), false};
  return {permuted(x, c), false};
}

// ---- public functions -----------------------------------------------------------------------

namespace {

Index size_of_axis(const char* asking, const std::string& axis_name) {
  const std::optional<Index> size = perform(AxisSize{axis_name});
  if (!size) fail_no_axis(asking, axis_name);
  return *size;
}

IntrusivePtr<C> over(const char* name, const std::string& axis_name, Device device = cpu) {
  return make_intrusive<C>(axis_name, size_of_axis(name, axis_name), device);
}

Tensor same_shape(const Op& op, const Tensor& x, const std::string& axis_name) {
  return apply(op, {require_defined(x, op.name)}, over(op.name, axis_name));
}

}  // namespace

Index axis_size(const std::string& axis_name) { return size_of_axis("axis_size", axis_name); }

Tensor axis_index(const std::string& axis_name, Device device) {
  return apply(op_axis_index, {}, over("axis_index", axis_name, device));
}

Tensor psum(const Tensor& x, const std::string& axis_name) {
  return same_shape(op_psum, require_defined(x, "psum").dtype() == bool_ ? astype(x, int32) : x, axis_name);
}

Tensor pmean(const Tensor& x, const std::string& axis_name) {
  const Index size = size_of_axis("pmean", axis_name);
  return in_inexact([&](const Tensor& wide) { return psum(wide, axis_name) / size; }, require_defined(x, "pmean"));
}

Tensor pmax(const Tensor& x, const std::string& axis_name) { return same_shape(op_pmax, x, axis_name); }
Tensor pmin(const Tensor& x, const std::string& axis_name) { return same_shape(op_pmin, x, axis_name); }

namespace {

// Returns x with axis `along` in front, divided among the places (lanes or processes): [places,
// ...]. The axis has one element for each place or, with `tiled`, several neighbours for each.
Tensor split_along(const char* name, const Tensor& x, Index along, bool tiled, const C& c) {
  const int axis = normalize_axis(along, require_defined(x, name).rank(), name);
  Shape shape = x.shape();
  Index& length = shape[static_cast<std::size_t>(axis)];
  if (tiled ? length % c.size != 0 : length != c.size)
    fail<ShapeError>("{}: axis {} of shape {} is to be {} the {} places of \"{}\"", name, axis, x.shape(),
                     tiled ? "a multiple of" : "as long as there are", c.size, c.axis_name);
  if (!tiled) return moveaxis(x, axis, 0);
  length /= c.size;
  shape.insert(shape.begin() + axis, c.size);
  return moveaxis(reshape(x, shape), axis, 0);
}

// Returns x with axis 0, which has one entry per place (lane or process), moved to position `to`
// or, with `tiled`, merged into the axis at that position.
Tensor merge_along(const char* name, const Tensor& x, Index to, bool tiled) {
  const int axis = normalize_axis(to, x.rank() - tiled, name);
  const Tensor moved = moveaxis(x, 0, axis);
  if (!tiled) return moved;
  Shape shape = moved.shape();
  shape[static_cast<std::size_t>(axis) + 1] *= shape[static_cast<std::size_t>(axis)];
  shape.erase(shape.begin() + axis);
  return reshape(moved, shape);
}

}  // namespace

Tensor all_gather(const Tensor& x, const std::string& axis_name, GatherOptions options) {
  const auto attributes = over("all_gather", axis_name);
  normalize_axis(options.axis, require_defined(x, "all_gather").rank() + !options.tiled, "all_gather");
  return merge_along("all_gather", apply(op_all_gather, {x}, attributes), options.axis, options.tiled);
}

Tensor reduce_scatter(const Tensor& x, const std::string& axis_name, ScatterOptions options) {
  const auto attributes = over("reduce_scatter", axis_name);
  const Tensor parts = split_along("reduce_scatter", x, options.axis, options.tiled, *attributes);
  return apply(op_reduce_scatter, {x.dtype() == bool_ ? astype(parts, int32) : parts}, attributes);
}

Tensor all_to_all(const Tensor& x, const std::string& axis_name, ExchangeOptions options) {
  const auto attributes = over("all_to_all", axis_name);
  const Tensor parts = split_along("all_to_all", x, options.split_axis, options.tiled, *attributes);
  normalize_axis(options.concat_axis, x.rank(), "all_to_all");
  return merge_along("all_to_all", apply(op_all_to_all, {parts}, attributes), options.concat_axis, options.tiled);
}

Tensor ppermute(const Tensor& x, const std::string& axis_name, const std::vector<std::pair<Index, Index>>& pairs) {
  const auto attributes = over("ppermute", axis_name);
  const Index size = attributes->size;
  std::vector<bool> gives(static_cast<std::size_t>(size)), gets(gives.size());
  for (const auto& [from, to] : pairs) {
    if (std::min(from, to) < 0 || std::max(from, to) >= size)
      fail<IndexError>("ppermute: the pair {{{}, {}}} names a place that the {} of \"{}\" do not have", from, to, size,
                       axis_name);
    if (gives[static_cast<std::size_t>(from)] || gets[static_cast<std::size_t>(to)])
      fail<IndexError>("ppermute: in the pair {{{}, {}}} a place sends, or receives, a second time", from, to);
    gives[static_cast<std::size_t>(from)] = gets[static_cast<std::size_t>(to)] = true;
  }
  attributes->pairs = pairs;
  return apply(op_ppermute, {require_defined(x, "ppermute")}, attributes);
}

}  // namespace stave
