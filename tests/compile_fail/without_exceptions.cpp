// expect: stave: the library reports errors and ends programs early by exceptions: compile without -fno-exceptions.*without_exceptions.*(terminated|file not found)
// with: -fno-exceptions
#include <stave/stave.h>

int main() {
  try {
    stave::Tensor x;
  } catch (...) {
  }
}
