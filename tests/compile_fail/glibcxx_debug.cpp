// expect: stave: _GLIBCXX_DEBUG changes the memory layout of containers, and the library was built with(out)? it: compile with.*other_layout.*(terminated|file not found)
// with: -D_GLIBCXX_DEBUG
#include <stave/stave.h>

int main() { return stave::Checkpoints("folder").steps().empty() ? 0 : 1; }
