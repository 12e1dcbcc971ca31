// cuBLASLt, loaded on first use (dynamic_library.h). Its header
// declares the types of the functions.
#pragma once

#include <cublasLt.h>

namespace stave_cuda {

/// The functions that the backend calls. Their names omit the prefix "cublasLt".
struct CublasLt {
// clang-format off
#define STAVE_CUBLASLT(X)                                                                                 \
  X(Create) X(Matmul) X(MatmulAlgoGetHeuristic) X(MatmulDescCreate) X(MatmulDescDestroy)                  \
  X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatrixLayoutSetAttribute)      \
  X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute)
// clang-format on
#define X(name) decltype(&cublasLt##name) name = nullptr;
  STAVE_CUBLASLT(X)
#undef X
};

/// Returns the loaded library. Throws DeviceError, which says what to install,
/// if the library cannot be loaded.
const CublasLt& cublas();

/// Throws stave::Error, which names `what`, if the status is not success.
void check(cublasStatus_t status, const char* what);

}  // namespace stave_cuda
