// The Laplacian of a function: the sum of its second derivatives.
//
//   const auto u = [](const Tensor& x) { return exp(-sum(square(x))); };
//   laplacian(u)(x)                  // sum_i d^2 u / dx_i^2, without the Hessian
//   vmap(laplacian(u))(points)
//
// It is computed in one pass by collapsed series: each value carries its first derivatives along
// all n directions and one second-order term, the sum over the directions; so an operation that is
// linear costs one application for that term in place of n. See Li et al., "A computational
// framework for neural network-based variational Monte Carlo with Forward Laplacian", 2024, and
// Dangel et al., "Collapsing Taylor mode automatic differentiation", 2025.
#pragma once

#include <optional>
#include <tuple>

#include <stave/core/ops/tree.h>
#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

/// Returns the Laplacian at xs of each output of f: the sum over all elements of xs of the second
/// derivatives with respect to that element. Outputs that are not floating give zeros. Throws
/// DtypeError if an input is not a real float, and the errors of jvp.
Outputs laplacian_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names = numbered_inputs);

/// Returns a function with f's arguments that computes the Laplacian of f with respect to argument
/// 0, a tree of real floats. Its result is a tree like f's result.
template <class F>
auto laplacian(F f) {
  return [f = std::move(f)](const auto& x, const auto&... args) {
    using namespace stave_detail;
    using X = std::remove_cvref_t<decltype(x)>;
    using Selected = Select<1 + sizeof...(args), 0>;
    if constexpr (can_call<Returns::tree, const F, Selected, const X&, decltype(args)...>) {
      using Result = typename Calls<const F, Selected, const X&, decltype(args)...>::Result;
      std::optional<Result> result;
      const Outputs found =
          laplacian_flat(flat_function(Selected(), f, result, x, args...), selected_leaves(Selected(), x, args...),
                         [&](std::size_t i) { return leaf_name(Selected(), i, x, args...); });
      return with_leaves(*result, found);
    } else {
      return Refused();
    }
  };
}

#define STAVE_NAMES(Name) \
  inline auto laplacian(stave_detail::Name f) { return laplacian<stave_detail::Name>(f); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
