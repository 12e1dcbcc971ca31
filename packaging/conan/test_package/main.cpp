#include <cstdio>

#include <stave/stave.h>

using namespace stave;

int main() {
  const Tensor dx = grad([](const Tensor& x) { return sum(square(x)); })(tensor({1., 2., 3.}));  // 2x
  if (array_equal(dx, tensor({2., 4., 6.}))) return 0;
  std::puts("the gradient is wrong");
  return 1;
}
