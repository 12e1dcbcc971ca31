// The operations gather and scatter, and functions that are composed of them. The kinds of scatter
// replace elements by updates, add or multiply updates to them, or take the minimum or maximum.
//
// x and indices share leading batch axes, so the batch of a vmap becomes one more of these.

#include <stave/core/ops/index.h>

#include <algorithm>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

void check_indices(const Tensor& indices, const char* operation) {
  if (indices.dtype() != int32 && indices.dtype() != int64)
    fail<DtypeError>("{}: indices are {}: convert them to int32 or int64 with astype", operation, indices.dtype());
}

Tensor as_indices(const Tensor& indices, const char* operation) {
  const Dtype dtype = indices.dtype();
  if (dtype == uint64) return astype(minimum(indices, std::numeric_limits<std::int64_t>::max()), int64);
  if (is_integer(dtype) && dtype != int32 && dtype != int64) return astype(indices, dtype == uint32 ? int64 : int32);
  check_indices(indices, operation);
  return indices;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

AttributesPtr batched_by(int batch_dims) { return make_intrusive<GatherAttributes>(batch_dims, true); }

// The shape [batch..., at..., rest...] of gathering from x [batch..., d1..dk, rest...] at indices
// [batch..., at..., k]. Throws if these do not fit.
Shape gathered_shape(const Shape& x, const Shape& indices, int batch_dims, const char* operation) {
  const auto batch = static_cast<std::size_t>(batch_dims);
  if (indices.size() <= batch)
    fail<ShapeError>(
        "{}: indices of shape {} need a last axis whose length is the number of axes of x that they address", operation,
        indices);
  const auto addressed = static_cast<std::size_t>(indices.back());
  if (x.size() < batch + addressed)
    fail<ShapeError>("{}: indices of shape {} address {} axes, x has shape {}", operation, indices, addressed, x);
  if (!std::equal(x.begin(), x.begin() + batch, indices.begin()))
    fail<ShapeError>("{}: the first {} lengths of x {} and of indices {} differ", operation, batch, x, indices);
  const std::span<const Index> at(indices.begin(), indices.end() - 1), all(x);
  return joined({at, all.subspan(batch + addressed)});
}

int checked_batch_axes(Index batch_axes, const Tensor& x, const Tensor& indices, const char* operation) {
  if (batch_axes < 0 || batch_axes > std::min(x.rank(), indices.rank()))
    fail<ShapeError>("{}: x {} and indices {} cannot share {} batch axes", operation, x.shape(), indices.shape(),
                     batch_axes);
  return static_cast<int>(batch_axes);
}

Tensor gather_as(const Tensor& x, const Tensor& indices, AttributesPtr attributes) {
  return apply(op_gather, {x, indices}, std::move(attributes));
}

Tensor scatter_as(const Op& op, const Tensor& x, const Tensor& indices, const Tensor& updates,
                  AttributesPtr attributes) {
  return apply(op, {x, indices, updates}, std::move(attributes));
}

// ---- gather ---------------------------------------------------------------------------------

void infer_gather(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &indices = call.input(1);
  check_indices(indices, "gather");
  outputs.push_back(
      {gathered_shape(x.shape(), indices.shape(), call.as<GatherAttributes>().batch_dims, "gather"), x.dtype()});
}

// The cotangent of an element of x is the sum of the cotangents of all entries that read it.
Tensor vjp_gather(const VjpContext& c, int) {
  return scatter_as(op_scatter_add, c.zeros(0), c.in(1), c.ct(), AttributesPtr(c.attributes));
}

Tensor vjp_onto_gather(const VjpContext& c, Tensor sum) {
  return apply(op_scatter_add, moved(std::move(sum), c.in(1), c.ct()), AttributesPtr(c.attributes));
}

// If x is the same for all lanes, the axis of lanes becomes one of the axes at... of the indices
// [at..., k].
Outputs batch_gather(const BatchContext& c) {
  const auto& attributes = c.as<GatherAttributes>();
  if (c.batched[0] || attributes.batch_dims > 0) return batch_in_front(c);
  return gather_as(c.in(0), c.in(1), c.attributes());
}

// ---- scatter and its variants ---------------------------------------------------------------

void infer_scatter(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &indices = call.input(1), &updates = call.input(2);
  const char* const operation = call.op().name;
  check_indices(indices, operation);
  if (x.dtype() == bool_ && call.op().id != OpId::scatter)
    fail<DtypeError>("{}: updates cannot be combined with a bool x: convert x to an integer dtype with astype",
                     operation);
  if (x.dtype() != updates.dtype())
    fail<DtypeError>("{}: x is {}, updates are {}: convert with astype", operation, x.dtype(), updates.dtype());
  const Shape expected = gathered_shape(x.shape(), indices.shape(), call.as<GatherAttributes>().batch_dims, operation);
  if (updates.shape() != expected)
    fail<ShapeError>("{}: updates of shape {} should have shape {}, for x {} and indices {}", operation,
                     updates.shape(), expected, x.shape(), indices.shape());
  outputs.push_back({x.shape(), x.dtype()});
}

Tensor vjp_scatter_add(const VjpContext& c, int input) {
  return input == 0 ? c.ct() : gather_as(c.ct(), c.in(1), AttributesPtr(c.attributes));
}

// Returns bools [batch..., at..., 1...]: whether no later update replaces this one. Each update
// writes its number to its position; the number that remains there is that of the last update.
Tensor last_of_each_place(const Tensor& indices, const Shape& x, const Shape& updates, AttributesPtr attributes) {
  const auto batch = static_cast<std::size_t>(static_cast<const GatherAttributes&>(*attributes).batch_dims);
  const std::span<const Index> all(indices.shape().begin(), indices.shape().end() - 1), at = all.subspan(batch);
  const Index count = Shape(at).elements();
  const Dtype dtype = positions_dtype(count);
  const Tensor numbers = broadcast_to(reshape(arange(0, count, 1, dtype, indices.device()), Shape(at)), Shape(all));
  const Shape places(std::span<const Index>(x).first(batch + static_cast<std::size_t>(indices.shape().back())));
  const Tensor claimed = scatter_as(op_scatter, zeros(places, dtype, indices.device()), indices, numbers, attributes);
  const Tensor last = gather_as(claimed, indices, std::move(attributes)) == numbers;
  return reshape(last, joined({all, Shape(std::vector<Index>(updates.size() - all.size(), 1))}));
}

// An update replaces the old element. So x gets no cotangent there, and updates that were replaced
// get none either.
Tensor vjp_scatter(const VjpContext& c, int input) {
  const AttributesPtr attributes(c.attributes);
  if (input == 0) return scatter_as(op_scatter, c.ct(), c.in(1), c.zeros(2), attributes);
  const Tensor flow = gather_as(c.ct(), c.in(1), attributes);
  return where(last_of_each_place(c.in(1), c.shape(0), c.shape(2), attributes), flow, 0);
}

// The shares of x's element and of the updates in the derivative of a minimum or maximum. All
// values that equal the result share the derivative equally. These values are counted in a dtype
// that holds the count, and the shares are returned in `dtype`.
struct Shares {
  Tensor of_x, of_updates;
};
template <class Context>
Shares extreme_shares(const Context& c, const AttributesPtr& attributes, Dtype dtype) {
  const Tensor &x = c.in(0), &indices = c.in(1), &updates = c.in(2);
  constexpr Index most_in_float32 = Index{1} << 24;
  const Dtype counted = updates.size() < most_in_float32 ? dtype : float64;
  const Tensor x_has = astype(x == c.out(), counted);
  const Tensor update_has = astype(updates == gather_as(c.out(), indices, attributes), counted);
  const Tensor count = scatter_as(op_scatter_add, x_has, indices, update_has, attributes);
  return {astype(x_has / count, dtype), astype(update_has / gather_as(count, indices, attributes), dtype)};
}

// The tangents times their shares are added one by one, so they are computed in float64.
Outputs jvp_scatter_extreme(const JvpContext& c) {
  const AttributesPtr& attributes = c.call.attributes_ptr();
  const Shares shares = extreme_shares(c, attributes, float64);
  const auto shared = [](const Tensor& tangent, const Tensor& share) { return scale(astype(tangent, float64), share); };
  const Tensor sum = scatter_as(op_scatter_add, shared(c.tangent(0), shares.of_x), c.in(1),
                                shared(c.tangent(2), shares.of_updates), attributes);
  return astype(sum, c.in(0).dtype());
}

Tensor vjp_scatter_extreme(const VjpContext& c, int input) {
  const AttributesPtr attributes(c.attributes);
  const Dtype computed = computed_in(c.dtype(0));
  const Shares shares = extreme_shares(c, attributes, computed);
  const Tensor ct = astype(c.ct(), computed);
  return astype(input == 0 ? scale(ct, shares.of_x) : scale(gather_as(ct, c.in(1), attributes), shares.of_updates),
                c.dtype(0));
}

// Returns, for each tuple of indices, the number of the position that it addresses, where the
// positions of x are numbered in row-major order: [batch * at].
Tensor place_numbers(const Tensor& indices, const Shape& x, const GatherAttributes& attributes) {
  const auto batch = static_cast<std::size_t>(attributes.batch_dims);
  const Shape all(std::span<const Index>(indices.shape().begin(), indices.shape().end() - 1));
  Tensor numbers;
  Index lengths = 1;
  const auto add_axis = [&](const Tensor& index, Index length) {
    const Tensor term = index * lengths;
    numbers = numbers.defined() ? numbers + term : term;
    lengths *= length;
  };
  for (int axis = static_cast<int>(indices.shape().back()) - 1; axis >= 0; --axis) {
    const Index length = x[batch + static_cast<std::size_t>(axis)];
    const Tensor index = astype(squeeze(entries(indices, indices.rank() - 1, axis, 1), -1), int64);
    add_axis(where(index < 0, index + length, index), length);
  }
  for (std::size_t axis = batch; axis-- > 0;) {
    Shape line(std::vector<Index>(all.size(), 1));
    line[axis] = x[axis];
    add_axis(reshape(arange(0, x[axis], 1, int64, indices.device()), line), x[axis]);
  }
  if (!numbers.defined()) numbers = zeros({}, int64, indices.device());
  return reshape(broadcast_to(numbers, all), {all.elements()});
}

// The product of the old element and of all other updates at an update's position, in the shape
// of the updates. It works without division: with the updates in the order of their
// positions, it is the product of the earlier updates times the product of the later ones,
// each computed by a recurrence.
template <class Context>
Tensor product_of_others(const Context& c, const AttributesPtr& attributes) {
  const Tensor &x = c.in(0), &indices = c.in(1), &updates = c.in(2);
  const auto& gathering = static_cast<const GatherAttributes&>(*attributes);
  const Tensor factor = gather_as(x, indices, attributes);
  if (updates.size() == 0) return factor;
  const Tensor numbers = place_numbers(indices, x.shape(), gathering);
  const Index count = numbers.size(), width = updates.size() / count;
  const Tensor order = argsort(numbers), places = take(numbers, order);
  const Tensor sorted = take(reshape(updates, {count, width}), order);
  // Whether an update has the same position as the one before it.
  const Tensor same = broadcast_to(expand_dims(entries(places, 0, 1, count - 1) == entries(places, 0, 0, count - 1), 1),
                                   {count - 1, width});
  const auto beside = [&](bool before) {
    const std::vector<std::pair<Index, Index>> one{
        before ? std::pair<Index, Index>{1, 0} : std::pair<Index, Index>{0, 1}, {0, 0}};
    const Tensor neighbours = entries(sorted, 0, before ? 0 : 1, count - 1);
    const Tensor factors = pad(where(same, neighbours, 0), one, 0),
                 starts = pad(astype(logical_not(same), x.dtype()), one, 1);
    return linear_recurrence(factors, starts, 0, {.reverse = !before});
  };
  return reshape(take(beside(true) * beside(false), argsort(order)), updates.shape()) * factor;
}

// y = x u_1 u_2 ...: dy = dx u_1 u_2 ... + x u_2 ... du_1 + ...
Outputs jvp_scatter_multiply(const JvpContext& c) {
  const AttributesPtr& attributes = c.call.attributes_ptr();
  Tensor tangent = scatter_as(op_scatter_multiply, c.tangent(0), c.in(1), c.in(2), attributes);
  if (c.has(2))
    tangent = scatter_as(op_scatter_add, tangent, c.in(1), scale(c.tangents[2], product_of_others(c, attributes)),
                         attributes);
  return tangent;
}

Tensor vjp_scatter_multiply(const VjpContext& c, int input) {
  const AttributesPtr attributes(c.attributes);
  if (input == 0) return scatter_as(op_scatter_multiply, c.ct(), c.in(1), c.in(2), attributes);
  return scale(gather_as(c.ct(), c.in(1), attributes), product_of_others(c, attributes));
}

constexpr Op scatter_extreme(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer = infer_scatter,
      .reads = {0b111 | ValueSet::outputs, 0b111 | ValueSet::outputs},
      .jvp = jvp_scatter_extreme,
      .vjp = vjp_scatter_extreme,
      .batch = batch_in_front,
      .reuses = reuses_first,
      .index_name = "index",
  };
}

