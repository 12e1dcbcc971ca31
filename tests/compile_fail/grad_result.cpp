// expect: stave: grad: the function must return Tensor or std::pair<Tensor, Aux>
#include <stave/stave.h>
using namespace stave;

auto g = grad([](const Tensor& x) { return x.item<float>(); })(ones({1}));
