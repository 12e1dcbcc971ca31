// expect: no viable conversion|cannot convert
#include <stave/stave.h>
using namespace stave;

float f(const Tensor& x) { return x; }  // float(x) or x.item<float>() is correct
