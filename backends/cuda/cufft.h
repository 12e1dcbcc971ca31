// cuFFT, loaded on first use (dynamic_library.h). Its headers declare the types of the functions.
#pragma once

#include <cufft.h>
#include <cufftXt.h>

namespace stave_cuda {

/// The functions that the backend calls. Their names omit the prefix "cufft".
struct CuFft {
#define STAVE_CUFFT(X) X(Create) X(Destroy) X(SetAutoAllocation) X(SetStream) X(SetWorkArea) X(XtMakePlanMany) X(XtExec)
#define X(name) decltype(&cufft##name) name = nullptr;
  STAVE_CUFFT(X)
#undef X
};

/// Returns the loaded library. Throws DeviceError, which says what to install, if the library
/// cannot be loaded.
const CuFft& cufft();

/// Throws std::bad_alloc for a lack of memory, and else stave::Error, which names `what`, if the
/// status is not success.
void check(cufftResult status, const char* what);

}  // namespace stave_cuda
