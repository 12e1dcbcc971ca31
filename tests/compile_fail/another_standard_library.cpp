// expect: stave: the library was built with another standard library.*other_layout.*(terminated|file not found)
// with: -D_LIBCPP_VERSION=14000;-D_LIBCPP_ABI_VERSION=1
#include <stave/core/effects/effect.h>  // as if the standard library were libc++

int main() { return 0; }
