// From functions of trees to the functions that operations carry (core/carried.h): what checkpoint and the custom rules share.
#pragma once

#include <memory>
#include <optional>

#include <stave/core/ops/function.h>
#include <stave/handlers/arguments.h>
#include <stave/handlers/grad.h>

namespace stave_detail {

// How an argument is kept for later runs: as a copy, or moved; but a named object that cannot be copied by reference.
template <class A>
using KeptArgument =
    std::conditional_t<std::is_lvalue_reference_v<A> && !is_tree<A> && !std::is_copy_constructible_v<Decayed<A>>, A,
                       Decayed<A>>;

// The arguments of one call, which functions of flat lists of their tensors share: they keep all but the tensors.
template <class... A>
class KeptCall {
 public:
  using Selected = SelectTrees<A...>;
  explicit KeptCall(A&&... args)
      : leaves(selected_leaves(Selected(), args...)),
        kept_(std::make_shared<std::tuple<KeptArgument<A>...>>(std::forward<A>(args)...)) {
    for_trees([](auto& tree) { visit_tensors(tree, [](Tensor& leaf) { leaf = Tensor(); }); });
  }

  /// f, with these tensors in place of the call's.
  template <class F>
  auto call(F& f, std::span<const Tensor> tensors) const {
    return std::apply([&](auto&... args) { return call_with_leaves(Selected(), f, tensors, static_cast<A&>(args)...); },
                      *kept_);
  }
  /// g(arguments..., tangents...): both from the list, of the second only the trees.
  template <class G>
  auto call_twice(G& g, std::span<const Tensor> tensors) const {
    return call_second(g, tensors, std::index_sequence_for<A...>());
  }
  /// For each argument that is a tree, f(tree).
  template <class F>
  void for_trees(F f) const {
    const auto each = [&](auto& arg) {
      if constexpr (is_tree<Decayed<decltype(arg)>>) f(arg);
    };
    std::apply([&](auto&... args) { (each(args), ...); }, *kept_);
  }

  Inputs inputs() const { return Inputs(leaves.begin(), leaves.end()); }
  std::vector<Tensor> leaves;

 private:
  // Trees alone, as a tuple.
  template <std::size_t... i>
  auto tangents(std::span<const Tensor> tensors, std::index_sequence<i...>) const {
    auto trees = std::tuple_cat(tree_of(std::get<i>(*kept_))...);
    std::size_t next = 0;
    visit_tensors(trees, [&](Tensor& leaf) { leaf = tensors[next++]; });
    return trees;
  }
  template <class T>
  static auto tree_of(const T& arg) {
    if constexpr (is_tree<T>) return std::tuple<T>(arg);
    else return std::tuple<>();
  }
  template <class G, std::size_t... i>
  auto call_second(G& g, std::span<const Tensor> tensors, std::index_sequence<i...> indices) const {
    auto trees = tangents(tensors.subspan(leaves_count_), indices);
    const auto with_tangents = [&](auto&&... args) {
      return std::apply([&](auto&... tangent) { return std::invoke(g, args..., tangent...); }, trees);
    };
    return call(with_tangents, tensors.first(leaves_count_));
  }

  std::shared_ptr<std::tuple<KeptArgument<A>...>> kept_;
  std::size_t leaves_count_ = leaves.size();
};

// The structure of a function's results, known when it has run.
template <class Result>
class ResultStructure {
 public:
  /// The tensors of a result; keeps the rest.
  Outputs flat(const Result& result) const {
    *structure_ = structure_of(result);
    return flat_outputs(result);
  }
  template <class Tensors>
  Result tree(const Tensors& outputs) const {
    return with_leaves(**structure_, outputs);
  }

 private:
  std::shared_ptr<std::optional<Result>> structure_ = std::make_shared<std::optional<Result>>();
};

template <class F, class... A>
using CarriedCall = Calls<F, SelectTrees<A...>, Decayed<A>&...>;

}  // namespace stave_detail
