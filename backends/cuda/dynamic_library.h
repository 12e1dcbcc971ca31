// NVIDIA's libraries, loaded on first use. They take hundreds of megabytes. A program that does not
// use them, or runs without a GPU, should not map them.
#pragma once

#include <string>

namespace stave_cuda {

class DynamicLibrary {
 public:
  /// Loads a library.
  ///
  ///   user  the feature that needs the library, for error messages ("matmul")
  ///   file  "libcublasLt.so.13"
  ///   name  "cuBLASLt"
  ///   of    the product that contains it, "cuBLAS 13"
  ///
  /// Throws DeviceError, which says what to install, if the library cannot be loaded.
  DynamicLibrary(const char* user, const char* file, const char* name, const char* of);

  /// Sets `function` to the library's function `symbol`. Throws DeviceError if the library has no
  /// such function.
  template <class F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  const char *user_, *file_;
  void* handle_;
};

#define STAVE_TEXT(x) #x
#define STAVE_TEXT_OF(x) STAVE_TEXT(x)

}  // namespace stave_cuda
