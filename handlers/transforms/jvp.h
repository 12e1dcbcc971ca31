// Forward mode: jvp returns a function's result and its derivative along a direction.
//
//   auto [out, tangent] = jvp(f, x, v);
//   // several arguments
//   auto [out, tangent] = jvp(f, std::make_tuple(x, y), std::make_tuple(dx, dy));
//
// Primals, tangents and results are trees. A primal in a std::tuple that is not a tree is passed
// to f unchanged. Values stay concrete under jvp: item(), printing and control flow work.
// The mechanism is in jvp_flat.h.
#pragma once

#include <optional>

#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/jvp_flat.h>

namespace stave {

/// Returns f(primals...) and its derivative along the tangents, both of the type that f returns.
/// A tangent must have its primal's structure, shapes, dtypes and devices: ShapeError, DtypeError
/// or DeviceError is thrown otherwise. An empty Tensor in a tangent means zero; any other tangent
/// of a tensor that is not floating throws DtypeError.
template <class F, class... P, class... T>
auto jvp(F&& f, const std::tuple<P...>& primals, const std::tuple<T...>& tangents) {
  using namespace stave_detail;
  constexpr bool matching = std::is_same_v<std::tuple<P...>, std::tuple<T...>>;
  static_assert(matching, "stave: jvp: tangents must have the types of the primals");
  using Selected = SelectTrees<P...>;
  using Function = std::remove_reference_t<F>;
  if constexpr (matching && can_call<Returns::tree, Function, Selected, const P&...>) {
    using Result = typename Calls<Function, Selected, const P&...>::Result;
    if constexpr (is_tree<std::tuple<P...>>)
      check_same_structure(same_structure(primals, tangents), "jvp: primals and tangents");
    const auto leaves = [](const auto& tuple) {
      return std::apply([](const auto&... arg) { return selected_leaves(Selected(), arg...); }, tuple);
    };
    std::optional<Result> result;
    const FlatJvp flat = std::apply(
        [&](const auto&... arg) {
          return jvp_flat(flat_function(Selected(), f, result, arg...), leaves(primals), leaves(tangents),
                          [&](std::size_t i) { return leaf_name(Selected(), i, arg...); });
        },
        primals);
    return std::pair<Result, Result>(with_leaves(*result, flat.outputs), with_leaves(*result, flat.tangents));
  }
}

/// Returns f(primal) and its derivative along the tangent, for a function of one argument.
template <class F, class P>
  requires(!stave_detail::is_std_tuple<P>)
auto jvp(F&& f, const P& primal, const P& tangent) {
  constexpr bool tree = is_tree<P>;
  static_assert(tree || std::is_arithmetic_v<P>,
                "stave: jvp: the primal is not a tree of tensors (see stave/core/ops/tree.h)");
  static_assert(!std::is_arithmetic_v<P>, "stave: jvp: the primal is a number: give a tensor, such as tensor(2.)");
  if constexpr (tree) return jvp<F>(std::forward<F>(f), std::tuple<const P&>(primal), std::tuple<const P&>(tangent));
}

#define STAVE_NAMES(Name)                                               \
  template <class P>                                                    \
  auto jvp(stave_detail::Name f, const P& primals, const P& tangents) { \
    return jvp<stave_detail::Name&>(f, primals, tangents);              \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
