// Operations of one's own: a record (Op) beside the library's, of which every handler knows as much as of those.
//
//   void triple_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
//     std::ranges::transform(elements<const float>(in[0]), elements<float>(out[0]).begin(), [](float x) { return 3 * x; });
//   }
//   const Op triple_op = define_op({.name = "triple",
//                                   .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
//                                   .derivative = Derivative::linear,
//                                   .vjp = [](const VjpContext& c, int) { return apply(triple_op, {c.ct()}); },
//                                   .batch = batch_elementwise,
//                                   .cpu = triple_cpu});
//   Tensor triple(const Tensor& x) { return apply(triple_op, {x}); }
//
// The record is immutable, and outlives all that was computed by it: a namespace-scope constant. What it does not say, no handler
// guesses: a transform without its rule throws, and names the operation. check_op (handlers/transforms/check_op.h) holds record and
// kernels against each other. What an operation is given besides tensors is an Attributes of its own (attributes.h): PlacedAttributes,
// which says the device, if it has no inputs.
#pragma once

#include <span>

#include <stave/core/op/op.h>

namespace stave {

/// The record itself, if it can be performed. Throws TransformError that says what it lacks: a name, `infer`, or all of `cpu`,
/// `cuda` and `view`; or that it claims what only the library's have (an id, `elementwise`, functions in its attributes).
Op define_op(const Op& op);

/// Shape and dtype of x, for `infer`.
inline Abstract abstract(const Tensor& x) { return {x.shape(), x.dtype()}; }

/// The elements of a row-major view, as a kernel on the CPU gets them unless its record says `takes_strides`. Throws DtypeError
/// if they are not of type T, and ShapeError if the view is not row-major.
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
