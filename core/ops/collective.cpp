// Collectives are linear but pmax and pmin, and closed under transposition: what one place gave to many, it gets back from them.
#include <stave/core/ops/collective.h>

#include <algorithm>
#include <iterator>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/define.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/named_axis.h>
#include <stave/core/ops/reduce.h>

namespace stave {

using namespace stave_detail;

namespace {

using C = CollectiveAttributes;
std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

[[noreturn]] void fail_nobody(const char* what, const std::string& axis_name) {
  fail<TransformError>(
      "{}: nobody here has an axis named \"{}\": stand inside of vmap(f, {{.axis_name = \"{}\"}}), or, in a program of "
      "several processes, of Ranks(\"{}\")",
      what, axis_name, axis_name, axis_name);
}

// ---- shapes ----------------------------------------------------------------------------------------------------------

void infer_same(const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); }

Shape without(Shape shape, int axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}
Shape inserted(Shape shape, int axis, Index length) {
  shape.insert(shape.begin() + axis, length);
  return shape;
}
Shape times(Shape shape, int axis, Index factor) {
  shape[at(axis)] *= factor;
  return shape;
}

// x with an axis divided among the places.
Shape divided(const Call& call, int axis) {
  const auto& c = call.as<C>();
  Shape shape = call.input(0).shape();
  const Index length = shape[at(axis)];
  if (c.tiled ? length % c.size != 0 : length != c.size)
    fail<ShapeError>("{}: axis {} of shape {} is to be {} the {} places of \"{}\"", call.op().name, axis, shape,
                     c.tiled ? "a multiple of" : "as long as there are", c.size, c.axis_name);
  if (!c.tiled) return without(std::move(shape), axis);
  shape[at(axis)] /= c.size;
  return shape;
}

Shape gathered(const Shape& shape, const C& c, int axis) {
  return c.tiled ? times(shape, axis, c.size) : inserted(shape, axis, c.size);
}

void infer_gather(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& c = call.as<C>();
  outputs.push_back({gathered(call.input(0).shape(), c, c.axis), call.input(0).dtype()});
}
void infer_scatter(const Call& call, SmallVector<Abstract, 1>& outputs) {
  outputs.push_back({divided(call, call.as<C>().axis), call.input(0).dtype()});
}
void infer_exchange(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& c = call.as<C>();
  outputs.push_back({gathered(divided(call, c.axis), c, c.other_axis), call.input(0).dtype()});
}
void infer_index(const Call&, SmallVector<Abstract, 1>& outputs) { outputs.push_back({Shape{}, int32}); }

// ---- who performs them -----------------------------------------------------------------------------------------------

// Below all handlers: without somebody who exchanges, there is nobody.
Tensor check_bound(const Call& call) {
  const auto& c = call.as<C>();
  if (!c.by) fail_nobody(call.op().name, c.axis_name);
  return {};
}

template <const Op& op>
void exchange(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs) {
  const auto& c = static_cast<const C&>(*attributes);
  c.by->exchange(op, c, inputs.empty() ? nullptr : &inputs[0], outputs[0]);
}

// ---- derivatives -----------------------------------------------------------------------------------------------------

Tensor again(const Op& op, Tensor x, const C& c) { return apply(op, {std::move(x)}, AttributesPtr(&c)); }

const C& attributes_of(const VjpContext& c) { return c.as<C>(); }
const C& attributes_of(const JvpContext& c) { return c.as<C>(); }

// d pmax(x) / dx: equal shares for all places that have the largest.
template <class Context>
Tensor shares(const Context& c) {
  const Tensor winner = astype(c.in(0) == c.out(), c.in(0).dtype());
  return winner / again(op_psum, winner, attributes_of(c));
}

constexpr Op extreme_op(const char* name, decltype(Op::cpu) cpu) {
  return Op{.name = name,
            .infer = infer_same,
            .reads = {0b1 | ValueSet::outputs},
            .jvp = [](const JvpContext& c) -> Outputs {
              return again(op_psum, scale(c.tangents[0], shares(c)), attributes_of(c));
            },
            .vjp = [](const VjpContext& c, int) { return scale(again(op_psum, c.ct(), attributes_of(c)), shares(c)); },
            .batch = batch_in_front,
            .view = check_bound,
            .cpu = cpu};
}

constexpr Op linear_op(const char* name, decltype(Op::infer) infer, decltype(Op::vjp) vjp, decltype(Op::cpu) cpu) {
  return Op{.name = name,
            .infer = infer,
            .derivative = Derivative::linear,
            .vjp = vjp,
            .batch = batch_in_front,
            .view = check_bound,
            .cpu = cpu};
}

Tensor transposed_exchange(const VjpContext& c, int) {
  auto back = make_intrusive<C>(c.as<C>());
  std::swap(back->axis, back->other_axis);
  return apply(op_all_to_all, {c.ct()}, std::move(back));
}

Tensor transposed_permutation(const VjpContext& c, int) {
  auto back = make_intrusive<C>(c.as<C>());
  for (auto& [from, to] : back->pairs) std::swap(from, to);
  return apply(op_ppermute, {c.ct()}, std::move(back));
}

}  // namespace

