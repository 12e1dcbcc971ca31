// check_grads: derivatives against differences.
#pragma once

#include <span>

#include <stave/handlers/arguments.h>
#include <stave/handlers/vjp.h>

namespace stave {

struct CheckGradsOptions {
  int order = 1;         ///< derivatives of derivatives up to this order
  double step = 0;       ///< of the central difference; 0: the cube root of the dtype's epsilon
  double tolerance = 0;  ///< relative to the size of the values; 0: 1e-6 for float64, 1e-2 for float32
};

void check_grads_flat(FlatFunction f, std::span<const Tensor> primals, const CheckGradsOptions& options);

/// Compares jvp of f at `args` along a random direction with a central difference, and vjp with jvp by the adjoint identity
/// <ct, J v> = <J' ct, v>. Throws TransformError, saying which and by how much, where they disagree. Use float64.
template <class F, class... A>
void check_grads(F&& f, const std::tuple<A...>& args, const CheckGradsOptions& options = {}) {
  using Selected = stave_detail::SelectTrees<A...>;
  using Called = stave_detail::Calls<std::remove_reference_t<F>, Selected, const A&...>;
  static_assert(Called::valid, "stave: check_grads: the function cannot be called with these arguments");
  if constexpr (Called::valid) {
    std::apply(
        [&](const auto&... arg) {
          check_grads_flat(
              [&](std::span<const Tensor> inputs) {
                return stave_detail::flat_outputs(stave_detail::call_with_leaves(Selected(), f, inputs, arg...));
              },
              stave_detail::selected_leaves(Selected(), arg...), options);
        },
        args);
  }
}
template <class F>
void check_grads(F&& f, const Tensor& x, const CheckGradsOptions& options = {}) {
  check_grads(std::forward<F>(f), std::tuple(x), options);
}

}  // namespace stave
