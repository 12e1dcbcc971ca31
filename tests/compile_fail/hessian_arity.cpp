// expect: stave: jacobian: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

auto h = hessian([](const Tensor& x) { return sum(x); })(ones({3}), 4);
