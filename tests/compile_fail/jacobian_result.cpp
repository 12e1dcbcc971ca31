// expect: stave: jacobian: the function must return a Tensor
#include <stave/stave.h>
using namespace stave;

auto j = jacfwd([](const Tensor& x) { return std::pair(x, x); })(ones({3}));
