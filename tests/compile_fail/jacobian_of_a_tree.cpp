// expect: stave: jacobian: the differentiated argument must be a Tensor
#include <stave/stave.h>
using namespace stave;

auto j = jacrev([](const std::vector<Tensor>& x) { return x[0]; })(std::vector{ones({3})});
