// expect: stave: operations_of: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

void f() {
  operations_of([](const Tensor& x) { return x; }, ones({3}), ones({3}));
}
