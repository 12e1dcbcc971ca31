// expect: stave: vmap: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

auto y = vmap([](const Tensor& x, const Tensor& y) { return x * y; })(ones({3}));
