// Work types for teams (team.cuh) that solve systems of equations, compute determinants and report
// errors.
#pragma once

#include <stave/backends/cuda/kernels/fault.cuh>
#include <stave/backends/cuda/kernels/linalg.cuh>

namespace stave_cuda {

// ---- systems of equations ---------------------------------------------------------------------

struct Triangle {
  bool lower, transpose, unit;
};

/// Computes x = t^-1 b for one or two triangles t of a matrix, one after the other. `order` is a
/// permutation of the rows. The work reads b[order] or, if the first triangle is transposed, writes
/// x[order]. An item is a group of columns of b, one column per lane of a team.
template <class T>
struct SubstituteWork {
  using Value = T;
  static constexpr int matrices = 2;
  Index items;
  int width;
  MatrixStack<T> a, b;
  T* out;
  Triangle triangles[2];
  int triangle_count;
  MatrixStack<std::int32_t> order;  // If its data is null, rows are not permuted.
  Index groups;                     // the number of groups of columns per matrix
  FirstFailure failure;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index item, Index, TeamPart<T, matrices> part) const {
    const Index i = item / groups, first = item % groups * width, k = b.columns;
    const int n = static_cast<int>(a.rows), step = part.step();
    T *const t = part.matrix(0), *const x = part.matrix(1), *const to = out + i * n * k;
    load(team, a, i, t, step);
    bool singular = false;
    for (int j = 0; j < triangle_count; ++j)
      singular |= !triangles[j].unit && team.agree([&] {
        bool zero = false;
        for (int r = 0; r < n; ++r) zero |= t[r * (step + 1)] == T(0);
        return zero;
      });
    if (singular) failure.at(i);
    const T* const sides = b(i);
    const std::int32_t* const rows = order.data ? order(i) : nullptr;
    const bool scatters = triangles[0].transpose;
    team.for_lanes([&](int lane) {
      const Index c = first + lane;
      if (c >= k) return;
      for (int r = 0; r < n; ++r) {
        const Index row = rows && !scatters ? rows[r * order.column_step] : r;
        x[r * step + lane] = sides[row * b.row_step + c * b.column_step];
      }
      for (int j = 0; j < triangle_count; ++j) {
        const Triangle& of = triangles[j];
        substitute(t, of.transpose ? 1 : step, of.transpose ? step : 1, of.lower != of.transpose, of.unit, n, x + lane,
                   step);
      }
      for (int r = 0; r < n; ++r) {
        const Index row = rows && scatters ? rows[r * order.column_step] : r;
        to[row * k + c] = x[r * step + lane];
      }
    });
  }
};

/// Records a failure for each matrix whose diagonal has a 0.
template <class T>
struct DiagonalWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> a;
  FirstFailure failure;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices>) const {
    const T* const x = a(i);
    team.for_lanes([&](int lane) {
      for (Index r = lane; r < a.rows; r += width)
        if (x[r * (a.row_step + a.column_step)] == T(0)) failure.at(i);
    });
  }
};

/// Permutes the rows of b by `order`, as SubstituteWork does. An item is a row.
template <class T>
struct PermuteWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> b;
  MatrixStack<std::int32_t> order;
  bool scatters;
  T* out;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index item, Index, TeamPart<T, matrices>) const {
    const Index i = item / b.rows, row = item % b.rows, other = order(i)[row * order.column_step];
    const T* const from = b(i) + (scatters ? row : other) * b.row_step;
    T* const to = out + (i * b.rows + (scatters ? other : row)) * b.columns;
    team.for_lanes([&](int lane) {
      for (Index c = lane; c < b.columns; c += width) to[c] = from[c * b.column_step];
    });
  }
};

/// Multiplies each row of contiguous matrices by the row's entry of `factors`. An item is a row.
template <class T>
struct ScaleRowsWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<RealOf<T>> factors;
  T* out;
  Index columns;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index item, Index, TeamPart<T, matrices>) const {
    const Index i = item / factors.columns;
    const RealOf<T> factor = factors(i)[item % factors.columns * factors.column_step];
    team.for_lanes([&](int lane) {
      for (Index c = lane; c < columns; c += width) out[item * columns + c] *= factor;
    });
  }
};

/// Computes to = identity * I + the sum of factors[j] terms[j] over j < count, for dense matrices,
/// where I is the identity matrix. An item is a row.
template <class T>
struct CombineWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  Index columns, rows;
  T* to;
  const T* terms[4];
  RealOf<T> factors[4], identity;
  int count;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index item, Index, TeamPart<T, matrices>) const {
    team.for_lanes([&](int lane) {
      for (Index c = lane; c < columns; c += width) {
        T sum(c == item % rows ? identity : 0);
        for (int j = 0; j < count; ++j) sum += terms[j][item * columns + c] * factors[j];
        to[item * columns + c] = sum;
      }
    });
  }
};

