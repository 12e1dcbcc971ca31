#include <stave/backends/cuda/dynamic_library.h>

#include <dlfcn.h>

#include <sstream>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

// The folders, separated by colons, where the libraries were when the backend was built.
#ifndef STAVE_LIBRARY_FOLDERS
#define STAVE_LIBRARY_FOLDERS ""
#endif

// Tries the loader's search path first, then the toolkit or Python package
// that the backend was built with.
DynamicLibrary::DynamicLibrary(const char* user, const char* file, const char* name, const char* of)
    : user_(user), file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const std::string why = dlerror();
  std::istringstream folders(STAVE_LIBRARY_FOLDERS);
  for (std::string folder; std::getline(folders, folder, ':');)
    if ((handle_ = dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL))) return;
  fail<stave::DeviceError>(
      "{}: {} cannot be loaded: {}: install the CUDA Toolkit's {}, or put the folder of {} into LD_LIBRARY_PATH", user,
      name, why, of, file);
}

void* DynamicLibrary::find(const char* symbol) const {
  void* const function = dlsym(handle_, symbol);
  if (!function)
    fail<stave::DeviceError>("{}: {} has no {}: it is older than the one this was built with", user_, file_, symbol);
  return function;
}

}  // namespace stave_cuda
