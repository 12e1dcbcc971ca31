// expect: deleted.*sort|sort.*deleted
#include <stave/stave.h>
using namespace stave;

Tensor f(const Tensor& x) { return sort(x, true); }  // an axis, then {.descending = true}