constinit const Op op_psum = linear_op(
    "psum", infer_same, [](const VjpContext& c, int) { return again(op_psum, c.ct(), c.as<C>()); }, exchange<op_psum>);
constinit const Op op_pmax = extreme_op("pmax", exchange<op_pmax>);
constinit const Op op_pmin = extreme_op("pmin", exchange<op_pmin>);
constinit const Op op_all_gather = linear_op(
    "all_gather", infer_gather, [](const VjpContext& c, int) { return again(op_reduce_scatter, c.ct(), c.as<C>()); },
    exchange<op_all_gather>);
constinit const Op op_reduce_scatter = linear_op(
    "reduce_scatter", infer_scatter, [](const VjpContext& c, int) { return again(op_all_gather, c.ct(), c.as<C>()); },
    exchange<op_reduce_scatter>);
constinit const Op op_all_to_all =
    linear_op("all_to_all", infer_exchange, transposed_exchange, exchange<op_all_to_all>);
constinit const Op op_ppermute = linear_op("ppermute", infer_same, transposed_permutation, exchange<op_ppermute>);
constinit const Op op_axis_index{.name = "axis_index",
                                 .infer = infer_index,
                                 .derivative = Derivative::zero,
                                 .view = check_bound,
                                 .cpu = exchange<op_axis_index>};

// ---- attributes ------------------------------------------------------------------------------------------------------

std::string CollectiveAttributes::str() const {
  std::string text = fmt::format("\"{}\" of {}", axis_name, size);
  if (axis >= 0) text += fmt::format(" axis={}", axis);
  if (other_axis >= 0) text += fmt::format(" to={}", other_axis);
  if (tiled) text += " tiled";
  for (std::size_t i = 0; i < pairs.size(); ++i)
    text += fmt::format("{}{}>{}", i == 0 ? " " : ",", pairs[i].first, pairs[i].second);
  return text;
}

