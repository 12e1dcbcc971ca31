// expect: stave: tree_leaves of a type that is not a tree
#include <stave/stave.h>
using namespace stave;

auto y = tree_leaves(std::string("text"));
