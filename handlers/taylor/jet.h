// Taylor series of functions: Taylor-mode automatic differentiation.
//
//   auto [y, ys] = jet(f, x, {x1, x2, x3});   // the series of f(x + x1 t + x2 t^2 + x3 t^3) in t
//   std::vector<Tensor> c = taylor(f, 20)(x, v);   // that of f(x + v t): c[0], ..., c[20]
//   Tensor near = evaluate_series(c, 0.1);         // c[0] + 0.1 c[1] + ...
//
// The coefficients are those of powers of t, not derivatives: the derivative of order k is k! times
// coefficient k. An undefined Tensor as a coefficient means zero. Any operation that has a JVP rule
// has a series, and its cost grows with the square of the order or so, where nested jvp would grow
// exponentially. Primals, coefficients and results are trees. Values stay concrete: item(),
// printing and control flow work. The mechanism is in jet_flat.h.
#pragma once

#include <optional>
#include <type_traits>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/tree.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/taylor/jet_flat.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave_detail {

// Returns the value of f and its coefficients, given the tensors of the coefficients.
template <class F, class... P>
auto jet_by_leaves(F&& f, const std::tuple<P...>& primals, const std::vector<std::vector<Tensor>>& coefficients) {
  using Selected = SelectTrees<P...>;
  using Function = std::remove_reference_t<F>;
  if constexpr (can_call<Returns::tree, Function, Selected, const P&...>) {
    using Result = typename Calls<Function, Selected, const P&...>::Result;
    std::optional<Result> result;
    const FlatJet flat = std::apply(
        [&](const auto&... arg) {
          return jet_flat(flat_function(Selected(), f, result, arg...), selected_leaves(Selected(), arg...),
                          coefficients, [&](std::size_t i) { return leaf_name(Selected(), i, arg...); });
        },
        primals);
    std::vector<Result> series;
    for (const Outputs& c : flat.coefficients) series.push_back(with_leaves(*result, c));
    return std::pair<Result, std::vector<Result>>(with_leaves(*result, flat.outputs), std::move(series));
  } else {
    return Refused();
  }
}

template <class... P>
std::vector<Tensor> leaves_of_trees(const std::tuple<P...>& arguments) {
  return std::apply([](const auto&... arg) { return selected_leaves(SelectTrees<P...>(), arg...); }, arguments);
}

template <class F, class... P>
auto jet_of_tuples(F&& f, const std::tuple<P...>& primals, const std::vector<std::tuple<P...>>& coefficients) {
  std::vector<std::vector<Tensor>> leaves;
  for (const std::tuple<P...>& c : coefficients) {
    if constexpr (is_tree<std::tuple<P...>>)
      check_same_structure(same_structure(primals, c), "jet: primals and coefficients");
    leaves.push_back(leaves_of_trees(c));
  }
  return jet_by_leaves(std::forward<F>(f), primals, leaves);
}

[[noreturn]] void fail_negative_order(int order);
[[noreturn]] void fail_no_coefficients();

}  // namespace stave_detail

