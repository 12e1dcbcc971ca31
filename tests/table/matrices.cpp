#include "table/matrices.h"

#include <algorithm>
#include <cmath>

namespace table {

Matrix identity(Index m, Index n) {
  Matrix x(m, n);
  for (Index i = 0; i < std::min(m, n); ++i) x(i, i) = 1;
  return x;
}
Matrix transposed(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) y(r, c) = x(c, r);
  return y;
}
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix y(a.rows, b.columns);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c)
      for (Index k = 0; k < a.columns; ++k) y(r, c) += a(r, k) * b(k, c);
  return y;
}
Matrix columns_of(const Matrix& x, Index count) {
  Matrix y(x.rows, count);
  for (Index r = 0; r < x.rows; ++r)
    for (Index c = 0; c < count; ++c) y(r, c) = x(r, c);
  return y;
}
Matrix symmetric(const Matrix& x) {
  Matrix y = x;
  for (Index r = 0; r < x.rows; ++r)
    for (Index c = 0; c < x.rows; ++c) y(r, c) = (x(r, c) + x(c, r)) / 2;
  return y;
}
Matrix number(Real x) {
  Matrix y(1, 1);
  y(0, 0) = x;
  return y;
}

Matrix solved(const Matrix& a, const Matrix& b) {
  const Elimination lu(a);
  Matrix x(b.rows, b.columns);
  for (Index c = 0; c < b.columns; ++c) {
    for (Index r = 0; r < b.rows; ++r) {
      x(r, c) = b(lu.order[static_cast<std::size_t>(r)], c);
      for (Index k = 0; k < r; ++k) x(r, c) -= lu.packed(r, k) * x(k, c);
    }
    for (Index r = b.rows; r-- > 0;) {
      for (Index k = r + 1; k < b.rows; ++k) x(r, c) -= lu.packed(r, k) * x(k, c);
      x(r, c) /= lu.packed(r, r);
    }
  }
  return x;
}

/// Jacobi's method: the eigenvalues ascending, and the eigenvectors as columns.
std::pair<std::vector<Real>, Matrix> eigen(Matrix a) {
  const Index n = a.rows;
  Matrix v = identity(n, n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (Index p = 0; p < n; ++p)
      for (Index q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const Real angle = std::atan2(2 * a(p, q), a(q, q) - a(p, p)) / 2, c = std::cos(angle), s = std::sin(angle);
        const auto turn = [&](Real& x, Real& y) {
          const Real z = c * x - s * y;
          y = s * x + c * y;
          x = z;
        };
        for (Index k = 0; k < n; ++k) turn(a(k, p), a(k, q));
        for (Index k = 0; k < n; ++k) turn(a(p, k), a(q, k));
        for (Index k = 0; k < n; ++k) turn(v(k, p), v(k, q));
      }
  std::vector<Index> order;
  for (Index i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](Index i, Index j) { return a(i, i) < a(j, j); });
  std::vector<Real> values;
  Matrix vectors(n, n);
  for (Index i = 0; i < n; ++i) {
    const Index from = order[static_cast<std::size_t>(i)];
    values.push_back(a(from, from));
    for (Index k = 0; k < n; ++k) vectors(k, i) = v(k, from);
  }
  return {values, vectors};
}

/// I - x x^T: the projection onto the complement of the span of x's orthonormal columns.
Matrix outside(const Matrix& x) {
  Matrix y = x * transposed(x);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.rows; ++c) y(r, c) = (r == c) - y(r, c);
  return y;
}
Matrix squares(Matrix x) {
  for (Real& value : x.values) value *= value;
  return x;
}
Matrix column(const std::vector<Real>& xs) {
  Matrix y(static_cast<Index>(xs.size()), 1);
  y.values = xs;
  return y;
}

Matrix cholesky_of(const Matrix& x) {
  const Matrix a = symmetric(x);
  Matrix l(a.rows, a.rows);
  for (Index r = 0; r < a.rows; ++r)
    for (Index c = 0; c <= r; ++c) {
      Real left = a(r, c);
      for (Index k = 0; k < c; ++k) left -= l(r, k) * l(c, k);
      l(r, c) = r == c ? std::sqrt(left) : left / l(c, c);
    }
  return l;
}

/// QR by Householder reflections, in columns that have nonzero entries below the diagonal.
/// A reflection flips the sign of its diagonal entry.
std::pair<Matrix, Matrix> qr_of(const Matrix& a) {
  Matrix q = identity(a.rows, a.rows), r = a;
  for (Index k = 0; k < std::min(a.rows - 1, a.columns); ++k) {
    Matrix v(a.rows, 1);
    Real length = 0, below = 0;
    for (Index i = k + 1; i < a.rows; ++i) below += r(i, k) * r(i, k);
    if (below == 0) continue;
    for (Index i = k; i < a.rows; ++i) length += r(i, k) * r(i, k);
    length = std::sqrt(length);
    for (Index i = k; i < a.rows; ++i) v(i, 0) = r(i, k);
    v(k, 0) += r(k, k) < 0 ? -length : length;
    Real square = 0;
    for (Real x : v.values) square += x * x;
    Matrix h = v * transposed(v);
    for (Index i = 0; i < h.rows; ++i)
      for (Index j = 0; j < h.rows; ++j) h(i, j) = (i == j) - 2 * h(i, j) / square;
    r = h * r;
    q = q * h;
  }
  for (Index i = 0; i < r.rows; ++i)
    for (Index j = 0; j < std::min(i, r.columns); ++j) r(i, j) = 0;
  return {q, r};
}

Matrix exponential(Matrix x) {
  constexpr int halvings = 3;
  for (Real& value : x.values) value = std::ldexp(value, -halvings);
  Matrix sum = identity(x.rows, x.rows), term = sum;
  for (int k = 1; k < 40; ++k) {
    term = term * x;
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += (term.values[i] /= k);
  }
  for (int i = 0; i < halvings; ++i) sum = sum * sum;
  return sum;
}

Matrix pseudo_inverse(const Matrix& a) {
  const Matrix t = transposed(a);
  return a.rows >= a.columns ? solved(t * a, t) : transposed(solved(a * t, a));
}

}  // namespace table
