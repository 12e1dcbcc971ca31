// Factorizations of one small matrix: simple loops along rows, which compilers vectorise.
//
// qr and the reduction to tridiagonal form use Householder reflections, with the signs of LAPACK's
// dlarfg. Eigenvalues of tridiagonal matrices use implicit QL steps (Bowdler, Martin, Reinsch,
// Wilkinson 1968). svd uses one-sided Jacobi rotations (Hestenes 1958; the order of de Rijk 1989),
// which need neither a reduction to another form nor a second method for the singular vectors.
#include <stave/backends/cpu/kernels/fill.h>

namespace STAVE_KERNELS {

using stave_cpu::Index;

template <class T>
struct Small {
  static constexpr T epsilon = sizeof(T) == 8 ? T(0x1p-52) : T(0x1p-23);

  static STAVE_INLINE T size(T x) { return x < 0 ? -x : x; }
  static STAVE_INLINE T root(T x) {
    if constexpr (sizeof(T) == 8) return __builtin_sqrt(x);
    else return __builtin_sqrtf(x);
  }
  /// Computes y += a x.
  static STAVE_INLINE void add(T* __restrict y, T a, const T* __restrict x, Index n) {
    for (Index i = 0; i < n; ++i) y[i] += a * x[i];
  }
  static STAVE_INLINE void multiply(T* y, T a, Index n) {
    for (Index i = 0; i < n; ++i) y[i] *= a;
  }
  static STAVE_INLINE void exchange(T* __restrict x, T* __restrict y, Index n) {
    for (Index i = 0; i < n; ++i) {
      const T t = x[i];
      x[i] = y[i];
      y[i] = t;
    }
  }
  /// Returns the dot product. It uses eight partial sums, so that compilers can vectorise the loop.
  static STAVE_INLINE T dot(const T* x, const T* y, Index n) {
    T sums[8] = {};
    Index i = 0;
    for (; i + 8 <= n; i += 8)
      for (Index j = 0; j < 8; ++j) sums[j] += x[i + j] * y[i + j];
    T sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    for (; i < n; ++i) sum += x[i] * y[i];
    return sum;
  }
  /// Rotates: (x, y) = (c x - s y, s x + c y).
  static STAVE_INLINE void rotate(T* __restrict x, T* __restrict y, T c, T s, Index n) {
    for (Index i = 0; i < n; ++i) {
      const T a = x[i], b = y[i];
      x[i] = c * a - s * b;
      y[i] = s * a + c * b;
    }
  }
  static STAVE_INLINE void set_identity(T* x, Index rows, Index columns) {
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) x[i * columns + j] = i == j;
  }

  // ---- triangles --------------------------------------------------------------------------------

  static bool cholesky(void* matrix, Index n) {
    T* a = static_cast<T*>(matrix);
    // Computes row j of l, and then column j of the rows below.
    for (Index j = 0; j < n; ++j) {
      T* const row = a + j * n;
      const T pivot = row[j] - dot(row, row, j);
      if (!(pivot > 0)) return false;
      const T diagonal = root(pivot), inverse = 1 / diagonal;
      row[j] = diagonal;
      for (Index i = j + 1; i < n; ++i) a[i * n + j] = (a[i * n + j] - dot(a + i * n, row, j)) * inverse;
      for (Index i = j + 1; i < n; ++i) row[i] = 0;
    }
    return true;
  }

  static void lu(void* matrix, Index m, Index n, std::int32_t* exchanges) {
    T* a = static_cast<T*>(matrix);
    const Index steps = m < n ? m : n;
    for (Index k = 0; k < steps; ++k) {
      Index best = k;
      for (Index i = k + 1; i < m; ++i)
        if (size(a[i * n + k]) > size(a[best * n + k])) best = i;
      exchanges[k] = static_cast<std::int32_t>(best);
      if (best != k) exchange(a + k * n, a + best * n, n);
      const T* const pivots = a + k * n;
      if (pivots[k] == 0) continue;
      for (Index i = k + 1; i < m; ++i) {
        const T factor = a[i * n + k] /= pivots[k];
        add(a + i * n + k + 1, -factor, pivots + k + 1, n - k - 1);
      }
    }
  }

