// expect: deleted function.*x = x\.at\(i\)\.add\(y\)
#include <stave/stave.h>
using namespace stave;

void f(Tensor x, const Tensor& y) { x[0] += y; }
