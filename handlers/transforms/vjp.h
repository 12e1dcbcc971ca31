// Reverse mode at a point: vjp returns a function's result and its pullback, which maps cotangents
// of the result to cotangents of the arguments.
//
//   auto [out, pullback] = vjp(f, x, y);
//   auto [dx, dy] = pullback(cotangent);                  // any number of times, on any thread
//
// Arguments and results are trees (core/ops/tree.h). An argument that is not a tree is passed
// to f unchanged. The mechanism is in vjp_flat.h.
#pragma once

#include <optional>

#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

// The type of an argument's cotangent: the argument's own type, or std::monostate
// if it is not a tree.
template <class A>
using CotangentOf = std::conditional_t<is_tree<A>, Decayed<A>, std::monostate>;

// Returns the structure that the cotangents are put into. It must be called before f can
// move the argument away.
template <class A>
CotangentOf<A> cotangent_structure(const A& arg) {
  if constexpr (is_tree<A>) return structure_of(arg);
  else return {};
}

}  // namespace stave_detail

namespace stave {

/// Maps a cotangent of f's result to the cotangents of f's arguments, at the point where vjp
/// was called. It may be called any number of times. Copies share the tape, which lives as long
/// as the last of them.
template <class Result, class... Arguments>
class Pullback {
 public:
  Pullback(FlatPullback flat, Result result, std::tuple<Arguments...> arguments)
      : flat_(std::move(flat)), result_(std::move(result)), arguments_(std::move(arguments)) {}

  /// Returns a tuple of cotangents, one for each argument: std::monostate for an argument that is
  /// not a tree. `cotangent` must have the structure, shapes, dtypes and devices of f's result.
  std::tuple<Arguments...> operator()(const Result& cotangent) const {
    stave_detail::check_same_structure(stave_detail::same_structure(result_, cotangent),
                                       "vjp: the result and the cotangent");
    return stave_detail::with_leaves(arguments_, flat_(stave_detail::flat_outputs(cotangent)));
  }

 private:
  FlatPullback flat_;
  Result result_;  // this and arguments_ are structures without tensors
  std::tuple<Arguments...> arguments_;
};

/// Returns f(args...) and its pullback at that point. The pullback returns a tuple even for one
/// argument: const auto [dx] = pullback(dy). Every argument that is a tree is differentiated; f
/// must return a tree. Throws DtypeError if such an argument holds a tensor that is not floating.
/// f is called during vjp and is not kept. Functions inside f that the backward pass calls (of
/// checkpoint, loop with snapshots, custom rules) live as long as the pullback.
/// Options come before the arguments: vjp(f, {.recompute = Recompute::never}, x).
template <class F, class... A>
auto vjp(F&& f, GradOptions options, A&&... args) {
  using namespace stave_detail;
  using Selected = SelectTrees<A...>;
  using Function = std::remove_reference_t<F>;
  if constexpr (can_call<Returns::tree, Function, Selected, A...>) {
    using Result = typename Calls<Function, Selected, A...>::Result;
    std::optional<Result> result;
    std::tuple<CotangentOf<A>...> structure(cotangent_structure<A>(args)...);
    FlatVjp flat = vjp_flat(
        flat_function(Selected(), f, result, std::forward<A>(args)...), selected_leaves(Selected(), args...), "vjp",
        [&](std::size_t i) { return leaf_name(Selected(), i, args...); }, options);
    using Pull = Pullback<Result, CotangentOf<A>...>;
    return std::pair<Result, Pull>(with_leaves(*result, flat.outputs),
                                   Pull(std::move(flat.pullback), structure_of(*result), std::move(structure)));
  }
}
template <class F, class... A>
auto vjp(F&& f, A&&... args) {
  return vjp<F, A...>(std::forward<F>(f), GradOptions(), std::forward<A>(args)...);
}

#define STAVE_NAMES(Name)                                               \
  template <class... A>                                                 \
  auto vjp(stave_detail::Name f, A&&... args) {                         \
    return vjp<stave_detail::Name&, A...>(f, std::forward<A>(args)...); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
