// expect: deleted function.*x = where\(condition, y, x\), dynamic_update_slice
#include <stave/stave.h>
using namespace stave;

void f(Tensor x) { x(0, 1) = 1.; }
