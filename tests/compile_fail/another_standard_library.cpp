// expect: stave: the library was built with another standard library.*other_layout.*(terminated|file not found)
// with: -D_LIBCPP_VERSION=14000;-D_LIBCPP_ABI_VERSION=1
// Imitates a program that is compiled with libc++.
#include <stave/core/effects/effect.h>

int main() { return 0; }
