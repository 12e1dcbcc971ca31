// loader MODULE: a program that does not link Stave. At run time it loads a module that does,
// and calls it.
#include <dlfcn.h>

#include <cstdio>

int main(int, char** argv) {
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!module) return std::printf("%s\n", dlerror()), 1;
  const auto gradient = reinterpret_cast<double (*)()>(dlsym(module, "plugin_gradient"));
  if (!gradient) return std::printf("%s\n", dlerror()), 1;
  const double found = gradient();
  std::printf("the gradient is %g\n", found);
  return found == 6 ? 0 : 1;
}
