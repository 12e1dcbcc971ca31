// Gather and its transpose, scatter_add; and what is composed of them. Slices at computed places, and their updates.
//
// All have leading batch axes that x and indices share, so the batch of a vmap is one more of them.

#include <stave/core/ops/index.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>

namespace stave {

using stave_detail::fail, stave_detail::given, stave_detail::named;

namespace {

AttributesPtr batched_by(int batch_dims, bool from_end = true) {
  return make_intrusive<GatherAttributes>(batch_dims, from_end);
}

Shape joined(std::initializer_list<std::span<const Index>> parts) {
  Shape shape;
  for (std::span<const Index> part : parts) shape.append(part.begin(), part.end());
  return shape;
}

// [batch..., at..., rest...], from x [batch..., d1..dk, rest...] and indices [batch..., at..., k]. Validates.
Shape gathered_shape(const Shape& x, const Shape& indices, int batch_dims, const char* operation) {
  const auto batch = static_cast<std::size_t>(batch_dims);
  if (indices.size() <= batch)
    fail<ShapeError>("{}: indices of shape {} need a last axis that counts the axes of x which they address", operation,
                     indices);
  const auto addressed = static_cast<std::size_t>(indices.back());
  if (x.size() < batch + addressed)
    fail<ShapeError>("{}: indices of shape {} address {} axes, x has shape {}", operation, indices, addressed, x);
  if (!std::equal(x.begin(), x.begin() + batch, indices.begin()))
    fail<ShapeError>("{}: the first {} lengths of x {} and of indices {} differ", operation, batch, x, indices);
  const std::span<const Index> at(indices.begin(), indices.end() - 1), all(x);
  return joined({at, all.subspan(batch + addressed)});
}

void check_indices(const Tensor& indices, const char* operation) {
  if (indices.dtype() != int32 && indices.dtype() != int64)
    fail<DtypeError>("{}: indices are {}: convert them to int32 or int64 with astype", operation, indices.dtype());
}

// Indices of any integer dtype as int32 or int64, those that neither holds as one that is out of range.
Tensor as_indices(const Tensor& indices, const char* operation) {
  const Dtype dtype = indices.dtype();
  if (dtype == uint64) return astype(minimum(indices, std::numeric_limits<std::int64_t>::max()), int64);
  if (is_integer(dtype) && dtype != int32 && dtype != int64) return astype(indices, dtype == uint32 ? int64 : int32);
  check_indices(indices, operation);
  return indices;
}

Tensor gather_batched(const Tensor& x, const Tensor& indices, int batch_dims, bool from_end = true) {
  return apply(op_gather, {x, indices}, batched_by(batch_dims, from_end));
}

Tensor scatter_add_batched(const Tensor& x, const Tensor& indices, const Tensor& updates, int batch_dims,
                           bool from_end) {
  return apply(op_scatter_add, {x, indices, updates}, batched_by(batch_dims, from_end));
}

// ---- gather -----------------------------------------------------------------------------------------------

void infer_gather(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &indices = call.input(1);
  check_indices(indices, "gather");
  outputs.push_back(
      {gathered_shape(x.shape(), indices.shape(), call.as<GatherAttributes>().batch_dims, "gather"), x.dtype()});
}

// What was read at a place flows back to it, as often as it was read.
Tensor vjp_gather(const VjpContext& c, int) {
  const auto& attributes = c.as<GatherAttributes>();
  return scatter_add_batched(c.zeros(0), c.in(1), c.ct(), attributes.batch_dims, attributes.from_end);
}

// Where x is one for all lanes, they are one more axis of `at`.
Outputs batch_gather(const BatchContext& c) {
  const auto& attributes = c.as<GatherAttributes>();
  if (c.batched[0] || attributes.batch_dims > 0) return batch_in_front(c);
  return gather_batched(c.in(0), c.in(1), 0, attributes.from_end);
}

// ---- scatter_add ------------------------------------------------------------------------------------------

void infer_scatter_add(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &indices = call.input(1), &updates = call.input(2);
  check_indices(indices, "scatter_add");
  if (x.dtype() == bool_) fail<DtypeError>("scatter_add: bool has no sums: convert x to an integer dtype with astype");
  if (x.dtype() != updates.dtype())
    fail<DtypeError>("scatter_add: x is {}, updates are {}: convert with astype", x.dtype(), updates.dtype());
  const Shape expected =
      gathered_shape(x.shape(), indices.shape(), call.as<GatherAttributes>().batch_dims, "scatter_add");
  if (updates.shape() != expected)
    fail<ShapeError>("scatter_add: updates of shape {} should have shape {}, for x {} and indices {}", updates.shape(),
                     expected, x.shape(), indices.shape());
  outputs.push_back({x.shape(), x.dtype()});
}

Tensor vjp_scatter_add(const VjpContext& c, int input) {
  const auto& attributes = c.as<GatherAttributes>();
  return input == 0 ? c.ct() : gather_batched(c.ct(), c.in(1), attributes.batch_dims, attributes.from_end);
}

// ---- dynamic_slice, dynamic_update_slice ------------------------------------------------------------------

Tensor slice_at(const Tensor& x, const Tensor& starts, AttributesPtr attributes) {
  return apply(op_dynamic_slice, {x, starts}, std::move(attributes));
}

Tensor updated_at(const Tensor& x, const Tensor& update, const Tensor& starts, AttributesPtr attributes) {
  return apply(op_dynamic_update_slice, {x, update, starts}, std::move(attributes));
}

// [batch..., sizes...], for x [batch..., dims...] and starts [batch..., number of dims]. Validates.
Shape sliced_shape(const Call& call, const Shape& x, const Tensor& starts) {
  const auto& attributes = call.as<DynamicSliceAttributes>();
  const char* const operation = call.op().name;
  check_indices(starts, operation);
  const std::span<const Index> all(x), batch = all.first(static_cast<std::size_t>(attributes.batch_dims));
  const std::span<const Index> dims = all.subspan(batch.size());
  if (starts.shape() != joined({batch, Shape(dims.size())}))
    fail<ShapeError>("{}: starts of shape {} must have rank 1 and one index for each axis of x {}", operation,
                     starts.shape(), x);
  if (attributes.sizes.size() != dims.size())
    fail<ShapeError>("{}: sizes {} must be one for each axis of x {}", operation, attributes.sizes, x);
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    if (attributes.sizes[axis] < 0 || attributes.sizes[axis] > dims[axis])
      fail<ShapeError>("{}: sizes {} do not fit into x {}: along axis {} from 0 to {} can be taken", operation,
                       attributes.sizes, x, axis, dims[axis]);
  return joined({batch, attributes.sizes});
}

void infer_dynamic_slice(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  outputs.push_back({sliced_shape(call, x.shape(), call.input(1)), x.dtype()});
}

void infer_dynamic_update_slice(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &update = call.input(1);
  if (x.dtype() != update.dtype())
    fail<DtypeError>("dynamic_update_slice: x is {}, the update is {}: convert with astype", x.dtype(), update.dtype());
  const Shape expected = sliced_shape(call, x.shape(), call.input(2));
  if (update.shape() != expected)
    fail<ShapeError>("dynamic_update_slice: the update of shape {} should have shape {}", update.shape(), expected);
  outputs.push_back({x.shape(), x.dtype()});
}

// What was read flows back to its place.
Tensor vjp_dynamic_slice(const VjpContext& c, int) {
  return updated_at(c.zeros(0), c.ct(), c.in(1), AttributesPtr(c.attributes));
}

// The update takes the place of what stood there: to x flows the rest.
Tensor vjp_dynamic_update_slice(const VjpContext& c, int input) {
  AttributesPtr attributes(c.attributes);
  return input == 0 ? updated_at(c.ct(), c.zeros(1), c.in(2), std::move(attributes))
                    : slice_at(c.ct(), c.in(2), std::move(attributes));
}

}  // namespace

constinit const Op op_gather{
    .id = OpId::gather,
    .name = "gather",
    .infer = infer_gather,
    .derivative = Derivative::linear,
    .linear_in = 0b01,
    .vjp = vjp_gather,
    .batch = batch_gather,
    .index_name = "index",
};

constinit const Op op_scatter_add{
    .id = OpId::scatter_add,
    .name = "scatter_add",
    .infer = infer_scatter_add,
    .derivative = Derivative::linear,
    .linear_in = 0b101,
    .reads = {0, 0b010},
    .vjp = vjp_scatter_add,
    .batch = batch_in_front,
    .index_name = "index",
};

constinit const Op op_dynamic_slice{
    .id = OpId::dynamic_slice,
    .name = "dynamic_slice",
    .infer = infer_dynamic_slice,
    .derivative = Derivative::linear,
    .linear_in = 0b01,
    .vjp = vjp_dynamic_slice,
    .batch = batch_in_front,
    .index_name = "a slice that starts at index",
};

constinit const Op op_dynamic_update_slice{
    .id = OpId::dynamic_update_slice,
    .name = "dynamic_update_slice",
    .infer = infer_dynamic_update_slice,
    .derivative = Derivative::linear,
    .linear_in = 0b011,
    .vjp = vjp_dynamic_update_slice,
    .batch = batch_in_front,
    .index_name = "a slice that starts at index",
};

// ---- index.h ----------------------------------------------------------------------------------------------

// The axes before `axis` are batch axes, for which the indices repeat (a view): the result needs no transpose.
Tensor take(const Tensor& x, const Tensor& indices, Index axis) {
  return named(
      "take",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "take");
        const Tensor places = expand_dims(as_indices(indices, "take"), -1);
        const std::span<const Index> batch(x.shape().begin(), static_cast<std::size_t>(along));
        return gather_batched(x, broadcast_to(places, joined({batch, places.shape()})), along);
      },
      x, indices);
}

