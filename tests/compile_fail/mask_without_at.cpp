// expect: stave: to index by tensors, #include <stave/core/ops/at.h>
#include <stave/core/ops/elementwise.h>

stave::Tensor f(const stave::Tensor& x) { return x(x < 0); }
