// expect: deleted function.*maximum\(a, b\); two numbers
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& a, const Tensor& b) { return max(a, b); }
