#include <stave/backends/cuda/cublas.h>

#include <stave/backends/cuda/dynamic_library.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

namespace {

CublasLt load() {
  const DynamicLibrary library("matmul", "libcublasLt.so." STAVE_TEXT_OF(CUBLAS_VER_MAJOR), "cuBLASLt",
                               "cuBLAS " STAVE_TEXT_OF(CUBLAS_VER_MAJOR));
  CublasLt functions;
#define X(name) library.find(functions.name, "cublasLt" #name);
  STAVE_CUBLASLT(X)
#undef X
  return functions;
}

}  // namespace

const CublasLt& cublas() {
  static const CublasLt functions = load();  // If load() throws, the next call tries again.
  return functions;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const char* why = status == CUBLAS_STATUS_ALLOC_FAILED      ? "no memory"
                    : status == CUBLAS_STATUS_ARCH_MISMATCH   ? "not on this device"
                    : status == CUBLAS_STATUS_NOT_SUPPORTED   ? "not supported"
                    : status == CUBLAS_STATUS_INVALID_VALUE   ? "an invalid argument"
                    : status == CUBLAS_STATUS_NOT_INITIALIZED ? "not initialised"
                                                              : "failed";
  fail<stave::Error>("matmul: cuBLASLt: {}: {} (status {})", what, why, static_cast<int>(status));
}

}  // namespace stave_cuda
