#include <stave/backends/cuda/cusolver.h>

#include <map>
#include <mutex>

#include <stave/backends/cuda/dynamic_library.h>
#include <stave/backends/cuda/graph_recording.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

namespace {

constexpr const char* user = "linear algebra";

CuSolver load_cusolver() {
  const DynamicLibrary library(user, "libcusolver.so." STAVE_TEXT_OF(CUSOLVER_VER_MAJOR), "cuSOLVER",
                               "cuSOLVER " STAVE_TEXT_OF(CUSOLVER_VER_MAJOR));
  CuSolver functions;
#define X(name) library.find(functions.name, "cusolverDn" #name);
  STAVE_CUSOLVER(X)
#undef X
  return functions;
}

CuBlas load_cublas() {
  const DynamicLibrary library(user, "libcublas.so." STAVE_TEXT_OF(CUBLAS_VER_MAJOR), "cuBLAS",
                               "cuBLAS " STAVE_TEXT_OF(CUBLAS_VER_MAJOR));
  CuBlas functions;
#define X(name) library.find(functions.name, "cublas" #name);
  STAVE_CUBLAS(X)
#undef X
  return functions;
}

/// Returns the library's handle for the current device. The handle is never destroyed. All its work
/// is on the device's only stream. A recording (graph_recording.h) captures another stream and
/// would miss this work, so the function throws stave::Error during a recording.
template <class Handle, class Make>
Handle handle_of(Make make) {
  if (Recording::current()) fail<stave::Error>("{}: operations of cuSOLVER cannot be recorded in a graph", user);
  static auto* const handles = new std::map<int, Handle>;
  static auto* const mutex = new std::mutex;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(*mutex);
  if (const auto known = handles->find(device); known != handles->end()) return known->second;
  const Handle made = make();
  handles->emplace(device, made);
  return made;
}

}  // namespace

const CuSolver& cusolver() {
  // If load_cusolver() throws, the next call tries again.
  static const CuSolver functions = load_cusolver();
  return functions;
}
const CuBlas& cublas_of_solver() {
  static const CuBlas functions = load_cublas();
  return functions;
}

cusolverDnHandle_t cusolver_handle(const Launch& launch) {
  return handle_of<cusolverDnHandle_t>([&] {
    cusolverDnHandle_t handle = nullptr;
    check(cusolver().Create(&handle), "Create");
    check(cusolver().SetStream(handle, launch.stream), "SetStream");
    return handle;
  });
}
cublasHandle_t cublas_handle(const Launch& launch) {
  return handle_of<cublasHandle_t>([&] {
    cublasHandle_t handle = nullptr;
    check_cublas(cublas_of_solver().Create_v2(&handle), "Create");
    check_cublas(cublas_of_solver().SetStream_v2(handle, launch.stream), "SetStream");
    return handle;
  });
}

void check(cusolverStatus_t status, const char* what) {
  if (status == CUSOLVER_STATUS_SUCCESS) [[likely]]
    return;
  const char* why = status == CUSOLVER_STATUS_ALLOC_FAILED       ? "no memory"
                    : status == CUSOLVER_STATUS_ARCH_MISMATCH    ? "not on this device"
                    : status == CUSOLVER_STATUS_NOT_SUPPORTED    ? "not supported"
                    : status == CUSOLVER_STATUS_INVALID_VALUE    ? "an invalid argument"
                    : status == CUSOLVER_STATUS_NOT_INITIALIZED  ? "not initialised"
                    : status == CUSOLVER_STATUS_EXECUTION_FAILED ? "failed on the device"
                                                                 : "failed";
  fail<stave::Error>("{}: cuSOLVER: {}: {} (status {})", user, what, why, static_cast<int>(status));
}
void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail<stave::Error>("{}: cuBLAS: {}: status {}", user, what, static_cast<int>(status));
}

}  // namespace stave_cuda
