// Orthogonal factors: qr, eigh and svd. LAPACK needs column-major matrices,
// and the kernels for small matrices row-major ones. For eigh and svd, LAPACK reads the row-major
// matrix as its transpose, which is sufficient.
#include <stave/backends/cpu/linalg_orthogonal.h>

#include <stave/backends/cpu/linalg_stack.h>

namespace stave_cpu {

namespace {

constexpr const char* not_converged = "has a factorization that did not converge";

}  // namespace

// ---- qr -----------------------------------------------------------------------------------------

namespace {

template <class T>
void large_qr(const Stack<const T>& a, Index i, T* q, T* r, Index p) {
  const Index m = a.rows, n = a.columns;
  const lapack_int rows = to_int(m, "qr"), columns = to_int(n, "qr"), all = to_int(p, "qr");
  const auto by_columns = room<T>(m * p), taus = room<T>(n);
  copy_matrix(a, i, by_columns.get(), 1, m);
  if (!all_finite(by_columns.get(), m * n)) return fill_nan(q, m * p), fill_nan(r, p * n);
  with_work<T>(n, "qr", [&](T* work, lapack_int count) {
    return geqrf(rows, columns, by_columns.get(), rows, taus.get(), work, count);
  });
  for (Index row = 0; row < p; ++row)
    for (Index column = 0; column < n; ++column)
      r[row * n + column] = row <= column ? by_columns[static_cast<std::size_t>(column * m + row)] : T(0);
  with_work<T>(p, "qr", [&](T* work, lapack_int count) {
    return orgqr(rows, all, columns, by_columns.get(), rows, taus.get(), work, count);
  });
  const Index shape[] = {m, p}, from[] = {1, m}, to[] = {p, 1};
  copy_strided({reinterpret_cast<char*>(q), to}, {reinterpret_cast<char*>(by_columns.get()), from}, shape, sizeof(T));
}

template <std::floating_point T>
void small_qr(const Stack<const T>& a, Index i, T* q, T* r, Index p, T* buffer) {
  const Index m = a.rows, n = a.columns;
  T* const work = buffer + m * n;
  copy_matrix(a, i, buffer, n, 1);
  if (!all_finite(buffer, m * n)) return fill_nan(q, m * p), fill_nan(r, p * n);
  const T factor = safe_scale(buffer, m * n);
  scale_by(buffer, m * n, factor);
  small_linalg<T>().qr(buffer, m, n, q, p, work);
  scale_by(buffer, p * n, 1 / factor);
  std::copy_n(buffer, p * n, r);
}

}  // namespace

template <class T>
void run_qr(const View& in, std::span<const View> out) {
  const Stack<const T> a(in);
  const Index m = a.rows, n = a.columns, p = out[0].shape.back();
  const bool large = !is_real<T> || std::max(m, n) > small;
  over_stack(a.count(), 4 * m * p * n, std::max(m, n), [&](Index first, Index last) {
    const auto buffer = large ? nullptr : room<T>(m * n + m + p);
    for (Index i = first; i < last; ++i) {
      T *const q = static_cast<T*>(out[0].data) + i * m * p, *const r = static_cast<T*>(out[1].data) + i * p * n;
      if constexpr (is_real<T>)
        if (!large) {
          small_qr(a, i, q, r, p, buffer.get());
          continue;
        }
      large_qr(a, i, q, r, p);
    }
  });
}

template void run_qr<float>(const View&, std::span<const View>);
template void run_qr<double>(const View&, std::span<const View>);
template void run_qr<std::complex<float>>(const View&, std::span<const View>);
template void run_qr<std::complex<double>>(const View&, std::span<const View>);

// ---- eigh ---------------------------------------------------------------------------------------

namespace {

template <class T>
bool large_eigh(T* a, Index n, RealOf<T>* w, bool vectors) {
  const lapack_int size = to_int(n, "eigh");
  const Index integers = vectors ? 3 + 5 * n : 1, reals = vectors ? 1 + 5 * n + 2 * n * n : n;
  to_int(1 + 6 * n + 2 * n * n, "eigh");
  const auto places = room<lapack_int>(integers);
  const char job = vectors ? 'V' : 'N';
  if constexpr (is_real<T>) {
    return with_work<T>(1, "eigh", [&](T* work, lapack_int count) {
             return syevd(job, size, a, size, w, work, count, places.get(), count < 0 ? -1 : to_int(integers, "eigh"));
           }) == 0;
  } else {
    const auto real_work = room<RealOf<T>>(reals);
    return with_work<T>(1, "eigh", [&](T* work, lapack_int count) {
             return syevd(job, size, a, size, w, work, count, places.get(), count < 0 ? -1 : to_int(integers, "eigh"),
                          real_work.get(), count < 0 ? -1 : to_int(reals, "eigh"));
           }) == 0;
  }
}

/// Transposes x in place, so that the eigenvectors, which are its rows, become columns.
template <class T>
void transpose_square(T* x, Index n) {
  constexpr Index tile = 32;
  for (Index top = 0; top < n; top += tile)
    for (Index left = 0; left <= top; left += tile)
      for (Index r = top; r < std::min(top + tile, n); ++r)
        for (Index c = left; c < std::min(left + tile, r); ++c) std::swap(x[r * n + c], x[c * n + r]);
}

}  // namespace

template <class T>
void run_eigh(const char* op, const View& in, std::span<const View> out) {
  const Stack<const T> a(in);
  const Index n = a.rows;
  const bool large = !is_real<T> || n > small, vectors = out.size() == 2;
  Failure failure;
  over_stack(a.count(), 8 * n * n * n, n, [&](Index first, Index last) {
    const auto buffer = vectors ? nullptr : room<T>(n * n), work = large ? nullptr : room<T>(n * n + 3 * n);
    for (Index i = first; i < last; ++i) {
      auto* const w = static_cast<RealOf<T>*>(out[0].data) + i * n;
      T* const v = vectors ? static_cast<T*>(out[1].data) + i * n * n : buffer.get();
      if (!load_hermitian(a, i, v)) {
        fill_nan(w, n);
        fill_nan(v, n * n);
        continue;
      }
      if (large) {
        // LAPACK reads the transpose, which has the conjugate eigenvectors.
        if (!large_eigh(v, n, w, vectors)) failure.at(i);
        conjugate_all(v, n * n);
      } else if constexpr (is_real<T>) {
        const T factor = safe_scale(v, n * n);
        scale_by(v, n * n, factor);
        if (!small_linalg<T>().eigh(v, n, w, vectors, work.get())) failure.at(i);
        scale_by(w, n, 1 / factor);
      }
      if (vectors) transpose_square(v, n);
    }
  });
  failure.check(op, a.shape(), not_converged);
}

template void run_eigh<float>(const char*, const View&, std::span<const View>);
template void run_eigh<double>(const char*, const View&, std::span<const View>);
template void run_eigh<std::complex<float>>(const char*, const View&, std::span<const View>);
template void run_eigh<std::complex<double>>(const char*, const View&, std::span<const View>);

// ---- svd ----------------------------------------------------------------------------------------

namespace {

/// The results of one matrix: u [m, p], s and vh [q, n]. u and vh are null if they are not needed.
template <class T>
struct SvdResults {
  T* u;
  RealOf<T>* s;
  T* vh;
  Index p, q;
};

/// Computes the svd by LAPACK, which reads the row-major a as a^T = vh^T diag(s) u^T. LAPACK's left
/// factor, column-major, is the row-major vh, and its right factor is the row-major u.
template <class T>
bool large_svd(T* a, Index m, Index n, const SvdResults<T>& to) {
  const lapack_int rows = to_int(m, "svd"), columns = to_int(n, "svd");
  const Index k = std::min(m, n);
  if (k == 0) return true;
  to_int(4 * k * k + 7 * k + std::max(m, n), "svd");
  const char job = !to.u ? 'N' : to.p == m && to.q == n ? 'A' : 'S';
  const auto places = room<lapack_int>(8 * k);
  // The largest size that LAPACK's documentation of cgesdd gives.
  const Index reals = to.u ? k * std::max(5 * k + 7, 2 * std::max(m, n) + 2 * k + 1) : 7 * k;
  const auto real_work = is_real<T> ? nullptr : room<RealOf<T>>(reals);
  return with_work<T>(1, "svd", [&](T* work, lapack_int count) {
           const auto call = [&](auto... more) {
             return gesdd(job, columns, rows, a, columns, to.s, to.vh, columns, to.u,
                          static_cast<lapack_int>(std::max<Index>(1, to.p)), work, count, places.get(), more...);
           };
           if constexpr (is_real<T>) return call();
           else return call(real_work.get());
         }) == 0;
}

template <class T>
void transpose_into(T* to, const T* from, Index rows, Index columns) {
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

/// Computes the svd of a small matrix. If m <= n, the rows of a are rotated. Otherwise the rows
/// of a^T are rotated, and u and v are exchanged. `buffer` has room for 2 * 32 * 32 numbers.
template <std::floating_point T>
bool small_svd(const T* a, Index m, Index n, const SvdResults<T>& to, T* buffer) {
  const SmallLinalg& kernels = small_linalg<T>();
  const bool tall = m > n;
  const Index k = std::min(m, n), longer = std::max(m, n);
  T *const x = buffer, *const y = to.u ? buffer + small * small : nullptr;
  if (tall) transpose_into(x, a, m, n);
  else std::copy_n(a, m * n, x);
  const T factor = safe_scale(x, m * n);
  scale_by(x, m * n, factor);
  if (!kernels.svd(x, k, longer, y, to.s)) return false;
  scale_by(to.s, k, 1 / factor);
  if (!y) return true;
  const Index wide = tall ? to.p : to.q;  // the number of singular vectors of the longer side
  kernels.complete(x, k, wide, longer);
  if (tall) {
    transpose_into(to.u, x, wide, longer);
    std::copy_n(y, k * k, to.vh);
  } else {
    transpose_into(to.u, y, k, k);
    std::copy_n(x, wide * longer, to.vh);
  }
  return true;
}

}  // namespace

template <class T>
void run_svd(const char* op, const View& in, std::span<const View> out) {
  const Stack<const T> a(in);
  const Index m = a.rows, n = a.columns, k = std::min(m, n);
  const bool vectors = out.size() == 3, large = !is_real<T> || std::max(m, n) > small;
  const Index p = vectors ? out[0].shape.back() : 0, q = vectors ? out[2].shape[out[2].shape.size() - 2] : 0;
  Failure failure;
  over_stack(a.count(), 16 * m * n * k, std::max(m, n), [&](Index first, Index last) {
    const auto matrix = room<T>(m * n), buffer = large ? nullptr : room<T>(2 * small * small);
    for (Index i = first; i < last; ++i) {
      SvdResults<T> to{nullptr, static_cast<RealOf<T>*>(out[vectors ? 1 : 0].data) + i * k, nullptr, p, q};
      if (vectors) {
        to.u = static_cast<T*>(out[0].data) + i * m * p;
        to.vh = static_cast<T*>(out[2].data) + i * q * n;
      }
      copy_matrix(a, i, matrix.get(), n, 1);
      if (!all_finite(matrix.get(), m * n)) {
        fill_nan(to.s, k);
        if (vectors) fill_nan(to.u, m * p), fill_nan(to.vh, q * n);
        continue;
      }
      if (large) {
        if (!large_svd(matrix.get(), m, n, to)) failure.at(i);
      } else if constexpr (is_real<T>) {
        if (!small_svd(matrix.get(), m, n, to, buffer.get())) failure.at(i);
      }
    }
  });
  failure.check(op, a.shape(), not_converged);
}
template void run_svd<float>(const char*, const View&, std::span<const View>);
template void run_svd<double>(const char*, const View&, std::span<const View>);
template void run_svd<std::complex<float>>(const char*, const View&, std::span<const View>);
template void run_svd<std::complex<double>>(const char*, const View&, std::span<const View>);

}  // namespace stave_cpu
