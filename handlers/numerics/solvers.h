// Solutions as functions of what is solved: roots, fixed points, and linear systems that a function stands for.
//
//   // y with y^3 + y = a, found by whatever finds it
//   const auto cubic = custom_root([](const Tensor& y, const Tensor& a) { return y * y * y + y - a; }, newton);
//   grad([&](const Tensor& a) { return sum(cubic(a)); })(a)
//
//   const auto rest = fixed_point([](const Tensor& x, const Tensor& w) { return tanh(matmul(w, x)); });
//   rest(start, w)
//
//   const auto x = custom_linear_solve(product, conjugate_gradient)(b, parameters)
//
// What finds a solution may read values, call foreign code, or take a thousand steps: it is never differentiated. Derivatives are
// those of the equation, by the implicit function theorem: of any order, in both modes, each for one linear system at the solution.
//
// Unknowns and arguments are trees of tensors. What is differentiated is an argument, and not captured.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/jacobian.h>
#include <stave/handlers/transforms/vjp.h>

namespace stave_detail {

// The cotangents of the arguments behind x: f(x, args...) pulled back from `cotangent`.
template <class F, class X, class R, class... A>
std::tuple<A...> pulled_to_arguments(const F& f, const X& x, const R& cotangent, const A&... args) {
  if constexpr (sizeof...(A) == 0) return {};
  else return vjp([&](const A&... as) { return f(x, as...); }, args...).second(cotangent);
}

template <class T>
T negated(const T& tree) {
  return tree_map([](const Tensor& x) { return -x; }, tree);
}

/// "nan" or "inf", if an element of x is that; null if all are finite. Reads x.
const char* not_finite(const Tensor& x);
/// Throws Error for a tolerance, or a number of steps, with which there is no fixed point, and for
/// a start that is not finite.
void check_fixed_point(double tolerance, Index steps, const std::vector<Tensor>& start);
/// Whether no element moved by more than `tolerance` (1 + |x|), 0 being 16 epsilons of the dtype.
/// `moved` is by how much. Throws Error where f, in this step, gave what is not finite.
bool has_settled(const std::vector<Tensor>& next, const std::vector<Tensor>& x, double tolerance, Index step,
                 double& moved);
[[noreturn]] void fail_no_fixed_point(Index steps, double moved);

}  // namespace stave_detail

namespace stave {

/// See custom_root.
template <class F, class Solve>
class CustomRoot {
 public:
  CustomRoot(F f, Solve solve) : f_(std::move(f)), solve_(std::move(solve)) {}

  template <class... A>
  auto operator()(const A&... args) const -> std::remove_cvref_t<std::invoke_result_t<const Solve&, const A&...>> {
    static_assert((is_tree<A> && ...), "stave: custom_root: an argument is not a tree of tensors");
    using X = std::remove_cvref_t<std::invoke_result_t<const Solve&, const A&...>>;
    const auto found = [solve = solve_](const A&... as) -> X { return solve(as...); };
    const auto forward = [self = *this](const A&... as) -> std::pair<X, std::tuple<X, A...>> {
      const X x = self(as...);
      return {x, {x, as...}};
    };
    // f(x, a) = 0: f_x dx + f_a da = 0, so what flows into x flows on as -(f_x^T)^-1 of it through f_a.
    const auto backward = [f = f_](const std::tuple<X, A...>& kept, const X& cotangent) -> std::tuple<A...> {
      return std::apply(
          [&](const X& x, const A&... as) {
            const auto flat = ravel(x), residual = ravel(f(x, as...));
            const auto of_vector = [&](const Tensor& v) { return ravel(f(flat.second(v), as...)).first; };
            const Tensor slopes = jacrev(of_vector)(flat.first);
            const Tensor flow = solve(matrix_transpose(slopes), -ravel(cotangent).first);
            return stave_detail::pulled_to_arguments(f, x, residual.second(flow), as...);
          },
          kept);
    };
    return custom_vjp(found, forward, backward)(args...);
  }

