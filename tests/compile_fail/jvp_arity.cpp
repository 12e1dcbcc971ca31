// expect: stave: jvp: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

void f() {
  jvp([](const Tensor& x, const Tensor& y) { return x * y; }, ones({1}), ones({1}));
}
