// linearize: returns a function's value and its derivative at that point as a linear function,
// which is computed once and may be applied many times.
//
//   auto [y, df] = linearize(f, x);
//   Tensor dy = df(dx), other = df(dx2);      // without running f again
#pragma once

#include <stave/handlers/transforms/higher_order_trees.h>

namespace stave {

/// Maps tangents of the inputs (undefined: zero) to tangents of the outputs. It is the linear part
/// of linearize_flat's result.
class FlatLinear {
 public:
  std::vector<Tensor> operator()(std::span<const Tensor> tangents) const;

 private:
  friend struct FlatLinearized;
  friend struct FlatLinearized linearize_flat(FlatFunction, std::span<const Tensor>, InputNames);
  FlatPullback transposed_;
  std::vector<bool> has_tangent_;  // entry i: whether output i has a tangent
  std::vector<Tensor> zeros_;      // the tangents of the outputs that have none
};
struct FlatLinearized {
  Outputs outputs;
  FlatLinear linear;
};
/// Returns f at `primals` and its derivative there. The derivative is the transpose
/// of the pullback: the pullback is linear, so its own vjp maps tangents forward.
FlatLinearized linearize_flat(FlatFunction f, std::span<const Tensor> primals, InputNames names = numbered_inputs);

/// The linear map that linearize returns.
template <class Result, class... Arguments>
class LinearMap {
 public:
  LinearMap(FlatLinear flat, Result structure, std::tuple<Arguments...> arguments)
      : flat_(std::move(flat)), structure_(std::move(structure)), arguments_(std::move(arguments)) {}

  /// Returns the tangent of the result, given a tangent for each argument. Each tangent must have
  /// the structure, shapes and dtypes of its argument.
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
  Result structure_;  // this and arguments_ are structures without tensors
  std::tuple<Arguments...> arguments_;
};

/// Returns f(args...) and the linear map of tangents at that point. All arguments must be trees
/// of floating tensors. The map may be called any number of times, also under transforms.
/// f is called during linearize and not kept, as with vjp (vjp.h).
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
