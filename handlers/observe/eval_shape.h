// eval_shape: the shapes and dtypes of a function's result, without computing it.
//
//   const Tensor w = abstract({1000000, 1000000});       // 4 TB, of which nothing is allocated
//   const Tensor y = eval_shape(f)(w, x);                // the structure of f(w, x)
//   y.shape(); y.dtype(); y.device();
//   eval_shape(g)(y);                                    // y may be an argument again
//
// An *abstract* tensor has a shape, a dtype, strides and a device, and no elements (in JAX: a
// ShapeDtypeStruct). eval_shape passes abstract tensors to the function in place of its arguments,
// and answers each operation, also one on captured tensors, with abstract tensors of the shapes and
// dtypes that the operation's record infers. No kernel runs, and no memory is allocated except for
// single numbers, such as the 2 of `x * 2`. Invalid shapes and dtypes throw the same errors as in
// the function itself.
//
// - All transforms work inside: grad, vmap, jvp, checkpoint and so on. Loops run all their steps.
//   A compiled function is called as it is, without its recordings.
// - Reading an element of an abstract tensor (item, to_vector, data, printing, `if`) throws
//   TransformError, which names the operation that made the tensor. So do operations on abstract
//   tensors outside of eval_shape and cost.
// - Effects go to their handlers as ever. A handler outside that reads a tensor gets that error.
// - Arguments that are not trees of tensors, such as numbers and keys, are passed as they are.
//
// cost.h counts operations, bytes and memory in the same way.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave {

/// Returns an abstract tensor of this shape, contiguous: an argument for eval_shape and cost.
Tensor abstract(const Shape& shape, Dtype dtype = default_dtype(), Device device = cpu);
/// Returns true if x is abstract: it has a shape and a dtype, and no elements.
bool is_abstract(const Tensor& x) noexcept;

}  // namespace stave

namespace stave_detail {

/// The bytes that abstract tensors would occupy: now, and at most.
struct MemoryMeter : RefCounted {
  std::atomic<std::size_t> live{0}, peak{0};
};

/// Returns an abstract tensor with the shape, strides, dtype and device of x.
Tensor abstract_like(const Tensor& x);
/// Returns the address that identifies the memory of x; an abstract x has one, too. All views of
/// one tensor have the same address.
const void* memory_of(const Tensor& x) noexcept;

}  // namespace stave_detail

namespace stave {

/// The handler of eval_shape: answers each operation with abstract tensors.
class ShapesOnly : public Handler {
 public:
  ShapesOnly();
  Outputs handle(Call& call) override;
  std::string describe() const override { return "eval_shape"; }
  HandlerProperties properties() const noexcept override { return {.runs_no_user_code = true}; }

  /// The largest number of bytes that the operations' results would have occupied at one time. A
  /// result that would be a view, or would take the buffer of an operand that nothing else uses,
  /// needs none. Kernels' temporary memory is left out.
  std::size_t peak_bytes() const noexcept { return meter_->peak; }

 private:
  IntrusivePtr<stave_detail::MemoryMeter> meter_;
};

}  // namespace stave

namespace stave_detail {

/// Returns f(args...), with abstract tensors in place of the tensors in the arguments.
template <class F, class... A>
decltype(auto) call_on_abstract(F& f, A&&... args) {
  std::vector<Tensor> leaves = selected_leaves(SelectTrees<A...>(), args...);
  for (Tensor& leaf : leaves)
    if (leaf.defined()) leaf = abstract_like(leaf);
  return call_with_leaves(SelectTrees<A...>(), f, leaves, std::forward<A>(args)...);
}

/// The result of eval_shape(f).
template <class F>
class ShapeFunction {
 public:
  explicit ShapeFunction(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (can_call<Returns::tree, const F, SelectTrees<A...>, A...>) {
      ShapesOnly shapes;
      auto result = with(shapes, [&] { return call_on_abstract(f_, std::forward<A>(args)...); });
      visit_tensors(result, [](Tensor& x) {
        if (x.defined()) x = abstract_like(x);
      });
      return result;
    } else {
      return Refused();
    }
  }

 private:
  F f_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable that takes the arguments of f and returns what f would return, with abstract
/// tensors: their shapes, dtypes and devices are those of f's result. Arguments are trees of
/// tensors, abstract or not, and anything else that f takes. f must return a tree of tensors.
/// Throws what f throws for arguments of these shapes and dtypes, and TransformError where f reads
/// an element.
template <class F>
auto eval_shape(F f) {
  return stave_detail::ShapeFunction<F>(std::move(f));
}
// Overloads for overloaded functions: eval_shape(sin), eval_shape(sum).
#define STAVE_NAMES(Name) \
  inline auto eval_shape(stave_detail::Name f) { return stave_detail::ShapeFunction<stave_detail::Name>(std::move(f)); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
