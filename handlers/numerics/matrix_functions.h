// Functions of symmetric and Hermitian matrices, given by functions of numbers.
//
//   const Tensor root = hermitian_function([](const Tensor& w) { return sqrt(w); }, a);
#pragma once

#include <utility>

#include <stave/core/ops/linalg.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/jvp.h>

namespace stave_detail {

// Returns v diag(values) v^H.
Tensor from_eigenvalues(const Tensor& v, const Tensor& values);
// Returns the tangent of from_eigenvalues(v, f(w)) for the tangent da of the matrix. f(w) and its
// slopes are given.
Tensor tangent_of_function(const Tensor& w, const Tensor& v, const Tensor& values, const Tensor& slopes,
                           const Tensor& da);

}  // namespace stave_detail

namespace stave {

/// f of the symmetric or Hermitian matrices a [..., n, n]: v diag(f(w)) v^H, with the eigenvalues
/// w and eigenvectors v of eigh. f maps real tensors element by element. As in eigh, the
/// Hermitian part of a is used.
///
/// First derivatives are exact, also for equal eigenvalues (Daleckii, Krein 1965: divided
/// differences of f, and slopes where eigenvalues differ by at most the cube root of epsilon
/// times the largest). Higher ones have the restrictions of eigh where eigenvalues are equal. f
/// may not capture values that are differentiated.
template <class F>
Tensor hermitian_function(F f, const Tensor& a) {
  const auto value = [f](const Tensor& x) -> Tensor {
    const auto [w, v] = eigh(x);
    return stave_detail::from_eigenvalues(v, f(w));
  };
  const auto rule = [f](const Tensor& x, const Tensor& dx) -> std::pair<Tensor, Tensor> {
    const auto [w, v] = eigh(x);
    const auto [values, slopes] = jvp([&](const Tensor& y) -> Tensor { return f(y); }, w, ones_like(w));
    return {stave_detail::from_eigenvalues(v, values), stave_detail::tangent_of_function(w, v, values, slopes, dx)};
  };
  return custom_jvp(value, rule)(a);
}

}  // namespace stave
