// expect: deleted function.*x = x\.at\(i\)\.set\(y\)
#include <stave/stave.h>
using namespace stave;

void f(Tensor x) { x(0, 1) = 1.; }
