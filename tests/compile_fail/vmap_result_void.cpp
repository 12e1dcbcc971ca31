// expect: stave: vmap: the function must return a tree of tensors
#include <stave/stave.h>
using namespace stave;

void f() {
  vmap([](const Tensor&) {})(ones({3}));
}
