// expect: stave: grad: argument numbers must rise, as in grad<0, 2>
#include <stave/stave.h>
using namespace stave;

auto g = grad<1, 0>([](const Tensor& a, const Tensor& b) { return sum(a * b); })(ones({2}), ones({2}));