// ---- dependences (element_sets.h) -----------------------------------------------------------
// x is [batch..., d1..dk, rest...], and the result of gather is [batch..., at..., rest...].

// The union of the element sets along x's axes d, or along the axes `at` of updates, with these
// axes replaced by `ones` axes of length 1.
Tensor united_positions(const DependsContext& c, std::size_t input, Index ones) {
  const Tensor sets = c.set(input);
  const Index batch = c.as<GatherAttributes>().batch_dims;
  const Index rest = c.call.input(0).rank() - batch - c.call.input(1).shape(-1);
  Shape axes, shape;
  for (Index axis = 0; axis < batch; ++axis) shape.push_back(sets.shape(axis));
  for (Index axis = batch; axis < sets.rank() - rest; ++axis) axes.push_back(axis);
  for (Index axis = 0; axis < ones; ++axis) shape.push_back(1);
  for (Index axis = sets.rank() - rest; axis < sets.rank(); ++axis) shape.push_back(sets.shape(axis));
  return reshape(c.sets.unite_over(sets, axes), shape);
}

// If the indices may differ, an element of the result may come from any position.
Outputs depends_gather(const DependsContext& c) {
  if (c.has(1)) return {};
  Outputs moved = depends_moved(c, 0b10);
  if (!moved.empty()) return moved;
  return united_positions(c, 0, c.call.input(1).rank() - 1 - c.as<GatherAttributes>().batch_dims);
}

