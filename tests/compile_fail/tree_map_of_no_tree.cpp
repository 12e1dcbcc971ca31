// expect: stave: tree_map over a type that is not a tree
#include <stave/stave.h>
using namespace stave;

auto y = tree_map([](const Tensor& x) { return x; }, 3);
