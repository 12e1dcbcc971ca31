// expect: stave: grad: the function cannot be called with these arguments
#include <stave/stave.h>
using namespace stave;

Tensor loss(const Tensor& w, int n) { return sum(w * n); }
auto g = grad(loss)(ones({2}), "three");
