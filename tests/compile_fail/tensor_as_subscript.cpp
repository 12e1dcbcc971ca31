// expect: take(x, indices, axis), or where(mask, a, b)
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x, const Tensor& indices) { return x[indices]; }
