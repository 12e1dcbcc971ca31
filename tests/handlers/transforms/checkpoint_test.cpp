// Values that checkpoints save by their policy, and operations that they run again; loops by
// `loop`, and their schedule.
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <stave/stave.h>

#include "matchers.h"

namespace checkpoint_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;

struct Counts : Handler {
  std::map<std::string, int> of;
  Outputs handle(Call& call) override {
    ++of[call.op().name];
    return perform(std::move(call));
  }
};

struct Weights {
  Tensor first, second;
};
Tensor layers(const Weights& w, T x) {
  const Tensor hidden = label(tanh(matmul(x, w.first)), "hidden");
  const Tensor gate = sigmoid(hidden);
  return label(tanh(matmul(hidden * gate, w.second)), "out");
}
Weights weights(Dtype dtype = float32) { return {normal(Key(1), {4, 6}, dtype), normal(Key(2), {6, 3}, dtype)}; }
Tensor input(Dtype dtype = float32) { return normal(Key(3), {5, 4}, dtype); }

struct Case {
  const char* name;
  CheckpointPolicy policy;
  int matmul, tanh, sigmoid;  // how many of each are rematerialised
};
std::vector<Case> cases() {
  return {{"nothing", nothing_saveable, 2, 2, 1},
          {"everything", everything_saveable, 0, 0, 0},
          {"products", products_saveable, 0, 2, 1},
          {"hidden", save_only_these_labels("hidden"), 2, 1, 1},
          {"both labels", save_only_these_labels("hidden", "out"), 2, 0, 1},
          {"no such label", save_only_these_labels("elsewhere"), 2, 2, 1},
          {"own choice", CheckpointPolicy([](const Op& op) { return op.id == OpId::sigmoid; }), 2, 2, 0}};
}

const auto loss_by = [](const CheckpointPolicy& policy) {
  return [f = checkpoint(layers, policy)](const Weights& w, T x) { return sum(square(f(w, x))); };
};
const auto plain_loss = [](const Weights& w, T x) { return sum(square(layers(w, x))); };

TEST(CheckpointPolicies, SayWhatRunsAgain) {
  const Weights w = weights();
  Counts plain;
  const Weights expected = with(plain, [&] { return grad(plain_loss)(w, input()); });
  for (const Case& c : cases()) {
    Counts counts;
    const Weights found = with(counts, [&] { return grad(loss_by(c.policy))(w, input()); });
    EXPECT_EQ(counts.of["matmul"], plain.of["matmul"] + c.matmul) << c.name;
    EXPECT_EQ(counts.of["tanh"], plain.of["tanh"] + c.tanh) << c.name;
    EXPECT_EQ(counts.of["sigmoid"], plain.of["sigmoid"] + c.sigmoid) << c.name;
    EXPECT_TRUE(array_equal(found.first, expected.first)) << c.name;
    EXPECT_TRUE(array_equal(found.second, expected.second)) << c.name;
  }
}

TEST(CheckpointPolicies, PullbackMayBeCalledTwice) {
  for (const Case& c : cases()) {
    const auto [out, pullback] = vjp(checkpoint(layers, c.policy), weights(), input());
    const auto [dw, dx] = pullback(out);
    const auto [again_dw, again_dx] = pullback(out);
    const auto [plain_out, plain_pullback] = vjp(layers, weights(), input());
    const auto [plain_dw, plain_dx] = plain_pullback(out);
    EXPECT_TRUE(array_equal(dw.first, plain_dw.first) && array_equal(dx, plain_dx)) << c.name;
    EXPECT_TRUE(array_equal(again_dw.second, plain_dw.second) && array_equal(again_dx, plain_dx)) << c.name;
  }
}

