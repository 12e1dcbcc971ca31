// expect: stave: grad: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

Tensor loss(const Tensor& w, const Tensor& x) { return sum(w * x); }
auto g = grad(loss)(ones({2}));
