// Reverse mode: grad, value_and_grad, vjp.
//
//   auto dw = grad(loss)(w, x, y);                        // d loss / d argument 0, of w's type
//   auto [gw, gx] = grad<0, 1>(loss)(w, x, y);            // by several arguments: a std::tuple
//   auto [value, g] = value_and_grad(loss)(w, x, y);
//   auto [out, pullback] = vjp(f, x, y);                  // pullback(cotangent) -> std::tuple of cotangents, reusable
//
// Arguments and results are trees (core/tree.h); arguments that are not pass through untouched. Under grad, values stay
// real: item(), printing, if, while and recursion work inside f. The mechanism is in vjp.h.
#pragma once

#include <optional>

#include <stave/handlers/arguments.h>
#include <stave/handlers/vjp.h>

namespace stave {

/// What value_and_grad returns. `Grad` is the type of the argument, or a tuple of several's.
template <class Grad>
struct ValueAndGrad {
  Tensor value;
  Grad grad;
};
template <class Grad, class Aux>
struct ValueGradAndAux {
  Tensor value;
  Grad grad;
  Aux aux;
};

}  // namespace stave

namespace stave_detail {

// What a differentiated function may return: Tensor, or pair<Tensor, Aux>.
template <class R>
struct LossResult {
  static constexpr bool valid = false;
};
template <>
struct LossResult<Tensor> {
  static constexpr bool valid = true;
  struct Aux {};
  static constexpr bool has_aux = false;
};
template <class A>
struct LossResult<std::pair<Tensor, A>> {
  static constexpr bool valid = true;
  using Aux = A;
  static constexpr bool has_aux = true;
};

/// Throws TransformError unless `loss` is a single floating number.
void check_loss(const Tensor& loss, const char* transform);
Tensor one_like(const Tensor& loss);
[[noreturn]] void fail_no_tensors(const char* transform);

// The cotangent of an argument: of its type, or std::monostate for one that is no tree.
template <class A>
using CotangentOf = std::conditional_t<is_tree<A>, Decayed<A>, std::monostate>;

// An argument without its tensors: the structure that cotangents are put into. Taken before f may move the argument away.
template <class A>
CotangentOf<A> structure_of(const A& arg) {
  if constexpr (is_tree<A>) {
    auto structure = arg;
    visit_tensors(structure, [](Tensor& leaf) { leaf = Tensor(); });
    return structure;
  } else {
    return {};
  }
}

// Trees of gradients of the structures of the differentiated arguments, from their flat list; one alone is no tuple.
template <class... S>
auto gradient_trees(const std::vector<Tensor>& leaves, std::tuple<S...> structures) {
  std::size_t next = 0;
  visit_tensors(structures, [&](Tensor& leaf) { leaf = leaves[next++]; });
  if constexpr (sizeof...(S) == 1) return std::get<0>(std::move(structures));
  else return structures;
}

// The leaves come argument by argument in the order of the call, so argument numbers must rise.
template <int... argnums>
constexpr bool rising() {
  int previous = -1;
  return ((std::exchange(previous, argnums) < argnums) && ...);
}

template <class F, int... argnums>
class ValueAndGradOf {
 public:
  explicit ValueAndGradOf(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    constexpr bool numbers = ((argnums >= 0 && argnums < static_cast<int>(sizeof...(A))) && ...);
    static_assert(numbers, "stave: grad: an argument number is out of range of the call's arguments");
    static_assert(rising<argnums...>(), "stave: grad: argument numbers must rise, as in grad<0, 2>");
    if constexpr (numbers) {
      constexpr bool trees = (is_tree<std::tuple_element_t<argnums, std::tuple<A...>>> && ...);
      static_assert(trees, "stave: grad: a differentiated argument is not a tree of tensors (see stave/core/tree.h)");
      using Selected = Select<sizeof...(A), argnums...>;
      constexpr bool callable = Calls<const F, Selected, A...>::valid;
      static_assert(callable, "stave: grad: the function cannot be called with these arguments");
      if constexpr (trees && callable) {
        using Result = typename Calls<const F, Selected, A...>::Result;
        static_assert(LossResult<Result>::valid,
                      "stave: grad: the function must return Tensor or std::pair<Tensor, Aux>");
        if constexpr (LossResult<Result>::valid) return run<Result>(Selected(), std::forward<A>(args)...);
      }
    }
  }

 private:
  template <class Result, class Selected, class... A>
  auto run(Selected selected, A&&... args) const {
    using Loss = LossResult<Result>;
    std::optional<typename Loss::Aux> aux;
    const std::vector<Tensor> leaves = selected_leaves(selected, args...);
    if (leaves.empty()) fail_no_tensors("grad");
    const auto arguments = std::tie(args...);
    std::tuple<Decayed<std::tuple_element_t<argnums, std::tuple<A...>>>...> structures(
        structure_of(std::get<argnums>(arguments))...);
    FlatVjp vjp = vjp_flat(
        [&](std::span<const Tensor> inputs) -> Outputs {
          Result result = call_with_leaves(selected, f_, inputs, std::forward<A>(args)...);
          if constexpr (Loss::has_aux) {
            aux.emplace(std::move(result.second));
            return std::move(result.first);
          } else {
            return result;
          }
        },
        leaves, "grad");
    Tensor value = std::move(vjp.outputs[0]);
    check_loss(value, "grad");
    const Tensor seed = one_like(value);
    auto grad = gradient_trees(vjp.pullback.consume({&seed, 1}), std::move(structures));
    if constexpr (Loss::has_aux)
      return ValueGradAndAux<decltype(grad), typename Loss::Aux>{value, grad, std::move(*aux)};
    else return ValueAndGrad<decltype(grad)>{value, grad};
  }

