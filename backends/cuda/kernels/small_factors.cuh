// Factorizations of one small matrix by a team (team.cuh): those of backends/cpu/kernels/linalg.cpp, with each step's rows or columns
// spread over the lanes. Matrices are in rows, `step` apart.
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

/// Elements n apart.
template <class T>
STAVE_BOTH T dot(const T* x, int x_step, const T* y, int y_step, int n) {
  T sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i * x_step] * y[i * y_step];
  return sum;
}

// ---- as a whole ------------------------------------------------------------------------------------------------------------

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

/// The power of two by which numbers up to `largest` are moderate: 1 if they are so already.
template <class T>
STAVE_BOTH T moderating(T largest) {
  const T big = sizeof(T) == 8 ? T(0x1p+400) : T(0x1p+50);
  if (largest == 0 || (largest < big && largest > 1 / big)) return 1;
  const int least = sizeof(T) == 8 ? DBL_MIN_EXP : FLT_MIN_EXP, most = (sizeof(T) == 8 ? DBL_MAX_EXP : FLT_MAX_EXP) - 1;
  const int power = -::ilogb(static_cast<double>(largest));
  return by_power_of_two(T(1), power < least ? least : power > most ? most : power);
}
/// Multiplies a finite matrix by that number, and returns it.
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
    return moderating(largest);
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

// ---- triangles -------------------------------------------------------------------------------------------------------------

/// a = l l^T in its lower triangle; false if there is none.
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

/// With partial pivoting: l and u in place of a, and the row with which each was exchanged.
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
/// The rows of a that come of exchanges.
template <class Team>
STAVE_BOTH void order_of(const Team& team, const int* exchanges, int steps, int* order, int m) {
  team.for_lanes([&](int lane) {
    if (lane != 0) return;
    for (int r = 0; r < m; ++r) order[r] = r;
    for (int k = 0; k < steps; ++k) exchange(order[k], order[exchanges[k]]);
  });
}

/// One lane's column x of n elements, `x_step` apart, becomes t^-1 x.
template <class T>
STAVE_BOTH void substitute(const T* t, int row_step, int column_step, bool lower, bool unit, int n, T* x, int x_step) {
  for (int i = 0; i < n; ++i) {
    const int r = lower ? i : n - 1 - i, first = lower ? 0 : r + 1, count = lower ? r : n - 1 - r;
    const T rest =
        x[r * x_step] - dot(t + r * row_step + first * column_step, column_step, x + first * x_step, x_step, count);
    x[r * x_step] = unit ? rest : rest / t[r * (row_step + column_step)];
  }
}

// ---- reflections -----------------------------------------------------------------------------------------------------------

/// 1 - tau v v^T with v = (1, x / scale) maps (head, x), of which `squares` is |x|^2, to (head', 0).
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

/// One lane's column x becomes (1 - tau v v^T) x, where v = (1, ...).
template <class T>
STAVE_BOTH void reflect(T* x, int x_step, const T* v, int v_step, int n, T tau) {
  const T along = -tau * (x[0] + dot(x + x_step, x_step, v + v_step, v_step, n - 1));
  x[0] += along;
  for (int i = 1; i < n; ++i) x[i * x_step] += v[i * v_step] * along;
}

/// Of m >= n: r in a's upper triangle, and the first p columns of q.
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

// ---- eigenvalues -----------------------------------------------------------------------------------------------------------

/// a = q t q^T with t tridiagonal: d its diagonal, e what is beside. The vector of step k is left in row k beyond column k.
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
    // x = h x h for h = 1 - tau v v^T: x - v w^T - w v^T, where w = tau (x v - tau (v^T x v) v / 2)
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

