// Work types for teams (team.cuh) that factorize matrices. A work type has the parameters of a
// kernel and the body that processes one item. Outputs are contiguous.
#pragma once

#include <stave/backends/cuda/linalg_plan.h>
#include <stave/backends/cuda/kernels/small_svd.cuh>

namespace stave_cuda {

/// Records the index of the first matrix of a batch without a result. If `first` is null, failures
/// are not recorded.
struct FirstFailure {
  static constexpr unsigned long long none = ~0ull;
  unsigned long long* first = nullptr;

  STAVE_BOTH void at(Index i) const {
    if (!first) return;
    const auto number = static_cast<unsigned long long>(i);
#ifdef __CUDA_ARCH__
    atomicMin(first, number);
#else
    if (number < *first) *first = number;
#endif
  }
};

template <class T, class Team>
STAVE_BOTH void load(const Team& team, const MatrixStack<T>& from, Index i, T* to, int step) {
  const T* const x = from(i);
  team.for_lanes([&](int c) {
    for (int r = 0; c < from.columns && r < from.rows; ++r)
      to[r * step + c] = x[r * from.row_step + c * from.column_step];
  });
}
/// Sets to[r, c] = of(r, c) for all entries of `to`, which is dense with shape [rows, columns].
template <class T, class Team, class F>
STAVE_BOTH void store(const Team& team, T* to, Index rows, Index columns, F of) {
  team.for_lanes([&](int c) {
    for (int r = 0; c < columns && r < rows; ++r) to[r * columns + c] = of(r, c);
  });
}
template <class T, class Team>
STAVE_BOTH void store_nan(const Team& team, T* to, Index rows, Index columns) {
  store(team, to, rows, columns, [](int, int) { return not_a_number<T>(); });
}

// ---- factors ----------------------------------------------------------------------------------

template <class T>
struct CholeskyWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> a;
  T* out;
  FirstFailure failure;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices> part) const {
    const int n = static_cast<int>(a.rows), step = part.step();
    T *const l = part.matrix(0), *const to = out + i * n * n;
    const T* const x = a(i);
    team.for_lanes([&](int c) {
      for (int r = 0; c < n && r < n; ++r)
        l[r * step + c] = hermitian_mean(x[r * a.row_step + c * a.column_step], x[c * a.row_step + r * a.column_step]);
    });
    const bool finite = all_finite(team, l, step, n, n, part.vector(0));
    if (finite && cholesky(team, l, step, n, part.vector(0)))
      return store(team, to, n, n, [&](int r, int c) { return c > r ? T(0) : l[r * step + c]; });
    if (finite) failure.at(i);
    store_nan(team, to, n, n);
  }
};

template <class T>
struct LuWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> a;
  T* packed;
  std::int32_t *exchanges, *order;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices> part) const {
    const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns), k = m < n ? m : n, step = part.step();
    T* const x = part.matrix(0);
    int *const swaps = part.numbers(0), *const rows = part.numbers(1);
    load(team, a, i, x, step);
    lu(team, x, step, m, n, swaps);
    // The factors are not finite if the matrix was not finite, or if they overflowed.
    const bool finite = all_finite(team, x, step, m, n, part.vector(0));
    if (!finite)
      team.for_lanes([&](int r) {
        if (r < k) swaps[r] = r;
      });
    order_of(team, swaps, k, rows, m);
    store(team, packed + i * m * n, m, n, [&](int r, int c) { return finite ? x[r * step + c] : not_a_number<T>(); });
    team.for_lanes([&](int r) {
      if (r < k) exchanges[i * k + r] = swaps[r];
      if (r < m) order[i * m + r] = rows[r];
    });
  }
};

