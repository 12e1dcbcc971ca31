// cuSOLVER, and the cuBLAS functions used with it, loaded on first use (dynamic_library.h). Their
// headers declare the types of the functions.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// The cuSOLVER functions that the backend calls. Their names omit the prefix "cusolverDn". The
/// functions with S take float, those with D double, and those with C and Z complex numbers of
/// these.
struct CuSolver {
// clang-format off
#define STAVE_CUSOLVER_OF_ALL(X, p)                                                                       \
  X(p##potrf) X(p##potrf_bufferSize) X(p##potrfBatched) X(p##getrf) X(p##getrf_bufferSize) X(p##geqrf)    \
  X(p##geqrf_bufferSize) X(p##gesvd) X(p##gesvd_bufferSize)
#define STAVE_CUSOLVER_OF_REAL(X, p) \
  STAVE_CUSOLVER_OF_ALL(X, p) X(p##orgqr) X(p##orgqr_bufferSize) X(p##syevd) X(p##syevd_bufferSize)
#define STAVE_CUSOLVER_OF_COMPLEX(X, p) \
  STAVE_CUSOLVER_OF_ALL(X, p) X(p##ungqr) X(p##ungqr_bufferSize) X(p##heevd) X(p##heevd_bufferSize)
#define STAVE_CUSOLVER(X)                                                                                 \
  X(Create) X(SetStream) STAVE_CUSOLVER_OF_REAL(X, S) STAVE_CUSOLVER_OF_REAL(X, D)                        \
  STAVE_CUSOLVER_OF_COMPLEX(X, C) STAVE_CUSOLVER_OF_COMPLEX(X, Z)
// clang-format on
#define X(name) decltype(&cusolverDn##name) name = nullptr;
  STAVE_CUSOLVER(X)
#undef X
};
/// The cuBLAS functions that the backend calls. Their names omit the prefix "cublas".
struct CuBlas {
#define STAVE_CUBLAS_OF(X, p) X(p##trsm_v2) X(p##trsmBatched) X(p##getrfBatched)
#define STAVE_CUBLAS(X) \
  X(Create_v2) X(SetStream_v2) STAVE_CUBLAS_OF(X, S) STAVE_CUBLAS_OF(X, D) STAVE_CUBLAS_OF(X, C) STAVE_CUBLAS_OF(X, Z)
#define X(name) decltype(&cublas##name) name = nullptr;
  STAVE_CUBLAS(X)
#undef X
};

/// Return the loaded libraries. They throw DeviceError, which says what to install, if a library
/// cannot be loaded.
const CuSolver& cusolver();
const CuBlas& cublas_of_solver();

/// Return the library's handle for the current device, set to the stream of `launch`.
cusolverDnHandle_t cusolver_handle(const Launch& launch);
cublasHandle_t cublas_handle(const Launch& launch);

/// Throw stave::Error, which names `what`, if the status is not success.
void check(cusolverStatus_t status, const char* what);
void check_cublas(cublasStatus_t status, const char* what);

}  // namespace stave_cuda