// If the indices may differ, an update may go to any position.
Outputs depends_anywhere(const DependsContext& c) {
  if (!c.has(2)) return c.set(0);
  return c.sets.unite(c.set(0), united_positions(c, 2, c.call.input(1).shape(-1)));
}

Outputs depends_scatter(const DependsContext& c) {
  if (c.has(1)) return {};
  Outputs moved = depends_moved(c, 0b10);
  return moved.empty() ? depends_anywhere(c) : moved;
}

// An element of the result combines the element of x with all updates that go to its position.
Outputs depends_combined(const DependsContext& c) {
  if (c.has(1)) return {};
  if (!c.has(2)) return c.set(0);
  const Tensor indices = c.constant(1);
  if (!indices.defined()) return depends_anywhere(c);
  const Shape& shape = c.call.input(0).shape();
  const Tensor numbers = arange(0, shape.elements(), 1, int64);
  const Tensor places = gather_as(reshape(numbers, shape), indices, c.call.attributes_ptr());
  const auto flat = [](const Tensor& x) { return reshape(x, {x.size()}); };
  return reshape(
      c.sets.unite_at(concat({flat(c.set(0)), flat(c.set(2))}), concat({numbers, flat(places)}), numbers.size()),
      shape);
}

}  // namespace

constinit const Op op_gather{
    .id = OpId::gather,
    .name = "gather",
    .takes_complex = true,
    .infer = infer_gather,
    .derivative = Derivative::linear,
    .linear_in = 0b01,
    .vjp = vjp_gather,
    .vjp_onto = vjp_onto_gather,
    .batch = batch_gather,
    .depends = depends_gather,
    .index_name = "index",
    .flops = no_flops,
};

