// Values that a tape recomputes (handlers/transforms/rematerialization.cpp): which handlers
// see the recomputation, under which handlers it happens, and values and pullbacks that
// outlive the function. recompute_test.cpp tests the programs.
#include <string>
#include <thread>
#include <vector>

#include <stave/stave.h>

#include "bits.h"
#include "matchers.h"

namespace {

using namespace stave;
using enum Recompute;
using namespace stave_test;

using T = const Tensor&;

Tensor random_x(std::uint64_t seed, Dtype dtype = float32) { return normal(Key(seed), {6, 5}, dtype); }

Tensor polynomial(T x) {
  Tensor y = x;
  for (int i = 0; i < 6; ++i) y = y * y + 0.25 * y - 1;
  return sum(y * x);
}

struct Records : Handler {
  std::vector<std::string> names;
  Outputs handle(Call& call) override {
    names.emplace_back(call.op().name);
    return perform(std::move(call));
  }
};

TEST(RecomputeUnderHandlers, IsNotSeenByAnOuterHandler) {
  const Tensor x = random_x(1);
  const auto seen = [&](Recompute when) {
    Records records;
    with(records, [&] { return grad(polynomial, {.recompute = when})(x); });
    return records.names;
  };
  EXPECT_EQ(seen(always), seen(never));
}

struct Rounds : Handler {
  Outputs handle(Call& call) override {
    Inputs rounded;
    for (T x : call.inputs()) rounded.push_back(x.dtype() == float32 ? astype(astype(x, bfloat16), float32) : x);
    return perform(call.with_inputs(std::move(rounded)));
  }
};

// A value that was computed under a handler is not recomputed without that handler, and vice versa.
TEST(RecomputeUnderHandlers, PullbackMayBeCalledUnderOtherHandlers) {
  const Tensor x = random_x(2), one = tensor(1.);
  const auto inside = [&](Recompute when) {
    Rounds rounds;
    auto pullback = with(rounds, [&] { return vjp(polynomial, {.recompute = when}, x).second; });
    return std::get<0>(pullback(one));
  };
  EXPECT_EQ(bytes_of(inside(always)), bytes_of(inside(never)));
  const auto outside = [&](Recompute when, auto&& handler) {
    auto pullback = vjp(polynomial, {.recompute = when}, x).second;
    return with(handler, [&] { return std::get<0>(pullback(one)); });
  };
  EXPECT_EQ(bytes_of(outside(always, Rounds())), bytes_of(outside(never, Rounds())));
  Records plain, again;
  outside(never, plain);
  outside(always, again);
  EXPECT_EQ(again.names, plain.names);
}

// An outer derivative differentiates through recomputed values, even with a handler in between.
TEST(RecomputeUnderHandlers, OuterGradientIsRightWithAHandlerBetween) {
  const Tensor x = random_x(3, float64);
  const auto twice = [&](Recompute when) {
    return grad([&](T a) {
      auto pullback = vjp(polynomial, {.recompute = when}, a).second;
      Records records;
      return with(records, [&] { return sum(square(std::get<0>(pullback(tensor(1., float64))))); });
    })(x);
  };
  const Tensor plain = twice(never);
  EXPECT_TRUE(allclose(twice(always), plain, 1e-10, 1e-10)) << twice(always) << plain;
}

TEST(RecomputeUnderHandlers, PullbackMayOutliveItsValues) {
  const Tensor one = tensor(1.);
  for (const Recompute when : {always, never}) {
    auto made = vjp(polynomial, {.recompute = when}, random_x(4));
    made.first = Tensor();
    std::vector<std::thread> threads;
    std::vector<Tensor> found(4);
    for (Tensor& to : found) threads.emplace_back([&to, &made, &one] { to = std::get<0>(made.second(one)); });
    for (std::thread& thread : threads) thread.join();
    const Tensor expected = grad(polynomial, {.recompute = never})(random_x(4));
    for (T x : found) EXPECT_EQ(bytes_of(x), bytes_of(expected));
  }
}

TEST(RecomputeUnderHandlers, EscapedValuesAndReusedBuffersAreRight) {
  const Tensor x = random_x(5);
  Tensor escaped;
  const auto f = [&](T a) {
    Tensor y = a * a;
    escaped = y * 2;
    y = std::move(y) * 3 + 1;
    y = square(std::move(y)) - escaped;
    return sum(square(relu(y)) * a);
  };
  const Tensor plain = grad(f, {.recompute = never})(x);
  EXPECT_EQ(bytes_of(grad(f, {.recompute = always})(x)), bytes_of(plain));
  EXPECT_TRUE(array_equal(escaped, x * x * 2));
}

TEST(RecomputeUnderHandlers, WorksInsideAndAroundACheckpoint) {
  const Tensor x = random_x(6), w = random_x(7);
  const auto f = [&](Recompute when) {
    return grad<0, 1>(
        [](T a, T b) {
          Tensor y = a * b * a + 1;
          for (int i = 0; i < 3; ++i)
            y = checkpoint([b](T z) { return tanh(square(z) * b) * (z + 1) * (z - b); })(y) * y;
          return sum(y);
        },
        {.recompute = when})(x, w);
  };
  const auto [dx, dw] = f(always);
  const auto [plain_dx, plain_dw] = f(never);
  EXPECT_EQ(bytes_of(dx), bytes_of(plain_dx));
  EXPECT_EQ(bytes_of(dw), bytes_of(plain_dw));
}

TEST(RecomputeUnderHandlers, AcceptsScalarsAndEmptyTensors) {
  for (const Shape& of : {Shape{}, Shape{1}, Shape{0, 3}}) {
    const Tensor x = full(of, 0.7);
    EXPECT_EQ(bytes_of(grad(polynomial, {.recompute = always})(x)),
              bytes_of(grad(polynomial, {.recompute = never})(x)));
  }
}

TEST(RecomputeUnderHandlers, AllReverseModeFunctionsTakeTheOption) {
  const Tensor x = random_x(8);
  EXPECT_EQ(bytes_of(value_and_grad(polynomial, {.recompute = always})(x).grad), bytes_of(grad(polynomial)(x)));
  EXPECT_EQ(bytes_of(grad(sum, {.recompute = never})(x)), bytes_of(ones_like(x)));
}

}  // namespace
