// Control flow on lanes' values: how often the function and its operations run, what the lanes may
// return, and errors.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "lanes.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using T = const Tensor&;

const Tensor xs = tensor({-2.3, 0.4, 1.7, -0.6, 3.2, 0.4, -0.2, 2.1}, float64);

// ---- what runs, and how often -------------------------------------------------------------------

TEST(PathsRun, RunsOncePerPath) {
  int runs = 0;
  const auto f = [&](T x) {
    ++runs;
    return bool(x > 0) ? (bool(x > 1) ? x : 2. * x) : -x;
  };
  EXPECT_THAT(vmap(f)(xs), IsNear(lane_by_lane(f, xs)));
  runs = 0;
  vmap(f)(xs);
  EXPECT_EQ(runs, 3);
  runs = 0;
  vmap(f)(xs - 10.);
  EXPECT_EQ(runs, 1);
}

// Counts the operations that reach the kernels.
struct Counts : Handler {
  std::map<std::string, int> counts;
  Outputs handle(Call& call) override {
    ++counts[call.op().name];
    return perform(std::move(call));
  }
};

TEST(PathsRun, OperationsOfSeveralLanesRunOnce) {
  const auto f = [](T x) {
    const Tensor y = sin(x);
    const Tensor z = bool(y > 0) ? exp(y) : tanh(y);
    return z + cos(y);
  };
  Counts counts;
  EXPECT_THAT(with(counts, [&] { return vmap(f)(xs); }), IsNear(lane_by_lane(f, xs)));
  EXPECT_EQ(counts.counts["sin"], 1);
  EXPECT_EQ(counts.counts["exp"], 1);
  EXPECT_EQ(counts.counts["tanh"], 1);
  EXPECT_EQ(counts.counts["cos"], 2);  // once for the lanes of each path
}

TEST(PathsRun, LogKeepsNoTensorsAlive) {
  reset_peak_memory();
  const std::int64_t before = memory_stats().live_bytes;
  const Tensor rows = full({2, Index{1} << 18}, 0.5);  // 1 MiB a row
  vmap([](T x) {
    Tensor y = x;
    for (int i = 0; i < 100; ++i) y = y * 0.99 + 0.01;
    return bool(sum(y) > 0) ? y : -y;
  })(rows);
  EXPECT_LT(memory_stats().peak_bytes - before, std::int64_t{16} << 20);
}