  static void triangular_solve(const void* triangle, Index row_step, Index column_step, bool lower, bool unit, Index n,
                               void* sides, Index k) {
    const T* t = static_cast<const T*>(triangle);
    T* b = static_cast<T*>(sides);
    for (Index step = 0; step < n; ++step) {
      const Index i = lower ? step : n - 1 - step;
      T* const row = b + i * k;
      for (Index j = lower ? 0 : i + 1, end = lower ? i : n; j < end; ++j)
        add(row, -t[i * row_step + j * column_step], b + j * k, k);
      const T diagonal = t[i * (row_step + column_step)];
      if (!unit)
        for (Index c = 0; c < k; ++c) row[c] /= diagonal;
    }
  }

  // ---- reflections ------------------------------------------------------------------------------

  /// The reflection 1 - tau v v^T with v = (1, x / scale), which maps (head, x) to (head', 0).
  /// `squares` is |x|^2.
  struct Reflection {
    T tau = 0, head, scale = 1;
    STAVE_INLINE Reflection(T first, T squares) : head(first) {
      if (squares == 0) return;
      const T length = root(first * first + squares);
      head = first < 0 ? length : -length;
      tau = (head - first) / head;
      scale = 1 / (first - head);
    }
  };

  static void qr(void* matrix, Index m, Index n, void* orthogonal, Index p, void* work) {
    T *a = static_cast<T*>(matrix), *q = static_cast<T*>(orthogonal);
    T *sums = static_cast<T*>(work), *taus = sums + p;
    for (Index k = 0; k < n; ++k) {
      T squares = 0;
      for (Index i = k + 1; i < m; ++i) squares += a[i * n + k] * a[i * n + k];
      const Reflection reflection(a[k * n + k], squares);
      taus[k] = reflection.tau;
      a[k * n + k] = reflection.head;
      for (Index i = k + 1; i < m; ++i) a[i * n + k] *= reflection.scale;
      reflect(a + k * n + k + 1, n, a + k * n + k, n, m - k, n - k - 1, reflection.tau, sums);
    }
    set_identity(q, m, p);
    for (Index k = n - 1; k >= 0; --k) reflect(q + k * p + k, p, a + k * n + k, n, m - k, p - k, taus[k], sums);
    for (Index i = 1; i < m; ++i)
      for (Index j = 0; j < (i < n ? i : n); ++j) a[i * n + j] = 0;
  }

  /// Computes x [rows, columns] = (1 - tau v v^T) x, where the elements of v = (1, ...)
  /// are `v_step` apart.
  static STAVE_INLINE void reflect(T* x, Index step, const T* v, Index v_step, Index rows, Index columns, T tau,
                                   T* sums) {
    if (tau == 0) return;
    for (Index j = 0; j < columns; ++j) sums[j] = x[j];
    for (Index i = 1; i < rows; ++i) add(sums, v[i * v_step], x + i * step, columns);
    multiply(sums, -tau, columns);
    for (Index j = 0; j < columns; ++j) x[j] += sums[j];
    for (Index i = 1; i < rows; ++i) add(x + i * step, v[i * v_step], sums, columns);
  }

  // ---- eigenvalues ------------------------------------------------------------------------------

  /// Computes a = q t q^T with a tridiagonal t: d is its diagonal, e its subdiagonal.
  /// The Householder vector of step k stays in row k, to the right of column k.
  static void tridiagonal(T* a, Index n, T* d, T* e, T* taus) {
    for (Index k = 0; k + 1 < n; ++k) {
      T* const v = a + k * n + k + 1;
      const Index rest = n - k - 1;
      const Reflection reflection(v[0], dot(v + 1, v + 1, rest - 1));
      e[k] = reflection.head;
      taus[k] = reflection.tau;
      v[0] = 1;
      multiply(v + 1, reflection.scale, rest - 1);
      if (reflection.tau != 0) subtract_reflected(a + (k + 1) * (n + 1), n, v, rest, reflection.tau, d + k + 1);
      d[k] = a[k * n + k];
    }
    d[n - 1] = a[n * n - 1];
  }

