// expect: stave: grad: an argument number is out of range of the call's arguments
#include <stave/stave.h>
using namespace stave;

auto g = grad<1>([](const Tensor& x) { return sum(x); })(ones({2}));
