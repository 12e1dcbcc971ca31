// A program of several processes that ends as its argument says; tests/ranks/CMakeLists.txt says what it must print, and that it ends.
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <stave/ranks/ranks.h>
#include <stave/stave.h>

using namespace stave;

int main(int, char** argv) {
  const auto is = [&](const char* what) { return std::strcmp(argv[1], what) == 0; };
  Ranks ranks("i");
  const bool last = ranks.place() == ranks.size() - 1;
  with(ranks, [&] {
    const Scope layer("layer1");
    Tensor x = psum(ones({3}), "i");
    if (is("throws") && last) throw std::runtime_error("the last rank has no data");
    if (is("throws_tensor") && last) x = x + ones({4});
    if (is("shapes") && last) x = psum(ones({4}), "i");
    else if (is("operations") && last) x = pmax(x, "i");
    else if (!is("leaves") || !last) x = psum(x, "i");
    std::printf("%.9g\n", sum(x).item<double>());
  });
  if (is("leaves") && last) throw std::runtime_error("left before the others");
}