  F f_;
};

template <class F, int... argnums>
class GradOf {
 public:
  explicit GradOf(F f) : value_and_grad_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (requires { value_and_grad_(std::forward<A>(args)...).grad; }) {
      auto result = value_and_grad_(std::forward<A>(args)...);
      if constexpr (requires { result.aux; }) return std::pair{std::move(result.grad), std::move(result.aux)};
      else return std::move(result.grad);
    }
  }

 private:
  ValueAndGradOf<F, argnums...> value_and_grad_;
};

template <class F, int... argnums>
auto make_grad(F f) {
  if constexpr (sizeof...(argnums) == 0) return GradOf<F, 0>(std::move(f));
  else return GradOf<F, argnums...>(std::move(f));
}
template <class F, int... argnums>
auto make_value_and_grad(F f) {
  if constexpr (sizeof...(argnums) == 0) return ValueAndGradOf<F, 0>(std::move(f));
  else return ValueAndGradOf<F, argnums...>(std::move(f));
}

}  // namespace stave_detail

namespace stave {

/// The gradient of a function that returns one number, by argument 0 or by `argnums`: a callable with f's arguments. The
/// result has the argument's type and dtypes; a tuple for several. If f returns std::pair<Tensor, Aux>: std::pair of the
/// gradient and aux. Throws TransformError for a loss that is not a single number, DtypeError for one, or an argument, that is
/// not of a floating dtype.
template <int... argnums, class F>
auto grad(F f) {
  return stave_detail::make_grad<F, argnums...>(std::move(f));
}

/// As grad, and the value: {value, grad}, or {value, grad, aux}.
template <int... argnums, class F>
auto value_and_grad(F f) {
  return stave_detail::make_value_and_grad<F, argnums...>(std::move(f));
}

// Names of overloaded functions: grad(sum), grad<1>(maximum).
#define STAVE_NAMES(Name)                                                        \
  template <int... argnums>                                                      \
  auto grad(stave_detail::Name f) {                                              \
    return stave_detail::make_grad<stave_detail::Name, argnums...>(f);           \
  }                                                                              \
  template <int... argnums>                                                      \
  auto value_and_grad(stave_detail::Name f) {                                    \
    return stave_detail::make_value_and_grad<stave_detail::Name, argnums...>(f); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave

// ---- vjp -------------------------------------------------------------------------------------------------

namespace stave {

/// Maps a cotangent of f's result to the cotangents of its arguments, at the point where vjp was called. May be called any
/// number of times; copies share the tape, which lives as long as the last of them.
template <class Result, class... Arguments>
class Pullback {
 public:
  Pullback(FlatPullback flat, std::tuple<Arguments...> structure)
      : flat_(std::move(flat)), structure_(std::move(structure)) {}

  /// A cotangent of the structure, shapes and dtypes of the result -> a tuple of cotangents, one for each argument.
  std::tuple<Arguments...> operator()(const Result& cotangent) const {
    const Outputs leaves = stave_detail::flat_outputs(cotangent);
    const std::vector<Tensor> inputs = flat_(leaves);
    std::tuple<Arguments...> result = structure_;
    std::size_t next = 0;
    visit_tensors(result, [&](Tensor& leaf) { leaf = inputs[next++]; });
    return result;
  }

 private:
  FlatPullback flat_;
  std::tuple<Arguments...> structure_;
};

/// f(args...), and its pullback there. Every argument that is a tree is differentiated; f returns a tree.
template <class F, class... A>
auto vjp(F&& f, A&&... args) {
  using Selected = stave_detail::SelectTrees<A...>;
  using Called = stave_detail::Calls<std::remove_reference_t<F>, Selected, A...>;
  static_assert(Called::valid, "stave: vjp: the function cannot be called with these arguments");
  if constexpr (Called::valid) {
    using Result = typename Called::Result;
    static_assert(is_tree<Result>, "stave: vjp: the function must return a tree of tensors (see stave/core/tree.h)");
    if constexpr (is_tree<Result>) {
      std::optional<Result> result;
      std::tuple<stave_detail::CotangentOf<A>...> structure(stave_detail::structure_of<A>(args)...);
      FlatVjp flat = vjp_flat(
          [&](std::span<const Tensor> inputs) {
            result.emplace(stave_detail::call_with_leaves(Selected(), f, inputs, std::forward<A>(args)...));
            return stave_detail::flat_outputs(*result);
          },
          stave_detail::selected_leaves(Selected(), args...), "vjp");
      using Pull = Pullback<Result, stave_detail::CotangentOf<A>...>;
      return std::pair<Result, Pull>(stave_detail::with_leaves(*result, flat.outputs),
                                     Pull(std::move(flat.pullback), std::move(structure)));
    }
  }
}

#define STAVE_NAMES(Name)                                               \
  template <class... A>                                                 \
  auto vjp(stave_detail::Name f, A&&... args) {                         \
    return vjp<stave_detail::Name&, A...>(f, std::forward<A>(args)...); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
