// expect: stave: by a tensor of indices: take(x, indices, axis); by a mask: where
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x, const Tensor& indices) { return x[indices]; }
