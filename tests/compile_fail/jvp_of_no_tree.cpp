// expect: stave: jvp: the primal is not a tree of tensors
#include <stave/stave.h>
using namespace stave;

void f() {
  jvp([](int n) { return ones({n}); }, 3, 1);
}
