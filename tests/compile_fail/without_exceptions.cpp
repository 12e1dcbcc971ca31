// expect: stave: errors are exceptions, and so is what ends a program early: compile without -fno-exceptions.*without_exceptions.*(terminated|file not found)
// with: -fno-exceptions
#include <stave/stave.h>

int main() {
  try {
    stave::Tensor x;
  } catch (...) {
  }
}
