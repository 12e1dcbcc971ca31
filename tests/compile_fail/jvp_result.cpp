// expect: stave: jvp: the function must return a tree of tensors
#include <stave/stave.h>
using namespace stave;

void f() {
  jvp([](const Tensor& x) { return x.rank(); }, ones({1}), ones({1}));
}
