// expect: stave: jacobian: the argument number is out of range of the call's arguments
#include <stave/stave.h>
using namespace stave;

auto j = jacfwd<2>([](const Tensor& x) { return x; })(ones({3}));
