// Loops in programs: derivatives and lanes of a recorded loop against those of its steps.
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({0.5, -1.2, 2.3});

Tensor step(const Tensor& y) { return tanh(y * 1.1) + y * 0.01; }

Tensor scattered_like(const Tensor& y) { return sin(arange(static_cast<double>(y.size())) * 1.7); }
// Steps of loops: functions of the state y and a captured value w.
struct Case {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> step;
};
const std::vector<Case> cases = {
    {"tanh", [](const Tensor& y, const Tensor& w) { return tanh(y * w) + y * 0.01; }},
    {"captured thrice", [](const Tensor& y, const Tensor& w) { return sin(y * w) * w + exp(-w * w) * y; }},
    {"independent", [](const Tensor& y, const Tensor& w) { return stop_gradient(y) * w; }},
    {"constant", [](const Tensor&, const Tensor& w) { return w * 2.; }},
    {"product", [](const Tensor& y, const Tensor& w) { return matmul(expand_dims(w, 1) * w * 0.1, y) + sum(y) * w; }},
    {"pieces",
     [](const Tensor& y, const Tensor& w) {
       return stack({y[1] * w[0], y[2] - y[0], sin(y[0]) * y[1]});
     }},
    {"branches", [](const Tensor& y, const Tensor& w) { return where(y > w, y * 0.9, cos(w * y)); }},
};

template <class Check>
void for_cases(Check check) {
  for (const Case& c : cases)
    for (const int n : {3, 10}) {
      SCOPED_TRACE(c.name + std::string(", steps: ") + std::to_string(n));
      const auto eager = [=](const Tensor& y, const Tensor& w) {
        Tensor state = y;
        for (int i = 0; i < n; ++i) state = c.step(state, w);
        return state;
      };
      const auto kept = [=](const Tensor& y, const Tensor& w) {
        return loop(n, [&](const Tensor& s) { return c.step(s, w); })(y);
      };
      check(eager, kept);
    }
}

const Tensor w0 = tensor({0.7, -0.4, 1.3});
const auto total = [](const auto& f) {
  return [f](const Tensor& y, const Tensor& w) { return sum(f(y, w) * tensor({1., -2., 0.5})); };
};

TEST(Loop, GradientEqualsThatOfUnrolledSteps) {
  for_cases([](const auto& eager, const auto& kept) {
    const auto expected = grad<0, 1>(total(eager));
    const auto p = trace(total(kept))(x, w0);
    EXPECT_EQ(count_loops(p), 1u);
    const auto of_program = grad<0, 1>(p);
    const auto program_of = trace(grad<0, 1>(total(kept)))(x, w0);
    const auto compiled = compile(grad<0, 1>(total(kept)));
    EXPECT_LE(program_of.instructions.size(), 16u);
    for (const Tensor& w : {w0, w0 * -0.5}) {
      const auto [gy, gw] = expected(x, w);
      EXPECT_THAT(std::get<0>(of_program(x, w)), Is(gy));
      EXPECT_THAT(std::get<1>(of_program(x, w)), Is(gw));
      EXPECT_THAT(std::get<0>(program_of(x, w)), Is(gy));
      EXPECT_THAT(std::get<1>(program_of(x, w)), Is(gw));
      for (int again = 0; again < 2; ++again) {
        EXPECT_THAT(std::get<0>(compiled(x, w)), Is(gy));
        EXPECT_THAT(std::get<1>(compiled(x, w)), Is(gw));
      }
    }
  });
}

TEST(Loop, TangentsEqualThoseOfUnrolledSteps) {
  for_cases([](const auto& eager, const auto& kept) {
    const auto along = [](const auto& f) {
      return [f](const Tensor& y, const Tensor& w) { return jvp(f, std::tuple(y, w), std::tuple(cos(w), sin(y))); };
    };
    const auto expected = along(eager)(x, w0), of_program = along(trace(kept)(x, w0))(x, w0);
    const auto compiled = compile(along(kept));
    compiled(w0, x);
    EXPECT_THAT(of_program.first, Is(expected.first));
    EXPECT_THAT(of_program.second, Is(expected.second));
    EXPECT_THAT(compiled(x, w0).second, Is(expected.second));
    const auto by_state = [](const auto& f) {
      return
          [f](const Tensor& y, const Tensor& w) { return jvp([&](const Tensor& a) { return f(a, w); }, y, w).second; };
    };
    EXPECT_THAT(compile(by_state(kept))(x, w0), Is(by_state(eager)(x, w0)));
    EXPECT_EQ(count_loops(optimized(trace(along(kept))(x, w0))), 1u);
  });
}

