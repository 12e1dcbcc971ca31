// trace: what a function performs, as a Program.
//
//   const auto p = trace(loss)(w, x);             // loss runs once, for real
//   std::cout << p;                               // its operations (program.h)
//   Tensor l = p(w2, x2);                         // performs them, with other values: grad(p), vmap(p), debug(p), trace(grad(p))
//
// - Leaves of arguments, and the data of keys, become inputs. Other arguments, and what the function captures, are constants: a
//   Program is called with the arguments that are trees alone.
// - Transforms inside have done their work: trace(grad(loss)) holds the forward and the backward pass.
// - Values are real, so if, while and item() work: the Program holds the way that was taken, and what was read for it. A replay that
//   would read another value throws: it never computes what the function would not. compile (compile.h) holds all ways.
// - checkpoint, custom_vjp, custom_jvp and custom_vmap stay one instruction, with their rules. A rule runs, and is recorded, when a
//   derivative of the Program first needs it, or vmap does: it may call the function whose rule it is. What it captures by reference
//   must live until then.
// - What a function does besides (printing, counters, effects of your own) is done while it is traced, and not by the Program.
#pragma once

#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave_detail {

/// The tensors of the arguments that are trees, and the data of their keys.
template <class... A>
std::vector<Tensor> all_leaves(const A&... args) {
  std::vector<Tensor> leaves;
  [[maybe_unused]] const auto collect = [&](const auto& arg) {
    if constexpr (is_tree<decltype(arg)>)
      for (Tensor& leaf : flat_outputs<true>(arg)) leaves.push_back(std::move(leaf));
  };
  (collect(args), ...);
  return leaves;
}

}  // namespace stave_detail

namespace stave {

/// A Program that gives what the traced function gives.
template <class Result>
class Traced : public Program {
 public:
  Traced(Program program, Result structure) : Program(std::move(program)), structure_(std::move(structure)) {}

  /// The trees in the order in which the function was given them, of the same shapes and dtypes.
  template <class... A>
  Result operator()(A&&... args) const {
    static_assert((is_tree<A> && ...),
                  "stave: a Program takes the arguments that are trees of tensors; others are constants in it");
    const std::vector<Tensor> leaves = stave_detail::all_leaves(args...);
    const Outputs found = Program::operator()(leaves);
    Result result = stave_detail::copy_tree(structure_);
    stave_detail::PutLeaves put{found.data()};
    stave_detail::put_leaves<true>(result, put);
    return result;
  }
  /// The same function by another program, such as optimized(*this).
  Traced with(Program program) const { return Traced(std::move(program), structure_); }

 private:
  Result structure_;
};

}  // namespace stave

namespace stave_detail {

template <class F>
class TraceOf {
 public:
  explicit TraceOf(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = SelectTrees<A...>;
    if constexpr (can_call<Returns::tree, const F, Selected, A...>) {
      using Result = typename Calls<const F, Selected, A...>::Result;
      std::optional<Result> result;
      auto of_trees = flat_function<true>(Selected(), f_, result, std::forward<A>(args)...);
      const auto flat = [&](std::span<const Tensor> inputs) {
        Outputs outputs = of_trees(inputs);
        PutLeaves put{nullptr};
        put_leaves<true>(*result, put);
        return outputs;
      };
      Recording recording = record("trace", flat, all_leaves(args...));
      if (recording.too_long) fail_too_long();
      return Traced<Result>(std::move(recording.program), std::move(*result));
    } else {
      return Refused();
    }
  }

 private:
  F f_;
};

}  // namespace stave_detail

namespace stave {

/// f as a callable that gives the Traced program of one call. Results are trees. Throws TransformError for more than a million operations
/// (loops are unrolled, but for those of repeat: handlers/transforms/repeat.h). The program calls f no more,
/// yet keeps copies of the functions that f gives rules to (custom_vjp ..., checkpoint, host_call):
/// these should capture by value.
template <class F>
auto trace(F f) {
  return stave_detail::TraceOf<F>(std::move(f));
}

#define STAVE_NAMES(Name) \
  inline auto trace(stave_detail::Name f) { return stave_detail::TraceOf<stave_detail::Name>(f); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
