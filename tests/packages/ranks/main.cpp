#include <cstdio>

#include <stave/handlers/ranks/ranks.h>
#include <stave/stave.h>

using namespace stave;

int main() {
  Ranks ranks("places");
  // 1 + ... + n
  const Tensor sum = with(ranks, [&] { return psum(tensor(double(ranks.place() + 1)), "places"); });
  const double n = double(ranks.size());
  if (sum.item<double>() == n * (n + 1) / 2) return 0;
  std::puts("the sum over all processes is wrong");
  return 1;
}