TEST(PathsRun, OperationsBeyondTheLogRunAgain) {
  const auto f = [](T x) {
    Tensor y = x;
    for (int i = 0; i < 150'000; ++i) y = y + 1.;
    for (int i = 0; i < 150'000; ++i) y = y - 1.;
    return bool(y > 0) ? y * 2. : y;
  };
  const Tensor four = tensor({-1., 2., -3., 4.}, float64);
  EXPECT_THAT(vmap(f)(four), IsNear(tensor({-1., 4., -3., 8.}, float64)));
}

TEST(PathsRun, EachLaneMayTakeAPathOfItsOwn) {
  const auto collatz = [](Tensor n) {
    Tensor steps = tensor(0);
    while (bool(n != 1)) {
      n = bool(n % 2 == 0) ? floor_divide(n, 2) : 3 * n + 1;
      steps = steps + 1;
    }
    return steps;
  };
  const Tensor numbers = arange(1, 200);
  EXPECT_THAT(vmap(collatz)(numbers), Equals(lane_by_lane(collatz, numbers)));
  const Tensor many = arange(0, 100'000, 1, float32);
  EXPECT_THAT(vmap([](T x) { return x * x.item<double>(); })(many), IsNear(many * many));
}

TEST(PathsRun, KeysMayDifferBetweenLanes) {
  const auto walk = [](const Key& key) {
    Tensor x = zeros({}, float64);
    Key next = key;
    for (int i = 0; i < 20 && bool(abs(x) < 1.5); ++i) {
      const auto [a, b] = split<2>(next);
      x = x + normal(a, {}, float64);
      next = b;
    }
    return x;
  };
  const Tensor keys = split(Key(3), 16);
  std::vector<Tensor> expected;
  for (Index i = 0; i < 16; ++i) expected.push_back(walk(Key(keys[i])));
  EXPECT_THAT(vmap(walk)(keys), Equals(stack(expected)));
}

TEST(PathsRun, ShapesMayDependOnValuesOfLanes) {
  const auto f = [](T n) { return sum(arange(0, n.item<int>() + 1)); };
  EXPECT_THAT(vmap(f)(tensor({0, 3, 5, 3})), Equals(tensor({0, 6, 15, 6})));
  EXPECT_THAT(
      [] {
        vmap([](T n) { return zeros({n.item<int>()}); })(tensor({1, 2, 1}));
      },
      ThrowsMessage<ShapeError>(
          AllOf(HasSubstr("vmap: result 0 is float32 [1] in lanes 0, 2"), HasSubstr("float32 [2] in lane 1"))));
  EXPECT_THAT(
      [] {
        vmap([](T n) { return std::vector<Tensor>(static_cast<std::size_t>(n.item<int>()), n); })(tensor({1, 2}));
      },
      ThrowsMessage<TransformError>(HasSubstr("results differ in a part that is not a tensor, or in their structure")));
}

TEST(PathsRun, ArgumentsMayBeMoved) {
  const auto f = [](Tensor x, std::vector<double> by, T y) {
    std::vector<double> taken = std::move(by);
    return bool(x > 0) ? std::move(x) * taken.at(1) : y * taken.at(0);
  };
  EXPECT_THAT(vmap(f)(Tensor(xs), std::vector<double>{2, 3}, xs), IsNear(where(xs > 0, xs * 3., xs * 2.)));
  const auto uses_up = [](T x, std::unique_ptr<double> by) { return bool(x > 0) ? x * *by : x; };
  EXPECT_THAT([&] { vmap(uses_up)(xs, std::make_unique<double>(2.)); },
              ThrowsMessage<TransformError>(HasSubstr("an argument was moved into it that cannot be copied")));
  EXPECT_THAT(vmap(uses_up)(abs(xs), std::make_unique<double>(2.)), IsNear(abs(xs) * 2.));
}

TEST(PathsRun, UnmappedResultsMustBeEqualInAllLanes) {
  const auto same = [](T x) { return bool(x > 0) ? full({2}, 7., float64) : full({2}, 7., float64); };
  EXPECT_THAT(vmap(same, {.out_axes = unmapped})(xs), Equals(full({2}, 7., float64)));
  const auto other = [](T x) { return bool(x > 0) ? tensor(0.) : tensor(-0.); };
  EXPECT_THAT([&] { vmap(other, {.out_axes = unmapped})(xs); },
              ThrowsMessage<TransformError>(HasSubstr("differs between lanes")));
  struct Counted {
    Tensor x;
    int steps;
  };
  const auto counted = [](T x) { return Counted{x, bool(x > 0) ? 1 : 2}; };
  EXPECT_THAT([&] { vmap(counted)(xs); },
              ThrowsMessage<TransformError>(HasSubstr("return tensors for values that differ between lanes")));
  EXPECT_EQ(vmap(counted)(abs(xs)).steps, 1);
}

// An operation that costs more than its answer from the log is not performed again for a lane that
// continues alone.
TEST(PathsRun, SingleLaneReusesExpensiveResultsFromTheLog) {
  const Tensor weights = astype(0.11 * sin(reshape(arange(128 * 128), {128, 128}) * 0.7), float64);
  int steps = 0;
  const auto fixed_point = [&](T x) {
    Tensor y = x;
    for (steps = 1;; ++steps) {
      const Tensor next = 0.8 * tanh(matmul(weights, y)) + x;
      const bool ends = bool(max(abs(next - y)) < 1e-7);
      y = next;
      if (ends) return y;
    }
  };
  const Tensor scales = tensor({1e-4, 0.004, 0.05, 0.6, 40.}, float64),
               all = expand_dims(scales, 1) * cos(arange(128) * 0.3);
  Counts counts;
  std::vector<int> taken;
  const Tensor expected = lane_by_lane(
      [&](T x) {
        const Tensor y = fixed_point(x);
        taken.push_back(steps);
        return y;
      },
      all);
  EXPECT_THAT(with(counts, [&] { return vmap(fixed_point)(all); }), IsNear(expected));
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(counts.counts["matmul"], taken.back());
  EXPECT_GE(std::unique(taken.begin(), taken.end()) - taken.begin(), 4);  // different paths
  const auto total = [&](T x) { return sum(square(fixed_point(x))); };
  const Tensor slope = lane_by_lane(grad(total), all);
  EXPECT_THAT(vmap(grad(total))(all), IsNear(slope));
  EXPECT_THAT(grad([&](T xs) { return sum(vmap(total)(xs)); })(all), IsNear(slope));
  EXPECT_THAT(vmap(grad(checkpoint(total)))(all), IsNear(slope));
  EXPECT_THAT(vmap(vmap(grad(total)))(stack({all, all * 0.5}))[0], IsNear(slope));
  const auto tangent = [&](T x) { return jvp(total, x, cos(x)).second; };
  EXPECT_THAT(vmap(tangent)(all), IsNear(lane_by_lane(tangent, all)));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(PathsErrors, NameTheLanes) {
  const auto fails = [](T x) { return bool(x > 3) ? reshape(x, {2}) : x; };
  EXPECT_THAT([&] { vmap(fails)(xs); }, ThrowsMessage<ShapeError>(HasSubstr("inside vmap, lane 4 of 8")));
  const auto throws = [](T x) { return bool(x > 2) ? throw std::domain_error("too large") : x; };
  EXPECT_THAT([&] { vmap(throws)(xs); }, ThrowsMessage<std::domain_error>("too large"));
  EXPECT_THAT([] { vmap([](T x) { return bool(x > 0) ? x : -x; })(zeros({0})); },
              ThrowsMessage<TransformError>(HasSubstr("there are no lanes")));
  EXPECT_EQ(error_context(), "");
  const auto abs_of = [](T x) { return bool(x > 0) ? x : -x; };
  EXPECT_THAT(vmap(abs_of)(xs), IsNear(abs(xs)));  // the handlers are as before
}

TEST(PathsErrors, AreThrownOnlyForTheirLanes) {
  const auto f = [](T x) {
    Tensor y = x;
    try {
      y = take(xs, astype(abs(x), int32) + 6);
    } catch (const IndexError&) {
      y = x * 100.;
    }
    return bool(x > 0) ? y : -y;
  };
  EXPECT_THAT(vmap(f)(xs), IsNear(lane_by_lane(f, xs)));
  // The operation throws for all lanes.
  EXPECT_THAT(vmap(f)(xs * 20.), IsNear(where(xs > 0, xs * 2000., xs * -2000.)));
}

TEST(PathsErrors, NondeterministicFunctionIsAnError) {
  int runs = 0;
  const auto f = [&](T x) {
    const Tensor y = runs++ ? sin(x) : cos(x);
    return bool(x > 0) ? y : -y;
  };
  EXPECT_THAT([&] { vmap(f)(xs); },
              ThrowsMessage<TransformError>(HasSubstr("performed sin where it had performed cos")));
  Tensor kept;
  const auto stores = [&](T x) {
    if (!kept.defined()) kept = x * 2.;
    return bool(x > 0) ? x : -x * kept;
  };
  EXPECT_THROW(vmap(stores)(xs), TransformError);
}

TEST(PathsErrors, UsingAValueOfAnotherPathIsAnError) {
  Tensor kept;
  const auto f = [&](T x) {
    const Tensor y = x * 2.;
    if (x > 0) return kept.defined() ? y + kept : y;
    kept = y * 3.;
    return y;
  };
  EXPECT_THAT([&] { vmap(f)(xs); }, ThrowsMessage<TransformError>(HasSubstr("which took another path")));
}

TEST(PathsErrors, CheckpointPoliciesNeedOnePath) {
  const auto f =
      checkpoint([](T x) { return bool(x > 0) ? sin(x) * x : x; }, CheckpointPolicy([](const Op&) { return true; }));
  EXPECT_THAT([&] { vmap(grad(f))(xs); }, ThrowsMessage<TransformError>(HasSubstr("use checkpoint without a policy")));
  EXPECT_THAT(vmap(grad(f))(abs(xs)), IsNear(lane_by_lane(grad(f), abs(xs))));
}

TEST(PathsErrors, ReadingMayNotLoseADerivative) {
  const auto f = [](T x) { return x * x.to_vector<double>()[0]; };
  EXPECT_THAT(vmap(f)(xs), IsNear(xs * xs));
  EXPECT_THAT([&] { grad([&](T a) { return sum(vmap(f)(a)); })(xs); },
              ThrowsMessage<TransformError>(HasSubstr("grad differentiates this value")));
}

}  // namespace
