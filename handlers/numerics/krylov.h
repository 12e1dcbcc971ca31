// Solutions of linear systems by Krylov methods. The matrix is given by its products with vectors.
//
//   const auto solved = cg([](const Tensor& x, const Tensor& w) { return w * x + laplacian(x); });
//   const Tensor x = solved(b, w);       // w * x + laplacian(x) = b
//
// The result of cg(product), gmres(product) and bicgstab(product) is a function of the right side
// b, a tree of tensors, and of the arguments of the product. Its derivatives are those of the
// solution of the system (custom_linear_solve): each is one more system with the same matrix or
// with its transpose, whose products are pullbacks of `product`. Complex numbers are allowed. The
// loops read values, so lanes of vmap are solved one after the other.
//
// A preconditioner is a second function with the arguments of the product, whose result is near the
// solution: preconditioner(b, args...) is about a^-1 b, and cheap. It must be linear in b. With a
// good one fewer products are needed; the solution and its derivatives stay the same:
//
//   cg(product, [](const Tensor& b, const Tensor& w) { return b / (w + diagonal_of_laplacian); })
#pragma once

#include <concepts>
#include <functional>
#include <tuple>
#include <utility>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/numerics/solvers.h>
#include <stave/handlers/transforms/vjp.h>

namespace stave {

struct KrylovOptions {
  [[no_unique_address]] ByName by_name{};
  /// The loop ends when the residual |b - a x| is at most tolerance |b|. 0 means 1e-5 for float32
  /// and complex64, and 1e-10 for float64 and complex128.
  double tolerance = 0;
  /// The maximal number of products; 0 means ten times the number of unknowns. Without convergence,
  /// the function throws Error.
  Index steps = 0;
  /// For gmres: the number of vectors that are kept before the method starts again.
  Index restart = 20;
};

}  // namespace stave

namespace stave_detail {

using LinearProduct = std::function<Tensor(const Tensor&)>;

// Solve a x = b for a vector b, where product(x) is a x, and precondition(x) is about a^-1 x.
Tensor conjugate_gradients(const LinearProduct& product, const LinearProduct& precondition, const Tensor& b,
                           const KrylovOptions& options);
Tensor generalized_minimal_residual(const LinearProduct& product, const LinearProduct& precondition, const Tensor& b,
                                    const KrylovOptions& options);
Tensor stabilized_biconjugate_gradients(const LinearProduct& product, const LinearProduct& precondition,
                                        const Tensor& b, const KrylovOptions& options);

using KrylovMethod = Tensor (*)(const LinearProduct&, const LinearProduct&, const Tensor&, const KrylovOptions&);

// The preconditioner of a system that has none: it returns x itself.
struct Identity {
  template <class X, class... Args>
  X operator()(const X& x, const Args&...) const {
    return x;
  }
};

// Returns the function (b, args...) that solves product(x, args...) = b.
template <class Product, class Preconditioner>
auto krylov_solve(Product product, Preconditioner preconditioner, KrylovMethod method, bool hermitian,
                  KrylovOptions options) {
  const auto solved = [=](const auto& b, const auto&... args) {
    using X = std::remove_cvref_t<decltype(b)>;
    const auto flat = ravel(b);
    const auto on_vectors = [&](const auto& f) -> LinearProduct {
      return [&](const Tensor& x) { return ravel(X(f(flat.second(x), args...))).first; };
    };
    return X(flat.second(method(on_vectors(product), on_vectors(preconditioner), flat.first, options)));
  };
  // The transpose of a Hermitian matrix is its conjugate: a^T x = b if a conj(x) = conj(b).
  const auto transposed = [=](const auto& b, const auto&... args) {
    using X = std::remove_cvref_t<decltype(b)>;
    if (hermitian)
      return tree_map([](const Tensor& x) { return conj(x); },
                      solved(tree_map([](const Tensor& x) { return conj(x); }, b), args...));
    const auto flat = ravel(b);
    const auto on_vectors = [&](const auto& f) -> LinearProduct {
      return [&flat, pullback = vjp([&](const X& x) -> X { return f(x, args...); }, zeros_like(b)).second](
                 const Tensor& x) { return ravel(X(std::get<0>(pullback(flat.second(x))))).first; };
    };
    return X(flat.second(method(on_vectors(product), on_vectors(preconditioner), flat.first, options)));
  };
  return custom_linear_solve(product, solved, transposed);
}

}  // namespace stave_detail

namespace stave {

/// Returns the solution x of product(x, args...) = b as a function (b, args...), by conjugate
/// gradients (Hestenes, Stiefel 1952). The matrix must be symmetric or Hermitian, and positive
/// definite, and so must the preconditioner. Throws Error without convergence.
template <class Product, class Preconditioner = stave_detail::Identity>
  requires(!std::same_as<Preconditioner, KrylovOptions>)
auto cg(Product product, Preconditioner preconditioner = {}, KrylovOptions options = {}) {
  return stave_detail::krylov_solve(std::move(product), std::move(preconditioner), stave_detail::conjugate_gradients,
                                    true, options);
}
template <class Product>
auto cg(Product product, KrylovOptions options) {
  return cg(std::move(product), stave_detail::Identity(), options);
}
/// Returns the function of cg for any nonsingular matrix, by minimal residuals (Saad, Schultz
/// 1986), with the preconditioner on the right.
template <class Product, class Preconditioner = stave_detail::Identity>
  requires(!std::same_as<Preconditioner, KrylovOptions>)
auto gmres(Product product, Preconditioner preconditioner = {}, KrylovOptions options = {}) {
  return stave_detail::krylov_solve(std::move(product), std::move(preconditioner),
                                    stave_detail::generalized_minimal_residual, false, options);
}
template <class Product>
auto gmres(Product product, KrylovOptions options) {
  return gmres(std::move(product), stave_detail::Identity(), options);
}
/// Returns the function of cg for any nonsingular matrix, by stabilized biconjugate gradients (van
/// der Vorst 1992), with the preconditioner on the right.
template <class Product, class Preconditioner = stave_detail::Identity>
  requires(!std::same_as<Preconditioner, KrylovOptions>)
auto bicgstab(Product product, Preconditioner preconditioner = {}, KrylovOptions options = {}) {
  return stave_detail::krylov_solve(std::move(product), std::move(preconditioner),
                                    stave_detail::stabilized_biconjugate_gradients, false, options);
}
template <class Product>
auto bicgstab(Product product, KrylovOptions options) {
  return bicgstab(std::move(product), stave_detail::Identity(), options);
}

}  // namespace stave
