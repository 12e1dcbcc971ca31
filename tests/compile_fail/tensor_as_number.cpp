// expect: no viable conversion|cannot convert
#include <stave/stave.h>
using namespace stave;

float f(const Tensor& x) { return x; }  // write float(x) or x.item<float>()
