// User-defined operations: each is a record (Op), which every handler treats like the
// record of a library operation.
//
//   void triple_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
//     std::ranges::transform(elements<const float>(in[0]), elements<float>(out[0]).begin(),
//                            [](float x) { return 3 * x; });
//   }
//   const Op triple_op = define_op({
//       .name = "triple",
//       .infer = [](const Call& call,
//                   auto& outputs) { outputs.push_back(abstract(call.input(0))); },
//       .derivative = Derivative::linear,
//       .vjp = [](const VjpContext& c, int) { return apply(triple_op, {c.ct()}); },
//       .batch = batch_elementwise,
//       .cpu = triple_cpu});
//   Tensor triple(const Tensor& x) { return apply(triple_op, {x}); }
//
// The record is a namespace-scope constant, because it must be immutable and must outlive all
// results that it computed.
// Handlers do not guess what a record omits: a transform without its rule throws, and names
// the operation. check_op (handlers/transforms/check_op.h) checks the record against its kernels.
// `depends` says which elements of the inputs each element of the outputs depends on (depends.h);
// without it, sparse Jacobians count the operation as dense.
// For arguments besides tensors, an operation has a class of its own that derives from Attributes
// (attributes.h). An operation without inputs derives this class from PlacedAttributes, which names
// the device.
#pragma once

#include <span>

#include <stave/core/op/op.h>

namespace stave {

/// Returns the record itself if it can be performed. Throws TransformError if it lacks a name,
/// `infer`, or all of `cpu`, `cuda` and `view`, or if it sets a field that is only for the
/// library's operations (`id`, `elementwise`, `is_higher_order`).
Op define_op(const Op& op);

/// Shape and dtype of x, for `infer`.
inline Abstract abstract(const Tensor& x) { return {x.shape(), x.dtype()}; }

/// The elements of a row-major view, which a CPU kernel receives unless its record sets
/// `takes_strides`. Throws DtypeError if they are not of type T, and ShapeError if the view
/// is not row-major.
template <class T>
std::span<T> elements(const View& view);

}  // namespace stave

namespace stave_detail {

std::size_t count_elements(const stave::View& view, stave::Dtype dtype);

}  // namespace stave_detail

namespace stave {

template <class T>
std::span<T> elements(const View& view) {
  return {static_cast<T*>(view.data), stave_detail::count_elements(view, dtype_of<std::remove_const_t<T>>())};
}

}  // namespace stave