TEST(CheckpointPolicies, WorkInEveryNest) {
  const Weights w = weights(float64);
  const Tensor xs = normal(Key(4), {2, 5, 4}, float64), v = normal(Key(5), {5, 4}, float64);
  const auto nests = [&](auto loss) {
    const auto of_x = [&](T x) { return loss(w, x); };
    const auto gradient = grad(of_x);
    return std::vector<Tensor>{
        vmap(gradient)(xs),
        grad([&](T all) { return sum(vmap(of_x)(all)); })(xs),
        jvp(gradient, xs(0), v).second,
        grad([&](T x) { return sum(gradient(x) * v); })(xs(0)),
        grad([&](T x) { return jvp(of_x, x, v).second; })(xs(0)),
        grad([&](T x) {
          return sum(vmap(gradient)(stack({x, 2 * x})));
        })(xs(0)),
        grad(checkpoint(of_x))(xs(1)),
        grad(checkpoint(of_x, products_saveable))(xs(1)),
        grad([&](T x) { return sum(checkpoint(gradient, products_saveable)(x) * v); })(xs(0)),
        vmap(grad([&](T x) { return sum(gradient(x) * v); }))(xs),
    };
  };
  const std::vector<Tensor> expected = nests(plain_loss);
  for (const Case& c : cases()) {
    const std::vector<Tensor> found = nests(loss_by(c.policy));
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(allclose(found[i], expected[i], 1e-12, 1e-12)) << c.name << ", nest " << i;
  }
}

// The outer checkpoint's policy does not cover values computed in an inner checkpoint: they are
// rematerialised, as without a policy.
TEST(CheckpointPolicies, WorkAroundCheckpointsAndCustomRules) {
  const auto inner = [](T x, T w) { return tanh(matmul(x, w)); };
  const auto squared = custom_vjp([](T x) { return square(tanh(x)); },
                                  [](T x) { return std::pair(square(tanh(x)), std::tuple(tanh(x))); },
                                  [](const std::tuple<Tensor>& residuals, T ct) {
                                    const Tensor y = std::get<0>(residuals);
                                    return std::tuple(ct * 2 * y * (1 - square(y)));
                                  });
  const auto loss = [&](auto outer_policy, auto inner_policy) {
    return [=](T w, T x) {
      const auto f = [=](T a, T b) {
        const Tensor h = checkpoint(inner, inner_policy)(matmul(b, a), a);
        return squared(tanh(matmul(h, a)));
      };
      return sum(checkpoint(f, outer_policy)(w, x));
    };
  };
  const Tensor w = normal(Key(6), {4, 4}) * 0.5, x = normal(Key(7), {3, 4});
  const Tensor expected = grad(loss(everything_saveable, everything_saveable))(w, x);
  for (const auto& outer : {nothing_saveable, products_saveable, everything_saveable})
    for (const auto& of_inner : {nothing_saveable, products_saveable, everything_saveable})
      EXPECT_TRUE(array_equal(grad(loss(outer, of_inner))(w, x), expected));
}

TEST(CheckpointPolicies, KeepOnlyTheSavedValuesInMemory) {
  // Both have 256 KiB.
  const Tensor x = normal(Key(8), {256, 256}), w = normal(Key(9), {256, 256}) * 0.05;
  const auto chain = [](T a, T b) {
    Tensor h = a;
    for (int i = 0; i < 8; ++i) h = tanh(label(matmul(h, b), i == 3 ? "third" : ""));
    return h;
  };
  const auto kept = [&](const CheckpointPolicy& policy) {
    const std::size_t before = memory_stats().live_bytes;
    auto made = vjp(checkpoint(chain, policy), x, w);
    made.first = Tensor();
    return (memory_stats().live_bytes - before) >> 18;
  };
  const std::size_t nothing = kept(nothing_saveable);
  EXPECT_LE(nothing, 1U);
  EXPECT_EQ(kept(products_saveable), nothing + 8);
  EXPECT_EQ(kept(save_only_these_labels("third")), nothing + 1);
  EXPECT_GE(kept(everything_saveable), 8U);
}

