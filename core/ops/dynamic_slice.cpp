// Slices at computed positions, and their updates.
//
// All inputs share leading batch axes, so the batch of a vmap becomes one more of these.

#include <stave/core/ops/index.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

Tensor slice_at(const Tensor& x, const Tensor& starts, AttributesPtr attributes) {
  return apply(op_dynamic_slice, {x, starts}, std::move(attributes));
}

Tensor updated_at(Tensor x, Tensor update, const Tensor& starts, AttributesPtr attributes) {
  return apply(op_dynamic_update_slice, moved(std::move(x), std::move(update), starts), std::move(attributes));
}

// The shape [batch..., sizes...] of a slice of x [batch..., dims...] at starts
// [batch..., number of dims]. Throws if these do not fit.
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

// The cotangent of x is the cotangent of the slice at the slice's position, and 0 elsewhere.
Tensor vjp_dynamic_slice(const VjpContext& c, int) {
  return updated_at(c.zeros(0), c.ct(), c.in(1), AttributesPtr(c.attributes));
}

Tensor vjp_onto_dynamic_slice(const VjpContext& c, Tensor sum) {
  Tensor part = add(slice_at(sum, c.in(1), AttributesPtr(c.attributes)), c.ct());
  return updated_at(std::move(sum), std::move(part), c.in(1), AttributesPtr(c.attributes));
}

// The update replaces a part of x, so the cotangent of x is zero there.
Tensor vjp_dynamic_update_slice(const VjpContext& c, int input) {
  AttributesPtr attributes(c.attributes);
  return input == 0 ? updated_at(c.ct(), c.zeros(1), c.in(2), std::move(attributes))
                    : slice_at(c.ct(), c.in(2), std::move(attributes));
}

// The axes of x that are sliced.
Shape sliced_axes(const DependsContext& c) {
  Shape axes;
  for (Index axis = c.as<DynamicSliceAttributes>().batch_dims; axis < c.call.input(0).rank(); ++axis)
    axes.push_back(axis);
  return axes;
}

// If the starts may differ, the slice may contain any element of x.
Outputs depends_dynamic_slice(const DependsContext& c) {
  if (c.has(1)) return {};
  Outputs moved = depends_moved(c, 0b10);
  return moved.empty() ? Outputs(c.sets.unite_over(c.set(0), sliced_axes(c))) : moved;
}

Outputs depends_dynamic_update_slice(const DependsContext& c) {
  if (c.has(2)) return {};
  Outputs moved = depends_moved(c, 0b100);
  if (!moved.empty() || !c.has(1)) return moved.empty() ? Outputs(c.set(0)) : moved;
  return c.sets.unite(c.set(0), c.sets.unite_over(c.set(1), sliced_axes(c)));
}

}  // namespace

constinit const Op op_dynamic_slice{
    .id = OpId::dynamic_slice,
    .name = "dynamic_slice",
    .takes_complex = true,
    .infer = infer_dynamic_slice,
    .derivative = Derivative::linear,
    .linear_in = 0b01,
    .vjp = vjp_dynamic_slice,
    .vjp_onto = vjp_onto_dynamic_slice,
    .batch = batch_in_front,
    .depends = depends_dynamic_slice,
    .index_name = "a slice that starts at index",
    .flops = no_flops,
};

constinit const Op op_dynamic_update_slice{
    .id = OpId::dynamic_update_slice,
    .name = "dynamic_update_slice",
    .takes_complex = true,
    .infer = infer_dynamic_update_slice,
    .derivative = Derivative::linear,
    .linear_in = 0b011,
    .vjp = vjp_dynamic_update_slice,
    .batch = batch_in_front,
    .depends = depends_dynamic_update_slice,
    .reuses = reuses_first,
    .index_name = "a slice that starts at index",
    .flops = no_flops,
};

Tensor SliceStarts::tensor(const char* operation, Device device) const {
  if (indices_) return as_indices(require_defined(*indices_, operation, 1), operation);
  if (list_.empty()) return zeros({0}, int32, device);
  std::vector<Tensor> indices;
  for (const Operand& index : list_) {
    const Dtype dtype = index.is_scalar() ? index.scalar().alone() : index.tensor().dtype();
    indices.push_back(as_indices(as_tensor(Operand(index), dtype, nullptr, device), operation));
    if (indices.back().rank() != 0)
      fail<ShapeError>("{}: start {} has shape {}: give single integers, or one tensor of rank 1 for all axes",
                       operation, indices.size() - 1, indices.back().shape());
  }
  return stack(indices);
}

Tensor dynamic_slice(const Tensor& x, const SliceStarts& starts, const Shape& sizes) {
  const Device device = require_defined(x, "dynamic_slice").device();
  return slice_at(x, starts.tensor("dynamic_slice", device), make_intrusive<DynamicSliceAttributes>(0, sizes));
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const SliceStarts& starts) {
  const Dtype dtype = promote(require_defined(x, "dynamic_update_slice", 0).dtype(),
                              require_defined(update, "dynamic_update_slice", 1).dtype());
  return updated_at(astype(x, dtype), astype(update, dtype), starts.tensor("dynamic_update_slice", x.device()),
                    make_intrusive<DynamicSliceAttributes>(0, update.shape()));
}

}  // namespace stave
