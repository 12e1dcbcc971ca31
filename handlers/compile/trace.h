// trace: records the operations that a function performs as a Program.
//
//   const auto p = trace(loss)(w, x);             // loss runs once, for real
//   std::cout << p;                               // its operations (program.h)
//   Tensor l = p(w2, x2);                         // performs them with other values:
//                                                 // grad(p), vmap(p), debug(p), trace(grad(p))
//
// - Tensors in arguments, and the data of keys, become inputs. Other arguments, and captured
//   values, are constants. A Program is called only with those arguments that are trees.
// - Transforms that the function applies are part of the recording: trace(grad(loss)) holds the
//   forward and the backward pass.
// - Values are concrete: if, while and item() work. The Program holds the path that was taken,
//   and the values that were read on it. A replay that reads another value throws an error, so it
//   never computes something else than the function would. compile (compile.h) records all paths.
// - checkpoint, custom_vjp, custom_jvp and custom_vmap stay one instruction, with their rules.
//   A rule runs, and is recorded, when a derivative of the Program or vmap first needs it,
//   because it may call the function whose rule it is. Objects that the rule captures by reference
//   must live until then.
// - Other actions of the function (printing, counting, effects of your own) happen while it is
//   traced, and not when the Program runs.
#pragma once

#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave_detail {

/// The tensors of those arguments that are trees, and the data of keys in them.
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

/// A Program that returns its results in the structure of the traced function's result.
template <class Result>
class Traced : public Program {
 public:
  Traced(Program program, Result structure) : Program(std::move(program)), structure_(std::move(structure)) {}

  /// Performs the program. Takes the trees in the order in which the function took them,
  /// with the same shapes and dtypes.
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
  /// Returns the same function, computed by another program, such as optimized(*this).
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

/// Returns f as a callable that returns the Traced program of one call. Results of f must be trees.
/// Throws TransformError for more than a million operations; loops are unrolled, except those of
/// loop and scan (handlers/transforms/loop.h). The program does not call f. It keeps copies of the
/// functions that f gives to custom_vjp and the like, checkpoint and host_call, and these should
/// capture by value.
template <class F>
auto trace(F f) {
  return stave_detail::TraceOf<F>(std::move(f));
}

#define STAVE_NAMES(Name) \
  inline auto trace(stave_detail::Name f) { return stave_detail::TraceOf<stave_detail::Name>(f); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
