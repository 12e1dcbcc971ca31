// expect: stave: tree_map needs trees of one type
#include <stave/stave.h>
using namespace stave;

auto y =
    tree_map([](const Tensor& a, const Tensor& b) { return a + b; }, std::vector{ones({1})}, std::array{ones({1})});
