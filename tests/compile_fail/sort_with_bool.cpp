// expect: deleted.*sort|sort.*deleted
#include <stave/stave.h>
using namespace stave;

// an axis is expected, then {.descending = true}
Tensor f(const Tensor& x) { return sort(x, true); }