// All axes but one are batch axes.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, Index axis) {
  if (given(x, "take_along_axis", 0).rank() != given(indices, "take_along_axis", 1).rank())
    fail<ShapeError>("take_along_axis: x {} and indices {} must have equal ranks", x.shape(), indices.shape());
  const int along = normalize_axis(axis, x.rank(), "take_along_axis");
  const Tensor values = moveaxis(x, along, -1), places = moveaxis(as_indices(indices, "take_along_axis"), along, -1);
  Shape batch = values.shape(), at = places.shape();
  batch.pop_back();
  at.pop_back();
  batch = broadcast_shapes(batch, at, "take_along_axis");
  const Index read = values.shape(-1), taken = places.shape(-1);
  return named("take_along_axis", [&] {
    const Tensor result =
        gather_batched(broadcast_to(values, joined({batch, Shape(read)})),
                       broadcast_to(expand_dims(places, -1), joined({batch, Shape(taken, 1)})), batch.rank());
    return moveaxis(result, -1, along);
  });
}

Tensor gather(const Tensor& x, const Tensor& indices) {
  return gather_batched(given(x, "gather", 0), as_indices(given(indices, "gather", 1), "gather"), 0);
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates) {
  const Dtype dtype = promote(given(x, "scatter_add", 0).dtype(), given(updates, "scatter_add", 2).dtype());
  given(indices, "scatter_add", 1);
  const Tensor places = as_indices(indices, "scatter_add");
  return scatter_add_batched(astype(x, dtype), places, astype(updates, dtype), 0, true);
}