TEST(CheckpointPolicies, NondeterministicFunctionIsAnError) {
  int runs = 0;
  const auto f = [&](T x) { return ++runs == 1 ? matmul(x, x) : exp(x); };
  const Tensor x = normal(Key(10), {3, 3});
  EXPECT_THAT(
      message_of<TransformError>([&] { grad([&](T a) { return sum(checkpoint(f, products_saveable)(a)); })(x); }),
      HasSubstr("performed different operations when it ran again"));
}

// ---- loop ---------------------------------------------------------------------------------------

struct State {
  Tensor position, velocity;
  int kind;  // not a tensor: the loop leaves it as it is
};
const auto swing = [](const Tensor& stiffness) {
  return [stiffness](const State& s) {
    const Tensor velocity = s.velocity - 0.01 * stiffness * sin(s.position);
    return State{s.position + 0.01 * velocity, velocity, s.kind};
  };
};
State start() { return {normal(Key(11), {3}, float64), normal(Key(12), {3}, float64), 7}; }

TEST(LoopWithSnapshots, EqualsAPlainLoop) {
  const Tensor stiffness = tensor(2., float64);
  for (const int n : {0, 1, 2, 7, 100}) {
    State expected = start();
    for (int i = 0; i < n; ++i) expected = swing(stiffness)(expected);
    for (const Index snapshots : {0, 1, 3}) {
      const State found = loop(n, swing(stiffness), {.snapshots = snapshots})(start());
      EXPECT_TRUE(array_equal(found.position, expected.position) && array_equal(found.velocity, expected.velocity));
      EXPECT_EQ(found.kind, 7);
    }
  }
  EXPECT_TRUE(array_equal(loop(3, sin)(tensor(0.5)), sin(sin(sin(tensor(0.5))))));
}

// A function of a captured value and of the state.
const auto energy = [](Index n, Index snapshots) {
  return [=](T stiffness, const State& s) {
    const State end = loop(n, swing(stiffness), {.snapshots = snapshots})(s);
    return sum(square(end.velocity) + end.position * stiffness);
  };
};

TEST(LoopWithSnapshots, GradientEqualsThatOfAPlainLoopBitForBit) {
  const Tensor stiffness = tensor(2., float64);
  for (const Index n : {1, 2, 3, 10, 57}) {
    const auto [by_stiffness, by_state] = grad<0, 1>(energy(n, 0))(stiffness, start());
    for (const Index snapshots : {1, 2, 3, 5, 100}) {
      const auto [found, of_state] = grad<0, 1>(energy(n, snapshots))(stiffness, start());
      EXPECT_TRUE(array_equal(found, by_stiffness)) << n << " steps, " << snapshots << " snapshots";
      EXPECT_TRUE(array_equal(of_state.position, by_state.position));
      EXPECT_TRUE(array_equal(of_state.velocity, by_state.velocity));
    }
  }
}

TEST(LoopWithSnapshots, WorksInEveryNest) {
  const auto nests = [](Index snapshots) {
    const auto f = [=](T stiffness) { return energy(20, snapshots)(stiffness, start()); };
    const Tensor x = tensor(2., float64), xs = tensor({1., 2., 3.}, float64);
    const auto [out, pullback] = vjp(f, x);
    return std::vector<Tensor>{
        vmap(grad(f))(xs),
        grad([&](T all) { return sum(vmap(f)(all)); })(xs),
        jvp(f, x, x).second,
        jvp(grad(f), x, x).second,
        grad([&](T y) { return jvp(f, y, y).second; })(x),
        grad(grad(f))(x),
        grad(grad(grad(f)))(x),
        vmap(grad(grad(f)))(xs),
        grad(checkpoint(f))(x),
        std::get<0>(pullback(out)),
        std::get<0>(pullback(out)),
    };
  };
  const std::vector<Tensor> expected = nests(0), found = nests(3);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(allclose(found[i], expected[i], 1e-11, 1e-11)) << "nest " << i;
}

