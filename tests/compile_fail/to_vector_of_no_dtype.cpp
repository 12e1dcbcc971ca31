// expect: no Stave dtype for this type: use bool, uint8_t
#include <stave/stave.h>
using namespace stave;

auto f(const Tensor& x) { return x.to_vector<short>(); }