  /// Computes a = h a h for h = 1 - tau v v^T: a - v w^T - w v^T, where
  /// w = tau (a v - tau (v^T a v) v / 2).
  static STAVE_INLINE void subtract_reflected(T* a, Index step, const T* v, Index n, T tau, T* w) {
    for (Index j = 0; j < n; ++j) w[j] = 0;
    for (Index i = 0; i < n; ++i) add(w, v[i], a + i * step, n);
    multiply(w, tau, n);
    add(w, -tau * dot(w, v, n) / 2, v, n);
    for (Index i = 0; i < n; ++i) {
      T* __restrict row = a + i * step;
      const T vi = v[i], wi = w[i];
      for (Index j = 0; j < n; ++j) row[j] -= vi * w[j] + wi * v[j];
    }
  }

  /// Computes the eigenvalues of a tridiagonal matrix, unordered, in d. The rows of z are rotated
  /// like the eigenvectors. Returns false if 60 steps do not suffice for one of them.
  static bool ql(T* d, T* e, Index n, T* z) {
    constexpr T nothing = epsilon * epsilon;
    e[n - 1] = 0;
    for (Index first = 0; first < n; ++first)
      for (int steps = 0;; ++steps) {
        Index last = first;
        while (last + 1 < n && size(e[last]) > epsilon * (size(d[last]) + size(d[last + 1])) + nothing * epsilon)
          ++last;
        if (last == first) break;
        if (steps == 60) return false;
        T g = (d[first + 1] - d[first]) / (2 * e[first]);  // Wilkinson's shift
        const T r = root(g * g + 1);
        g = d[last] - d[first] + e[first] / (g + (g < 0 ? -r : r));
        T s = 1, c = 1, p = 0;
        Index i = last - 1;
        for (; i >= first; --i) {
          const T f = s * e[i], b = c * e[i], length = root(f * f + g * g);
          e[i + 1] = length;
          if (length == 0) {  // the matrix splits into two blocks here
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
          if (z) rotate(z + i * n, z + (i + 1) * n, c, s, n);
        }
        if (i >= first) continue;
        d[first] -= p;
        e[first] = g;
        e[last] = 0;
      }
    return true;
  }

  static bool eigh(void* matrix, Index n, void* values, bool vectors, void* work) {
    T *a = static_cast<T*>(matrix), *d = static_cast<T*>(values);
    T *e = static_cast<T*>(work), *taus = e + n, *sums = taus + n, *q = sums + n;
    tridiagonal(a, n, d, e, taus);
    if (vectors) {
      set_identity(q, n, n);
      for (Index k = n - 2; k >= 0; --k)
        reflect(q + (k + 1) * (n + 1), n, a + k * n + k + 1, 1, n - k - 1, n - k - 1, taus[k], sums);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) a[i * n + j] = q[j * n + i];
    }
    if (!ql(d, e, n, vectors ? a : nullptr)) return false;
    for (Index i = 0; i < n; ++i) {
      Index least = i;
      for (Index j = i + 1; j < n; ++j)
        if (d[j] < d[least]) least = j;
      if (least == i) continue;
      exchange(d + i, d + least, 1);
      if (vectors) exchange(a + i * n, a + least * n, n);
    }
    return true;
  }

  // ---- singular values --------------------------------------------------------------------------

