// expect: stave: _GLIBCXX_SANITIZE_VECTOR under AddressSanitizer marks what vectors have reserved.*other_layout.*(terminated|file not found)
// with: -D_GLIBCXX_SANITIZE_VECTOR;-fsanitize=address
#include <stave/core/tensor/shape.h>

int main() { return 0; }
