// expect: no matching function|cannot convert|no viable conversion|could not convert
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x) { return sum(x, 0, true); }
