#include "table/matrix_functions.h"

#include <cmath>

namespace table {

namespace {

Matrix inverse(const Matrix& a) { return solved(a, identity(a.rows, a.rows)); }
Matrix combined(Real s, const Matrix& a, Real t, const Matrix& b) {
  Matrix sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = s * a.values[i] + t * b.values[i];
  return sum;
}
Real distance_from_one(const Matrix& a) {
  Real largest = 0;
  for (const Real value : combined(1, a, -1, identity(a.rows, a.rows)).values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

// x and y tend to a^(1/2) and a^(-1/2): x' = (x + y^-1) / 2, y' = (y + x^-1) / 2.
Matrix square_root(const Matrix& a) {
  Matrix x = a, y = identity(a.rows, a.rows);
  for (int i = 0; i < 30; ++i) {
    const Matrix next = combined(0.5L, x, 0.5L, inverse(y));
    y = combined(0.5L, y, 0.5L, inverse(x));
    x = next;
  }
  return x;
}

Matrix logarithm(Matrix a) {
  const Matrix one = identity(a.rows, a.rows);
  Real factor = 2;
  for (; distance_from_one(a) > 0.25L; factor *= 2) a = square_root(a);
  const Matrix ratio = solved(combined(1, a, 1, one), combined(1, a, -1, one)), squared = ratio * ratio;
  Matrix power = ratio, sum(a.rows, a.rows);
  for (int k = 1; k < 80; k += 2, power = power * squared) sum = combined(1, sum, factor / k, power);
  return sum;
}

Matrix sylvester(const Matrix& a, const Matrix& b, const Matrix& q) {
  const Index m = q.rows, n = q.columns;
  Matrix system(m * n, m * n), side(m * n, 1);
  for (Index r = 0; r < m; ++r)
    for (Index c = 0; c < n; ++c) {
      side(r * n + c, 0) = q(r, c);
      for (Index k = 0; k < m; ++k) system(r * n + c, k * n + c) += a(r, k);
      for (Index k = 0; k < n; ++k) system(r * n + c, r * n + k) += b(k, c);
    }
  const Matrix x = solved(system, side);
  Matrix result(m, n);
  result.values = x.values;
  return result;
}

}  // namespace table
