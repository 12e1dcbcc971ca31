// Functions with derivatives or batching of one's own.
//
//   // log(1 + e^x), whose derivative by the chain rule would overflow
//   auto log1pexp = custom_vjp([](const Tensor& x) { return log1p(exp(x)); },
//                              [](const Tensor& x) { return std::pair(log1p(exp(x)), x); },      // the result, and what backward needs
//                              [](const Tensor& x, const Tensor& g) { return g * sigmoid(x); });  // residuals, cotangent
//   auto f = custom_jvp(f, [](const Tensor& x, const Tensor& dx) { return std::pair(f(x), ...); });
//   auto f = custom_vmap(f, [](Index lanes, const std::vector<bool>& batched, const Tensor& x) { ... });
//
// A rule is made of ordinary operations: higher derivatives are those of the rule. Rules may capture values that vmap maps, but
// not values that are differentiated by whoever uses the rule: that throws; pass these as arguments.
#pragma once

#include <stave/handlers/carried_trees.h>

namespace stave_detail {

template <class T>
inline constexpr bool is_std_pair = false;
template <class A, class B>
inline constexpr bool is_std_pair<std::pair<A, B>> = true;

template <class F, class Forwards, class Backward>
class CustomVjpOf {
 public:
  CustomVjpOf(F f, Forwards forward, Backward backward)
      : rules_(std::make_shared<Rules>(Rules{std::move(f), std::move(forward), std::move(backward)})) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Called = CarriedCall<const F, A...>;
    using CalledForward = CarriedCall<const Forwards, A...>;
    constexpr bool valid = Called::valid && CalledForward::valid;
    static_assert(valid, "stave: custom_vjp: the function and its forward rule cannot be called with these arguments");
    if constexpr (valid) {
      using Result = typename Called::Result;
      using Pair = typename CalledForward::Result;
      static_assert(is_std_pair<Pair>,
                    "stave: custom_vjp: the forward rule must return std::pair of result and residuals");
      if constexpr (is_std_pair<Pair>) {
        static_assert(std::is_same_v<typename Pair::first_type, Result>,
                      "stave: custom_vjp: the forward rule must return the function's result, and residuals");
        return run<Result, typename Pair::second_type>(std::forward<A>(args)...);
      }
    }
  }

 private:
  struct Rules {
    F f;
    Forwards forward;
    Backward backward;
  };

  template <class Result, class Residuals, class... A>
  Result run(A&&... args) const {
    static_assert(std::is_invocable_v<const Backward&, Residuals, Result>,
                  "stave: custom_vjp: the backward rule cannot be called with residuals and a cotangent of the result");
    KeptCall<A...> kept(std::forward<A>(args)...);
    Inputs inputs = kept.inputs();
    kept.leaves.clear();
    const ResultStructure<Result> results;
    const ResultStructure<Residuals> residuals;
    const auto residual_count = std::make_shared<std::size_t>(0);
    FunctionAttributes functions;
    functions.function = [rules = rules_, kept, results](std::span<const Tensor> xs) {
      return results.flat(kept.call(std::as_const(rules->f), xs));
    };
    functions.forward = [rules = rules_, kept, results, residuals, residual_count](std::span<const Tensor> xs) {
      const auto both = kept.call(std::as_const(rules->forward), xs);
      Forward forward{results.flat(both.first), residuals.flat(both.second)};
      *residual_count = forward.residuals.size();
      return forward;
    };
    functions.backward = [rules = rules_, results, residuals, residual_count](std::span<const Tensor> xs) {
      return flat_outputs(std::as_const(rules->backward)(residuals.tree(xs.first(*residual_count)),
                                                         results.tree(xs.subspan(*residual_count))));
    };
    return results.tree(custom_vjp_flat(std::move(functions), std::move(inputs)));
  }

  std::shared_ptr<Rules> rules_;
};