constinit const Op op_scatter{
    .id = OpId::scatter,
    .name = "scatter",
    .takes_complex = true,
    .infer = infer_scatter,
    .derivative = Derivative::linear,
    .linear_in = 0b101,
    .reads = {0b010, 0b010},
    .vjp = vjp_scatter,
    .batch = batch_in_front,
    .depends = depends_scatter,
    .reuses = reuses_first,
    .index_name = "index",
    .flops = no_flops,
};

constinit const Op op_scatter_multiply{
    .id = OpId::scatter_multiply,
    .name = "scatter_multiply",
    .takes_complex = true,
    .infer = infer_scatter,
    .reads = {0b110, 0b111},
    .jvp = jvp_scatter_multiply,
    .vjp = vjp_scatter_multiply,
    .batch = batch_in_front,
    .depends = depends_combined,
    .reuses = reuses_first,
    .index_name = "index",
};

constinit const Op op_scatter_min = scatter_extreme(OpId::scatter_min, "scatter_min");
constinit const Op op_scatter_max = scatter_extreme(OpId::scatter_max, "scatter_max");

constinit const Op op_scatter_add{
    .id = OpId::scatter_add,
    .name = "scatter_add",
    .takes_complex = true,
    .infer = infer_scatter,
    .derivative = Derivative::linear,
    .linear_in = 0b101,
    .reads = {0, 0b010},
    .vjp = vjp_scatter_add,
    .batch = batch_in_front,
    .depends = depends_combined,
    .reuses = reuses_first,
    .index_name = "index",
};

