// The operation `to`. It has no kernel, because two backends take part: they copy through host
// memory, or directly (Backend::copy_from). If a broadcast value repeats along an axis, only one
// entry of that axis is copied.

#include <stave/core/ops/transfer.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>

namespace stave {

using stave_detail::fail, stave_detail::require_defined, stave_detail::view_of;

namespace {

void infer_to(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& transfer = call.as<TransferAttributes>();
  const Tensor& x = call.input(0);
  static_cast<void>(backend_of(transfer.device));
  if (x.device() != transfer.from)
    fail<DeviceError>("to: the input lives on {}, not on {} as its attributes say", x.device().str(),
                      transfer.from.str());
  outputs.push_back({x.shape(), x.dtype()});
}

// Returns x with each axis along which it repeats (stride 0) cut to the first entry.
Tensor without_repeats(const Tensor& x) {
  Shape shape = x.shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (x.strides()[axis] == 0 && shape[axis] > 1) shape[axis] = 1;
  return view_of(x, std::move(shape), x.strides(), x.node().offset);
}

Tensor transferred(const Tensor& x, Device device) {
  stave_detail::UnderFrame past_all_handlers(nullptr);
  const Tensor dense = contiguous(without_repeats(x));
  const auto bytes = static_cast<std::size_t>(dense.size()) * size_of(x.dtype());
  StoragePtr storage = allocate_storage(device, x.dtype(), dense.shape(), "to");
  copy_storage(device, storage->data, dense.node().memory(), dense.node().data(), bytes);
  Strides strides = contiguous_strides(dense.shape());
  for (std::size_t axis = 0; axis < strides.size(); ++axis)
    if (dense.shape()[axis] != x.shape()[axis]) strides[axis] = 0;
  return Tensor(NodePtr(new Node(x.dtype(), device, x.shape(), std::move(strides), std::move(storage))));
}

}  // namespace

constinit const Op op_to{
    .id = OpId::to,
    .name = "to",
    .takes_complex = true,
    .infer = infer_to,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return to(c.ct(), c.as<TransferAttributes>().from); },
    .batch = batch_in_front,
    .depends = depends_elementwise,
    .view =
        [](const Call& call) {
          const Device device = call.as<TransferAttributes>().device;
          return call.input(0).device() == device ? view_of(call.input(0)) : transferred(call.input(0), device);
        },
    .kernel_throws = true,
    .flops = stave_detail::no_flops,
};

Tensor to(const Tensor& x, Device device) {
  const Device from = require_defined(x, "to").device();
  if (device == cpu) stave_detail::begin_read(from);
  Tensor result = apply(op_to, {x}, make_intrusive<TransferAttributes>(device, from));
  if (device == cpu) stave_detail::end_read(from);
  return result;
}

}  // namespace stave