/// The eigenvalues of a tridiagonal matrix, unordered, in d. `turn(i, c, s)` turns vectors i and i + 1.
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
        if (length == 0) {  // it has split here
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

/// The eigenvalues in d, ascending, of each lane its own copy; the columns of q are the vectors (null: none are asked for).
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

// ---- singular values -------------------------------------------------------------------------------------------------------

template <class T, class Team>
STAVE_BOTH void exchange_rows(const Team& team, T* x, int step, int n, int i, int j) {
  team.for_lanes([&](int c) {
    if (c < n) exchange(x[i * step + c], x[j * step + c]);
  });
}
template <class T, class Team>
STAVE_BOTH void rotate_rows(const Team& team, T* x, int step, int n, int i, int j, T c, T s) {
  team.for_lanes([&](int lane) {
    if (lane >= n) return;
    T &a = x[i * step + lane], &b = x[j * step + lane];
    const T before = a;
    a = c * before - s * b;
    b = s * before + c * b;
  });
}

/// Rows of x and y, whose squares these are: that the longest of those from i on stands at i.
template <class T, class Team>
STAVE_BOTH void bring_longest(const Team& team, T* x, T* y, int step, int k, int n, T* squares, int i) {
  int longest = i;
  for (int j = i + 1; j < k; ++j)
    if (squares[j] > squares[longest]) longest = j;
  if (longest == i) return;
  exchange(squares[i], squares[longest]);
  exchange_rows(team, x, step, n, i, longest);
  if (y) exchange_rows(team, y, step, k, i, longest);
}

/// Rows from `known` on become orthonormal among themselves, and to those before.
template <class T, class Team>
STAVE_BOTH void complete(const Team& team, T* x, int step, int known, int rows, int n) {
  for (int i = known; i < rows; ++i) {
    T* const row = x + i * step;
    team.for_lanes([&](int j) {
      if (j < n) row[j] = dot(x + j, step, x + j, step, i);  // the part of an axis that rows before have
    });
    const int axis = team.agree([&] {
      int least = 0;
      for (int j = 1; j < n; ++j)
        if (row[j] < row[least]) least = j;
      return least;
    });
    team.for_lanes([&](int j) {
      if (j < n) row[j] = j == axis;
    });
    for (int twice = 0; twice < 2; ++twice) {
      for (int r = 0; r < i; ++r) {
        const T along = team.agree([&] { return dot(row, 1, x + r * step, 1, n); });
        team.for_lanes([&](int j) {
          if (j < n) row[j] -= along * x[r * step + j];
        });
      }
      const T inverse = team.agree([&] { return 1 / root(dot(row, 1, row, 1, n)); });
      team.for_lanes([&](int j) {
        if (j < n) row[j] *= inverse;
      });
    }
  }
}

/// One turn of rows i and j, unless they are orthogonal.
template <class T, class Team>
STAVE_BOTH bool turn_pair(const Team& team, T* x, T* y, int step, int k, int n, T* squares, int i, int j, T rounding) {
  T *const a = x + i * step, *const b = x + j * step;
  const T product = team.agree([&] { return dot(a, 1, b, 1, n); });
  const T tolerance = rounding_unit<T> * root(static_cast<T>(n));
  if (squares[j] <= rounding || size(product) <= tolerance * root(squares[i]) * root(squares[j])) return false;
  const T zeta = (squares[j] - squares[i]) / (2 * product), r = root(1 + zeta * zeta);
  const T t = 1 / (zeta + (zeta < 0 ? -r : r)), c = 1 / root(1 + t * t), s = c * t;
  rotate_rows(team, x, step, n, i, j, c, s);
  if (y) rotate_rows(team, y, step, k, i, j, c, s);
  squares[i] = team.agree([&] { return dot(a, 1, a, 1, n); });
  squares[j] = team.agree([&] { return dot(b, 1, b, 1, n); });
  return true;
}

/// Turns the k rows of x until they are orthogonal, and the rows of y (or null) with them, then makes them unit vectors: by
/// lengths, which `values` are, of each lane its own copy, in descending order. What is but rounding of the longest has no
/// direction: it is given one.
template <class T, class Team>
STAVE_BOTH bool svd(const Team& team, T* x, T* y, int step, int k, int n, T* values) {
  const T epsilon = rounding_unit<T>;
  T* const squares = values;
  if (y) set_identity(team, y, step, k, k);
  bool orthogonal = false;
  for (int sweep = 0; !orthogonal; ++sweep) {
    if (sweep == 60) return false;
    orthogonal = true;
    T largest = 0;
    for (int i = 0; i < k; ++i) {
      squares[i] = team.agree([&] { return dot(x + i * step, 1, x + i * step, 1, n); });
      largest = squares[i] > largest ? squares[i] : largest;
    }
    for (int i = 0; i < k; ++i) {
      bring_longest(team, x, y, step, k, n, squares, i);
      for (int j = i + 1; j < k; ++j)
        if (turn_pair(team, x, y, step, k, n, squares, i, j, largest * epsilon * epsilon)) orthogonal = false;
    }
  }
  for (int i = 0; i < k; ++i) bring_longest(team, x, y, step, k, n, squares, i);
  const T rounding = k > 0 ? squares[0] * epsilon * epsilon : 0;
  int known = 0;
  for (int i = 0; i < k; ++i) {
    const T length = root(squares[i]);
    if (squares[i] > rounding) {
      known = i + 1;
      team.for_lanes([&](int c) {
        if (c < n) x[i * step + c] *= 1 / length;
      });
    }
    values[i] = length;
  }
  if (y) complete(team, x, step, known, k, n);
  return true;
}

}  // namespace stave_cuda
