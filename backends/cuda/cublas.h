// cuBLASLt, loaded when it is first needed (dynamic_library.h). The types of its functions are those of its header.
#pragma once

#include <cublasLt.h>

namespace stave_cuda {

/// The functions that we call, under their names less "cublasLt".
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

/// Throws DeviceError, with what to install, if the library cannot be loaded.
const CublasLt& cublas();

/// Throws stave::Error naming `what`.
void check(cublasStatus_t status, const char* what);

}  // namespace stave_cuda
