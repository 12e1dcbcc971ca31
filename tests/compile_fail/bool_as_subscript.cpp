// expect: stave: an index must be an integer, a slice, ellipsis or newaxis. By a tensor: take or where
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x, bool condition) { return x(condition); }
