// Factorizations of one small matrix by a team (team.cuh). The algorithms are those of
// backends/cpu/kernels/linalg.cpp. In each step the lanes share the rows or columns of the matrix.
// Matrices are row-major, and rows are `step` elements apart.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include <stave/backends/cuda/kernels/team.cuh>

namespace stave_cuda {

template <class T>
inline constexpr T rounding_unit = sizeof(T) == 8 ? T(0x1p-52) : T(0x1p-23);

STAVE_BOTH inline float root(float x) { return ::sqrtf(x); }
STAVE_BOTH inline double root(double x) { return ::sqrt(x); }
STAVE_BOTH inline float size(float x) { return ::fabsf(x); }
STAVE_BOTH inline double size(double x) { return ::fabs(x); }
STAVE_BOTH inline float by_power_of_two(float x, int n) { return ::ldexpf(x, n); }
STAVE_BOTH inline double by_power_of_two(double x, int n) { return ::ldexp(x, n); }
template <class T>
STAVE_BOTH void exchange(T& a, T& b) {
  const T t = a;
  a = b;
  b = t;
}

/// Returns the dot product of n elements of x and y.
template <class T>
STAVE_BOTH T dot(const T* x, int x_step, const T* y, int y_step, int n) {
  T sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i * x_step] * y[i * y_step];
  return sum;
}

// ---- whole matrices ---------------------------------------------------------------------------

template <class T, class Team>
STAVE_BOTH bool all_finite(const Team& team, const T* x, int step, int rows, int columns, T* sums) {
  team.for_lanes([&](int r) {
    T sum = 0;
    for (int c = 0; r < rows && c < columns; ++c) sum += x[r * step + c] * 0;
    sums[r] = sum;
  });
  return team.agree([&] {
    T sum = 0;
    for (int r = 0; r < rows; ++r) sum += sums[r];
    return sum == 0;
  });
}

/// Returns a power of two that scales a matrix to a moderate size, where `largest` is its largest
/// absolute value. Returns 1 if the size is moderate already.
template <class T>
STAVE_BOTH T safe_scale(T largest) {
  const T big = sizeof(T) == 8 ? T(0x1p+400) : T(0x1p+50);
  if (largest == 0 || (largest < big && largest > 1 / big)) return 1;
  const int least = sizeof(T) == 8 ? DBL_MIN_EXP : FLT_MIN_EXP, most = (sizeof(T) == 8 ? DBL_MAX_EXP : FLT_MAX_EXP) - 1;
  const int power = -::ilogb(static_cast<double>(largest));
  return by_power_of_two(T(1), power < least ? least : power > most ? most : power);
}
/// Multiplies a finite matrix by the factor that `safe_scale` gives, and returns the factor.
template <class T, class Team>
STAVE_BOTH T moderate(const Team& team, T* x, int step, int rows, int columns, T* maxima) {
  team.for_lanes([&](int r) {
    T largest = 0;
    for (int c = 0; r < rows && c < columns; ++c)
      if (size(x[r * step + c]) > largest) largest = size(x[r * step + c]);
    maxima[r] = largest;
  });
  const T factor = team.agree([&] {
    T largest = 0;
    for (int r = 0; r < rows; ++r)
      if (maxima[r] > largest) largest = maxima[r];
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
    for (int r = 0; c < columns && r < rows; ++r) x[r * step + c] = r == c;
  });
}

// ---- triangles --------------------------------------------------------------------------------

