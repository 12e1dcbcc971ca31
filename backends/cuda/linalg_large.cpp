// Linear algebra on large matrices with cuSOLVER and cuBLAS. These libraries read a row-major
// matrix as its transpose. If the factors of the transpose serve as well (cholesky, eigh of real
// matrices, and svd of matrices with no more rows than columns), no data is transposed. A matrix
// with NaN or infinity is set to 0 before the call of the library, whose iteration might not end
// otherwise; afterwards the results for that matrix are set to NaN.
#include <mutex>
#include <type_traits>
#include <vector>

#include <stave/backends/cuda/cusolver.h>
#include <stave/backends/cuda/linalg_drivers.h>

namespace stave_cuda {

namespace {

/// The type that CUDA's libraries have for numbers, and for pointers to numbers.
template <class T>
struct NativeOf {
  using Type = T;
};
template <>
struct NativeOf<ComplexElement<float>> {
  using Type = cuComplex;
};
template <>
struct NativeOf<ComplexElement<double>> {
  using Type = cuDoubleComplex;
};
template <class T>
struct NativeOf<T*> {
  using Type = typename NativeOf<T>::Type*;
};
template <class T>
typename NativeOf<T>::Type* native(T* x) {
  return reinterpret_cast<typename NativeOf<T>::Type*>(x);
}

/// Returns the function of the four that takes numbers of type T.
template <class T, class S, class D, class C, class Z>
auto by_dtype(S single, D twice, C complex, Z complex_twice) {
  if constexpr (std::is_same_v<T, float>) return single;
  else if constexpr (std::is_same_v<T, double>) return twice;
  else if constexpr (std::is_same_v<T, ComplexElement<float>>) return complex;
  else return complex_twice;
}
// The functions for numbers of type T. Some of cuSOLVER's have another name for complex numbers.
#define STAVE_CUSOLVER_EITHER(real, complex) \
  by_dtype<T>(cusolver().S##real, cusolver().D##real, cusolver().C##complex, cusolver().Z##complex)
#define STAVE_CUSOLVER_CALL(name) STAVE_CUSOLVER_EITHER(name, name)
#define STAVE_CUBLAS_CALL(name)                                                                   \
  by_dtype<T>(cublas_of_solver().S##name, cublas_of_solver().D##name, cublas_of_solver().C##name, \
              cublas_of_solver().Z##name)

int to_int(Index n, const char* op) {
  if (n > std::numeric_limits<int>::max())
    stave_detail::fail<stave::ShapeError>("{}: a matrix is too large for cuSOLVER's integers, which have 32 bits", op);
  return static_cast<int>(n);
}

/// Returns the mutex that guards the library handles. Only one thread at a time may use a handle.
std::mutex& of_handles() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

/// Matrices with up to this number of rows are passed to a library as one batch, if the library has
/// a batched function.
constexpr Index most_in_batch = 256;
bool in_batch(Index n, Index count) { return count > 1 && n <= most_in_batch; }

/// Returns a device array of pointers to the matrices.
template <class T>
T** places(const Launch& launch, T* first, Index apart, Index count) {
  std::vector<T*> all(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = first + i * apart;
  T** const there = room<T*>(launch, count);
  check(cudaMemcpyAsync(there, all.data(), all.size() * sizeof(T*), cudaMemcpyHostToDevice, launch.stream),
        "places of matrices");
  return there;
}

/// Prepares dense matrices at x for a library (PrepareWork). Stores which of them are finite and
/// the factor by which each matrix was multiplied.
template <class T>
struct Prepared {
  int* finite;
  RealOf<T>* factors;  // null: no matrix was multiplied

  Prepared(const Launch& launch, T* x, Index count, Index rows, Index columns, Index apart, bool hermitian,
           bool moderates)
      : finite(room<int>(launch, count)), factors(moderates ? room<RealOf<T>>(launch, count) : nullptr) {
    launch_blocks(launch, PrepareWork<T>{count, x, rows, columns, apart, hermitian, moderates, finite, factors},
                  "linear algebra");
  }
};

/// Adds result j of the library call, with `size` numbers per matrix, to the work that follows.
template <class R, class T>
void add_result(FinishWork<R>& work, int j, T* result, Index size) {
  work.results[j] = parts_of(result);
  work.sizes[j] = size * parts_per<T>;
}
/// Returns the work that follows the library call, for the result that PrepareWork scaled, with
/// `size` numbers per matrix. Failures are reported only if `infos` is given.
template <class T, class Result>
FinishWork<RealOf<T>> finish_work(Index count, const Prepared<T>& prepared, Result* result, Index size,
                                  const int* infos = nullptr, const FirstFailure& failure = {}) {
  FinishWork<RealOf<T>> work{};
  work.items = count;
  work.finite = prepared.finite;
  work.factors = prepared.factors;
  add_result(work, 0, result, size);
  work.infos = infos;
  work.failure = failure;
  return work;
}

}  // namespace

// ---- cholesky ---------------------------------------------------------------------------------

/// cuSOLVER reads rows as columns, so it factors a^T = conj(a) = u^H u, where u^T is l. Its u is l
/// in row-major order.
template <class T>
void large_cholesky(const Launch& launch, const View& in, const View& out, const FirstFailure& failure) {
  const Index n = rows_of(in), count = StackPlan(in).count();
  const int side = to_int(n, "cholesky");
  T* const l = elements<T>(out);
  run_copy(launch, in, out);
  const Prepared<T> prepared(launch, l, count, n, n, n * n, true, false);
  int* const infos = room<int>(launch, count);
  {
    const std::lock_guard lock(of_handles());
    const cusolverDnHandle_t handle = cusolver_handle(launch);
    if (in_batch(n, count)) {
      check(STAVE_CUSOLVER_CALL(potrfBatched)(handle, CUBLAS_FILL_MODE_UPPER, side,
                                              native(places(launch, l, n * n, count)), side, infos,
                                              to_int(count, "cholesky")),
            "potrfBatched");
    } else {
      int size = 0;
      check(STAVE_CUSOLVER_CALL(potrf_bufferSize)(handle, CUBLAS_FILL_MODE_UPPER, side, native(l), side, &size),
            "potrf");
      T* const work = room<T>(launch, size);
      for (Index i = 0; i < count; ++i)
        check(STAVE_CUSOLVER_CALL(potrf)(handle, CUBLAS_FILL_MODE_UPPER, side, native(l + i * n * n), side,
                                         native(work), size, infos + i),
              "potrf");
    }
  }
  launch_blocks(launch, FinishCholeskyWork<T>{count, n, l, prepared.finite, infos, failure}, "cholesky");
}

// ---- lu ---------------------------------------------------------------------------------------

template <class T>
void large_lu(const Launch& launch, const View& in, T* packed, std::int32_t* exchanges, std::int32_t* order) {
  const Index m = rows_of(in), n = columns_of(in), k = std::min(m, n), count = StackPlan(in).count();
  if (k > 0) {
    const int rows = to_int(m, "lu"), columns = to_int(n, "lu");
    T* const by_columns = room<T>(launch, count * m * n);
    int* const infos = room<int>(launch, count);
    copy_matrices(launch, in, by_columns, m * n, true);
    {
      const std::lock_guard lock(of_handles());
      if (m == n && in_batch(n, count)) {
        check_cublas(STAVE_CUBLAS_CALL(getrfBatched)(cublas_handle(launch), rows,
                                                     native(places(launch, by_columns, m * n, count)), rows, exchanges,
                                                     infos, to_int(count, "lu")),
                     "getrfBatched");
      } else {
        const cusolverDnHandle_t handle = cusolver_handle(launch);
        int size = 0;
        check(STAVE_CUSOLVER_CALL(getrf_bufferSize)(handle, rows, columns, native(by_columns), rows, &size), "getrf");
        T* const work = room<T>(launch, size);
        for (Index i = 0; i < count; ++i)
          check(STAVE_CUSOLVER_CALL(getrf)(handle, rows, columns, native(by_columns + i * m * n), rows, native(work),
                                           exchanges + i * k, infos + i),
                "getrf");
      }
    }
    const Dense turned(by_columns, stave::dtype_of<T>(), {count, n, m});
    const Transposed rows_first(turned.view);
    copy_matrices(launch, rows_first.view, packed, m * n, false);
  }
  launch_blocks(launch, FinishLuWork<T>{count, m, n, packed, exchanges, order}, "lu");
}

// ---- qr ---------------------------------------------------------------------------------------

template <class T>
void large_qr(const Launch& launch, const View& in, std::span<const View> out) {
  const Index m = rows_of(in), n = columns_of(in), p = columns_of(out[0]), count = StackPlan(in).count();
  const int rows = to_int(m, "qr"), columns = to_int(n, "qr"), all = to_int(p, "qr");
  T *const by_columns = room<T>(launch, count * m * p), *const taus = room<T>(launch, n);
  int* const info = room<int>(launch, 1);
  copy_matrices(launch, in, by_columns, m * p, true);
  const Prepared<T> prepared(launch, by_columns, count, n, m, m * p, false, true);
  T* const r = elements<T>(out[1]);
  {
    const std::lock_guard lock(of_handles());
    const cusolverDnHandle_t handle = cusolver_handle(launch);
    int size = 0, q_size = 0;
    check(STAVE_CUSOLVER_CALL(geqrf_bufferSize)(handle, rows, columns, native(by_columns), rows, &size), "geqrf");
    check(STAVE_CUSOLVER_EITHER(orgqr_bufferSize, ungqr_bufferSize)(handle, rows, all, columns, native(by_columns),
                                                                    rows, native(taus), &q_size),
          "orgqr");
    T* const work = room<T>(launch, std::max(size, q_size));
    for (Index i = 0; i < count; ++i) {
      T* const a = by_columns + i * m * p;
      check(STAVE_CUSOLVER_CALL(geqrf)(handle, rows, columns, native(a), rows, native(taus), native(work), size, info),
            "geqrf");
      launch_blocks(launch, TakeTriangleWork<T>{1, m, n, p, a, 0, r + i * p * n}, "qr");
      check(STAVE_CUSOLVER_EITHER(orgqr, ungqr)(handle, rows, all, columns, native(a), rows, native(taus), native(work),
                                                q_size, info),
            "orgqr");
    }
  }
  const Dense turned(by_columns, stave::dtype_of<T>(), {count, p, m});
  const Transposed q(turned.view);
  copy_matrices(launch, q.view, elements<T>(out[0]), m * p, false);
  auto work = finish_work(count, prepared, r, p * n);
  add_result(work, 1, elements<T>(out[0]), m * p);
  launch_blocks(launch, work, "qr");
}

// ---- eigh -------------------------------------------------------------------------------------

/// cuSOLVER reads a row-major matrix as its transpose, which has the conjugate eigenvectors. So
/// complex matrices are copied in column-major order.
template <class T>
void large_eigh(const Launch& launch, const View& in, std::span<const View> out, const FirstFailure& failure) {
  const Index n = rows_of(in), count = StackPlan(in).count();
  const int side = to_int(n, "eigh");
  const bool vectors = out.size() == 2;
  T* const a = room<T>(launch, count * n * n);
  RealOf<T>* const w = elements<RealOf<T>>(out[0]);
  int* const infos = room<int>(launch, count);
  copy_matrices(launch, in, a, n * n, !is_real<T>);
  const Prepared<T> prepared(launch, a, count, n, n, n * n, true, true);
  {
    const std::lock_guard lock(of_handles());
    const cusolverDnHandle_t handle = cusolver_handle(launch);
    const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    int size = 0;
    check(STAVE_CUSOLVER_EITHER(syevd_bufferSize, heevd_bufferSize)(handle, mode, CUBLAS_FILL_MODE_LOWER, side,
                                                                    native(a), side, w, &size),
          "syevd");
    T* const work = room<T>(launch, size);
    for (Index i = 0; i < count; ++i)
      check(STAVE_CUSOLVER_EITHER(syevd, heevd)(handle, mode, CUBLAS_FILL_MODE_LOWER, side, native(a + i * n * n), side,
                                                w + i * n, native(work), size, infos + i),
            "syevd");
  }
  auto work = finish_work(count, prepared, w, n, infos, failure);
  if (vectors) {
    const Dense rows(a, stave::dtype_of<T>(), {count, n, n});
    const Transposed columns(rows.view);
    copy_matrices(launch, columns.view, elements<T>(out[1]), n * n, false);
    add_result(work, 1, elements<T>(out[1]), n * n);
  }
  launch_blocks(launch, work, "eigh");
}

// ---- svd --------------------------------------------------------------------------------------

/// gesvd requires no more columns than rows. It reads a row-major matrix as a^T = vh^T diag(s) u^T.
/// So a matrix with no more rows than columns needs no transpose. The left factor of a^T, stored in
/// columns, has the rows of vh, and the right factor has those of u. Matrices with more rows than
/// columns are copied in column-major order, and their vectors are transposed back.
template <class T>
void large_svd(const Launch& launch, const View& in, std::span<const View> out, const FirstFailure& failure) {
  const Index m = rows_of(in), n = columns_of(in), k = std::min(m, n), longer = std::max(m, n),
              count = StackPlan(in).count();
  const bool vectors = out.size() == 3, tall = m > n;
  const int rows = to_int(longer, "svd"), columns = to_int(k, "svd");
  const Index p = vectors ? columns_of(out[0]) : 0, q = vectors ? rows_of(out[2]) : 0, left_count = tall ? p : q;
  T* const a = room<T>(launch, count * m * n);
  RealOf<T>* const s = elements<RealOf<T>>(out[vectors ? 1 : 0]);
  T *left = vectors ? elements<T>(out[2]) : nullptr, *right = vectors ? elements<T>(out[0]) : nullptr;
  if (tall && vectors) left = room<T>(launch, count * m * p), right = room<T>(launch, count * n * n);
  int* const infos = room<int>(launch, count);
  copy_matrices(launch, in, a, m * n, tall);
  const Prepared<T> prepared(launch, a, count, k, longer, m * n, false, true);
  {
    const std::lock_guard lock(of_handles());
    const cusolverDnHandle_t handle = cusolver_handle(launch);
    const signed char job = !vectors ? 'N' : left_count == longer ? 'A' : 'S', other = vectors ? 'S' : 'N';
    int size = 0;
    check(STAVE_CUSOLVER_CALL(gesvd_bufferSize)(handle, rows, columns, &size), "gesvd");
    T* const work = room<T>(launch, size);
    RealOf<T>* const rest = room<RealOf<T>>(launch, k);
    for (Index i = 0; i < count; ++i)
      check(STAVE_CUSOLVER_CALL(gesvd)(handle, job, other, rows, columns, native(a + i * m * n), rows, s + i * k,
                                       native(vectors ? left + i * longer * left_count : nullptr), rows,
                                       native(vectors ? right + i * k * k : nullptr), columns, native(work), size, rest,
                                       infos + i),
            "gesvd");
  }
  auto work = finish_work(count, prepared, s, k, infos, failure);
  if (vectors) {
    if (tall) {
      const Dense u_rows(left, stave::dtype_of<T>(), {count, p, m}),
          v_columns(right, stave::dtype_of<T>(), {count, n, n});
      const Transposed u(u_rows.view), vh(v_columns.view);
      copy_matrices(launch, u.view, elements<T>(out[0]), m * p, false);
      copy_matrices(launch, vh.view, elements<T>(out[2]), n * n, false);
    }
    add_result(work, 1, elements<T>(out[0]), m * p);
    add_result(work, 2, elements<T>(out[2]), q * n);
  }
  launch_blocks(launch, work, "svd");
}

// ---- triangles --------------------------------------------------------------------------------

/// cuBLAS reads rows as columns, so t x = b becomes x^T t^T = b^T. Therefore the triangle is passed
/// to cuBLAS as a right factor, with lower and upper exchanged.
template <class T>
void large_substitute(const Launch& launch, const View& matrices, std::span<const Triangle> triangles, T* b, Index k) {
  const Index n = rows_of(matrices), count = StackPlan(matrices).count();
  if (k == 0) return;
  const stave::Strides dense = stave::contiguous_strides(stave::Shape(matrices.shape));
  T* t = elements<T>(matrices);
  if (!std::equal(dense.begin(), dense.end(), matrices.strides.begin())) {
    t = room<T>(launch, count * n * n);
    copy_matrices(launch, matrices, t, n * n, false);
  }
  const int side = to_int(n, "solve"), sides = to_int(k, "solve");
  alignas(typename NativeOf<T>::Type) T one(1);
  const std::lock_guard lock(of_handles());
  const cublasHandle_t handle = cublas_handle(launch);
  const bool batch = in_batch(n, count);
  T** const ts = batch ? places(launch, t, n * n, count) : nullptr;
  T** const bs = batch ? places(launch, b, n * k, count) : nullptr;
  for (const Triangle& of : triangles) {
    const cublasFillMode_t fill = of.lower ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
    const cublasOperation_t operation = of.transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasDiagType_t diagonal = of.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    if (batch) {
      check_cublas(
          STAVE_CUBLAS_CALL(trsmBatched)(handle, CUBLAS_SIDE_RIGHT, fill, operation, diagonal, sides, side,
                                         native(&one), native(ts), side, native(bs), sides, to_int(count, "solve")),
          "trsmBatched");
      continue;
    }
    for (Index i = 0; i < count; ++i)
      check_cublas(STAVE_CUBLAS_CALL(trsm_v2)(handle, CUBLAS_SIDE_RIGHT, fill, operation, diagonal, sides, side,
                                              native(&one), native(t + i * n * n), side, native(b + i * n * k), sides),
                   "trsm");
  }
}

#define STAVE_FOR(T)                                                                                   \
  template void large_cholesky<T>(const Launch&, const View&, const View&, const FirstFailure&);       \
  template void large_lu<T>(const Launch&, const View&, T*, std::int32_t*, std::int32_t*);             \
  template void large_qr<T>(const Launch&, const View&, std::span<const View>);                        \
  template void large_eigh<T>(const Launch&, const View&, std::span<const View>, const FirstFailure&); \
  template void large_svd<T>(const Launch&, const View&, std::span<const View>, const FirstFailure&);  \
  template void large_substitute<T>(const Launch&, const View&, std::span<const Triangle>, T*, Index);
STAVE_MATRIX_NUMBERS(STAVE_FOR)
#undef STAVE_FOR

}  // namespace stave_cuda