TEST(Loop, LanesEqualThoseOfUnrolledSteps) {
  const Tensor ys = stack({x, w0, x * 2., -w0}), ws = stack({w0, x, -x, w0 * 0.3});
  for_cases([&](const auto& eager, const auto& kept) {
    for (const VmapOptions& options :
         {VmapOptions{}, VmapOptions{.in_axes = {0, unmapped}}, VmapOptions{.in_axes = {unmapped, 0}}}) {
      const Tensor y = options.in_axes.of(0).axis.mapped ? ys : x, w = options.in_axes.of(1).axis.mapped ? ws : w0;
      const Tensor expected = vmap(eager, options)(y, w);
      EXPECT_THAT(vmap(trace(kept)(x, w0), options)(y, w), Is(expected));
      const auto compiled = compile(vmap(kept, options));
      EXPECT_THAT(compiled(y, w), Is(expected));
      EXPECT_THAT(compiled(y, w), Is(expected));
      EXPECT_EQ(count_loops(trace(vmap(kept, options))(y, w)), 1u);
    }
  });
}

// A path of vmap takes its rows of a captured value, and so must the recorded loop. A step took
// these rows first while the loop was recorded, but that recording is discarded.
TEST(Loop, MayCaptureValuesOfLanesThatSplit) {
  const auto f = [](const Tensor& at) {
    return vmap([](const Tensor& v) {
      const Tensor captured = cos(v), begin = v > 0. ? sin(v) : v * 0.5;
      return loop(4, [captured](const Tensor& y) { return tanh(y) + captured; })(begin);
    })(at);
  };
  for (const Tensor& at : {tensor({0.3, -0.7}), tensor({0.3, -0.7, 1.2, -2., 0.1})}) {
    const auto program = trace(f)(at);
    EXPECT_GT(count_loops(program), 0u);
    EXPECT_THAT(program(at), IsNear(f(at)));
    const auto compiled = compile(f);
    for (int i = 0; i < 2; ++i) EXPECT_THAT(compiled(at), IsNear(f(at)));
  }
}

TEST(Loop, SecondDerivativesEqualThoseOfUnrolledSteps) {
  for_cases([](const auto& eager, const auto& kept) {
    const auto second = [](const auto& f) {
      return [f](const Tensor& y, const Tensor& w) {
        return grad([&](const Tensor& a) { return sum(square(grad(total(f))(a, w)) * w); })(y);
      };
    };
    const Tensor expected = second(eager)(x, w0);
    EXPECT_THAT(second(trace(kept)(x, w0))(x, w0), IsNear(expected));
    const auto compiled = compile(second(kept));
    compiled(w0, x);
    EXPECT_THAT(compiled(x, w0), IsNear(expected));
    const auto by_both = [](const auto& f) {
      return compile([f](const Tensor& y) { return hessian(total(f))(y, w0); });
    };
    EXPECT_THAT(by_both(kept)(x), IsNear(by_both(eager)(x)));
  });
}

TEST(Loop, GradAndVmapCombineInBothOrders) {
  const Tensor ys = stack({x, w0, x * 2., -w0}), ws = stack({w0, x, -x, w0 * 0.3});
  for_cases([&](const auto& eager, const auto& kept) {
    const auto per_lane = [](const auto& f) { return vmap(grad<0, 1>(total(f)), {.in_axes = {0, unmapped}}); };
    const auto [gy, gw] = per_lane(eager)(ys, w0);
    const auto [ky, kw] = compile(per_lane(kept))(ys, w0);
    EXPECT_THAT(ky, Is(gy));
    EXPECT_THAT(kw, Is(gw));
    const auto of_all = [](const auto& f) {
      return grad<0, 1>([f](const Tensor& y, const Tensor& w) { return sum(square(vmap(f)(y, w))); });
    };
    const auto [hy, hw] = of_all(eager)(ys, ws);
    const auto [ly, lw] = compile(of_all(kept))(ys, ws);
    EXPECT_THAT(ly, Is(hy));
    EXPECT_THAT(lw, Is(hw));
  });
}

