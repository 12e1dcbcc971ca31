// expect: stave: an index must be an integer, a slice, ellipsis, newaxis, or a tensor of integers or bools
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x, bool condition) { return x(condition); }
