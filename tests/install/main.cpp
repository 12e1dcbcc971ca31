#include <cstdio>

#include <stave/stave.h>

int main() {
  using namespace stave;
  const Tensor x = tensor({1., 2., 3.});
  const Tensor dx = grad([](const Tensor& y) { return sum(square(y)); })(x);  // 2x
  const bool right = bool(array_equal(dx, tensor({2., 4., 6.})));
  std::puts(right ? "the gradient is right" : "the gradient is wrong");
  return right ? 0 : 1;
}
