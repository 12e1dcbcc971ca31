// expect: deleted function.*minimum\(a, b\); of two C
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& a, const Tensor& b) { return min(a, b); }
