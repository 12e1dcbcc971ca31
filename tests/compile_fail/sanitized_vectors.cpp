// expect: stave: _GLIBCXX_SANITIZE_VECTOR under AddressSanitizer marks the reserved memory of vectors.*other_layout.*(terminated|file not found)
// with: -D_GLIBCXX_SANITIZE_VECTOR;-fsanitize=address
#include <stave/core/tensor/shape.h>

int main() { return 0; }
