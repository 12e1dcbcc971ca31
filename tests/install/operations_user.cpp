// Uses an operation with its own kernels, from a static library.
#include <cstdio>

#include <stave/stave.h>

#include "operations.h"

using namespace stave;

namespace {

struct SeesLoops : Handler {
  bool seen = false;
  Outputs handle(Call& call) override {
    if (const auto* fused = dynamic_cast<const FusedAttributes*>(call.attributes()))
      for (const char* isa : {"avx512", "avx2", "sse2", "neon", "portable"}) seen = seen || fused->region->loop(isa);
    return perform(std::move(call));
  }
};

}  // namespace

int main() {
  const Tensor x = tensor({-2.f, 0.1f, 0.7f, -0.3f, 5.f});
  SeesLoops sees;
  const bool right =
      bool(array_equal(with(sees, [&] { return hardshrink(x, 0.5); }), tensor({-2.f, 0.f, 0.7f, 0.f, 5.f})));
  std::puts(!sees.seen ? "the kernels are not there" : right ? "the values are right" : "the values are wrong");
  return sees.seen && right ? 0 : 1;
}
