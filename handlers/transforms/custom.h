// Functions with custom derivatives or a custom batching rule.
//
//   // log(1 + e^x), whose derivative by the chain rule would overflow
//   auto log1pexp = custom_vjp([](const Tensor& x) { return log1p(exp(x)); },
//                              // the result, and what backward needs
//                              [](const Tensor& x) { return std::pair(log1p(exp(x)), x); },
//                              // residuals, cotangent
//                              [](const Tensor& x, const Tensor& g) { return g * sigmoid(x); });
//   auto f = custom_jvp(f, [](const Tensor& x, const Tensor& dx) { return std::pair(f(x), ...); });
//   auto f = custom_vmap(f, [](Index lanes, const std::vector<bool>& batched,
//                              const Tensor& x) { ... });
//
// Rules of one function combine: custom_vmap(custom_vjp(f, ...), ...) has both.
//
// A rule is made of ordinary operations. Higher derivatives are those of the rule, which may call
// the function itself. If a function has a derivative rule, neither it nor its rules may capture
// values that are differentiated where it is called. A batching rule may not capture values that
// its vmap maps; derivative rules may. A capture that is not allowed throws: pass the value as an
// argument.
//
// Tapes, pullbacks and programs keep copies of f and of its rules. They call a rule
// when a derivative, or vmap, needs it, which may be long after the function was called.
// So rules should capture by value, not by reference.
#pragma once

#include <stave/handlers/transforms/higher_order_trees.h>

namespace stave_detail {

template <class T>
inline constexpr bool is_std_pair = false;
template <class A, class B>
inline constexpr bool is_std_pair<std::pair<A, B>> = true;

template <class Forwards, class Backward>
struct VjpRule {
  static constexpr const char* name = "custom_vjp";
  static constexpr bool merges = true;
  std::shared_ptr<const std::pair<Forwards, Backward>> rules;

  template <class Result, class... A>
  void add(FunctionAttributes& functions, const KeptCall<A...>& kept, const ResultStructure<Result>& results) const {
    using Called = HigherOrderCall<const Forwards, A...>;
    static_assert(Called::valid, "stave: custom_vjp: the forward rule cannot be called with these arguments");
    if constexpr (Called::valid) {
      using Pair = typename Called::Result;
      static_assert(is_std_pair<Pair>,
                    "stave: custom_vjp: the forward rule must return std::pair of result and residuals");
      if constexpr (is_std_pair<Pair>) add<Pair>(functions, kept, results);
    }
  }

 private:
  template <class Pair, class Result, class... A>
  void add(FunctionAttributes& functions, const KeptCall<A...>& kept, const ResultStructure<Result>& results) const {
    using Residuals = typename Pair::second_type;
    static_assert(std::is_same_v<typename Pair::first_type, Result>,
                  "stave: custom_vjp: the forward rule must return the function's result, and residuals");
    static_assert(std::is_invocable_v<const Backward&, Residuals, Result>,
                  "stave: custom_vjp: the backward rule cannot be called with residuals and a cotangent of the result");
    const ResultStructure<Residuals> residuals(name);
    functions.forward = [rules = rules, kept, results, residuals](const FunctionInputs& given) {
      const Pair both = kept.call(rules->first, given.inputs);
      return FunctionResults(results.flat(both.first), residuals.flat(both.second));
    };
    functions.backward = [rules = rules, results, residuals](const FunctionInputs& given) {
      return flat_outputs(rules->second(residuals.tree(given.inputs), results.tree(given.derivatives)));
    };
  }
};

template <class Rule>
struct JvpRule {
  static constexpr const char* name = "custom_jvp";
  static constexpr bool merges = true;
  std::shared_ptr<const Rule> rule;

