// expect: stave: jvp: tangents must have the types of the primals
#include <stave/stave.h>
using namespace stave;

void f() {
  jvp([](const Tensor& x, const Tensor& y) { return x * y; }, std::tuple(ones({1}), ones({1})), std::tuple(ones({1})));
}
