// Forward mode: jvp, the derivative of a function along a direction.
//
//   auto [out, tangent] = jvp(f, x, v);
//   auto [out, tangent] = jvp(f, std::make_tuple(x, y), std::make_tuple(dx, dy));   // several arguments
//
// Primals, tangents and results are trees; values stay real under it. The mechanism is in jvp_flat.h.
#pragma once

#include <optional>

#include <stave/handlers/arguments.h>
#include <stave/handlers/jvp_flat.h>

namespace stave {

/// f(primals...) and its derivative along the tangents, both of the type that f returns. A tangent has its primal's structure,
/// shapes and dtypes. Throws TransformError, ShapeError or DtypeError for others, and for inputs that are not floats.
template <class F, class... P, class... T>
auto jvp(F&& f, const std::tuple<P...>& primals, const std::tuple<T...>& tangents) {
  constexpr bool matching = std::is_same_v<std::tuple<P...>, std::tuple<T...>>;
  static_assert(matching, "stave: jvp: tangents must have the types of the primals");
  using Selected = stave_detail::SelectTrees<P...>;
  using Called = stave_detail::Calls<std::remove_reference_t<F>, Selected, const P&...>;
  static_assert(Called::valid, "stave: jvp: the function cannot be called with these arguments");
  if constexpr (matching && Called::valid) {
    using Result = typename Called::Result;
    static_assert(is_tree<Result>, "stave: jvp: the function must return a tree of tensors (see stave/core/tree.h)");
    if constexpr (is_tree<Result>) {
      const auto leaves = [](const auto& tuple) {
        return std::apply([](const auto&... arg) { return stave_detail::selected_leaves(Selected(), arg...); }, tuple);
      };
      std::optional<Result> result;
      const FlatJvp flat = jvp_flat(
          [&](std::span<const Tensor> inputs) {
            result.emplace(std::apply(
                [&](const auto&... arg) { return stave_detail::call_with_leaves(Selected(), f, inputs, arg...); },
                primals));
            return stave_detail::flat_outputs(*result);
          },
          leaves(primals), leaves(tangents));
      return std::pair<Result, Result>(stave_detail::with_leaves(*result, flat.outputs),
                                       stave_detail::with_leaves(*result, flat.tangents));
    }
  }
}

/// The same for one argument.
template <class F, class P>
  requires(!stave_detail::is_std_tuple<P>)
auto jvp(F&& f, const P& primal, const P& tangent) {
  static_assert(is_tree<P>, "stave: jvp: the primal is not a tree of tensors (see stave/core/tree.h)");
  if constexpr (is_tree<P>) return jvp(std::forward<F>(f), std::tuple<P>(primal), std::tuple<P>(tangent));
}

#define STAVE_NAMES(Name)                                                                                   \
  inline std::pair<Tensor, Tensor> jvp(stave_detail::Name f, const Tensor& primal, const Tensor& tangent) { \
    return jvp<stave_detail::Name&>(f, std::tuple(primal), std::tuple(tangent));                            \
  }
STAVE_NAMES(Unary)
STAVE_NAMES(UnaryRef)
#undef STAVE_NAMES

}  // namespace stave