template <class F, class Rule>
class CustomJvpOf {
 public:
  CustomJvpOf(F f, Rule rule) : rules_(std::make_shared<std::pair<F, Rule>>(std::move(f), std::move(rule))) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Called = CarriedCall<const F, A...>;
    static_assert(Called::valid, "stave: custom_jvp: the function cannot be called with these arguments");
    if constexpr (Called::valid) {
      using Result = typename Called::Result;
      const KeptCall<A...> kept(std::forward<A>(args)...);
      const ResultStructure<Result> results;
      FunctionAttributes functions;
      functions.function = [rules = rules_, kept, results](std::span<const Tensor> xs) {
        return results.flat(kept.call(std::as_const(rules->first), xs));
      };
      functions.tangents = [rules = rules_, kept, results](std::span<const Tensor> xs) {
        const auto both = kept.call_twice(std::as_const(rules->second), xs);
        static_assert(std::is_same_v<std::remove_cvref_t<decltype(both)>, std::pair<Result, Result>>,
                      "stave: custom_jvp: the rule must return std::pair of the function's result and its tangent");
        Outputs outputs = results.flat(both.first);
        visit_tensors(both.second, [&](const Tensor& tangent) { outputs.push_back(tangent); });
        return outputs;
      };
      return results.tree(custom_jvp_flat(std::move(functions), kept.inputs()));
    }
  }

 private:
  std::shared_ptr<std::pair<F, Rule>> rules_;
};

template <class F, class Rule>
class CustomVmapOf {
 public:
  CustomVmapOf(F f, Rule rule) : rules_(std::make_shared<std::pair<F, Rule>>(std::move(f), std::move(rule))) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Called = CarriedCall<const F, A...>;
    static_assert(Called::valid, "stave: custom_vmap: the function cannot be called with these arguments");
    if constexpr (Called::valid) {
      using Result = typename Called::Result;
      const KeptCall<A...> kept(std::forward<A>(args)...);
      const ResultStructure<Result> results;
      FunctionAttributes functions;
      functions.function = [rules = rules_, kept, results](std::span<const Tensor> xs) {
        return results.flat(kept.call(std::as_const(rules->first), xs));
      };
      functions.batch = [rules = rules_, kept, results](Index lanes, std::span<const bool> given,
                                                        std::span<const Tensor> xs) {
        const auto by_arguments = by_argument(kept, lanes, given, xs);  // clang 14 captures no structured binding
        const auto rule = [&](auto&&... arguments) {
          return std::as_const(rules->second)(lanes, by_arguments.first, arguments...);
        };
        return results.flat(kept.call(rule, by_arguments.second));
      };
      return results.tree(custom_vmap_flat(std::move(functions), kept.inputs()));
    }
  }

 private:
  // An argument counts as batched if one of its tensors is; the others are broadcast then.
  template <class Kept>
  static std::pair<std::vector<bool>, std::vector<Tensor>> by_argument(const Kept& kept, Index lanes,
                                                                       std::span<const bool> given,
                                                                       std::span<const Tensor> xs) {
    std::vector<bool> batched;
    std::vector<Tensor> inputs;
    kept.for_trees([&](const auto& tree) {
      std::size_t count = 0;
      bool any = false;
      visit_tensors(tree, [&](const Tensor&) { any |= given[inputs.size() + count++]; });
      batched.push_back(any);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = inputs.size();
        inputs.push_back(any && !given[at] ? broadcast_lanes(xs[at], lanes) : xs[at]);
      }
    });
    return {std::move(batched), std::move(inputs)};
  }

  std::shared_ptr<std::pair<F, Rule>> rules_;
};

}  // namespace stave_detail

namespace stave {

/// f, with a reverse mode of one's own. forward(args...) -> std::pair of f's result and residuals, a tree; backward(residuals,
/// cotangent of the result) -> the cotangent of the argument, or a std::tuple of one for each argument that is a tree; an
/// undefined Tensor is zero. Forward mode is the backward rule, transposed.
template <class F, class Forwards, class Backward>
auto custom_vjp(F f, Forwards forward, Backward backward) {
  return stave_detail::CustomVjpOf<F, Forwards, Backward>(std::move(f), std::move(forward), std::move(backward));
}

/// f, with a forward mode of one's own: rule(args..., tangents...) -> std::pair of f's result and its tangent. Tangents are of
/// the arguments that are trees; zeros where there is none. The result's tangent must be linear in them: reverse mode is the
/// rule, transposed.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule) {
  return stave_detail::CustomJvpOf<F, Rule>(std::move(f), std::move(rule));
}

/// f, with batching of one's own: rule(lanes, batched, args...) -> f's results for all lanes, the lanes as axis 0 of each
/// tensor. `batched` says of each argument that is a tree whether its tensors carry the lanes as axis 0. Where a derivative is
/// taken inside of vmap, that of f is, and the rule is not used.
template <class F, class Rule>
auto custom_vmap(F f, Rule rule) {
  return stave_detail::CustomVmapOf<F, Rule>(std::move(f), std::move(rule));
}

}  // namespace stave
