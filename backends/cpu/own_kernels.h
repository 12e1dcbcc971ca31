// Elementwise operations of a user's program, compiled as one loop for the CPU. They are as fast
// as the library's own operations. A recorded region (handlers/compile/elementwise_op.h), which an
// interpreter runs, may take three times as long.
//
// // operations.cpp, which has nothing else in it
// #include <stave/backends/cpu/own_kernels.h>
// STAVE_ELEMENTWISE_OPERATION(hardshrink, [](const auto& x) { return where(abs(x) > 0.5, x, 0); });
//
// // CMakeLists.txt: compiles the file once more for each instruction set that the library has
// stave_add_kernels(program operations.cpp)
//
// // other files; also in a header that operations.cpp includes, if that header includes this
// // file and not <stave/stave.h>
// extern const stave::ElementwiseOperation<1> hardshrink;  // of one operand
//
// Without stave_add_kernels the operation has no compiled loops, but gives the same results,
// bit for bit. A compiled loop computes the operation if all operands are float32,
// or all are float64. In all other cases the recorded region is used: for operands of other dtypes,
// for derivatives, and for operations that `compile` fuses with their neighbours.
//
// The function is generic, captures nothing, and depends on nothing that changes. It may use
// numbers, the operators and the functions of one and two operands that ops/elementwise.h has
// for floats, `where` on a comparison, `clip`, `stop_gradient`, and astype(condition, x.dtype()).
#pragma once

#include <stave/backends/cpu/kernels/isa.h>
#include <stave/core/program/kernel_loop.h>

#define STAVE_LOOPS(name, isa) STAVE_JOIN(stave_loops_##name##_, isa)
#define STAVE_DECLARE_LOOPS(name, isa) \
  extern __attribute__((visibility("hidden"))) const ::stave_detail::Loop STAVE_LOOPS(name, isa)[];

#ifdef STAVE_ISA  // Defined in the additional compilations, one for each instruction set.

#include <stave/backends/cpu/kernels/lanes.h>

namespace stave {
template <int operands>
class ElementwiseOperation;
}

#define STAVE_ELEMENTWISE_OPERATION(name, ...)                      \
  static constexpr auto stave_function_##name = __VA_ARGS__;        \
  STAVE_DECLARE_LOOPS(name, STAVE_ISA)                              \
  constexpr ::stave_detail::Loop STAVE_LOOPS(name, STAVE_ISA)[] = { \
      ::STAVE_KERNELS::loop_of<float>(stave_function_##name), ::STAVE_KERNELS::loop_of<double>(stave_function_##name)}

#else

#include <stave/core/ops/elementwise.h>
#include <stave/handlers/compile/elementwise_op.h>

namespace stave_detail {

/// Returns the number of tensors that F takes, given that X are the first ones.
template <class F, class... X>
consteval int operands_of() {
  constexpr int next = sizeof...(X) + 1;
  constexpr bool takes_as_many = std::is_invocable_v<F, X..., const Tensor&>;
  static_assert(takes_as_many || next < Loop::most_operands,
                "stave: the function must take one to eight operands, and apply only the supported operations to them");
  if constexpr (takes_as_many || next == Loop::most_operands) return next;
  else return operands_of<F, X..., const Tensor&>();
}

template <class F>
ElementwiseOperation<operands_of<F>()> own_operation(const char* name, F, std::vector<Loop> loops) {
  static_assert(std::is_empty_v<F>,
                "stave: the function must not capture anything, because its kernels do not get the captured values");
  const auto of_tensors = [](const auto&... xs) { return Tensor(F{}(xs...)); };
  return {name, of_tensors, std::move(loops)};
}

}  // namespace stave_detail

#ifndef STAVE_ADDED_ISAS  // X(name, isa) for each instruction set; stave_add_kernels defines it.
#define STAVE_ADDED_ISAS(X, name)
#endif
#define STAVE_LIST_LOOPS(name, isa) STAVE_LOOPS(name, isa)[0], STAVE_LOOPS(name, isa)[1],
#define STAVE_ELEMENTWISE_OPERATION(name, ...)                                                                     \
  static constexpr auto stave_function_##name = __VA_ARGS__;                                                       \
  STAVE_ADDED_ISAS(STAVE_DECLARE_LOOPS, name)                                                                      \
  extern const ::stave::ElementwiseOperation<::stave_detail::operands_of<decltype(stave_function_##name)>()> name; \
  decltype(name) name =                                                                                            \
      ::stave_detail::own_operation(#name, stave_function_##name, {STAVE_ADDED_ISAS(STAVE_LIST_LOOPS, name)})

#endif
