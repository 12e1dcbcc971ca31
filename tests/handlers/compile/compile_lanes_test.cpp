// vmap inside a compiled function: which patterns of lanes are recorded and replayed.
#include <limits>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3.});

// Constants created inside the function are large here: one number for all lanes, or an array.
TEST(Compile, PathsOfManyLanesAreRecorded) {
  const auto with_number = [](const Tensor& v) {
    const Tensor m = 1 + sin(v);
    return bool(sum(v) > 0) ? m : cos(m);
  };
  const auto with_array = [](const Tensor& v) {
    const Tensor m = v * linspace(0., 1., v.size()) + exp(reshape(arange(0., 1., 1. / v.size()), {v.size()}));
    return bool(sum(v) > 0) ? m : cos(m);
  };
  const auto with_halves = [](const Tensor& v) {
    const Tensor m = astype(v, float16) * 0.5 + full({v.size()}, std::numeric_limits<float>::quiet_NaN(), float16);
    const Tensor n = astype(m > 0, int32) + 3;
    return bool(sum(v) > 0) ? astype(n, float32) : cos(v * astype(n, float32));
  };
  const auto check = [](const auto& f) {
    for (const Index n : {16, 64, 5000}) {
      const auto compiled = compile(vmap(f));
      for (int again = 0; again < 3; ++again)
        for (int i = 0; i < 4; ++i) {
          const Tensor at = normal(Key(static_cast<std::uint64_t>(i)), {64, n});
          EXPECT_THAT(compiled(at), Is(vmap(f)(at)));
        }
      EXPECT_EQ(compiled.recordings(), 4u) << n;
    }
  };
  check(with_number);
  check(with_array);
  check(with_halves);
}

// The gradient of a checkpoint runs its function again, and here depends on no lane.
TEST(Compile, ReplaysACheckpointsGradientThatNoLaneChanges) {
  int runs = 0;
  const auto f = [&](const Tensor& a, const Tensor& b) {
    ++runs;
    const auto rerun = [](const Tensor& v) { return sum(checkpoint([](const Tensor& w) { return sin(exp(w)); })(v)); };
    return std::pair(grad(rerun)(a), sin(b));
  };
  const auto lanes = vmap(compile(f), {.in_axes = {unmapped, 0}});
  const Tensor b = stack({x, 2. * x});
  for (int call = 0; call < 4; ++call) {
    const auto [gradient, sines] = lanes(x, b);
    EXPECT_THAT(gradient, IsNear(broadcast_to(cos(exp(x)) * exp(x), {2, 3})));
    EXPECT_THAT(sines, IsNear(sin(b)));
  }
  EXPECT_LE(runs, 2);
}

// A large tensor that each run creates anew is recognised as equal; so is a region that the
// backward pass builds.
TEST(Compile, LargeConstantsThatEachRunCreatesAreEqual) {
  const auto made = [](const Tensor& a) {
    const Tensor y = a * sin(linspace(0., 1., 100'000)) + from(std::vector<float>(100'000, 0.5f));
    return bool(sum(y) > 0) ? y : y * 2.;
  };
  const auto twice = [](const Tensor& a) {
    const auto loss = [](const Tensor& v) {
      Tensor y = v;
      for (int i = 0; i < 4; ++i) y = y * 0.5 + square(y) * 0.25;
      return sum(y);
    };
    const Tensor next = a - 0.1 * grad(loss, {.recompute = Recompute::always})(a);
    return bool(sum(next) > 0) ? next : grad(loss)(next);
  };
  const auto check = [](const auto& f) {
    const auto compiled = compile(f);
    for (int again = 0; again < 3; ++again)
      for (const double scale : {1., -2., 0.5}) {
        const Tensor at = linspace(0.1, 1., 100'000) * scale;
        EXPECT_THAT(compiled(at), Is(f(at)));
      }
    EXPECT_EQ(compiled.recordings(), 2u);
  };
  check([made](const Tensor& a) {
    const Tensor y = made(a);
    return bool(any(y > 1e9)) ? y : -y;
  });
  check([twice](const Tensor& a) {
    const Tensor y = twice(a);
    return bool(any(y > 1e9)) ? y : -y;
  });
}

TEST(Compile, PatternsOfLanesThatRepeatAreReplayed) {
  int runs = 0;
  const auto f = compile(vmap([&](const Tensor& v) { return ++runs, bool(sum(v) > 0) ? sin(v) : v * 2.; }));
  const auto lanes = [](int pattern) { return normal(Key(static_cast<std::uint64_t>(pattern)), {1000, 2}); };
  const auto expect_right = [&](int pattern) {
    const Tensor at = lanes(pattern);
    EXPECT_THAT(f(at), Is(where(expand_dims(sum(at, 1) > 0., 1), sin(at), at * 2.)));
  };
  for (int pattern = 0; pattern < 3; ++pattern) expect_right(pattern);
  const int before = std::exchange(runs, 0);
  EXPECT_EQ(before, 6);  // two paths each
  for (int again = 0; again < 3; ++again)
    for (int pattern = 0; pattern < 3; ++pattern) expect_right(pattern);
  EXPECT_EQ(runs, 0);
  // More patterns than compile records: in the end most calls are replayed.
  for (int again = 0; again < 6; ++again)
    for (int pattern = 0; pattern < 20; ++pattern) expect_right(pattern);
  runs = 0;
  for (int pattern = 0; pattern < 20; ++pattern) expect_right(pattern);
  EXPECT_LE(runs, 2 * 8);
  EXPECT_LE(f.recordings(), 16u);
}

TEST(Compile, PatternsOfLanesThatNeverRepeatStopRecording) {
  int runs = 0;
  const auto f = compile(vmap([&](const Tensor& v) { return ++runs, bool(sum(v) > 0) ? sin(v) : v * 2.; }));
  for (int i = 0; i < 200; ++i) f(normal(Key(static_cast<std::uint64_t>(i)), {1000, 2}));
  EXPECT_EQ(runs, 2 * 200);
  EXPECT_LE(f.recordings(), 4u);
}

TEST(Compile, ConstantsThatEachRunCreatesAreEqual) {
  const auto f = [](const Tensor& a) {
    const Tensor weights = tensor({1., 0.5, 0.25}), two = Tensor(2);
    return sum(a * weights).item<float>() > 3 ? a * two : a + weights;
  };
  const auto compiled = compile(f);
  for (int again = 0; again < 2; ++again)
    for (const double scale : {1., 2., 1.5}) EXPECT_THAT(compiled(x * scale), Is(f(x * scale)));
  EXPECT_EQ(compiled.recordings(), 3u);
}

}  // namespace
