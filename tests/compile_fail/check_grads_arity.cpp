// expect: stave: check_grads: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

void f() {
  check_grads([](const Tensor& x) { return x; }, std::tuple(ones({3}), ones({3})));
}
