// expect: deleted function.*minimum\(a, b\); two numbers
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& a, const Tensor& b) { return min(a, b); }
