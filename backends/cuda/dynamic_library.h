// NVIDIA's libraries, loaded when they are first needed: they are hundreds of megabytes, which a program that has no use for them, or
// runs where there is no GPU, should not map.
#pragma once

#include <string>

namespace stave_cuda {

class DynamicLibrary {
 public:
  /// `file` is "libcublasLt.so.13", `name` "cuBLASLt", `of` "cuBLAS 13", in which it comes; `user` is who asks, in errors. Throws
  /// DeviceError, with what to install, if the library cannot be loaded.
  DynamicLibrary(const char* user, const char* file, const char* name, const char* of);

  /// Throws DeviceError if the library has no such function.
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