TEST(Loop, DerivativesOfNestedLoopsEqualThoseOfUnrolledSteps) {
  const auto nested = [](const auto& times) {
    return [times](const Tensor& y, const Tensor& w) {
      const auto outer_step = [&](const Tensor& s) {
        const Tensor z = cos(s * w);
        return times(4, [&](const Tensor& v) { return sin(v * w) + z; })(s) * 0.9;
      };
      return sum(times(5, outer_step)(y));
    };
  };
  const auto eager = nested([](int n, auto f) { return unrolled(n, f); });
  const auto kept = nested([](int n, auto f) { return loop(n, f); });
  const auto [gy, gw] = grad<0, 1>(eager)(x, w0);
  const auto [ky, kw] = compile(grad<0, 1>(kept))(x, w0);
  EXPECT_THAT(ky, Is(gy));
  EXPECT_THAT(kw, Is(gw));
  EXPECT_EQ(count_loops(trace(kept)(x, w0)), 1u);
}

// A tape of the steps adds the cotangents of a value one by one to those of later
// operations, and so does a loop that runs steps again. Sums per loop or per inner loop
// would differ in the last bits.
template <class F>
void expect_gradient_of_steps(const std::string& what, const F& gradient, const std::vector<Tensor>& at) {
  SCOPED_TRACE(what);
  const std::vector<Tensor> expected = gradient(at);
  const auto compiled = compile(gradient, {.check = true});
  for (int again = 0; again < 3; ++again) {
    const std::vector<Tensor> found = compiled(at);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(found[i], Is(expected[i])) << "by argument " << i;
  }
}

TEST(Loop, CotangentsAreSummedInTheOrderOfTheSteps) {
  using Tensors = std::vector<Tensor>;
  for (const Dtype dtype : {float32, float64, float16, bfloat16})
    for (const Index snapshots : {0, 1, 2, 3})
      for (const int n : {3, 10}) {
        const auto of = [&](const char* what) {
          std::ostringstream text;
          text << what << ", " << dtype << ", snapshots: " << snapshots << ", steps: " << n;
          return text.str();
        };
        const LoopOptions options{.snapshots = snapshots};
        const Tensors at{astype(tensor(0.7), dtype), linspace(-0.5, 0.9, 3, dtype),
                         reshape(linspace(-0.4, 0.5, 9, dtype), {3, 3}), linspace(0.1, 1., 3, dtype)};
        // v holds a number, a vector, a matrix, and the first state.
        const auto loss = [=](const Tensors& v) {
          const auto one = [=](const Tensor& s) {
            return tanh(matmul(v[2], s) + v[1] * v[0]) + 0.3 * v[0] * sin(s) * v[1];
          };
          return sum(square(loop(n, one, options)(v[3])));
        };
        const auto used_elsewhere = [=](const Tensors& v) {
          const auto one = [=](const Tensor& s) { return s + 0.1 * v[0] * sin(s) * v[1] + 0.05 * sin(s); };
          return sum(square(loop(n, one, options)(v[3]) - v[3]) * v[0] * v[1] + v[1] * v[3]);
        };
        const auto begins_as_captured = [=](const Tensors& v) {
          const auto one = [=](const Tensor& s) { return s * v[0] + 0.1 * v[1] * sin(s) * v[1]; };
          return sum(loop(n, one, options)(v[1]) * v[1] * v[0]);
        };
        const auto two_states = [=](const Tensors& v) {
          using S = std::tuple<Tensor, Tensor, Tensor>;
          const auto one = [=](const S& s) {
            const auto& [a, b, i] = s;
            return S(a * 0.9 + b * v[1] + take(v[1], i, 0), b - 0.3 * sin(a) * v[0], remainder(i + 1, 3));
          };
          return sum(std::get<0>(loop(n, one, options)(S(v[3], v[3], tensor({2, 0, 1})))) * v[3]);
        };
        const auto nested = [=](const Tensors& v) {
          const auto outer = [=](const Tensor& s) {
            const auto inner = [=](const Tensor& t) { return sin(t * v[1]) + v[0] * 0.5 * s; };
            return loop(4, inner, options)(s) * 0.9 + s * v[1];
          };
          return sum(v[1] * loop(n, outer, options)(v[3]) * v[3]);
        };
        expect_gradient_of_steps(of("several"), grad(loss), at);
        expect_gradient_of_steps(of("used elsewhere"), grad(used_elsewhere), at);
        expect_gradient_of_steps(of("begins as captured"), grad(begins_as_captured), at);
        expect_gradient_of_steps(of("two states"), grad(two_states), at);
        expect_gradient_of_steps(of("nested"), grad(nested), at);
        Tensors lanes;
        for (const Tensor& x0 : at) lanes.push_back(stack({x0, -x0, x0 * 0.5}));
        expect_gradient_of_steps(of("lanes of gradients"), vmap(grad(used_elsewhere)), lanes);
        const auto of_lanes = [=](const Tensors& v) {
          return sum(vmap([=](const Tensor& s) { return used_elsewhere({v[0], v[1], v[2], s}); })(v[3]));
        };
        expect_gradient_of_steps(of("gradients of lanes"), grad(of_lanes), {at[0], at[1], at[2], lanes[3]});
      }
}

