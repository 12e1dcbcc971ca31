// Matrices of long doubles and textbook algorithms on them: elimination, Jacobi's rotations,
// reflections, series. The references of linear algebra are written with these.
#pragma once

#include <utility>
#include <vector>

#include "table/array.h"

namespace table {

struct Matrix {
  Index rows = 0, columns = 0;
  std::vector<Real> values = {};

  Matrix() = default;
  Matrix(Index m, Index n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  Real& operator()(Index r, Index c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  Real operator()(Index r, Index c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};
using Matrices = std::vector<Matrix>;

Matrix identity(Index m, Index n);
Matrix transposed(const Matrix& x);
Matrix operator*(const Matrix& a, const Matrix& b);
Matrix columns_of(const Matrix& x, Index count);
Matrix symmetric(const Matrix& x);
Matrix number(Real x);
Matrix solved(const Matrix& a, const Matrix& b);
/// Jacobi's method: the eigenvalues ascending, and the eigenvectors as columns.
std::pair<std::vector<Real>, Matrix> eigen(Matrix a);
/// I - x x^T: the projection onto the complement of the span of x's orthonormal columns.
Matrix outside(const Matrix& x);
Matrix squares(Matrix x);
Matrix column(const std::vector<Real>& xs);
Matrix cholesky_of(const Matrix& x);
/// QR by Householder reflections, in columns that have nonzero entries below the diagonal.
/// A reflection flips the sign of its diagonal entry.
std::pair<Matrix, Matrix> qr_of(const Matrix& a);
Matrix exponential(Matrix x);
Matrix pseudo_inverse(const Matrix& a);

/// The packed factors of p a = l u by partial pivoting; the original index of each row,
/// the row with which each row was exchanged, and the sign of p.
struct Elimination {
  Matrix packed;
  std::vector<Index> order, exchanges;
  int sign = 1;

  explicit Elimination(Matrix a) : packed(std::move(a)) {
    for (Index r = 0; r < packed.rows; ++r) order.push_back(r);
    for (Index k = 0; k < std::min(packed.rows, packed.columns); ++k) {
      Index best = k;
      for (Index r = k + 1; r < packed.rows; ++r)
        if (std::abs(packed(r, k)) > std::abs(packed(best, k))) best = r;
      exchanges.push_back(best);
      if (best != k) sign = -sign;
      std::swap(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(best)]);
      for (Index c = 0; c < packed.columns; ++c) std::swap(packed(k, c), packed(best, c));
      for (Index r = k + 1; r < packed.rows; ++r) {
        packed(r, k) /= packed(k, k);
        for (Index c = k + 1; c < packed.columns; ++c) packed(r, c) -= packed(r, k) * packed(k, c);
      }
    }
  }
  Real determinant() const {
    Real product = sign;
    for (Index k = 0; k < packed.rows; ++k) product *= packed(k, k);
    return product;
  }
};

/// Singular values descending, and singular vectors as columns, of a matrix of full rank:
/// by the eigenvalues of x^T x.
struct Singular {
  std::vector<Real> values;
  Matrix u, v;

  explicit Singular(const Matrix& x) {
    if (x.rows < x.columns) {
      Singular other(transposed(x));
      *this = {other.values, other.v, other.u};
      return;
    }
    auto [squares, vectors] = eigen(transposed(x) * x);
    v = Matrix(x.columns, x.columns);
    for (Index i = 0; i < x.columns; ++i) {
      values.push_back(std::sqrt(squares[static_cast<std::size_t>(x.columns - 1 - i)]));
      for (Index k = 0; k < x.columns; ++k) v(k, i) = vectors(k, x.columns - 1 - i);
    }
    u = x * v;
    for (Index r = 0; r < u.rows; ++r)
      for (Index c = 0; c < u.columns; ++c) u(r, c) /= values[static_cast<std::size_t>(c)];
  }
  Singular(std::vector<Real> s, Matrix left, Matrix right)
      : values(std::move(s)), u(std::move(left)), v(std::move(right)) {}
};

}  // namespace table
