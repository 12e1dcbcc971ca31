// Native code of random lowered code.
#include "native.h"
#include "random_code.h"

namespace native {
namespace {

NATIVE_FIXTURE(NativeRandom);

TEST_P(NativeRandom, RandomCodeEqualsTheInterpreter) {
  const std::vector<Dtype> dtypes{float64, float32, int64, int32, uint8, bool_};
  for (unsigned seed = 0; seed < 1500; ++seed) {
    const Lowered code = Generator(seed, dtypes, seed % 2 == 0).run(seed % 3 == 0 ? 20 : seed % 3 == 1 ? 80 : 300);
    stave_detail::verify(stave_cpu::group_calls(stave_detail::hoist_invariants(code)));
    expect_same("seed " + std::to_string(seed), code, random_inputs(dtypes, seed));
    if (HasFailure()) {
      std::cout << code.str();
      return;
    }
  }
}

}  // namespace
}  // namespace native
