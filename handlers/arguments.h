// From functions of trees to functions of flat lists of tensors, and back: what the templates of all transforms share.
#pragma once

#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <stave/core/op.h>
#include <stave/core/tree.h>

namespace stave_detail {

template <class A>
using Decayed = std::remove_cvref_t<A>;

template <class T>
inline constexpr bool is_std_tuple = false;
template <class... T>
inline constexpr bool is_std_tuple<std::tuple<T...>> = true;

// Argument i of a function under a transform: a copy whose tensors are replaced, if the transform selects it; else as given.
template <bool selected, class A>
using Passed = std::conditional_t<selected, Decayed<A>&, A&&>;
template <bool selected, class A>
using Held = std::conditional_t<selected, Decayed<A>, A&&>;

// Which of the arguments a transform replaces the tensors of.
template <bool... selected>
struct Selection {};

template <int i, int... argnums>
inline constexpr bool is_one_of = ((i == argnums) || ...);
template <class Indices, int... argnums>
struct SelectArguments;
template <std::size_t... i, int... argnums>
struct SelectArguments<std::index_sequence<i...>, argnums...> {
  using type = Selection<is_one_of<static_cast<int>(i), argnums...>...>;
};
/// The arguments `argnums` of n.
template <std::size_t n, int... argnums>
using Select = typename SelectArguments<std::make_index_sequence<n>, argnums...>::type;
/// Those that are trees.
template <class... A>
using SelectTrees = Selection<is_tree<A>...>;

// Whether F takes these arguments under a transform, and what it returns.
template <class F, class S, class... A>
struct Calls;
template <class F, bool... selected, class... A>
struct Calls<F, Selection<selected...>, A...> {
  static constexpr bool valid = false;
};
template <class F, bool... selected, class... A>
  requires std::is_invocable_v<F&, Passed<selected, A>...>
struct Calls<F, Selection<selected...>, A...> {
  static constexpr bool valid = true;
  using Result = std::remove_cvref_t<std::invoke_result_t<F&, Passed<selected, A>...>>;
};

/// The tensors of the selected arguments, in order.
template <bool... selected, class... A>
std::vector<Tensor> selected_leaves(Selection<selected...>, const A&... args) {
  std::vector<Tensor> leaves;
  [[maybe_unused]] const auto collect = [&]<bool s>(std::bool_constant<s>, const auto& arg) {
    if constexpr (s) visit_tensors(arg, [&](const Tensor& leaf) { leaves.push_back(leaf); });
  };
  (collect(std::bool_constant<selected>(), args), ...);
  return leaves;
}

/// f(args...), with `leaves` for the tensors of the selected arguments.
template <bool... selected, class F, class... A>
auto call_with_leaves(Selection<selected...>, F& f, std::span<const Tensor> leaves, A&&... args) {
  std::tuple<Held<selected, A>...> held(std::forward<A>(args)...);
  std::size_t next = 0;
  [[maybe_unused]] const auto replace = [&]<bool s>(std::bool_constant<s>, auto& arg) {
    if constexpr (s) visit_tensors(arg, [&](Tensor& leaf) { leaf = leaves[next++]; });
  };
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    (replace(std::bool_constant<selected>(), std::get<i>(held)), ...);
    return std::invoke(f, static_cast<Passed<selected, A>>(std::get<i>(held))...);
  }(std::index_sequence_for<A...>());
}

/// The tensors of a tree as outputs of a flat function.
template <class T>
Outputs flat_outputs(const T& tree) {
  Outputs outputs;
  visit_tensors(tree, [&](const Tensor& leaf) { outputs.push_back(leaf); });
  return outputs;
}

}  // namespace stave_detail

namespace stave_detail {

// A function given by its name. No plain pointer: to that a generic lambda would convert, which instantiates its body for
// tensors, whatever trees it is for.
template <class Signature>
class Named;
template <class... A>
class Named<Tensor(A...)> {
 public:
  Named(Tensor (*function)(A...)) noexcept : function_(function) {}
  Tensor operator()(A... args) const { return function_(std::forward<A>(args)...); }

 private:
  Tensor (*function_)(A...);
};

// The types among which names of overloaded functions, as in grad(sum) or vmap(sin), choose.
using Unary = Named<Tensor(Tensor)>;
using UnaryRef = Named<Tensor(const Tensor&)>;
using Binary = Named<Tensor(Operand, Operand)>;
using BinaryRef = Named<Tensor(const Tensor&, const Tensor&)>;

}  // namespace stave_detail

/// X(Name) for each of them.
#define STAVE_OVERLOADED_NAMES(X) X(Unary) X(UnaryRef) X(Binary) X(BinaryRef)
