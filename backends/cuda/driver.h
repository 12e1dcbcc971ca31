// Functions of the CUDA driver that the runtime API does not offer. They are looked up by name. The
// backend is not linked to the CUDA driver, because machines without a GPU do not have one.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace stave_cuda {

/// Returns the CUDA driver's function of this name, or null if the driver has no such function.
void* driver_function(const char* name);

template <class F>
void find_driver_function(F& function, const char* name) {
  function = reinterpret_cast<F>(driver_function(name));
}

}  // namespace stave_cuda
