// linearize: a function's value, and its derivative at that point as a linear function, computed once and used often.
//
//   auto [y, df] = linearize(f, x);
//   Tensor dy = df(dx), other = df(dx2);      // without running f again
#pragma once

#include <stave/handlers/carried_trees.h>

namespace stave {

/// The linear part of linearize_flat: tangents of the inputs (undefined: zero) -> tangents of the outputs.
class FlatLinear {
 public:
  std::vector<Tensor> operator()(std::span<const Tensor> tangents) const;

 private:
  friend struct FlatLinearized;
  friend struct FlatLinearized linearize_flat(FlatFunction, std::span<const Tensor>);
  FlatPullback transposed_;
  std::vector<bool> has_tangent_;  // of each output
  std::vector<Tensor> zeros_;      // of the others
};
struct FlatLinearized {
  Outputs outputs;
  FlatLinear linear;
};
/// f at `primals`, and its derivative there: the pullback, which is linear, pulled back.
FlatLinearized linearize_flat(FlatFunction f, std::span<const Tensor> primals);

/// See linearize.
template <class Result, class... Arguments>
class Linear {
 public:
  Linear(FlatLinear flat, Result structure) : flat_(std::move(flat)), structure_(std::move(structure)) {}

  /// A tangent of the structure, shapes and dtypes of each differentiated argument -> the result's.
  Result operator()(const Arguments&... tangents) const {
    std::vector<Tensor> leaves;
    (visit_tensors(tangents, [&](const Tensor& leaf) { leaves.push_back(leaf); }), ...);
    return stave_detail::with_leaves(structure_, flat_(leaves));
  }

 private:
  FlatLinear flat_;
  Result structure_;
};

/// f(args...), and the linear map of tangents there; all arguments must be trees of floating tensors. The map may be called any
/// number of times, under transforms as well.
template <class F, class... A>
auto linearize(F&& f, A&&... args) {
  using Selected = stave_detail::SelectTrees<A...>;
  using Called = stave_detail::Calls<std::remove_reference_t<F>, Selected, A...>;
  static_assert(Called::valid, "stave: linearize: the function cannot be called with these arguments");
  static_assert((is_tree<A> && ...), "stave: linearize: an argument is not a tree of tensors (see stave/core/tree.h)");
  if constexpr (Called::valid && (is_tree<A> && ...)) {
    using Result = typename Called::Result;
    static_assert(is_tree<Result>,
                  "stave: linearize: the function must return a tree of tensors (see stave/core/tree.h)");
    std::optional<Result> result;
    FlatLinearized flat = linearize_flat(
        [&](std::span<const Tensor> inputs) {
          result.emplace(stave_detail::call_with_leaves(Selected(), f, inputs, std::forward<A>(args)...));
          return stave_detail::flat_outputs(*result);
        },
        stave_detail::selected_leaves(Selected(), args...));
    using Map = Linear<Result, stave_detail::Decayed<A>...>;
    return std::pair<Result, Map>(stave_detail::with_leaves(*result, flat.outputs),
                                  Map(std::move(flat.linear), stave_detail::structure_of(*result)));
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