// ---- determinants -----------------------------------------------------------------------------

/// Returns the exponent of the larger part of a number, as frexp does.
template <class N>
STAVE_BOTH int exponent_of(N x) {
  int by = 0;
  ::frexp(larger_size(x), &by);
  return by;
}

/// A product stored as mantissa * 2^exponent, so that intermediate results do not overflow. N is
/// double or a complex number of doubles.
template <class N>
struct DeterminantProduct {
  N mantissa{1};
  double exponent = 0;

  STAVE_BOTH void multiply(N factor) {
    mantissa = mantissa * factor;
    const int by = exponent_of(mantissa);
    mantissa = by_power_of_two(mantissa, -by);
    exponent += by;
  }
  STAVE_BOTH N value() const {
    return by_power_of_two(mantissa, static_cast<int>(exponent > 10000    ? 10000
                                                      : exponent < -10000 ? -10000
                                                                          : exponent));
  }
  STAVE_BOTH N sign() const {
    if constexpr (is_real<N>) return mantissa != mantissa ? mantissa : (mantissa > 0) - (mantissa < 0);
    else return mantissa == N(0) ? mantissa : mantissa / size(mantissa);
  }
  STAVE_BOTH double logarithm() const { return ::log(size(mantissa)) + exponent * 0.6931471805599453094; }
};

/// Returns the determinant of a matrix of up to 3 x 3, computed in double. Returns NaN if the
/// result is NaN or its magnitude is at most 2^-900, because products may then have lost digits. An
/// overflow gives infinity. If the value is not finite, the caller uses the LU factors instead.
template <class T>
STAVE_BOTH double tiny_determinant(const MatrixStack<T>& a, Index i) {
  const T* const x = a(i);
  const auto at = [&](int r, int c) { return static_cast<double>(x[r * a.row_step + c * a.column_step]); };
  const auto minor = [&](int c, int d) { return at(1, c) * at(2, d) - at(1, d) * at(2, c); };
  const double det = a.rows == 1   ? at(0, 0)
                     : a.rows == 2 ? at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)
                                   : at(0, 0) * minor(1, 2) - at(0, 1) * minor(0, 2) + at(0, 2) * minor(0, 1);
  // Products that lose digits by underflow are far smaller than this bound.
  return ::fabs(det) > 0x1p-900 ? det : not_a_number<double>();
}

template <class T>
struct DeterminantWork {
  using Value = WideOf<T>;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> a;
  const T* packed;
  const std::int32_t* exchanges;
  T *value, *sign;  // Either `value`, or `sign` and `logarithm`, are not null.
  RealOf<T>* logarithm;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<Value, matrices> part) const {
    const Index n = a.rows;
    team.for_lanes([&](int lane) {
      DeterminantProduct<Value> det;
      for (Index k = lane; k < n; k += width) {
        const auto pivot = static_cast<Value>(packed[(i * n + k) * n + k]);
        det.multiply(exchanges[i * n + k] == k ? pivot : -pivot);
      }
      part.vector(0)[lane] = det.mantissa;
      part.vector(1)[lane] = Value(det.exponent);
    });
    team.for_lanes([&](int lane) {
      if (lane != 0) return;
      DeterminantProduct<Value> det;
      for (int k = 0; k < width; ++k) {
        det.multiply(part.vector(0)[k]);
        det.exponent += real_part(part.vector(1)[k]);
      }
      if (value) value[i] = static_cast<T>(value_of(det, i));
      else {
        sign[i] = static_cast<T>(det.sign());
        logarithm[i] = static_cast<RealOf<T>>(det.logarithm());
      }
    });
  }
  STAVE_BOTH Value value_of(const DeterminantProduct<Value>& det, Index i) const {
    if constexpr (is_real<T>)
      if (a.rows > 0 && a.rows <= 3) {
        const double tiny = tiny_determinant(a, i);
        if (tiny - tiny == 0) return tiny;
      }
    return det.value();
  }
};

// ---- errors -----------------------------------------------------------------------------------

/// Reports the first failure in the fault record of the launch, after the work on all matrices.
struct ReportWork {
  using Value = float;
  static constexpr int matrices = 1;
  Index items;
  int width;
  FirstFailure failure;
  IndexFault* fault;
  unsigned ticket;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index, Index, TeamPart<float, matrices>) const {
    team.for_lanes([&](int lane) {
      if (lane == 0 && *failure.first != FirstFailure::none)
        report(fault, ticket, 0, static_cast<Index>(*failure.first), 0);
    });
  }
};

}  // namespace stave_cuda
