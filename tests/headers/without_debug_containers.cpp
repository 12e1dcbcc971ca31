// expect: stave: _GLIBCXX_DEBUG changes the memory layout of containers, and the library was built
// with it: compile with -D_GLIBCXX_DEBUG
#include <stave/core/effects/effect.h>

int main() { return 0; }
