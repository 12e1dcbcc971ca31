#include <stave/backends/cuda/cufft.h>

#include <new>

#include <stave/backends/cuda/dynamic_library.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

namespace {

CuFft load() {
  const DynamicLibrary library("fft", "libcufft.so." STAVE_TEXT_OF(CUFFT_VER_MAJOR), "cuFFT",
                               "cuFFT " STAVE_TEXT_OF(CUFFT_VER_MAJOR));
  CuFft functions;
#define X(name) library.find(functions.name, "cufft" #name);
  STAVE_CUFFT(X)
#undef X
  return functions;
}

}  // namespace

const CuFft& cufft() {
  static const CuFft functions = load();  // If load() throws, the next call tries again.
  return functions;
}

void check(cufftResult status, const char* what) {
  if (status == CUFFT_SUCCESS) [[likely]]
    return;
  if (status == CUFFT_ALLOC_FAILED) throw std::bad_alloc();
  const char* why = status == CUFFT_INVALID_SIZE    ? "a length that it does not support"
                    : status == CUFFT_INVALID_VALUE ? "an invalid argument"
                    : status == CUFFT_NOT_SUPPORTED ? "not supported"
                    : status == CUFFT_EXEC_FAILED   ? "failed on the device"
                    : status == CUFFT_SETUP_FAILED  ? "not initialised"
                                                    : "failed";
  stave_detail::fail<stave::Error>("fft: cuFFT: {}: {} (status {})", what, why, static_cast<int>(status));
}

}  // namespace stave_cuda
