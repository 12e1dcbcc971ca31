// A program of several processes that ends in the way that its argument names.
// tests/handlers/ranks/CMakeLists.txt gives the output that it must print, and checks that it ends.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <stave/handlers/ranks/ranks.h>
#include <stave/stave.h>

#include "made_up/late_device.h"

using namespace stave;

int main(int, char** argv) {
  const auto is = [&](const char* what) { return std::strcmp(argv[1], what) == 0; };
  Ranks ranks("i");
  const bool last = ranks.place() == ranks.size() - 1;
  const Device device = is("mixed") && last ? cpu : stave_test::device_of_tests();
  const auto there = [&](const Tensor& x) { return to(x, device); };
  with(ranks, [&] {
    const Scope layer(is("scopes") && last ? "layer2" : "layer1");
    if (is("later")) psum(ones({3}), "i");
    Tensor x = psum(there(ones({3})), "i");
    if (is("throws") && last) throw std::runtime_error("the last rank has no data");
    if (is("throws_tensor") && last) x = x + there(ones({4}));
    if (is("exits") && last) std::exit(3);
    if (is("waits") && last) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (is("dtypes") && last) x = psum(astype(x, int32), "i");
    else if (is("pairs")) x = ppermute(x, "i", {{0, last ? 1 : 0}});
    else if (is("shapes") && last) x = psum(there(ones({4})), "i");
    else if (is("operations") && last) x = pmax(x, "i");
    else if (is("parts") && last) x = psum(ones({3}), "i");
    else if (!is("leaves") || !last) x = psum(x, "i");
    std::printf("%.9g\n", sum(x).item<double>());
    if (is("mixed") || is("later")) std::printf("%s\n", ranks.describe().c_str());
  });
  if (is("leaves") && last) throw std::runtime_error("left before the others");
  if (is("ends_late") && last) std::this_thread::sleep_for(std::chrono::seconds(3));
}
