// The programs of tests/bench/effect_programs.h against the answers of effect-handlers-bench for
// its small sizes, and against formulas for other sizes.
#include <gtest/gtest.h>

#include "bench/effect_programs.h"

namespace {

using namespace effect_programs;

TEST(EffectPrograms, SmallSizesGiveTheBenchmarkSuitesAnswers) {
  EXPECT_EQ(countdown(5), 0);
  EXPECT_EQ(fibonacci_recursive(5), 8);
  EXPECT_EQ(product_early(5), 0);
  EXPECT_EQ(iterator(5), 15);
  EXPECT_EQ(generator(5), 57);
  EXPECT_EQ(parsing_dollars(10), 55);
  EXPECT_EQ(resume_nontail(5), 37);
  EXPECT_EQ(handler_sieve(10), 17);
}

TEST(EffectPrograms, OtherSizesGiveKnownAnswers) {
  EXPECT_EQ(countdown(100'000), 0);
  EXPECT_EQ(fibonacci_recursive(20), 10'946);
  EXPECT_EQ(iterator(10'000), 50'005'000);
  EXPECT_EQ(generator(0), 0);
  // Each of the 2^(12 - h) nodes of height h gives h.
  EXPECT_EQ(generator(12), (1 << 13) - 2 - 12);
  EXPECT_EQ(parsing_dollars(200), 20'100);
  EXPECT_EQ(handler_sieve(1000), 76'127);  // the sum of the 168 primes below 1000
}

TEST(EffectPrograms, NestedResumptionsEqualALoop) {
  // The same as a loop: the value that the last effect's handler computes is the first result.
  constexpr int n = 300;
  int result = 0;
  for (int i = 0; i < 1000; ++i)
    for (int x = 1; x <= n; ++x) result = std::abs(x - 503 * result + 37) % 1009;
  EXPECT_EQ(resume_nontail(n), result);
}

}  // namespace
