// expect: no Stave dtype for this type: use bool, an integer type
#include <stave/stave.h>
using namespace stave;

auto f(const Tensor& x) { return x.to_vector<long double>(); }
