// expect: stave: Stepper: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

void f() {
  Stepper stepper([](const Tensor& x) { return x; }, ones({3}), ones({3}));
}