// The order is the same without snapshots if the saved values
// of the steps would take more than 64 MiB.
TEST(Loop, CotangentsOfLargeLoopsAreSummedInTheOrderOfTheSteps) {
  using Tensors = std::vector<Tensor>;
  const auto loss = [](const Tensors& v) {
    const auto one = [v](const Tensor& s) { return s + 0.1 * v[0] * sin(s) * v[1]; };
    return sum(square(loop(90, one)(v[1]) - v[1]) * v[0]);
  };
  expect_gradient_of_steps("large", grad(loss), {tensor(0.7, float64), linspace(0.1, 1., 60'000, float64)});
}

TEST(Loop, InACheckpointRunsAgainInTheBackwardPass) {
  const auto f = [](const auto& times) {
    return [times](const Tensor& y, const Tensor& w) {
      return sum(
          checkpoint([=](const Tensor& s) { return times(6, [&](const Tensor& v) { return tanh(v * w); })(s); })(y));
    };
  };
  const auto eager = f([](int n, auto g) { return unrolled(n, g); });
  const auto kept = f([](int n, auto g) { return loop(n, g); });
  const auto [gy, gw] = grad<0, 1>(eager)(x, w0);
  const auto [ky, kw] = compile(grad<0, 1>(kept))(x, w0);
  EXPECT_THAT(ky, Is(gy));
  EXPECT_THAT(kw, Is(gw));
  const auto [py, pw] = grad<0, 1>(trace(kept)(x, w0))(x, w0);
  EXPECT_THAT(py, Is(gy));
  EXPECT_THAT(pw, Is(gw));
}

TEST(Loop, MayRunInACheckpointThatSavesProducts) {
  const Tensor m = tensor({{0.5, -0.3, 0.2}, {0.1, 0.7, -0.4}, {-0.6, 0.2, 0.3}});
  for (const Index snapshots : {0, 2}) {
    const auto f = [&](const auto& times) {
      return [&m, times](const Tensor& y) {
        const auto inner = [&](const Tensor& s) {
          return times([&](const Tensor& v) { return tanh(matmul(m, v)); }, s);
        };
        return sum(checkpoint(inner, products_saveable)(y));
      };
    };
    const auto eager = f([](auto g, const Tensor& s) { return unrolled(5, g)(s); });
    const auto kept = f([snapshots](auto g, const Tensor& s) { return loop(5, g, {.snapshots = snapshots})(s); });
    const auto second = [](const auto& g) { return [g](const Tensor& y) { return hvp(g, y, x); }; };
    EXPECT_THAT(compile(grad(kept))(x), Is(grad(eager)(x)));
    EXPECT_THAT(compile(second(kept))(x), IsNear(second(eager)(x)));
    EXPECT_THAT(grad(trace(kept)(x))(x), Is(grad(eager)(x)));
  }
}

TEST(Loop, SomeStatesMayHaveNoDerivative) {
  const auto f = [](const auto& times) {
    return [times](const Tensor& y, const Tensor& w) {
      using S = std::tuple<Tensor, Tensor, Tensor>;
      const auto step_ = [&](const S& s) {
        const auto& [a, i, t] = s;
        return S(sin(a) * w + take(w, i, 0) * t, remainder(i + 1, 3), t + 0.1);
      };
      return sum(std::get<0>(times(7, step_)(S(y, tensor(0), tensor(0.)))));
    };
  };
  const auto [gy, gw] = grad<0, 1>(f([](int n, auto g) { return unrolled(n, g); }))(x, w0);
  const auto kept = f([](int n, auto g) { return loop(n, g); });
  EXPECT_EQ(count_loops(trace(kept)(x, w0)), 1u);
  const auto [ky, kw] = compile(grad<0, 1>(kept))(x, w0);
  EXPECT_THAT(ky, Is(gy));
  EXPECT_THAT(kw, Is(gw));
}

TEST(Loop, SnapshotsBoundTheMemoryOfReverseMode) {
  const Tensor wide = scattered_like(ones({1 << 12}));
  const auto f = [](Index snapshots) {
    return [=](const Tensor& y) {
      return sum(loop(1000, [](const Tensor& v) { return sin(v) * 0.99; }, {.snapshots = snapshots})(y));
    };
  };
  const Tensor expected = grad(f(0))(wide);
  std::size_t last = ~std::size_t{0};
  for (const Index snapshots : {0, 40, 12, 4}) {
    const auto gradient = compile(grad(f(snapshots)));
    EXPECT_THAT(gradient(wide), Is(expected));
    reset_peak_memory();
    const std::size_t before = memory_stats().live_bytes;
    EXPECT_THAT(gradient(wide), Is(expected));
    const std::size_t peak = memory_stats().peak_bytes - before;
    EXPECT_LT(peak, last);
    last = peak;
  }
  EXPECT_LT(last, 64u << 14);
}

// For unrolled steps, snapshots are nested checkpoints, in programs too.
TEST(Loop, SnapshotsBoundTheMemoryOfUnrolledStepsToo) {
  const Tensor wide = scattered_like(ones({1 << 14}));
  const auto f = [](Index snapshots) {
    const auto rule = custom_jvp([](const Tensor& v) { return sin(v); },
                                 [](const Tensor& v, const Tensor& t) { return std::pair(sin(v), cos(v) * t); });
    return [=](const Tensor& y) { return sum(loop(64, rule, {.snapshots = snapshots})(y)); };
  };
  std::vector<std::size_t> peaks;
  for (const Index snapshots : {0, 6}) {
    const auto p = trace(f(snapshots))(wide);
    EXPECT_EQ(count_loops(p), 0u);
    reset_peak_memory();
    const std::size_t before = memory_stats().live_bytes;
    EXPECT_THAT(grad(p)(wide), Is(grad(f(0))(wide)));
    reset_peak_memory();
    grad(p)(wide);
    peaks.push_back(memory_stats().peak_bytes - before);
  }
  EXPECT_LT(3 * peaks[1], peaks[0]);
}

// The loop of the value and the forward loop of the derivative are merged if both are performed.
TEST(Loop, ValueAndGradientShareOneForwardLoop) {
  const auto f = [](const Tensor& y) { return sum(loop(9, step)(y)); };
  const Program p = optimized(trace(value_and_grad(f))(x));
  EXPECT_EQ(count_loops(p), 2u) << p;
  const auto [value, gradient] = compile(value_and_grad(f))(x);
  EXPECT_THAT(value, Is(sum(unrolled(9, step)(x))));
  EXPECT_THAT(gradient, Is(grad([](const Tensor& y) { return sum(unrolled(9, step)(y)); })(x)));
}

TEST(Loop, BackwardPassOfLongLoopsTakesLittleMemory) {
  const auto f = [](const Tensor& y) { return sum(loop(100'000, [](const Tensor& v) { return sin(v) * 1.0001; })(y)); };
  const Tensor wide = scattered_like(ones({256}));  // The steps would take 100 MiB together.
  const auto gradient = compile(grad(f));
  gradient(wide);
  reset_peak_memory();
  const std::size_t before = memory_stats().live_bytes;
  const Tensor found = gradient(wide);
  EXPECT_LT(memory_stats().peak_bytes - before, 4u << 20);
  EXPECT_THAT(found, Is(grad(f)(wide)));
}

// Each step adds -0 to the cotangent of w. A sum that begins at 0 would end at 0.
TEST(Loop, SumsOfFusedOperationsKeepTheSignOfZero) {
  static const auto own = elementwise_op("own", [](const Tensor& a, const Tensor& b) { return a - b; });
  for (const bool fused : {false, true}) {
    const auto pulled_back = [=](auto repeated) {
      return [=](const Tensor& y, const Tensor& w, const Tensor& cotangent) {
        const auto f = [=](const Tensor& v) {
          return repeated(5, [=](const Tensor& z) { return fused ? own(z, v) : z - v; })(y);
        };
        return std::get<0>(vjp(f, w).second(cotangent));
      };
    };
    const auto f = pulled_back([](int n, auto body) { return loop(n, body); });
    const Tensor expected = pulled_back([](int n, auto body) { return unrolled(n, body); })(x, x, zeros({3}));
    EXPECT_THAT(signbit(expected), Equals(tensor({true, true, true})));
    EXPECT_THAT(trace(f)(x, x, ones({3}))(x, x, zeros({3})), Is(expected));
    const auto compiled = compile(f);
    for (int i = 0; i < 3; ++i) EXPECT_THAT(compiled(x, x, zeros({3})), Is(expected));
  }
}

}  // namespace
