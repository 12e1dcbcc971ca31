// expect: stave: an argument is a C array of tensors, which transforms cannot copy
#include <stave/stave.h>
using namespace stave;

const Tensor both[2] = {ones({3}), zeros({3})};
auto f = compile([](const Tensor (&xs)[2]) { return xs[0] + xs[1]; })(both);
