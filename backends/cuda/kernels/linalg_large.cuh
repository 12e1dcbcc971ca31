// Work on large matrices before and after cuSOLVER or cuBLAS factorizes them. One block processes a
// matrix. Matrices are dense. finite[i] is true if matrix i has only finite elements.
#pragma once

#include <stave/backends/cuda/kernels/linalg_solve.cuh>

namespace stave_cuda {

/// The shared memory of a block. R is a real type.
template <class R>
struct LargeShared {
  R largest[block_threads], sum[block_threads];
};

/// Calls f(i) for 0 <= i < count, divided among the threads.
template <class Block, class F>
STAVE_BOTH void for_each(const Block& block, Index count, F f) {
  block.for_threads([&](unsigned t) {
    for (Index i = t; i < count; i += block_threads) f(i);
  });
}

/// The largest absolute value of the numbers, and whether all are finite. Every thread gets the
/// same values.
template <class R>
struct Extent {
  R largest;
  bool finite;
};
template <class R, class Block>
STAVE_BOTH Extent<R> extent_of(const Block& block, const R* x, Index count, LargeShared<R>& shared) {
  block.for_threads([&](unsigned t) {
    R largest = 0, sum = 0;
    for (Index i = t; i < count; i += block_threads) {
      if (size(x[i]) > largest) largest = size(x[i]);
      sum += x[i] * 0;
    }
    shared.largest[t] = largest;
    shared.sum[t] = sum;
  });
  STAVE_UNROLL(1)
  for (unsigned half = block_threads / 2; half > 0; half /= 2)
    block.for_threads([&](unsigned t) {
      if (t >= half) return;
      if (shared.largest[t + half] > shared.largest[t]) shared.largest[t] = shared.largest[t + half];
      shared.sum[t] += shared.sum[t + half];
    });
  const Extent<R> extent{shared.largest[0], shared.sum[0] == 0};
  block.for_threads([](unsigned) {});
  return extent;
}

/// The work before the library call. If `hermitian`, it replaces a matrix by its Hermitian part. If
/// `moderates`, it scales the elements to a moderate size. It sets a matrix that is not finite to
/// 0, because an iteration of the library might not end otherwise.
template <class T>
struct PrepareWork {
  using Value = RealOf<T>;
  Index items;
  T* x;
  Index rows, columns, apart;  // `apart` is the number of elements from one matrix to the next
  bool hermitian, moderates;
  int* finite;
  // The factors that the matrices were multiplied by; null if they are not stored.
  Value* factors;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<Value>& shared) const {
    T* const a = x + i * apart;
    const Index n = columns, count = rows * columns;
    if (hermitian)
      for_each(block, count, [&](Index at) {
        const Index r = at / n, c = at % n;
        if (c > r) return;
        const T mean = hermitian_mean(a[at], a[c * n + r]);
        a[c * n + r] = conjugate(mean);
        a[at] = mean;
      });
    Value* const parts = parts_of(a);
    const Extent<Value> extent = extent_of(block, parts, count * parts_per<T>, shared);
    const Value factor = moderates && extent.finite ? safe_scale(extent.largest) : Value(1);
    block.for_threads([&](unsigned t) {
      if (t != 0) return;
      finite[i] = extent.finite;
      if (factors) factors[i] = factor;
    });
    if (extent.finite && factor == 1) return;
    for_each(block, count * parts_per<T>, [&](Index at) { parts[at] = extent.finite ? parts[at] * factor : Value(0); });
  }
};

/// The work after eigh, svd and qr. It divides the first result by the factors that PrepareWork
/// stored. It sets all results of a matrix that was not finite to NaN. Results are real, or the
/// parts of complex ones, and `sizes` are the numbers of these per matrix.
template <class R>
struct FinishWork {
  using Value = R;
  Index items;
  R* results[3];
  Index sizes[3];
  const int *finite, *infos;  // If infos is null, no failure is reported.
  const R* factors;           // If null, the result is not divided.
  FirstFailure failure;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<R>&) const {
    const bool is_finite = finite[i];
    block.for_threads([&](unsigned t) {
      if (t == 0 && is_finite && infos && infos[i] != 0) failure.at(i);
    });
    const R factor = is_finite && factors ? 1 / factors[i] : R(1);
    for (int j = 0; j < 3; ++j) {
      if (is_finite && (j > 0 || factor == 1)) continue;
      R* const x = results[j] + i * sizes[j];
      for_each(block, sizes[j], [&](Index at) { x[at] = is_finite ? x[at] * factor : not_a_number<R>(); });
    }
  }
};

template <class T>
struct FinishCholeskyWork {
  using Value = RealOf<T>;
  Index items, n;
  T* l;
  const int *finite, *infos;
  FirstFailure failure;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<Value>&) const {
    const bool found = finite[i] && infos[i] == 0;
    block.for_threads([&](unsigned t) {
      if (t == 0 && finite[i] && !found) failure.at(i);
    });
    T* const x = l + i * n * n;
    for_each(block, n * n, [&](Index at) {
      if (!found) x[at] = not_a_number<T>();
      else if (at % n > at / n) x[at] = T(0);
    });
  }
};

template <class T>
struct FinishLuWork {
  using Value = RealOf<T>;
  Index items, m, n;
  T* packed;
  // The library counts rows from 1; this work changes `exchanges` to count from 0.
  std::int32_t *exchanges, *order;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<Value>& shared) const {
    const Index k = m < n ? m : n;
    T* const x = packed + i * m * n;
    std::int32_t *const swaps = exchanges + i * k, *const rows = order + i * m;
    const bool finite = extent_of(block, parts_of(x), m * n * parts_per<T>, shared).finite;
    for_each(block, m, [&](Index r) {
      rows[r] = static_cast<std::int32_t>(r);
      if (r < k) swaps[r] = finite ? swaps[r] - 1 : static_cast<std::int32_t>(r);
    });
    block.for_threads([&](unsigned t) {
      for (Index r = 0; t == 0 && r < k; ++r) exchange(rows[r], rows[swaps[r]]);
    });
    if (!finite) for_each(block, m * n, [&](Index at) { x[at] = not_a_number<T>(); });
  }
};

/// Copies r [p, n] from the upper triangle of the first n columns of `by_columns`, the column-major
/// result of the library, which has m rows.
template <class T>
struct TakeTriangleWork {
  using Value = RealOf<T>;
  Index items, m, n, p;
  const T* by_columns;
  Index apart;  // elements from one matrix to the next
  T* r;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<Value>&) const {
    const T* const from = by_columns + i * apart;
    T* const to = r + i * p * n;
    for_each(block, p * n, [&](Index at) {
      const Index row = at / n, c = at % n;
      to[at] = row <= c ? from[c * m + row] : T(0);
    });
  }
};

}  // namespace stave_cuda