  template <class Result, class Kept>
  void add(FunctionAttributes& functions, const Kept& kept, const ResultStructure<Result>& results) const {
    functions.tangents = [rule = rule, kept, results](const FunctionInputs& given) {
      const auto both = kept.call_with_tangents(*rule, given.inputs, given.derivatives);
      static_assert(std::is_same_v<std::remove_cvref_t<decltype(both)>, std::pair<Result, Result>>,
                    "stave: custom_jvp: the rule must return std::pair of the function's result and its tangent");
      return with_tangents(results.flat(both.first), flat_outputs(both.second));
    };
  }
};

template <class Rule>
struct VmapRule {
  static constexpr const char* name = "custom_vmap";
  static constexpr bool merges = true;
  std::shared_ptr<const Rule> rule;

  void add(FunctionAttributes& functions, const auto& kept, const auto& results) const {
    functions.batch = [rule = rule, kept, results](const FunctionInputs& given) {
      // Clang 14 captures no structured binding.
      const auto by_arguments = by_argument(kept, given);
      const auto call = [&](auto&&... arguments) { return (*rule)(given.lanes, by_arguments.first, arguments...); };
      return results.flat(kept.call(call, by_arguments.second));
    };
  }

 private:
  // An argument counts as batched if one of its tensors is. The other tensors of such an argument
  // are broadcast to all lanes.
  template <class Kept>
  static std::pair<std::vector<bool>, std::vector<Tensor>> by_argument(const Kept& kept, const FunctionInputs& given) {
    std::vector<bool> batched;
    std::vector<Tensor> inputs;
    kept.for_trees([&](const auto& tree) {
      std::size_t count = 0;
      bool any = false;
      visit_tensors(tree, [&](const Tensor&) { any |= given.batched[inputs.size() + count++]; });
      batched.push_back(any);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = inputs.size();
        const Tensor& x = given.inputs[at];
        inputs.push_back(any && !given.batched[at] ? broadcast_lanes(x, given.lanes) : x);
      }
    });
    return {std::move(batched), std::move(inputs)};
  }
};

}  // namespace stave_detail

namespace stave {

/// Returns f with a custom reverse mode. forward(args...) returns std::pair of f's result
/// and the residuals, a tree. backward(residuals, cotangent of the result) returns the cotangent
/// of the argument, or a std::tuple with one for each argument that is a tree; an undefined Tensor
/// means zero. Forward mode is the transposed backward rule, unless f has a custom_jvp rule, too.
template <class F, class Forwards, class Backward>
auto custom_vjp(F f, Forwards forward, Backward backward) {
  using Rules = std::pair<Forwards, Backward>;
  return stave_detail::WithRule<F, stave_detail::VjpRule<Forwards, Backward>>(
      std::move(f), {std::make_shared<const Rules>(std::move(forward), std::move(backward))});
}

/// Returns f with a custom forward mode. rule(args..., tangents...) returns std::pair
/// of f's result and its tangent. There is one tangent for each argument that is a tree;
/// it is zero if the argument has none. The result's tangent must be linear in the tangents,
/// because reverse mode is the transposed rule, unless f has a custom_vjp rule, too.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule) {
  return stave_detail::WithRule<F, stave_detail::JvpRule<Rule>>(std::move(f),
                                                                {std::make_shared<const Rule>(std::move(rule))});
}

/// Returns f with a custom batching rule. rule(lanes, batched, args...) returns f's results for all
/// lanes, with the lanes as axis 0 of each tensor. `batched` has an entry for each argument that
/// is a tree: whether its tensors carry the lanes as axis 0. If a derivative is taken inside vmap,
/// it is the derivative of f, by f's own rule if it has one, and this rule is not used.
/// A derivative of the vmap is that of this rule's operations, unless f has a derivative rule.
template <class F, class Rule>
auto custom_vmap(F f, Rule rule) {
  return stave_detail::WithRule<F, stave_detail::VmapRule<Rule>>(std::move(f),
                                                                 {std::make_shared<const Rule>(std::move(rule))});
}

}  // namespace stave