// The least number of steps that run unrecorded, over all ways to divide n (Griewank and Walther,
// 2000, equation 1).
Index fewest(Index n, Index snapshots) {
  static std::map<std::pair<Index, Index>, Index> known;
  if (n == 1) return 0;
  if (snapshots == 1) return n * (n - 1) / 2;
  const auto [found, is_new] = known.emplace(std::pair(n, snapshots), 0);
  if (!is_new) return found->second;
  Index best = std::numeric_limits<Index>::max();
  for (Index m = 1; m < n; ++m) best = std::min(best, m + fewest(m, snapshots) + fewest(n - m, snapshots - 1));
  return known[{n, snapshots}] = best;
}
double binomial(Index n, Index k) {
  return std::round(std::exp(std::lgamma(n + 1.) - std::lgamma(k + 1.) - std::lgamma(n - k + 1.)));
}
// The closed form: r n - C(s + r, r - 1), where r is the least number with C(s + r, s) >= n
// (Griewank and Walther, 2000, proposition 1).
double by_formula(Index n, Index s) {
  Index r = 0;
  while (binomial(s + r, s) < static_cast<double>(n)) ++r;
  return static_cast<double>(r * n) - (r == 0 ? 0 : binomial(s + r, r - 1));
}

TEST(LoopWithSnapshots, RunsTheFewestSteps) {
  for (const Index n : {1, 2, 3, 5, 8, 20, 21, 35, 36, 100, 300})
    for (const Index snapshots : {1, 2, 3, 4, 7, 20}) {
      Index steps = 0;
      const auto step = [&](T x) {
        ++steps;
        return x * 1.01;
      };
      grad([&](T x) { return loop(n, step, {.snapshots = snapshots})(x); })(tensor(1.));
      EXPECT_EQ(steps, n + fewest(n, snapshots)) << n << " steps, " << snapshots << " snapshots";
      EXPECT_EQ(static_cast<double>(fewest(n, snapshots)), by_formula(n, snapshots));
    }
}

TEST(LoopWithSnapshots, ManyStepsTakeLittleMemory) {
  const auto peak = [](Index n, Index snapshots) {
    const Tensor x = full({1024}, 0.5) * 1;  // 4 KiB
    const std::size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    const Tensor found = grad(
        [&](T y) { return sum(loop(n, [](T state) { return sin(state) * 1.0001; }, {.snapshots = snapshots})(y)); })(x);
    EXPECT_TRUE(static_cast<bool>(all(isfinite(found))));
    return (memory_stats().peak_bytes - before) >> 12;
  };
  EXPECT_GE(peak(2000, 0), 2000U);
  EXPECT_LE(peak(2000, 8), 8 + 8U);
  EXPECT_LE(peak(20000, 11), 11 + 8U);
}

TEST(LoopWithSnapshots, RepeatedStepsGetTheFirstAnswers) {
  struct Rate {
    using Result = float;
  };
  struct Rates : Handles<Rate> {
    int asked = 0;
    float handle(Rate&) override { return 1 + 0.1f * static_cast<float>(asked++); }
  };
  const auto gradient = [](Index snapshots) {
    Rates rates;
    const auto f = [&](T x) {
      return loop(9, [](T y) { return y * perform(Rate{}) + 0.1; }, {.snapshots = snapshots})(x);
    };
    const Tensor found = with(rates, [&] { return grad(f)(tensor(1.)); });
    EXPECT_EQ(rates.asked, 9);
    return found;
  };
  EXPECT_TRUE(array_equal(gradient(2), gradient(0)));
}

TEST(LoopWithSnapshots, Errors) {
  EXPECT_THAT(message_of<TransformError>([] { loop(-1, sin); }), HasSubstr("number of steps is -1"));
  EXPECT_THAT(message_of<TransformError>([] { loop(1, sin, {.snapshots = -2}); }), HasSubstr("snapshots is -2"));
}

}  // namespace checkpoint_test
