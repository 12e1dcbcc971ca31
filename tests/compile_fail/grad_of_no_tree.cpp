// expect: stave: grad: a differentiated argument is not a tree of tensors
#include <stave/stave.h>
using namespace stave;

auto g = grad([](int n, const Tensor& x) { return sum(x * n); })(3, ones({2}));
