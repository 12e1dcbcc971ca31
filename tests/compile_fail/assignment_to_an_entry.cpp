// expect: deleted function.*x = x\.at\(i\)\.set\(y\)
#include <stave/stave.h>
using namespace stave;

// The assignment would be to a temporary, and x would not change.
void f(Tensor x, const Tensor& y) { x[0] = y; }
