// expect: deleted function.*x = x\.at\(i\)\.set\(y\)
#include <stave/stave.h>
using namespace stave;

void f(Tensor x, const Tensor& y) { x[0] = y; }  // would assign to a temporary: x stays
