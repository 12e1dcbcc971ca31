// Converts functions of trees to the higher-order operation `call` (core/op/higher_order.h), with
// rules of their own. checkpoint, the custom rules, host_call and loop share it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <stave/core/op/function.h>
#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/stored_arguments.h>

namespace stave_detail {

// The form in which an argument is kept for later runs: a copy, or the moved argument.
// A named object that cannot be copied is kept by reference.
template <class A>
using KeptArgument = std::conditional_t<std::is_lvalue_reference_v<A> && !is_tree<A> &&
                                            !std::is_copy_constructible_v<StoredArgument<Decayed<A>>>,
                                        A, StoredArgument<Decayed<A>>>;

// The arguments of one call, separated into their tensors (`leaves`) and the rest. Copies share the
// rest. The functions of an operation hold copies, and take their tensors as flat lists. A caller
// should clear `leaves` before it makes such copies, because each copy keeps these tensors alive.
template <class... A>
class KeptCall {
 public:
  using Selected = SelectTrees<A...>;
  explicit KeptCall(A&&... args)
      : leaves(selected_leaves(Selected(), args...)),
        kept_(std::make_shared<std::tuple<KeptArgument<A>...>>(hold<is_tree<A>, A>(std::forward<A>(args))...)) {
    for_trees([](auto& tree) { visit_tensors(tree, [](Tensor& leaf) { leaf = Tensor(); }); });
  }

  /// Returns f(arguments...), with `tensors` in place of the tensors of the call.
  template <class F>
  auto call(F& f, std::span<const Tensor> tensors) const {
    return std::apply(
        [&](auto&... args) { return call_with_leaves(Selected(), f, tensors, static_cast<A&>(passed(args))...); },
        *kept_);
  }
  /// Returns g(arguments..., tangents...). Only arguments that are trees have tangents.
  template <class G>
  auto call_with_tangents(G& g, std::span<const Tensor> primals, std::span<const Tensor> tangents) const {
    auto trees = trees_of(tangents);
    const auto both = [&](auto&&... args) {
      return std::apply([&](auto&... tangent) { return std::invoke(g, args..., tangent...); }, trees);
    };
    return call(both, primals);
  }
  /// Calls f(tree) for each argument that is a tree.
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
  // Returns the arguments that are trees as a tuple, filled with these tensors.
  auto trees_of(std::span<const Tensor> tensors) const {
    auto trees = std::apply([](const auto&... args) { return std::tuple_cat(tree_of(args)...); }, *kept_);
    std::size_t next = 0;
    visit_tensors(trees, [&](Tensor& leaf) { leaf = tensors[next++]; });
    return trees;
  }
  template <class T>
  static auto tree_of(const T& arg) {
    if constexpr (is_tree<T>) return std::tuple<T>(copy_tree(arg));
    else return std::tuple<>();
  }
  std::shared_ptr<std::tuple<KeptArgument<A>...>> kept_;
};

// The structure of a function's results. It is known once the function has run, and must be
// the same in each run: another number of tensors throws TransformError. Copies share it, also
// on several threads. If `keys`, the tensors include the data of random-number keys.
template <class Result, bool keys = false>
class ResultStructure {
 public:
  explicit ResultStructure(const char* name) : name_(name) {}
  /// Returns the tensors of a result, and stores the structure of the first result.
  Outputs flat(const Result& result) const {
    Outputs leaves = flat_outputs<keys>(result);
    const std::lock_guard<std::mutex> lock(known_->mutex);
    if (!known_->structure) known_->structure.emplace(structure_of(result)), known_->leaves = leaves.size();
    else if (leaves.size() != known_->leaves) fail_other_results(name_, known_->leaves, leaves.size());
    return leaves;
  }
  template <class Tensors>
  Result tree(const Tensors& outputs) const {
    const std::lock_guard<std::mutex> lock(known_->mutex);
    if (!known_->structure) fail_unknown_results(name_);
    if (outputs.size() != known_->leaves) fail_other_results(name_, known_->leaves, outputs.size());
    Result result = copy_tree(*known_->structure);
    PutLeaves put{outputs.data()};
    put_leaves<keys>(result, put);
    return result;
  }
  /// Returns the number of tensors in a result; 0 before the first run.
  std::size_t leaves() const {
    const std::lock_guard<std::mutex> lock(known_->mutex);
    return known_->leaves;
  }

 private:
  struct Known {
    std::mutex mutex;
    std::optional<Result> structure;
    std::size_t leaves = 0;
  };
  const char* name_;
  std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

template <class F, class... A>
using HigherOrderCall = Calls<F, SelectTrees<A...>, Decayed<A>&...>;
template <Returns returns, class F, class... A>
inline constexpr bool can_be_called_by_operation = can_call<returns, F, SelectTrees<A...>, Decayed<A>&...>;

// A function f with a rule. If f is itself a function with custom rules, and this rule is a custom
// rule, all of them become rules of one operation.
template <class F, class Rule>
class WithRule {
 public:
  WithRule(F f, Rule rule) : shared_(std::make_shared<const Shared>(Shared{std::move(f), std::move(rule)})) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (can_be_called_by_operation<Returns::tree, const F, A...>) {
      using Result = typename HigherOrderCall<const F, A...>::Result;
      KeptCall<A...> kept(std::forward<A>(args)...);
      Inputs inputs = kept.inputs();
      kept.leaves.clear();
      const ResultStructure<Result> results(Rule::name);
      FunctionAttributes functions;
      functions.function = [f = shared_, kept, results](const FunctionInputs& given) {
        return results.flat(kept.call(f->plain(), given.inputs));
      };
      shared_->add_rules(functions, kept, results);
      return results.tree(call_function(std::move(functions), std::move(inputs)));
    } else {
      return Refused();
    }
  }

 private:
  template <class, class>
  friend class WithRule;
  // True if f's rules are merged into the same operation.
  static constexpr bool merges = requires(const F& f) { Rule::merges&& f.shared_->rule.merges; };
  struct Shared {
    F f;
    Rule rule;
    const auto& plain() const {
      if constexpr (merges) return f.shared_->plain();
      else return f;
    }
    template <class Kept, class Results>
    void add_rules(FunctionAttributes& functions, const Kept& kept, const Results& results) const {
      if constexpr (merges) f.shared_->add_rules(functions, kept, results);
      functions.name = Rule::name;
      rule.add(functions, kept, results);
    }
  };
  std::shared_ptr<const Shared> shared_;
};

}  // namespace stave_detail
