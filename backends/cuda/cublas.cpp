#include <stave/backends/cuda/cublas.h>

#include <dlfcn.h>

#include <sstream>
#include <string>

#include <stave/core/fail.h>

namespace stave_cuda {

using stave_detail::fail;

namespace {

#define STAVE_TEXT(x) #x
#define STAVE_TEXT_OF(x) STAVE_TEXT(x)
constexpr const char* library = "libcublasLt.so." STAVE_TEXT_OF(CUBLAS_VER_MAJOR);

// Between colons: where the backend was built, the library was here.
#ifndef STAVE_CUBLAS_FOLDERS
#define STAVE_CUBLAS_FOLDERS ""
#endif

// From where the loader looks, else from the toolkit, or the Python package, that the backend was built with.
void* open_library() {
  if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)) return handle;
  const std::string why = dlerror();
  std::istringstream folders(STAVE_CUBLAS_FOLDERS);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (void* handle = dlopen((folder + "/" + library).c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  fail<stave::DeviceError>(
      "matmul: cuBLASLt cannot be loaded: {}: install the CUDA Toolkit's cuBLAS {}, or put the folder of {} into "
      "LD_LIBRARY_PATH",
      why, CUBLAS_VER_MAJOR, library);
}

template <class F>
void find(void* handle, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (!function)
    fail<stave::DeviceError>("matmul: {} has no {}: it is older than the one this was built with", library, name);
}

CublasLt load() {
  void* const handle = open_library();
  CublasLt functions;
#define X(name) find(handle, functions.name, "cublasLt" #name);
  STAVE_CUBLASLT(X)
#undef X
  return functions;
}

}  // namespace

const CublasLt& cublas() {
  static const CublasLt functions = load();  // tried again by the next call if it throws
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
