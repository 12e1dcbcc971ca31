// expect: deleted function.*x = where\(condition, y, x\), dynamic_update_slice
#include <stave/stave.h>
using namespace stave;

void f(Tensor x, const Tensor& y) { x[0] = y; }  // would assign to a temporary: x stays
