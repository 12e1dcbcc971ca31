// Factorizations of one small matrix by a team (team.cuh). The algorithms are those of
// backends/cpu/kernels/linalg.cpp. In each step the lanes share the rows or columns of the matrix.
// Matrices are row-major, and rows are `step` elements apart. T is a real or a complex type
// (number.cuh). x^H is the conjugate transpose of x.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include <stave/backends/cuda/kernels/number.cuh>
#include <stave/backends/cuda/kernels/team.cuh>

namespace stave_cuda {

template <class R>
inline constexpr R rounding_unit = sizeof(R) == 8 ? R(0x1p-52) : R(0x1p-23);

/// Returns the dot product of n elements of x and y.
template <class T>
STAVE_BOTH T dot(const T* x, int x_step, const T* y, int y_step, int n) {
  T sum(0);
  for (int i = 0; i < n; ++i) sum += x[i * x_step] * y[i * y_step];
  return sum;
}
/// Returns the inner product: the sum of x conj(y).
template <class T>
STAVE_BOTH T inner(const T* x, int x_step, const T* y, int y_step, int n) {
  T sum(0);
  for (int i = 0; i < n; ++i) sum += x[i * x_step] * conjugate(y[i * y_step]);
  return sum;
}
/// Returns the sum of |x|^2.
template <class T>
STAVE_BOTH RealOf<T> sum_of_squares(const T* x, int x_step, int n) {
  RealOf<T> sum = 0;
  for (int i = 0; i < n; ++i) sum += squared_size(x[i * x_step]);
  return sum;
}

// ---- whole matrices ---------------------------------------------------------------------------

template <class T, class Team>
STAVE_BOTH bool all_finite(const Team& team, const T* x, int step, int rows, int columns, T* sums) {
  team.for_lanes([&](int r) {
    RealOf<T> sum = 0;
    for (int c = 0; r < rows && c < columns; ++c) sum += times_zero(x[r * step + c]);
    sums[r] = T(sum);
  });
  return team.agree([&] {
    RealOf<T> sum = 0;
    for (int r = 0; r < rows; ++r) sum += real_part(sums[r]);
    return sum == 0;
  });
}

/// Returns a power of two that scales a matrix to a moderate size, where `largest` is its largest
/// absolute value of a part. Returns 1 if the size is moderate already.
template <class R>
STAVE_BOTH R safe_scale(R largest) {
  const R big = sizeof(R) == 8 ? R(0x1p+400) : R(0x1p+50);
  if (largest == 0 || (largest < big && largest > 1 / big)) return 1;
  const int least = sizeof(R) == 8 ? DBL_MIN_EXP : FLT_MIN_EXP, most = (sizeof(R) == 8 ? DBL_MAX_EXP : FLT_MAX_EXP) - 1;
  const int power = -::ilogb(static_cast<double>(largest));
  return by_power_of_two(R(1), power < least ? least : power > most ? most : power);
}
/// Multiplies a finite matrix by the factor that `safe_scale` gives, and returns the factor.
template <class T, class Team>
STAVE_BOTH RealOf<T> moderate(const Team& team, T* x, int step, int rows, int columns, T* maxima) {
  team.for_lanes([&](int r) {
    RealOf<T> largest = 0;
    for (int c = 0; r < rows && c < columns; ++c)
      if (larger_size(x[r * step + c]) > largest) largest = larger_size(x[r * step + c]);
    maxima[r] = T(largest);
  });
  const RealOf<T> factor = team.agree([&] {
    RealOf<T> largest = 0;
    for (int r = 0; r < rows; ++r)
      if (real_part(maxima[r]) > largest) largest = real_part(maxima[r]);
    return safe_scale(largest);
  });
  if (factor == 1) return factor;
  team.for_lanes([&](int c) {
    for (int r = 0; c < columns && r < rows; ++r) x[r * step + c] *= factor;
  });
  return factor;
}

template <class T, class Team>
STAVE_BOTH void set_identity(const Team& team, T* x, int step, int rows, int columns) {
  team.for_lanes([&](int c) {
    for (int r = 0; c < columns && r < rows; ++r) x[r * step + c] = T(r == c);
  });
}

// ---- triangles --------------------------------------------------------------------------------

/// Factors a = l l^H and stores l in the lower triangle of a. Returns false
/// if a is not positive definite.
template <class T, class Team>
STAVE_BOTH bool cholesky(const Team& team, T* a, int step, int n, T* column) {
  for (int j = 0; j < n; ++j) {
    team.for_lanes([&](int r) {
      if (r >= j && r < n) column[r] = a[r * step + j] - inner(a + r * step, 1, a + j * step, 1, j);
    });
    const RealOf<T> pivot = team.agree([&] { return real_part(column[j]); });
    if (!(pivot > 0)) return false;
    const RealOf<T> diagonal = root(pivot), inverse = 1 / diagonal;
    team.for_lanes([&](int r) {
      if (r >= j && r < n) a[r * step + j] = r == j ? T(diagonal) : column[r] * inverse;
    });
  }
  return true;
}

/// Computes the LU factors of a with partial pivoting. l and u replace a. exchanges[k] is the row
/// that was exchanged with row k in step k.
template <class T, class Team>
STAVE_BOTH void lu(const Team& team, T* a, int step, int m, int n, int* exchanges) {
  const int steps = m < n ? m : n;
  for (int k = 0; k < steps; ++k) {
    const int best = team.agree([&] {
      int found = k;
      for (int r = k + 1; r < m; ++r)
        if (sum_of_sizes(a[r * step + k]) > sum_of_sizes(a[found * step + k])) found = r;
      return found;
    });
    team.for_lanes([&](int c) {
      if (c == 0) exchanges[k] = best;
      if (best != k && c < n) exchange(a[k * step + c], a[best * step + c]);
    });
    const T pivot = team.agree([&] { return a[k * step + k]; });
    if (pivot == T(0)) continue;
    team.for_lanes([&](int r) {
      if (r <= k || r >= m) return;
      T* const row = a + r * step;
      const T factor = row[k] = row[k] / pivot;
      for (int c = k + 1; c < n; ++c) row[c] -= factor * a[k * step + c];
    });
  }
}
/// Computes the order of the rows after the exchanges: row i of l u is row order[i] of a.
template <class Team>
STAVE_BOTH void order_of(const Team& team, const int* exchanges, int steps, int* order, int m) {
  team.for_lanes([&](int lane) {
    if (lane != 0) return;
    for (int r = 0; r < m; ++r) order[r] = r;
    for (int k = 0; k < steps; ++k) exchange(order[k], order[exchanges[k]]);
  });
}

/// Replaces a column x by t^-1 x, where t is a triangle. x has n elements, `x_step` apart. One lane
/// does all the work.
template <class T>
STAVE_BOTH void substitute(const T* t, int row_step, int column_step, bool lower, bool unit, int n, T* x, int x_step) {
  for (int i = 0; i < n; ++i) {
    const int r = lower ? i : n - 1 - i, first = lower ? 0 : r + 1, count = lower ? r : n - 1 - r;
    const T rest =
        x[r * x_step] - dot(t + r * row_step + first * column_step, column_step, x + first * x_step, x_step, count);
    x[r * x_step] = unit ? rest : rest / t[r * (row_step + column_step)];
  }
}

// ---- reflections ------------------------------------------------------------------------------

/// The Householder reflection h = 1 - tau v v^H with v = (1, scale x), where h^H maps the vector
/// (first, x) to (head, 0), and head is real. `squares` is |x|^2. As in LAPACK's zlarfg.
template <class T>
struct Reflection {
  T tau{0}, scale{1};
  RealOf<T> head;
  STAVE_BOTH Reflection(T first, RealOf<T> squares) : head(real_part(first)) {
    if (squares == 0 && imaginary_part(first) == 0) return;
    const RealOf<T> length = root(squared_size(first) + squares);
    head = real_part(first) < 0 ? length : -length;
    tau = (T(head) - first) / head;
    scale = T(1) / (first - T(head));
  }
};

/// Replaces a column x by (1 - tau v v^H) x, where v[0] counts as 1. One lane does all the work.
template <class T>
STAVE_BOTH void reflect(T* x, int x_step, const T* v, int v_step, int n, T tau) {
  const T along = -tau * (x[0] + inner(x + x_step, x_step, v + v_step, v_step, n - 1));
  x[0] += along;
  for (int i = 1; i < n; ++i) x[i * x_step] += v[i * v_step] * along;
}

/// Computes the QR factors of a for m >= n. r replaces the upper triangle of a. The first p columns
/// of the unitary factor are written to q.
template <class T, class Team>
STAVE_BOTH void qr(const Team& team, T* a, int step, int m, int n, T* q, int p, T* taus) {
  for (int k = 0; k < n; ++k) {
    T* const v = a + k * (step + 1);
    const Reflection<T> reflection =
        team.agree([&] { return Reflection<T>(v[0], sum_of_squares(v + step, step, m - k - 1)); });
    team.for_lanes([&](int r) {
      if (r == k) taus[k] = reflection.tau, v[0] = T(reflection.head);
      if (r > k && r < m) v[(r - k) * step] = v[(r - k) * step] * reflection.scale;
    });
    team.for_lanes([&](int c) {
      if (c > k && c < n) reflect(v + c - k, step, v, step, m - k, conjugate(reflection.tau));
    });
  }
  set_identity(team, q, step, m, p);
  for (int k = n - 1; k >= 0; --k)
    team.for_lanes([&](int c) {
      if (c >= k && c < p) reflect(q + k * step + c, step, a + k * (step + 1), step, m - k, taus[k]);
    });
}

// ---- eigenvalues ------------------------------------------------------------------------------

/// Reduces Hermitian a = q t q^H to real tridiagonal t, with diagonal d and off-diagonal e. Step k
/// is a reflection, whose vector v stays in row k, right of column k.
template <class T, class Team>
STAVE_BOTH void tridiagonal(const Team& team, T* a, int step, int n, RealOf<T>* d, RealOf<T>* e, T* taus, T* w) {
  for (int k = 0; k + 1 < n; ++k) {
    const int rest = n - k - 1;
    T *const v = a + k * step + k + 1, *const x = a + (k + 1) * (step + 1);
    // The row is the conjugate of the column that the reflection changes.
    const Reflection<T> reflection =
        team.agree([&] { return Reflection<T>(conjugate(v[0]), sum_of_squares(v + 1, 1, rest - 1)); });
    e[k] = reflection.head;
    d[k] = team.agree([&] { return real_part(v[-1]); });
    team.for_lanes([&](int j) {
      if (j == 0) taus[k] = reflection.tau;
      if (j < rest) v[j] = j == 0 ? T(1) : conjugate(v[j]) * reflection.scale;
    });
    if (reflection.tau == T(0)) continue;
    // With h = 1 - tau v v^H, the update is
    //   x = h^H x h = x - v w^H - w v^H, where p = tau x v and w = p - tau (p^H v) v / 2
    team.for_lanes([&](int j) {
      if (j < rest) w[j] = inner(v, 1, x + j, step, rest) * reflection.tau;
    });
    const T along = team.agree([&] { return -reflection.tau * inner(v, 1, w, 1, rest) / 2; });
    team.for_lanes([&](int j) {
      if (j < rest) w[j] += along * v[j];
    });
    team.for_lanes([&](int r) {
      for (int j = 0; r < rest && j < rest; ++j) x[r * step + j] -= v[r] * conjugate(w[j]) + w[r] * conjugate(v[j]);
    });
  }
  d[n - 1] = team.agree([&] { return real_part(a[(n - 1) * (step + 1)]); });
}

/// Computes the eigenvalues of a tridiagonal matrix in d, unordered. It calls turn(i, c, s) to
/// rotate the eigenvectors i and i + 1 by cosine c and sine s. Returns false if the iteration does
/// not converge.
template <class R, class Turn>
STAVE_BOTH bool ql(R* d, R* e, int n, Turn turn) {
  const R epsilon = rounding_unit<R>, nothing = epsilon * epsilon * epsilon;
  e[n - 1] = 0;
  for (int first = 0; first < n; ++first)
    for (int steps = 0;; ++steps) {
      int last = first;
      while (last + 1 < n && size(e[last]) > epsilon * (size(d[last]) + size(d[last + 1])) + nothing) ++last;
      if (last == first) break;
      if (steps == 60) return false;
      R g = (d[first + 1] - d[first]) / (2 * e[first]);  // Wilkinson's shift
      const R r = root(g * g + 1);
      g = d[last] - d[first] + e[first] / (g + (g < 0 ? -r : r));
      R s = 1, c = 1, p = 0;
      int i = last - 1;
      for (; i >= first; --i) {
        const R f = s * e[i], b = c * e[i], length = root(f * f + g * g);
        e[i + 1] = length;
        if (length == 0) {  // The matrix splits into two tridiagonal matrices.
          d[i + 1] -= p;
          e[last] = 0;
          break;
        }
        s = f / length;
        c = g / length;
        g = d[i + 1] - p;
        const R turned = (d[i] - g) * s + 2 * c * b;
        p = s * turned;
        d[i + 1] = g + p;
        g = c * turned - b;
        turn(i, c, s);
      }
      if (i >= first) continue;
      d[first] -= p;
      e[first] = g;
      e[last] = 0;
    }
  return true;
}

/// Computes the eigenvalues in d, ascending. Each lane has its own copy of d. The eigenvectors are
/// written to the columns of q, unless q is null.
template <class T, class Team>
STAVE_BOTH bool eigh(const Team& team, T* a, int step, int n, T* q, RealOf<T>* d, T* taus, T* w) {
  RealOf<T> e[most_lanes];
  tridiagonal(team, a, step, n, d, e, taus, w);
  if (q) {
    set_identity(team, q, step, n, n);
    for (int k = n - 2; k >= 0; --k)
      team.for_lanes([&](int c) {
        if (c > k && c < n) reflect(q + (k + 1) * step + c, step, a + k * step + k + 1, 1, n - k - 1, taus[k]);
      });
  }
  const bool found = ql(d, e, n, [&](int i, RealOf<T> c, RealOf<T> s) {
    if (!q) return;
    team.for_lanes([&](int r) {
      if (r >= n) return;
      T *const x = q + r * step + i, before = x[0];
      x[0] = before * c - x[1] * s;
      x[1] = before * s + x[1] * c;
    });
  });
  if (!found) return false;
  for (int i = 0; i < n; ++i) {
    int least = i;
    for (int j = i + 1; j < n; ++j)
      if (d[j] < d[least]) least = j;
    if (least == i) continue;
    exchange(d[i], d[least]);
    if (!q) continue;
    team.for_lanes([&](int r) {
      if (r < n) exchange(q[r * step + i], q[r * step + least]);
    });
  }
  return true;
}

}  // namespace stave_cuda