AttributesPtr CollectiveAttributes::batched(Index) const {
  auto moved = make_intrusive<C>(*this);
  for (int* axis : {&moved->axis, &moved->other_axis}) *axis += *axis >= 0;
  return moved;
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

// ---- of all places at once -------------------------------------------------------------------------------------------

namespace {

// The axis, of which there is one for each place, or a part, as axis 0: [places, ...].
Tensor dealt(const Tensor& x, const C& c, int axis) {
  if (!c.tiled) return moveaxis(x, axis, 0);
  Shape shape = x.shape();
  shape[at(axis)] /= c.size;
  return moveaxis(reshape(x, inserted(shape, axis, c.size)), axis, 0);
}

// Axis 0, which has one for each place, as that axis, or along the one that is there.
Tensor collected(const Tensor& x, const C& c, int axis) {
  const Tensor moved = moveaxis(x, 0, axis);
  if (!c.tiled) return moved;
  return reshape(moved, times(without(moved.shape(), axis), axis, c.size));
}

// Row `to` is row `from`; one that gets none is 0.
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

OfAllPlaces all_places(const Op& op, const CollectiveAttributes& c, const Tensor& x) {
  if (&op == &op_psum) return {summed(x), true};
  if (&op == &op_pmax) return {max(x, 0), true};
  if (&op == &op_pmin) return {min(x, 0), true};
  if (&op == &op_all_gather) return {collected(x, c, c.axis), true};
  if (&op == &op_reduce_scatter) return {dealt(summed(x), c, c.axis), false};
  if (&op == &op_ppermute) return {permuted(x, c), false};
  // all_to_all: [from, ...] is dealt to [to, from, ...].
  const Tensor both = dealt(x, c, c.axis + 1);
  return {collected(moveaxis(both, 1, 0), c, c.other_axis + 1), false};
}

// ---- as users call them ----------------------------------------------------------------------------------------------

namespace {

Index size_of_axis(const char* asking, const std::string& axis_name) {
  const std::optional<Index> size = perform(AxisSize{axis_name});
  if (!size) fail_nobody(asking, axis_name);
  return *size;
}

IntrusivePtr<C> over(const char* name, const std::string& axis_name, Device device = cpu) {
  return make_intrusive<C>(axis_name, size_of_axis(name, axis_name), device);
}

Tensor same_shape(const Op& op, const Tensor& x, const std::string& axis_name) {
  return apply(op, {given(x, op.name)}, over(op.name, axis_name));
}

}  // namespace

Index axis_size(const std::string& axis_name) { return size_of_axis("axis_size", axis_name); }

Tensor axis_index(const std::string& axis_name, Device device) {
  return apply(op_axis_index, {}, over("axis_index", axis_name, device));
}

Tensor psum(const Tensor& x, const std::string& axis_name) {
  return same_shape(op_psum, given(x, "psum").dtype() == bool_ ? astype(x, int32) : x, axis_name);
}

Tensor pmean(const Tensor& x, const std::string& axis_name) {
  const Index size = size_of_axis("pmean", axis_name);
  return in_floats([&](const Tensor& wide) { return psum(wide, axis_name) / size; }, given(x, "pmean"));
}

Tensor pmax(const Tensor& x, const std::string& axis_name) { return same_shape(op_pmax, x, axis_name); }
Tensor pmin(const Tensor& x, const std::string& axis_name) { return same_shape(op_pmin, x, axis_name); }

Tensor all_gather(const Tensor& x, const std::string& axis_name, GatherOptions options) {
  const auto attributes = over("all_gather", axis_name);
  attributes->tiled = options.tiled;
  attributes->axis = normalize_axis(options.axis, given(x, "all_gather").rank() + !options.tiled, "all_gather");
  return apply(op_all_gather, {x}, attributes);
}

Tensor reduce_scatter(const Tensor& x, const std::string& axis_name, ScatterOptions options) {
  const auto attributes = over("reduce_scatter", axis_name);
  attributes->tiled = options.tiled;
  attributes->axis = normalize_axis(options.axis, given(x, "reduce_scatter").rank(), "reduce_scatter");
  return apply(op_reduce_scatter, {x.dtype() == bool_ ? astype(x, int32) : x}, attributes);
}

Tensor all_to_all(const Tensor& x, const std::string& axis_name, ExchangeOptions options) {
  const auto attributes = over("all_to_all", axis_name);
  const int rank = given(x, "all_to_all").rank();
  attributes->tiled = options.tiled;
  attributes->axis = normalize_axis(options.split_axis, rank, "all_to_all");
  attributes->other_axis = normalize_axis(options.concat_axis, rank, "all_to_all");
  return apply(op_all_to_all, {x}, attributes);
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
      fail<IndexError>("ppermute: in the pair {{{}, {}}} a place gives, or gets, a second time", from, to);
    gives[static_cast<std::size_t>(from)] = gets[static_cast<std::size_t>(to)] = true;
  }
  attributes->pairs = pairs;
  return apply(op_ppermute, {given(x, "ppermute")}, attributes);
}

}  // namespace stave