namespace stave {

/// Returns f(primals...) and the Taylor coefficients in t of f(x + x_1 t + x_2 t^2 + ...).
/// `coefficients` holds x_1, x_2, ..., and the result as many: it is std::pair of f's result and a
/// std::vector of such results. Coefficients have the structure, shapes, dtypes and devices of the
/// primals: ShapeError, DtypeError or DeviceError is thrown otherwise. A coefficient of a tensor
/// that is not floating throws DtypeError. (jax.experimental.jet, whose coefficients are
/// derivatives.)
template <class F, class... P>
auto jet(F&& f, const std::tuple<P...>& primals,
         const std::vector<std::type_identity_t<std::tuple<P...>>>& coefficients) {
  return stave_detail::jet_of_tuples(std::forward<F>(f), primals, coefficients);
}

/// The same for a function of one argument.
template <class F, class P>
  requires(!stave_detail::is_std_tuple<P>)
auto jet(F&& f, const P& primal, const std::vector<std::type_identity_t<P>>& coefficients) {
  static_assert(is_tree<P>, "stave: jet: the primal is not a tree of tensors (see stave/core/ops/tree.h)");
  if constexpr (is_tree<P>) {
    std::vector<std::tuple<P>> each;
    for (const P& c : coefficients) each.emplace_back(c);
    return stave_detail::jet_of_tuples(std::forward<F>(f), std::tuple<P>(primal), each);
  }
}

/// Returns a function (x, v) that computes the Taylor coefficients of f(x + v t) in t, of orders 0,
/// ..., `order`, as a std::vector of f's results. x and v are trees of one type; for several
/// arguments of f, x and v are std::tuples. Throws TransformError if the order is negative, and the
/// errors of jet.
template <class F>
auto taylor(F f, int order) {
  if (order < 0) stave_detail::fail_negative_order(order);
  return [f = std::move(f), order]<class P>(const P& x, const std::type_identity_t<P>& v) {
    const auto arguments = [](const P& p) {
      if constexpr (stave_detail::is_std_tuple<P>) return p;
      else return std::tuple<P>(p);
    };
    if constexpr (is_tree<P>)
      stave_detail::check_same_structure(stave_detail::same_structure(x, v), "taylor: the point and the direction");
    std::vector<std::vector<Tensor>> leaves;
    for (int k = 1; k <= order; ++k) {
      leaves.push_back(stave_detail::leaves_of_trees(arguments(v)));
      if (k > 1) leaves.back().assign(leaves.back().size(), Tensor());
    }
    auto found = stave_detail::jet_by_leaves(f, arguments(x), leaves);
    if constexpr (std::is_same_v<decltype(found), stave_detail::Refused>) {
      return found;
    } else {
      found.second.insert(found.second.begin(), std::move(found.first));
      return std::move(found.second);
    }
  };
}

/// Returns the Taylor coefficients y_0, ..., y_order of the solution of y' = f(y, t) that is
/// `start` at t = `time`, in powers of t - time. The state is a tree of floats, and `time` a
/// floating tensor of rank 0. f runs once, on a y whose derivative is the result of f. Throws
/// ShapeError if that result has another shape or dtype than y, and the errors of jet.
template <class F, class Y>
auto series_of_solution(F&& f, const Y& start, const Tensor& time, int order) {
  static_assert(is_tree<Y>, "stave: series_of_solution: the state is not a tree of tensors");
  if constexpr (std::is_same_v<Y, Tensor>) {
    const auto slope = [&](const Tensor& y, const Tensor& t) -> Tensor { return f(y, t); };
    return series_of_solution_flat(slope, start, time, order);
  } else {
    const auto raveled = ravel(start);
    const auto slope = [&](const Tensor& y, const Tensor& t) { return ravel(Y(f(raveled.second(y), t))).first; };
    std::vector<Y> series;
    for (const Tensor& c : series_of_solution_flat(slope, raveled.first, time, order))
      series.push_back(raveled.second(c));
    return series;
  }
}

/// Returns the polynomial with these coefficients, trees of one structure, at t, by Horner's rule:
/// coefficients[0] + coefficients[1] t + ... Throws TransformError if there are no coefficients.
template <class T>
T evaluate_series(const std::vector<T>& coefficients, const Operand& t) {
  if (coefficients.empty()) stave_detail::fail_no_coefficients();
  T sum = coefficients.back();
  for (std::size_t k = coefficients.size() - 1; k-- > 0;)
    sum = tree_map([&](const Tensor& c, const Tensor& s) { return c + s * t; }, coefficients[k], sum);
  return sum;
}

#define STAVE_NAMES(Name)                                                                                      \
  template <class P>                                                                                           \
  auto jet(stave_detail::Name f, const P& primals, const std::vector<std::type_identity_t<P>>& coefficients) { \
    return jet<stave_detail::Name&>(f, primals, coefficients);                                                 \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

#define STAVE_NAMES(Name) \
  inline auto taylor(stave_detail::Name f, int order) { return taylor<stave_detail::Name>(f, order); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
