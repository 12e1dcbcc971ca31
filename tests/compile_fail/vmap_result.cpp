// expect: stave: vmap: the function must return a tree of tensors
#include <stave/stave.h>
using namespace stave;

auto y = vmap([](const Tensor& x) { return x.rank(); })(ones({3}));