// ---- index.h --------------------------------------------------------------------------------

// The axes before `axis` become batch axes of gather, and a view repeats the indices for them.
// So the result needs no transpose.
Tensor take(const Tensor& x, const Tensor& indices, Index axis) {
  return named(
      "take",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "take");
        const Tensor places = expand_dims(as_indices(indices, "take"), -1);
        const std::span<const Index> batch(x.shape().begin(), static_cast<std::size_t>(along));
        return gather_as(x, broadcast_to(places, joined({batch, places.shape()})), batched_by(along));
      },
      x, indices);
}

namespace {

// The operands of gather along one axis: x and the indices with this axis at the end. All other
// axes are batch axes, to which the indices are broadcast.
struct AlongAxis {
  Tensor values, places;  // [batch..., n], [batch..., k]
  int axis;

  AlongAxis(const Tensor& x, const Tensor& indices, Index along, const char* function)
      : axis(normalize_axis(along, require_defined(x, function, 0).rank(), function)) {
    if (x.rank() != require_defined(indices, function, 1).rank())
      fail<ShapeError>("{}: x {} and indices {} must have equal ranks", function, x.shape(), indices.shape());
    values = moveaxis(x, axis, -1);
    places = moveaxis(as_indices(indices, function), axis, -1);
  }
  Shape batch() const {
    return broadcast_shapes(without_last(values.shape()), without_last(places.shape()), "indices");
  }
  Tensor values_in(const Shape& batch) const { return broadcast_to(values, joined({batch, Shape(values.shape(-1))})); }
  Tensor indices_in(const Shape& batch) const {
    return broadcast_to(expand_dims(places, -1), joined({batch, Shape(places.shape(-1), 1)}));
  }

 private:
  static Shape without_last(Shape shape) {
    shape.pop_back();
    return shape;
  }
};

}  // namespace

Tensor take_along_axis(const Tensor& x, const Tensor& indices, Index axis) {
  const AlongAxis along(x, indices, axis, "take_along_axis");
  return named("take_along_axis", [&] {
    const Shape batch = along.batch();
    return moveaxis(gather_as(along.values_in(batch), along.indices_in(batch), batched_by(batch.rank())), -1,
                    along.axis);
  });
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values, Index axis) {
  const AlongAxis along(x, indices, axis, "put_along_axis");
  return named("put_along_axis", [&] {
    const Dtype dtype =
        values.is_scalar() ? values.scalar().with(x.dtype()) : promote(x.dtype(), values.tensor().dtype());
    const Shape batch = along.batch();
    Shape into = joined({batch, Shape(along.values.shape(-1))}), put = joined({batch, Shape(along.places.shape(-1))});
    if (into != along.values.shape())
      fail<ShapeError>("put_along_axis: indices {} do not fit x {}, which is not broadcast", indices.shape(),
                       x.shape());
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(along.axis)] = along.places.shape(-1);
    const Tensor updates = as_tensor(Operand(values), dtype, &shape, x.device());
    const Tensor result = scatter_as(op_scatter, astype(along.values, dtype), along.indices_in(batch),
                                     moveaxis(updates, along.axis, -1), batched_by(batch.rank()));
    return moveaxis(result, -1, along.axis);
  });
}

Tensor gather(const Tensor& x, const Tensor& indices, Index batch_axes) {
  require_defined(x, "gather", 0);
  const Tensor places = as_indices(require_defined(indices, "gather", 1), "gather");
  return gather_as(x, places, batched_by(checked_batch_axes(batch_axes, x, places, "gather")));
}

namespace {

Tensor scattered(const Op& op, const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  Dtype dtype = promote(require_defined(x, op.name, 0).dtype(), require_defined(updates, op.name, 2).dtype());
  if (op.id != OpId::scatter) dtype = multiplied_in(dtype);
  const Tensor places = as_indices(require_defined(indices, op.name, 1), op.name);
  const int batch = checked_batch_axes(batch_axes, x, places, op.name);
  return scatter_as(op, astype(x, dtype), places, astype(updates, dtype), batched_by(batch));
}

}  // namespace

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  return scattered(op_scatter, x, indices, updates, batch_axes);
}
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  return scattered(op_scatter_add, x, indices, updates, batch_axes);
}
Tensor scatter_multiply(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  return scattered(op_scatter_multiply, x, indices, updates, batch_axes);
}
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  return scattered(op_scatter_min, x, indices, updates, batch_axes);
}
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes) {
  return scattered(op_scatter_max, x, indices, updates, batch_axes);
}

}  // namespace stave
