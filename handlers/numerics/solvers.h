// Solutions of equations as differentiable functions: roots, fixed points, and linear systems given
// by functions.
//
//   // y with y^3 + y = a; any function may find it
//   const auto cubic = custom_root(
//       [](const Tensor& y, const Tensor& a) { return y * y * y + y - a; }, newton);
//   grad([&](const Tensor& a) { return sum(cubic(a)); })(a)
//
//   const auto rest = fixed_point(
//       [](const Tensor& x, const Tensor& w) { return tanh(matmul(w, x)); });
//   rest(start, w)
//
//   const auto x = custom_linear_solve(product, conjugate_gradient)(b, parameters)
//
// The solver may read values, call foreign code, or take a thousand steps, because it is never
// differentiated. Derivatives are those of the equation, by the implicit function theorem.
// They exist for any order and both modes; each costs one linear system at the solution.
//
// Unknowns and arguments are trees of tensors. Pass values that are differentiated as arguments,
// instead of capturing them.
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

// Returns the cotangents of `args`: the pullback of f(x, args...), with x constant,
// applied to `cotangent`.
template <class F, class X, class R, class... A>
std::tuple<A...> vjp_of_arguments(const F& f, const X& x, const R& cotangent, const A&... args) {
  if constexpr (sizeof...(A) == 0) return {};
  else return vjp([&](const A&... as) { return f(x, as...); }, args...).second(cotangent);
}

template <class T>
T negated(const T& tree) {
  return tree_map([](const Tensor& x) { return -x; }, tree);
}

/// Returns "nan" or "inf" if x has such an element; null if all elements are finite. Reads x.
const char* not_finite(const Tensor& x);
/// Throws Error if the tolerance or the number of steps is invalid, or if the start is not finite.
void check_fixed_point(double tolerance, Index steps, const std::vector<Tensor>& start);
/// Returns whether no element changed by more than `tolerance` (1 + |x|) from x to next; a
/// tolerance of 0 means 16 epsilons of the dtype. Sets `moved` to the largest relative change.
/// Throws Error if f returned a value that is not finite in this step.
bool has_settled(const std::vector<Tensor>& next, const std::vector<Tensor>& x, double tolerance, Index step,
                 double& moved);
[[noreturn]] void fail_no_fixed_point(Index steps, double moved);

}  // namespace stave_detail

namespace stave {

/// The result of custom_root.
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
    // f(x, a) = 0, so f_x dx + f_a da = 0. A cotangent v of x therefore becomes the cotangent
    // -f_a^T (f_x^T)^-1 v of a.
    const auto backward = [f = f_](const std::tuple<X, A...>& kept, const X& cotangent) -> std::tuple<A...> {
      return std::apply(
          [&](const X& x, const A&... as) {
            const auto flat = ravel(x), residual = ravel(f(x, as...));
            const auto of_vector = [&](const Tensor& v) { return ravel(f(flat.second(v), as...)).first; };
            const Tensor slopes = jacrev(of_vector)(flat.first);
            const Tensor adjoint = solve(matrix_transpose(slopes), -ravel(cotangent).first);
            return stave_detail::vjp_of_arguments(f, x, residual.second(adjoint), as...);
          },
          kept);
    };
    return custom_vjp(found, forward, backward)(args...);
  }

 private:
  F f_;
  Solve solve_;
};
/// Returns the solution x of f(x, args...) = 0 as a function of args, computed by solve(args...).
/// The result of f has as many elements as x has. A derivative solves one system with the Jacobian
/// of f with respect to x, a dense matrix; it throws LinalgError if the matrix is singular. The
/// backward pass calls a stored copy of f, so f should capture by value. The same holds for the
/// functions below. (jax.lax.custom_root)
template <class F, class Solve>
CustomRoot<F, Solve> custom_root(F f, Solve solve) {
  return {std::move(f), std::move(solve)};
}

struct FixedPointOptions {
  [[no_unique_address]] ByName by_name{};
  /// The largest change of an element in the last step, relative to 1 + |x|; 0 means 16 epsilons
  /// of the dtype.
  double tolerance = 0;
  /// The maximal number of steps; at least 1.
  Index steps = 1000;
};
/// Returns the solution x of x = f(x, args...) as a function (start, args...): applies f until no
/// element changes by more than the tolerance. Throws Error if it does not converge, if a step
/// gives a value that is not finite, and if the start is not finite. Derivatives are those of
/// custom_root; the derivative with respect to `start` is zero. The loop reads values, which differ
/// between the lanes of vmap; to map a fixed point over lanes, write it with custom_root.
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

/// The result of custom_linear_solve.
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
    // M x = b, so M dx + dM x = db. A cotangent v of x becomes the cotangent u = (M^T)^-1 v of b,
    // and -u is pulled back through (dM) x to the arguments.
    const auto backward = [self = *this](const std::tuple<X, A...>& kept, const X& cotangent) -> std::tuple<X, A...> {
      return std::apply(
          [&](const X& x, const A&... as) {
            const LinearSolve other(self.product_, self.solve_, self.solve_transposed_, !self.transposed_);
            const X adjoint = other(cotangent, as...);
            const auto applied = [&](const X& y, const A&... bs) { return self.applied(y, bs...); };
            return std::tuple_cat(std::tuple<X>(adjoint),
                                  stave_detail::vjp_of_arguments(applied, x, stave_detail::negated(adjoint), as...));
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
/// Returns the solution x of product(x, args...) = b as a function (b, args...),
/// computed by solve(b, args...). `product` is linear in x, and x has the structure of b.
/// Cotangents are computed by solve_transposed(b, args...). Without it they are computed
/// by `solve`, which is right if the product is its own transpose. (jax.lax.custom_linear_solve)
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