/// Factors a = l l^T and stores l in the lower triangle of a. Returns false
/// if a is not positive definite.
template <class T, class Team>
STAVE_BOTH bool cholesky(const Team& team, T* a, int step, int n, T* column) {
  for (int j = 0; j < n; ++j) {
    team.for_lanes([&](int r) {
      if (r >= j && r < n) column[r] = a[r * step + j] - dot(a + r * step, 1, a + j * step, 1, j);
    });
    const T pivot = team.agree([&] { return column[j]; });
    if (!(pivot > 0)) return false;
    const T diagonal = root(pivot), inverse = 1 / diagonal;
    team.for_lanes([&](int r) {
      if (r >= j && r < n) a[r * step + j] = r == j ? diagonal : column[r] * inverse;
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
        if (size(a[r * step + k]) > size(a[found * step + k])) found = r;
      return found;
    });
    team.for_lanes([&](int c) {
      if (c == 0) exchanges[k] = best;
      if (best != k && c < n) exchange(a[k * step + c], a[best * step + c]);
    });
    const T pivot = team.agree([&] { return a[k * step + k]; });
    if (pivot == 0) continue;
    team.for_lanes([&](int r) {
      if (r <= k || r >= m) return;
      T* const row = a + r * step;
      const T factor = row[k] /= pivot;
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

/// The Householder reflection 1 - tau v v^T with v = (1, scale x), which maps the vector (first, x)
/// to (head, 0). `squares` is |x|^2.
template <class T>
struct Reflection {
  T tau = 0, head, scale = 1;
  STAVE_BOTH Reflection(T first, T squares) : head(first) {
    if (squares == 0) return;
    const T length = root(first * first + squares);
    head = first < 0 ? length : -length;
    tau = (head - first) / head;
    scale = 1 / (first - head);
  }
};

/// Replaces a column x by (1 - tau v v^T) x, where v[0] counts as 1. One lane does all the work.
template <class T>
STAVE_BOTH void reflect(T* x, int x_step, const T* v, int v_step, int n, T tau) {
  const T along = -tau * (x[0] + dot(x + x_step, x_step, v + v_step, v_step, n - 1));
  x[0] += along;
  for (int i = 1; i < n; ++i) x[i * x_step] += v[i * v_step] * along;
}

/// Computes the QR factors of a for m >= n. r replaces the upper triangle of a. The first p columns
/// of the orthogonal factor are written to q.
template <class T, class Team>
STAVE_BOTH void qr(const Team& team, T* a, int step, int m, int n, T* q, int p, T* taus) {
  for (int k = 0; k < n; ++k) {
    T* const v = a + k * (step + 1);
    const Reflection<T> reflection =
        team.agree([&] { return Reflection<T>(v[0], dot(v + step, step, v + step, step, m - k - 1)); });
    team.for_lanes([&](int r) {
      if (r == k) taus[k] = reflection.tau, v[0] = reflection.head;
      if (r > k && r < m) v[(r - k) * step] *= reflection.scale;
    });
    team.for_lanes([&](int c) {
      if (c > k && c < n) reflect(v + c - k, step, v, step, m - k, reflection.tau);
    });
  }
  set_identity(team, q, step, m, p);
  for (int k = n - 1; k >= 0; --k)
    team.for_lanes([&](int c) {
      if (c >= k && c < p) reflect(q + k * step + c, step, a + k * (step + 1), step, m - k, taus[k]);
    });
}

// ---- eigenvalues ------------------------------------------------------------------------------

/// Reduces symmetric a = q t q^T to tridiagonal t, with diagonal d and off-diagonal e. Step k is a
/// reflection, whose vector v stays in row k, right of column k.
template <class T, class Team>
STAVE_BOTH void tridiagonal(const Team& team, T* a, int step, int n, T* d, T* e, T* taus, T* w) {
  for (int k = 0; k + 1 < n; ++k) {
    const int rest = n - k - 1;
    T *const v = a + k * step + k + 1, *const x = a + (k + 1) * (step + 1);
    const Reflection<T> reflection = team.agree([&] { return Reflection<T>(v[0], dot(v + 1, 1, v + 1, 1, rest - 1)); });
    e[k] = reflection.head;
    d[k] = team.agree([&] { return v[-1]; });
    team.for_lanes([&](int j) {
      if (j == 0) taus[k] = reflection.tau;
      if (j < rest) v[j] = j == 0 ? T(1) : v[j] * reflection.scale;
    });
    if (reflection.tau == 0) continue;
    // With h = 1 - tau v v^T, the update is
    //   x = h x h = x - v w^T - w v^T, where w = tau (x v - tau (v^T x v) v / 2)
    team.for_lanes([&](int j) {
      if (j < rest) w[j] = dot(v, 1, x + j, step, rest) * reflection.tau;
    });
    const T along = team.agree([&] { return -reflection.tau * dot(w, 1, v, 1, rest) / 2; });
    team.for_lanes([&](int j) {
      if (j < rest) w[j] += along * v[j];
    });
    team.for_lanes([&](int r) {
      for (int j = 0; r < rest && j < rest; ++j) x[r * step + j] -= v[r] * w[j] + w[r] * v[j];
    });
  }
  d[n - 1] = team.agree([&] { return a[(n - 1) * (step + 1)]; });
}

/// Computes the eigenvalues of a tridiagonal matrix in d, unordered. It calls turn(i, c, s) to
/// rotate the eigenvectors i and i + 1 by cosine c and sine s. Returns false if the iteration does
/// not converge.
template <class T, class Turn>
STAVE_BOTH bool ql(T* d, T* e, int n, Turn turn) {
  const T epsilon = rounding_unit<T>, nothing = epsilon * epsilon * epsilon;
  e[n - 1] = 0;
  for (int first = 0; first < n; ++first)
    for (int steps = 0;; ++steps) {
      int last = first;
      while (last + 1 < n && size(e[last]) > epsilon * (size(d[last]) + size(d[last + 1])) + nothing) ++last;
      if (last == first) break;
      if (steps == 60) return false;
      T g = (d[first + 1] - d[first]) / (2 * e[first]);  // Wilkinson's shift
      const T r = root(g * g + 1);
      g = d[last] - d[first] + e[first] / (g + (g < 0 ? -r : r));
      T s = 1, c = 1, p = 0;
      int i = last - 1;
      for (; i >= first; --i) {
        const T f = s * e[i], b = c * e[i], length = root(f * f + g * g);
        e[i + 1] = length;
        if (length == 0) {  // The matrix splits into two tridiagonal matrices.
          d[i + 1] -= p;
          e[last] = 0;
          break;
        }
        s = f / length;
        c = g / length;
        g = d[i + 1] - p;
        const T turned = (d[i] - g) * s + 2 * c * b;
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
STAVE_BOTH bool eigh(const Team& team, T* a, int step, int n, T* q, T* d, T* taus, T* w) {
  T e[most_lanes];
  tridiagonal(team, a, step, n, d, e, taus, w);
  if (q) {
    set_identity(team, q, step, n, n);
    for (int k = n - 2; k >= 0; --k)
      team.for_lanes([&](int c) {
        if (c > k && c < n) reflect(q + (k + 1) * step + c, step, a + k * step + k + 1, 1, n - k - 1, taus[k]);
      });
  }
  const bool found = ql(d, e, n, [&](int i, T c, T s) {
    if (!q) return;
    team.for_lanes([&](int r) {
      if (r >= n) return;
      T *const x = q + r * step + i, before = x[0];
      x[0] = c * before - s * x[1];
      x[1] = s * before + c * x[1];
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
