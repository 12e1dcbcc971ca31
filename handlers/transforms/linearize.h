// linearize: a function's value, and its derivative at that point as a linear function, computed once and used often.
//
//   auto [y, df] = linearize(f, x);
//   Tensor dy = df(dx), other = df(dx2);      // without running f again
#pragma once

#include <stave/handlers/transforms/carried_trees.h>

namespace stave {

/// The linear part of linearize_flat: tangents of the inputs (undefined: zero) -> tangents of the outputs.
class FlatLinear {
 public:
  std::vector<Tensor> operator()(std::span<const Tensor> tangents) const;

 private:
  friend struct FlatLinearized;
  friend struct FlatLinearized linearize_flat(FlatFunction, std::span<const Tensor>, InputNames);
  FlatPullback transposed_;
  std::vector<bool> has_tangent_;  // of each output
  std::vector<Tensor> zeros_;      // of the others
};
struct FlatLinearized {
  Outputs outputs;
  FlatLinear linear;
};
/// f at `primals`, and its derivative there: the pullback, which is linear, pulled back.
FlatLinearized linearize_flat(FlatFunction f, std::span<const Tensor> primals, InputNames names = numbered_inputs);

/// See linearize.
template <class Result, class... Arguments>
class LinearMap {
 public:
  LinearMap(FlatLinear flat, Result structure, std::tuple<Arguments...> arguments)
      : flat_(std::move(flat)), structure_(std::move(structure)), arguments_(std::move(arguments)) {}

  /// A tangent of the structure, shapes and dtypes of each differentiated argument -> the result's.
  Result operator()(const Arguments&... tangents) const {
    using namespace stave_detail;
    const bool alike =
        std::apply([&](const auto&... like) { return (same_structure(like, tangents) && ...); }, arguments_);
    check_same_structure(alike, "linearize: arguments and tangents");
    std::vector<Tensor> leaves;
    (visit_tensors(tangents, [&](const Tensor& leaf) { leaves.push_back(leaf); }), ...);
    return with_leaves(structure_, flat_(leaves));
  }

 private:
  FlatLinear flat_;
  Result structure_;  // both without tensors
  std::tuple<Arguments...> arguments_;
};

/// f(args...), and the linear map of tangents there; all arguments must be trees of floating tensors. The map may be called any
/// number of times, under transforms as well. f is called now and not kept, as by vjp (vjp.h).
template <class F, class... A>
auto linearize(F&& f, A&&... args) {
  using namespace stave_detail;
  using Selected = SelectAll<A...>;
  using Function = std::remove_reference_t<F>;
  if constexpr (can_call<Returns::tree, Function, Selected, A...>) {
    using Result = typename Calls<Function, Selected, A...>::Result;
    std::optional<Result> result;
    std::tuple<Decayed<A>...> arguments(structure_of(args)...);
    FlatLinearized flat = linearize_flat(flat_function(Selected(), f, result, std::forward<A>(args)...),
                                         selected_leaves(Selected(), args...),
                                         [&](std::size_t i) { return leaf_name(Selected(), i, args...); });
    using Map = LinearMap<Result, Decayed<A>...>;
    return std::pair<Result, Map>(with_leaves(*result, flat.outputs),
                                  Map(std::move(flat.linear), structure_of(*result), std::move(arguments)));
  }
}

#define STAVE_NAMES(Name)                                                     \
  template <class... A>                                                       \
  auto linearize(stave_detail::Name f, A&&... args) {                         \
    return linearize<stave_detail::Name&, A...>(f, std::forward<A>(args)...); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
