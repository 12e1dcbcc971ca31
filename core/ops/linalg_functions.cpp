// Solutions from factors, products of Householder reflections, and equations of tensors.

#include <stave/core/ops/linalg_functions.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/linalg_rules.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// Row i of l u is row permutation[i] of a.
Tensor permuted_rows(const Tensor& b, const Tensor& order) {
  return take_along_axis(b, expand_dims(order, Shape{-1}), -2);
}

}  // namespace

Tensor lu_solve(const Tensor& lu, const Tensor& permutation, const Tensor& b, LuSolveOptions options) {
  return named(
      "lu_solve",
      [&] {
        if (lu.rank() < 2 || lu.shape(-1) != lu.shape(-2) || permutation.rank() < 1 ||
            permutation.shape(-1) != lu.shape(-1))
          fail<ShapeError>("lu_solve: the factors {} must be square, and the permutation {} must fit them", lu.shape(),
                           permutation.shape());
        if (b.rank() == 1) return squeeze(lu_solve(lu, permutation, expand_dims(b, Shape{-1}), options), -1);
        const TriangularOptions lower{.lower = true, .transpose = options.transpose, .unit_diagonal = true};
        const TriangularOptions upper{.transpose = options.transpose};
        const Tensor order = as_indices(permutation, "lu_solve");
        if (!options.transpose)
          return triangular_solve(lu, triangular_solve(lu, permuted_rows(b, order), lower), upper);
        return permuted_rows(triangular_solve(lu, triangular_solve(lu, b, upper), lower), argsort(order));
      },
      lu, permutation, b);
}

// ---- Householder reflections ----------------------------------------------------------------

namespace {

Tensor adjoint(const Tensor& x) { return is_complex(x.dtype()) ? conj(matrix_transpose(x)) : matrix_transpose(x); }

// The product q = I - V T V^H of k reflections, where V is the unit lower trapezoid of v and T is
// the inverse of D^-1 + strictly_upper(V^H V), with the diagonal matrix D of tau (Schreiber, Van
// Loan 1989). So T x solves (I + D strictly_upper(V^H V)) y = D x, for zeros in tau, too.
struct Reflections {
  Tensor vectors, tau, system;

  Reflections(const char* function, const Tensor& v, const Tensor& given_tau) {
    if (v.rank() < 2 || given_tau.rank() < 1 || v.shape(-2) < v.shape(-1) || given_tau.shape(-1) > v.shape(-1))
      fail<ShapeError>("{}: v {} must be [..., m, n] and tau {} [..., k] with m >= n >= k", function, v.shape(),
                       given_tau.shape());
    const Index m = v.shape(-2), k = given_tau.shape(-1);
    const Tensor columns = entries(v, v.rank() - 1, 0, k);
    vectors = tril(columns, -1) + eye(m, k, 0, v.dtype(), v.device());
    tau = expand_dims(given_tau, Shape{-1});
    const Tensor products = triu(matmul(adjoint(vectors), vectors), 1);
    system = tau * products + eye(k, v.dtype(), v.device());
  }
  // Returns q c or q^H c.
  Tensor times(const Tensor& c, bool is_adjoint) const {
    const Tensor inner = matmul(adjoint(vectors), c);
    if (!is_adjoint) return c - matmul(vectors, triangular_solve(system, tau * inner, {.unit_diagonal = true}));
    const auto conjugated = [](const Tensor& x) { return is_complex(x.dtype()) ? conj(x) : x; };
    const Tensor solved = triangular_solve(conjugated(system), inner, {.transpose = true, .unit_diagonal = true});
    return c - matmul(vectors, conjugated(tau) * solved);
  }
};

template <class F>
Tensor with_reflections(const char* function, const Tensor& v, const Tensor& tau, F product) {
  return in_inexact([&](const Tensor& x, const Tensor& t) { return product(Reflections(function, x, t)); }, v, tau);
}

}  // namespace

Tensor householder_product(const Tensor& v, const Tensor& tau) {
  return named(
      "householder_product",
      [&] {
        return with_reflections("householder_product", v, tau, [&](const Reflections& q) {
          return q.times(eye(v.shape(-2), v.shape(-1), 0, q.vectors.dtype(), v.device()), false);
        });
      },
      v, tau);
}

Tensor ormqr(const Tensor& v, const Tensor& tau, const Tensor& c, OrmqrOptions options) {
  return named(
      "ormqr",
      [&] {
        return in_inexact(
            [&](const Tensor& x, const Tensor& t, const Tensor& y) {
              const Reflections q("ormqr", x, t);
              const Index rows = options.left ? -2 : -1;
              if (y.rank() < 2 || y.shape(rows) != x.shape(-2))
                fail<ShapeError>("ormqr: c {} does not fit reflections of length {}", y.shape(), x.shape(-2));
              // c q is the adjoint of q^H c^H.
              return options.left ? q.times(y, options.transpose) : adjoint(q.times(adjoint(y), !options.transpose));
            },
            v, tau, c);
      },
      v, tau, c);
}

// ---- equations of tensors -------------------------------------------------------------------

Tensor tensorinv(const Tensor& a, Index axes) {
  return named(
      "tensorinv",
      [&] {
        if (axes < 1 || axes > a.rank()) fail<ShapeError>("tensorinv: {} axes of shape {}", axes, a.shape());
        const Shape first(std::span<const Index>(a.shape().begin(), a.shape().begin() + axes));
        const Shape others(std::span<const Index>(a.shape().begin() + axes, a.shape().end()));
        if (first.elements() != others.elements())
          fail<ShapeError>("tensorinv: the first {} axes of {} have {} elements, the others {}", axes, a.shape(),
                           first.elements(), others.elements());
        return reshape(inv(reshape(a, {first.elements(), others.elements()})), joined({others, first}));
      },
      a);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b) {
  return named(
      "tensorsolve",
      [&] {
        if (a.rank() < b.rank() || !std::equal(b.shape().begin(), b.shape().end(), a.shape().begin()))
          fail<ShapeError>("tensorsolve: a {} must begin with the axes of b {}", a.shape(), b.shape());
        const Shape others(std::span<const Index>(a.shape().begin() + b.rank(), a.shape().end()));
        if (others.elements() != b.size())
          fail<ShapeError>("tensorsolve: {} equations for {} unknowns", b.size(), others.elements());
        return reshape(solve(reshape(a, {b.size(), b.size()}), reshape(b, {b.size()})), others);
      },
      a, b);
}

}  // namespace stave
