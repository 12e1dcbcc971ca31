// Functions of the CUDA driver, for what the runtime has none for. Asked for by name: the library is not linked to the driver, which is
// absent where there is no GPU.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace stave_cuda {

/// Null if the driver has no such function.
void* driver_function(const char* name);

template <class F>
void find_driver_function(F& function, const char* name) {
  function = reinterpret_cast<F>(driver_function(name));
}

}  // namespace stave_cuda
