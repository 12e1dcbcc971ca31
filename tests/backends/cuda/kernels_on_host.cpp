#include "cuda/kernels_on_host.h"

#include "cuda/complex_on_host.h"
#include "cuda/host_runtime.h"
#include "cuda/host_scratch.h"

#include <cblas.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include <stave/backends/attributes.h>
#include <stave/backends/cuda/attention.h>
#include <stave/backends/cuda/cusolver.h>
#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/faults.h>
#include <stave/backends/cuda/kernels/linalg_kernels.h>
#include <stave/backends/cuda/kernels/linalg_works.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/linalg.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/attention.cuh>
#include <stave/backends/cuda/kernels/expm.cuh>

namespace stave_test {

OnHost& on_host() {
  static OnHost counts;
  return counts;
}

}  // namespace stave_test

// ---- CUDA --------------------------------------------------------------------------------------

extern "C" {
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
}

// ---- cuSOLVER and cuBLAS: matrices are stored by columns, as in LAPACK --------------------------

namespace {

using stave_test::on_host;

// The workspace size that the simulated libraries request, and which the caller has to provide.
constexpr int workspace = 17;

// T is float, double, cuComplex or cuDoubleComplex.
template <class T>
struct Number {
  using Real = T;
  using Lapack = T;
};
template <>
struct Number<cuComplex> {
  using Real = float;
  using Lapack = std::complex<float>;
};
template <>
struct Number<cuDoubleComplex> {
  using Real = double;
  using Lapack = std::complex<double>;
};
template <class T>
using RealOf = typename Number<T>::Real;
template <class T>
auto* lapack(T* x) {
  using L = typename Number<std::remove_const_t<T>>::Lapack;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const L, L>*>(x);
}
// The function of LAPACKE for T.
template <class T, class S, class D, class C, class Z>
auto of(S s, D d, C c, Z z) {
  if constexpr (std::is_same_v<T, float>) return s;
  else if constexpr (std::is_same_v<T, double>) return d;
  else if constexpr (std::is_same_v<T, cuComplex>) return c;
  else return z;
}

char uplo_of(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L'; }

template <class T>
cusolverStatus_t potrf(cusolverDnHandle_t, cublasFillMode_t fill, int n, T* a, int lda, T*, int size, int* info) {
  if (size != workspace) return CUSOLVER_STATUS_INVALID_VALUE;
  ++on_host().solver_calls;
  *info = of<T>(LAPACKE_spotrf, LAPACKE_dpotrf, LAPACKE_cpotrf, LAPACKE_zpotrf)(LAPACK_COL_MAJOR, uplo_of(fill), n,
                                                                                lapack(a), lda);
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t potrf_size(cusolverDnHandle_t, cublasFillMode_t, int, T*, int, int* size) {
  return *size = workspace, CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t potrf_batch(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T** a, int lda, int* infos,
                             int count) {
  ++on_host().batches;
  for (int i = 0; i < count; ++i) potrf<T>(handle, fill, n, a[i], lda, nullptr, workspace, infos + i);
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t getrf(cusolverDnHandle_t, int m, int n, T* a, int lda, T*, int* pivots, int* info) {
  ++on_host().solver_calls;
  *info = of<T>(LAPACKE_sgetrf_work, LAPACKE_dgetrf_work, LAPACKE_cgetrf_work, LAPACKE_zgetrf_work)(
      LAPACK_COL_MAJOR, m, n, lapack(a), lda, pivots);
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t getrf_size(cusolverDnHandle_t, int, int, T*, int, int* size) {
  return *size = workspace, CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t getrf_batch(cublasHandle_t, int n, T* const* a, int lda, int* pivots, int* infos, int count) {
  ++on_host().batches;
  for (int i = 0; i < count; ++i) getrf<T>(nullptr, n, n, a[i], lda, nullptr, pivots + i * n, infos + i);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t geqrf(cusolverDnHandle_t, int m, int n, T* a, int lda, T* taus, T*, int size, int* info) {
  if (size < workspace) return CUSOLVER_STATUS_INVALID_VALUE;
  ++on_host().solver_calls;
  *info = of<T>(LAPACKE_sgeqrf, LAPACKE_dgeqrf, LAPACKE_cgeqrf, LAPACKE_zgeqrf)(LAPACK_COL_MAJOR, m, n, lapack(a), lda,
                                                                                lapack(taus));
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t geqrf_size(cusolverDnHandle_t, int, int, T*, int, int* size) {
  return *size = workspace, CUSOLVER_STATUS_SUCCESS;
}
/// orgqr, which is ungqr for complex numbers.
template <class T>
cusolverStatus_t orgqr(cusolverDnHandle_t, int m, int n, int k, T* a, int lda, const T* taus, T*, int size, int* info) {
  if (size < workspace + 5) return CUSOLVER_STATUS_INVALID_VALUE;
  ++on_host().solver_calls;
  std::vector<T> work(static_cast<std::size_t>(n));
  *info = of<T>(LAPACKE_sorgqr_work, LAPACKE_dorgqr_work, LAPACKE_cungqr_work, LAPACKE_zungqr_work)(
      LAPACK_COL_MAJOR, m, n, k, lapack(a), lda, lapack(taus), lapack(work.data()), n);
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t orgqr_size(cusolverDnHandle_t, int, int, int, const T*, int, const T*, int* size) {
  return *size = workspace + 5, CUSOLVER_STATUS_SUCCESS;
}

/// syevd, which is heevd for complex numbers.
template <class T>
cusolverStatus_t syevd(cusolverDnHandle_t, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda,
                       RealOf<T>* w, T*, int size, int* info) {
  if (size != workspace) return CUSOLVER_STATUS_INVALID_VALUE;
  ++on_host().solver_calls;
  const char job = mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N';
  *info = of<T>(LAPACKE_ssyevd, LAPACKE_dsyevd, LAPACKE_cheevd, LAPACKE_zheevd)(LAPACK_COL_MAJOR, job, uplo_of(fill), n,
                                                                                lapack(a), lda, w);
  if (!on_host().iteration_ends) *info = 3;
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t syevd_size(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int, const T*, int,
                            const RealOf<T>*, int* size) {
  return *size = workspace, CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t gesvd(cusolverDnHandle_t, signed char job, signed char other, int m, int n, T* a, int lda,
                       RealOf<T>* s, T* u, int ldu, T* vt, int ldvt, T*, int size, RealOf<T>* rest, int* info) {
  if (m < n || size != workspace) return CUSOLVER_STATUS_INVALID_VALUE;
  ++on_host().solver_calls;
  *info = of<T>(LAPACKE_sgesvd, LAPACKE_dgesvd, LAPACKE_cgesvd, LAPACKE_zgesvd)(
      LAPACK_COL_MAJOR, static_cast<char>(job), static_cast<char>(other), m, n, lapack(a), lda, s, lapack(u), ldu,
      lapack(vt), ldvt, rest);
  if (!on_host().iteration_ends) *info = 3;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t gesvd_size(cusolverDnHandle_t, int m, int n, int* size) {
  return *size = workspace, m < n ? CUSOLVER_STATUS_INVALID_VALUE : CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t trsm(cublasHandle_t, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t operation,
                    cublasDiagType_t diagonal, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb) {
  ++on_host().solver_calls;
  const auto left = side == CUBLAS_SIDE_LEFT ? CblasLeft : CblasRight;
  const auto uplo = fill == CUBLAS_FILL_MODE_UPPER ? CblasUpper : CblasLower;
  const auto transpose = operation == CUBLAS_OP_N   ? CblasNoTrans
                         : operation == CUBLAS_OP_T ? CblasTrans
                                                    : CblasConjTrans;
  const auto unit = diagonal == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit;
  const auto solve = of<T>(cblas_strsm, cblas_dtrsm, cblas_ctrsm, cblas_ztrsm);
  if constexpr (std::is_floating_point_v<T>)
    solve(CblasColMajor, left, uplo, transpose, unit, m, n, *alpha, a, lda, b, ldb);
  else solve(CblasColMajor, left, uplo, transpose, unit, m, n, alpha, a, lda, b, ldb);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t trsm_batch(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                          cublasOperation_t operation, cublasDiagType_t diagonal, int m, int n, const T* alpha,
                          const T* const* a, int lda, T* const* b, int ldb, int count) {
  ++on_host().batches;
  for (int i = 0; i < count; ++i) trsm<T>(handle, side, fill, operation, diagonal, m, n, alpha, a[i], lda, b[i], ldb);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace stave_cuda {

const CuSolver& cusolver() {
#define STAVE_OF(p, T, orgqr_name, syevd_name)                                                                         \
  .p##potrf = potrf<T>, .p##potrf_bufferSize = potrf_size<T>, .p##potrfBatched = potrf_batch<T>, .p##getrf = getrf<T>, \
  .p##getrf_bufferSize = getrf_size<T>, .p##geqrf = geqrf<T>, .p##geqrf_bufferSize = geqrf_size<T>,                    \
  .p##gesvd = gesvd<T>, .p##gesvd_bufferSize = gesvd_size, .p##orgqr_name = orgqr<T>,                                  \
  .p##orgqr_name##_bufferSize = orgqr_size<T>, .p##syevd_name = syevd<T>, .p##syevd_name##_bufferSize = syevd_size<T>
  static const CuSolver functions{.Create = nullptr,
                                  .SetStream = nullptr,
                                  STAVE_OF(S, float, orgqr, syevd),
                                  STAVE_OF(D, double, orgqr, syevd),
                                  STAVE_OF(C, cuComplex, ungqr, heevd),
                                  STAVE_OF(Z, cuDoubleComplex, ungqr, heevd)};
#undef STAVE_OF
  return functions;
}
const CuBlas& cublas_of_solver() {
#define STAVE_OF(p, T) .p##trsm_v2 = trsm<T>, .p##trsmBatched = trsm_batch<T>, .p##getrfBatched = getrf_batch<T>
  static const CuBlas functions{.Create_v2 = nullptr,
                                .SetStream_v2 = nullptr,
                                STAVE_OF(S, float),
                                STAVE_OF(D, double),
                                STAVE_OF(C, cuComplex),
                                STAVE_OF(Z, cuDoubleComplex)};
#undef STAVE_OF
  return functions;
}
cusolverDnHandle_t cusolver_handle(const Launch&) { return nullptr; }
cublasHandle_t cublas_handle(const Launch&) { return nullptr; }
void check(cusolverStatus_t status, const char* what) {
  if (status != CUSOLVER_STATUS_SUCCESS) throw stave::Error(what);
}
void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw stave::Error(what);
}

// ---- the other drivers: the CPU's --------------------------------------------------------------

void run_matmul(const Launch&, const stave::View& a, const stave::View& b, const stave::View& out) {
  const stave::View in[] = {a, b};
  stave::cpu_backend().run(stave::op_matmul, nullptr, in, {&out, 1});
}
void run_copy(const Launch&, const stave::View& in, const stave::View& out) {
  stave::cpu_backend().run(stave::op_copy, nullptr, {&in, 1}, {&out, 1});
}
void run_elementwise(const Launch&, stave::OpId op, std::span<const View> in, const View& out) {
  stave::cpu_backend().run(stave::record_of(op), nullptr, in, {&out, 1});
}
void copy_strided(const Launch&, Placed to, Placed from, std::span<const Index> shape, Index size) {
  const Index count = stave::Shape(shape).elements();
  for (Index i = 0; i < count; ++i) {
    Index rest = i, there = 0, here = 0;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      there += rest % shape[axis] * to.strides[axis];
      here += rest % shape[axis] * from.strides[axis];
    }
    std::memcpy(static_cast<char*>(to.data) + there * size, static_cast<const char*>(from.data) + here * size,
                static_cast<std::size_t>(size));
  }
}

// ---- kernels -----------------------------------------------------------------------------------

/// Runs lanes, threads and items forwards and backwards in alternate launches.
template <class Work>
void launch_teams(const Launch& launch, const Work& work, const char*) {
  ++on_host().launches;
  const auto slots = static_cast<int>(team_slots(launch, work.items, work.width));
  run_teams_on_host(work, slots, on_host().launches % 2);
}
template <class Work>
void launch_blocks(const Launch&, const Work& work, const char*) {
  ++on_host().launches;
  const auto shared = std::make_unique<LargeShared<typename Work::Value>>();
  for (Index i = 0; i < work.items; ++i) work.body(HostBlock{0, 1, on_host().launches % 2 == 1}, i, *shared);
}
STAVE_SMALL_WORKS(STAVE_LAUNCH_TEAMS)
STAVE_OTHER_WORKS(STAVE_LAUNCH_TEAMS)
STAVE_LARGE_WORKS(STAVE_LAUNCH_BLOCKS)
STAVE_SMALL_WORKS(STAVE_LAUNCH_COMPLEX_TEAMS)
STAVE_OTHER_WORKS(STAVE_LAUNCH_COMPLEX_TEAMS)
STAVE_LARGE_WORKS(STAVE_LAUNCH_COMPLEX_BLOCKS)
STAVE_LAUNCH_BLOCKS(FinishWork)
template void launch_teams(const Launch&, const ReportWork&, const char*);

/// Runs attention on 3 blocks, whatever its size.
void launch_attention(const AttentionArgs& args, stave::Dtype dtype) {
  ++on_host().launches;
  stave::visit_real_dtype(dtype, [&](auto zero) {
    using E = decltype(zero);
    if constexpr (!std::is_integral_v<E>) {
      const auto shared = std::make_unique<AttentionShared<stave::Computed<E>>>();
      std::memset(static_cast<void*>(shared.get()), 0xff, sizeof *shared);
      run_on_host(
          grid_size(args.tasks(), 3), [&](const HostBlock& block) { attention_body<E>(block, args, *shared); },
          on_host().launches % 2);
    }
  });
}
void run_attention(const Launch&, const stave::AttentionAttributes& attention, std::span<const View> in,
                   std::span<const View> out) {
  AttentionArgs args = AttentionPlan(attention, AttentionResult::means, in, out[0]).on_host();
  args.totals = out[1].data;
  launch_attention(args, in[0].dtype);
}
void run_attention_gradient(const Launch&, const stave::AttentionAttributes& attention, std::span<const View> in,
                            std::span<const View> out) {
  for (const AttentionResult of : {AttentionResult::of_queries, AttentionResult::of_keys, AttentionResult::of_values})
    launch_attention(AttentionPlan(attention, of, in, out[static_cast<std::size_t>(of)]).on_host(), in[0].dtype);
}

}  // namespace stave_cuda

// ---- the device --------------------------------------------------------------------------------

namespace stave_test {

namespace {

/// Returns true for the operations that stave_cuda::run_linalg computes.
bool has_driver(stave::OpId op) {
  switch (op) {
#define X(name) case stave::OpId::name:
    STAVE_LINALG_OPS(X)
#undef X
    return true;
    default: return false;
  }
}

}  // namespace

struct KernelsOnHost::State {
  std::array<stave_cuda::IndexFault, 4> places;
  stave_cuda::Faults faults{places};
};

KernelsOnHost::KernelsOnHost(int index) : SeparateBackend(index), state_(std::make_unique<State>()) {}
KernelsOnHost::~KernelsOnHost() = default;

void KernelsOnHost::compute(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                            std::span<const stave::View> out) {
  const bool means = op.id == stave::OpId::attention, gradient = op.id == stave::OpId::attention_gradient;
  if (!has_driver(op.id) && !means && !gradient) {
    const auto is_complex = [](const stave::View& view) { return stave::is_complex(view.dtype); };
    if ((std::ranges::any_of(in, is_complex) || std::ranges::any_of(out, is_complex)) &&
        run_complex_on_host(op, attributes, in, out[0]))
      return on_host().launches += 1, void();
    return SeparateBackend::compute(op, attributes, in, out);
  }
  HostScratch scratch;
  stave_cuda::Faults& faults = state_->faults;
  const char* const failure = stave_cuda::linalg_failure(op.id);
  const stave::Shape stack(in[0].shape.first(in[0].shape.size() - 2));
  const stave_cuda::Launch launch{nullptr, 1, scratch, faults.place(),
                                  failure ? faults.ticket(op.id, stack, failure) : 1};
  const auto attention = [&]() -> const stave::AttentionAttributes& {
    return stave_detail::as<stave::AttentionAttributes>(attributes);
  };
  if (means) return stave_cuda::run_attention(launch, attention(), in, out);
  if (gradient) return stave_cuda::run_attention_gradient(launch, attention(), in, out);
  stave_cuda::run_linalg(launch, op.id, attributes, in, out);
  faults.raise();
}

}  // namespace stave_test
