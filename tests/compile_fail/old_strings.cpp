// expect: stave: _GLIBCXX_USE_CXX11_ABI changes the memory layout of strings and lists.*other_layout.*(terminated|file not found)
// with: -D_GLIBCXX_USE_CXX11_ABI=0
#include <stave/core/tensor/tensor.h>

int main() { return 0; }
