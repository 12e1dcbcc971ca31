// expect: stave: grad: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

auto g = value_and_grad([](const Tensor& x) { return sum(x); })(ones({1}), ones({1}));
