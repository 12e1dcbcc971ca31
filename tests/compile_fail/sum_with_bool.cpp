// expect: deleted.*Axes|Axes.*deleted
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x) { return sum(x, true); }  // keepdims has its own type