Tensor segment_sum(const Tensor& data, const Tensor& ids, Index count) {
  const Shape& shape = given(data, "segment_sum", 0).shape();
  if (given(ids, "segment_sum", 1).rank() != 1 || shape.rank() == 0 || shape[0] != ids.size())
    fail<ShapeError>("segment_sum: data {} needs ids of shape {}, not {}", shape, Shape(shape.rank() ? shape[0] : 1),
                     ids.shape());
  if (count < 0) fail<ShapeError>("segment_sum: {} segments", count);
  return named("segment_sum", [&] {
    const Tensor terms = stave_detail::widened(data), places = expand_dims(as_indices(ids, "segment_sum"), 1);
    Shape sums = shape;
    sums[0] = count;
    return scatter_add_batched(zeros(sums, terms.dtype(), data.device()), places, terms, 0, false);
  });
}

// A one is added to each of x.size() rows of zeros: indices out of range are found where all are, in every transform.
Tensor one_hot(const Tensor& x, Index n, Dtype dtype) {
  if (n < 0) fail<ShapeError>("one_hot: {} classes", n);
  if (dtype == bool_) return astype(one_hot(x, n, uint8), bool_);
  return named(
      "one_hot",
      [&] {
        const Tensor places = reshape(as_indices(x, "one_hot"), {x.size(), 1});
        const Tensor one = broadcast_to(ones({}, dtype, x.device()), {x.size()});
        const Tensor rows = scatter_add_batched(zeros({x.size(), n}, dtype, x.device()), places, one, 1, false);
        return reshape(rows, joined({x.shape(), Shape(n)}));
      },
      x);
}

Tensor Starts::tensor(const char* operation, Device device) const {
  if (indices_) return as_indices(given(*indices_, operation, 1), operation);
  if (list_.empty()) return zeros({0}, int32, device);
  std::vector<Tensor> indices;
  for (const Operand& index : list_) {
    const Dtype dtype = index.is_scalar() ? index.scalar().alone() : index.tensor().dtype();
    indices.push_back(as_indices(stave_detail::as_tensor(Operand(index), dtype, nullptr, device), operation));
    if (indices.back().rank() != 0)
      fail<ShapeError>("{}: start {} has shape {}: give single integers, or one tensor of rank 1 for all axes",
                       operation, indices.size() - 1, indices.back().shape());
  }
  return stack(indices);
}

Tensor dynamic_slice(const Tensor& x, const Starts& starts, const Shape& sizes) {
  const Device device = given(x, "dynamic_slice").device();
  return slice_at(x, starts.tensor("dynamic_slice", device), make_intrusive<DynamicSliceAttributes>(0, sizes));
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const Starts& starts) {
  const Dtype dtype =
      promote(given(x, "dynamic_update_slice", 0).dtype(), given(update, "dynamic_update_slice", 1).dtype());
  return updated_at(astype(x, dtype), astype(update, dtype), starts.tensor("dynamic_update_slice", x.device()),
                    make_intrusive<DynamicSliceAttributes>(0, update.shape()));
}

}  // namespace stave
