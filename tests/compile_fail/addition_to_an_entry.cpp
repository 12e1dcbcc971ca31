// expect: deleted function.*x = scatter_add\(x, indices, y\)
#include <stave/stave.h>
using namespace stave;

void f(Tensor x, const Tensor& y) { x[0] += y; }