  /// Rotates rows of x until they are orthogonal, and the rows of y with them. Longer
  /// rows come first.
  static bool svd(void* rows, Index k, Index n, void* turned, void* values) {
    T *x = static_cast<T*>(rows), *y = static_cast<T*>(turned), *squares = static_cast<T*>(values);
    if (y) set_identity(y, k, k);
    const T tolerance = epsilon * root(static_cast<T>(n));
    bool orthogonal = false;
    for (int sweep = 0; !orthogonal; ++sweep) {
      if (sweep == 60) return false;
      orthogonal = true;
      T largest = 0;
      for (Index i = 0; i < k; ++i) {
        squares[i] = dot(x + i * n, x + i * n, n);
        largest = squares[i] > largest ? squares[i] : largest;
      }
      // A row whose squared length is at most this consists of rounding errors.
      const T rounding = largest * epsilon * epsilon;
      for (Index i = 0; i < k; ++i) {
        Index longest = i;
        for (Index j = i + 1; j < k; ++j)
          if (squares[j] > squares[longest]) longest = j;
        if (longest != i) {
          exchange(squares + i, squares + longest, 1);
          exchange(x + i * n, x + longest * n, n);
          if (y) exchange(y + i * k, y + longest * k, k);
        }
        for (Index j = i + 1; j < k; ++j) {
          T *const a = x + i * n, *const b = x + j * n;
          const T product = dot(a, b, n);
          if (squares[j] <= rounding || size(product) <= tolerance * root(squares[i]) * root(squares[j])) continue;
          orthogonal = false;
          const T zeta = (squares[j] - squares[i]) / (2 * product), r = root(1 + zeta * zeta);
          const T t = 1 / (zeta + (zeta < 0 ? -r : r)), c = 1 / root(1 + t * t), s = c * t;
          rotate(a, b, c, s, n);
          if (y) rotate(y + i * k, y + j * k, c, s, k);
          squares[i] = dot(a, a, n);
          squares[j] = dot(b, b, n);
        }
      }
    }
    finish(x, k, n, y, squares);
    return true;
  }

  /// Scales orthogonal rows to unit length, orders them by descending length, and replaces their
  /// squared lengths by their lengths. A row that is only rounding error relative to the longest
  /// has no direction of its own. Unless y is null, such rows are replaced by `complete`.
  static void finish(T* x, Index k, Index n, T* y, T* squares) {
    for (Index i = 0; i < k; ++i) {
      Index longest = i;
      for (Index j = i + 1; j < k; ++j)
        if (squares[j] > squares[longest]) longest = j;
      if (longest == i) continue;
      exchange(squares + i, squares + longest, 1);
      exchange(x + i * n, x + longest * n, n);
      if (y) exchange(y + i * k, y + longest * k, k);
    }
    Index known = 0;
    const T rounding = k > 0 ? squares[0] * epsilon * epsilon : 0;
    for (Index i = 0; i < k; ++i) {
      const T length = root(squares[i]);
      if (squares[i] > rounding) {
        multiply(x + i * n, 1 / length, n);
        known = i + 1;
      }
      squares[i] = length;
    }
    if (y) complete(x, known, k, n);
  }

  static void complete(void* matrix, Index known, Index rows, Index n) {
    T* const x = static_cast<T*>(matrix);
    for (Index i = known; i < rows; ++i) {
      T* const row = x + i * n;
      // Sets row[j] to the squared length of the part of axis j in the span of the rows before.
      for (Index j = 0; j < n; ++j) row[j] = 0;
      for (Index r = 0; r < i; ++r)
        for (Index j = 0; j < n; ++j) row[j] += x[r * n + j] * x[r * n + j];
      Index axis = 0;
      for (Index j = 1; j < n; ++j)
        if (row[j] < row[axis]) axis = j;
      for (Index j = 0; j < n; ++j) row[j] = j == axis;
      for (int twice = 0; twice < 2; ++twice) {
        for (Index r = 0; r < i; ++r) add(row, -dot(row, x + r * n, n), x + r * n, n);
        multiply(row, 1 / root(dot(row, row, n)), n);
      }
    }
  }

  static constexpr stave_cpu::SmallLinalg kernels{cholesky, lu, triangular_solve, qr, eigh, svd, complete};
};

void fill_linalg(stave_cpu::Kernels& table) {
  table.small_linalg[static_cast<int>(stave_cpu::Dtype::float32)] = Small<float>::kernels;
  table.small_linalg[static_cast<int>(stave_cpu::Dtype::float64)] = Small<double>::kernels;
}

}  // namespace STAVE_KERNELS
