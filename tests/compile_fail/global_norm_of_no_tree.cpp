// expect: stave: global_norm of a type that is not a tree
#include <stave/stave.h>
using namespace stave;

auto y = global_norm(std::vector<float>{1});