template <class T>
struct QrWork {
  using Value = T;
  static constexpr int matrices = 2;
  Index items;
  int width;
  MatrixStack<T> a;
  T *q, *r;
  Index p;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices> part) const {
    const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns), step = part.step();
    T *const x = part.matrix(0), *const y = part.matrix(1), *const to_q = q + i * m * p, *const to_r = r + i * p * n;
    load(team, a, i, x, step);
    if (!all_finite(team, x, step, m, n, part.vector(0))) {
      store_nan(team, to_q, m, p);
      return store_nan(team, to_r, p, n);
    }
    const RealOf<T> factor = moderate(team, x, step, m, n, part.vector(0));
    qr(team, x, step, m, n, y, static_cast<int>(p), part.vector(0));
    store(team, to_q, m, p, [&](int row, int c) { return y[row * step + c]; });
    store(team, to_r, p, n, [&](int row, int c) { return row <= c ? x[row * step + c] * (1 / factor) : T(0); });
  }
};

template <class T>
struct EighWork {
  using Value = T;
  static constexpr int matrices = 2;
  Index items;
  int width;
  MatrixStack<T> a;
  RealOf<T>* w;
  T* v;  // If v is null, only the eigenvalues are computed.
  FirstFailure failure;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices> part) const {
    const int n = static_cast<int>(a.rows), step = part.step();
    T *const x = part.matrix(0), *const y = v ? part.matrix(1) : nullptr;
    const T* const from = a(i);
    team.for_lanes([&](int c) {
      for (int r = 0; c < n && r < n; ++r)
        x[r * step + c] =
            hermitian_mean(from[r * a.row_step + c * a.column_step], from[c * a.row_step + r * a.column_step]);
    });
    if (!all_finite(team, x, step, n, n, part.vector(0))) {
      store_nan(team, w + i * n, 1, n);
      if (v) store_nan(team, v + i * n * n, n, n);
      return;
    }
    const RealOf<T> factor = moderate(team, x, step, n, n, part.vector(0));
    RealOf<T> values[most_lanes];
    if (!eigh(team, x, step, n, y, values, part.vector(0), part.vector(1))) failure.at(i);
    store(team, w + i * n, 1, n, [&](int, int c) { return values[c] * (1 / factor); });
    if (v) store(team, v + i * n * n, n, n, [&](int r, int c) { return y[r * step + c]; });
  }
};

/// Computes the singular value decomposition by rotating the rows of a matrix until they are
/// orthogonal: y a = diag(s) vh, where y is unitary, so u = y^H. If the matrix has more rows than
/// columns, its transpose is used: y a^T = diag(s) x, so u = x^T and vh = conj(y).
template <class T>
struct SvdWork {
  using Value = T;
  static constexpr int matrices = 2;
  Index items;
  int width;
  MatrixStack<T> a;
  // u is [m, p] and vh is [q, n]. If they are null, only the singular values are computed.
  T* u;
  RealOf<T>* s;
  T* vh;
  Index p, q;
  FirstFailure failure;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index, TeamPart<T, matrices> part) const {
    const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns), step = part.step();
    const bool tall = m > n;
    const int k = tall ? n : m, longer = tall ? m : n;
    T *const x = part.matrix(0), *const y = u ? part.matrix(1) : nullptr;
    const T* const from = a(i);
    team.for_lanes([&](int c) {
      for (int r = 0; c < longer && r < k; ++r)
        x[r * step + c] = tall ? from[c * a.row_step + r * a.column_step] : from[r * a.row_step + c * a.column_step];
    });
    RealOf<T> values[most_lanes];
    const bool finite = all_finite(team, x, step, k, longer, part.vector(0));
    if (finite) {
      const RealOf<T> factor = moderate(team, x, step, k, longer, part.vector(0));
      if (!svd(team, x, y, step, k, longer, values)) failure.at(i);
      for (int j = 0; j < k; ++j) values[j] *= 1 / factor;
      if (u) complete(team, x, step, k, static_cast<int>(tall ? p : q), longer);
    }
    store(team, s + i * k, 1, k, [&](int, int c) { return finite ? values[c] : not_a_number<RealOf<T>>(); });
    if (!u) return;
    store(team, u + i * m * p, m, p, [&](int r, int c) {
      return !finite ? not_a_number<T>() : tall ? x[c * step + r] : conjugate(y[c * step + r]);
    });
    store(team, vh + i * q * n, q, n, [&](int r, int c) {
      return !finite ? not_a_number<T>() : tall ? conjugate(y[r * step + c]) : x[r * step + c];
    });
  }
};

}  // namespace stave_cuda
