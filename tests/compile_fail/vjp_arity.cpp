// expect: stave: vjp: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

void f() {
  vjp([](const Tensor& x) { return x; }, ones({1}), ones({1}));
}