 private:
  F f_;
  Solve solve_;
};
/// The x with f(x, args...) = 0 as a function of args: what solve(args...) returns. f gives as many elements as x has. A
/// derivative solves one system with the Jacobian of f by x, a dense matrix: throws LinalgError
/// where that is singular. It calls a kept copy of f, in the backward pass: what f captures should
/// be captured by value. So do the functions below. (jax.lax.custom_root)
template <class F, class Solve>
CustomRoot<F, Solve> custom_root(F f, Solve solve) {
  return {std::move(f), std::move(solve)};
}

struct FixedPointOptions {
  [[no_unique_address]] ByName by_name{};
  double tolerance = 0;  ///< a step moves no element by more than this times (1 + |x|); 0: 16 epsilons of the dtype
  Index steps = 1000;    ///< at most; at least 1
};
/// The x with x = f(x, args...) as a function (start, args...): f applied until nothing moves. Throws Error if that does not come to
/// pass, at the first step that gives what is not finite, and for such a start. Derivatives as
/// those of custom_root; by `start` zero. The loop reads values: for the lanes of vmap, write it
/// with custom_root.
template <class F>
auto fixed_point(F f, FixedPointOptions options = {}) {
  return [f = std::move(f), options](const auto& start, const auto&... args) {
    using X = std::remove_cvref_t<decltype(start)>;
    const auto find = [f, options](const X& first, const auto&... as) -> X {
      stave_detail::check_fixed_point(options.tolerance, options.steps, tree_leaves(first));
      X x = first;
      double moved = 0;
      for (Index step = 0; step < options.steps; ++step) {
        X next = f(x, as...);
        const bool settled =
            stave_detail::has_settled(tree_leaves(next), tree_leaves(x), options.tolerance, step, moved);
        x = std::move(next);
        if (settled) return x;
      }
      stave_detail::fail_no_fixed_point(options.steps, moved);
    };
    const auto residual = [f](const X& x, const X&, const auto&... as) -> X {
      return tree_map([](const Tensor& next, const Tensor& here) { return next - here; }, X(f(x, as...)), x);
    };
    return custom_root(residual, find)(start, args...);
  };
}

/// See custom_linear_solve.
template <class Product, class Solve, class SolveTransposed>
class LinearSolve {
 public:
  LinearSolve(Product product, Solve solve, SolveTransposed solve_transposed, bool transposed = false)
      : product_(std::move(product)), solve_(std::move(solve)), solve_transposed_(std::move(solve_transposed)),
        transposed_(transposed) {}

  template <class X, class... A>
  X operator()(const X& b, const A&... args) const {
    static_assert((is_tree<A> && ... && is_tree<X>),
                  "stave: custom_linear_solve: an argument is not a tree of tensors");
    const auto found = [self = *this](const X& side, const A&... as) -> X {
      if (self.transposed_) return self.solve_transposed_(side, as...);
      return self.solve_(side, as...);
    };
    const auto forward = [self = *this](const X& side, const A&... as) -> std::pair<X, std::tuple<X, A...>> {
      const X x = self(side, as...);
      return {x, {x, as...}};
    };
    // M x = b: M dx + dM x = db, so what flows into x flows on as u = (M^T)^-1 of it into b, and as -u through (dM) x.
    const auto backward = [self = *this](const std::tuple<X, A...>& kept, const X& cotangent) -> std::tuple<X, A...> {
      return std::apply(
          [&](const X& x, const A&... as) {
            const LinearSolve other(self.product_, self.solve_, self.solve_transposed_, !self.transposed_);
            const X flow = other(cotangent, as...);
            const auto applied = [&](const X& y, const A&... bs) { return self.applied(y, bs...); };
            return std::tuple_cat(std::tuple<X>(flow),
                                  stave_detail::pulled_to_arguments(applied, x, stave_detail::negated(flow), as...));
          },
          kept);
    };
    return custom_vjp(found, forward, backward)(b, args...);
  }

 private:
  template <class X, class... A>
  X applied(const X& x, const A&... args) const {
    if (!transposed_) return product_(x, args...);
    const auto [pulled] = vjp([&](const X& y) -> X { return product_(y, args...); }, zeros_like(x)).second(x);
    return pulled;
  }

  Product product_;
  Solve solve_;
  SolveTransposed solve_transposed_;
  bool transposed_;
};
/// The x with product(x, args...) = b as a function (b, args...), for a product that is linear in x, and x like b: what
/// solve(b, args...) returns. Cotangents are solved for by solve_transposed(b, args...); without it by `solve`, as is right for
/// a product that is its own transpose. (jax.lax.custom_linear_solve)
template <class Product, class Solve, class SolveTransposed>
LinearSolve<Product, Solve, SolveTransposed> custom_linear_solve(Product product, Solve solve,
                                                                 SolveTransposed solve_transposed) {
  return {std::move(product), std::move(solve), std::move(solve_transposed)};
}
template <class Product, class Solve>
LinearSolve<Product, Solve, Solve> custom_linear_solve(Product product, Solve solve) {
  return {std::move(product), solve, solve};
}

}  // namespace stave
