// What a compiled function executes: which functions it replays, where results lie in memory, and
// random programs against the functions themselves.
#include <cmath>
#include <functional>
#include <random>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3.});

TEST(Compile, CheckpointsRulesAndLoopsAreReplayedInPlace) {
  int backward_runs = 0;
  const auto straight =
      custom_vjp([](const Tensor& a) { return round(a); }, [](const Tensor& a) { return std::pair(round(a), a); },
                 [&](const Tensor&, const Tensor& g) { return ++backward_runs, g * 3.; });
  const auto plain = [&](const Tensor& a) {
    const Tensor captured = a * 2.;
    const Tensor y = checkpoint([=](const Tensor& b) { return sin(straight(b)) * captured; }, products_saveable)(a);
    return sum(loop(20, [](const Tensor& b) { return tanh(b) + b * 0.1; }, {.snapshots = 3})(y));
  };
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) EXPECT_THAT(f(x * i), Is(plain(x * i)));
  EXPECT_EQ(backward_runs, 0);
  const auto g = compile(grad(plain));
  for (int i = 1; i < 4; ++i) EXPECT_THAT(g(x * i), Is(grad(plain)(x * i)));
}

TEST(Compile, FunctionOfMillionsOfOperationsIsNotRecorded) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    Tensor y = a;
    for (int i = 0; i < 600000; ++i) y = y * 0.5 + 1.;
    return y;
  });
  for (int i = 0; i < 2; ++i) EXPECT_THAT(f(x), IsNear(2. * ones({3})));
  EXPECT_EQ(runs, 2);
}

// Returns the bytes that f takes at its peak, beyond those live before it.
template <class F>
std::size_t peak_of(const F& f) {
  const std::size_t before = memory_stats().live_bytes;
  reset_peak_memory();
  f();
  return memory_stats().peak_bytes - before;
}

TEST(Compile, APlanTakesNoMoreMemoryThanTheTape) {
  const Tensor a = uniform(Key(0), {256, 256}), w = uniform(Key(1), {256, 256}) * 0.1;
  const auto expect_less = [&](const char* name, const auto& f) {
    const auto gradient = grad(f);
    const std::size_t eager = peak_of([&] { gradient(a, w); });
    const std::size_t before = memory_stats().live_bytes;
    const auto compiled = compile(gradient);
    compiled(a, w);
    compiled(a, w);
    // The results belong to the caller.
    const std::size_t arena = memory_stats().live_bytes - before;
    EXPECT_LE(arena, eager) << name;
  };
  expect_less("products", [](const Tensor& x, const Tensor& v) {
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = tanh(matmul(y, v) + 0.1);
    return sum(y);
  });
  expect_less("residuals", [](const Tensor& x, const Tensor& v) {
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = y + sigmoid(matmul(y, v)) * tanh(y);
    return mean(square(y));
  });
  expect_less("a chain", [](const Tensor& x, const Tensor&) {
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = sin(y) * x + y;
    return sum(y);
  });
}

TEST(Compile, ResultsOverwriteTheMemoryOfTheirOperands) {
  const Tensor a = uniform(Key(0), {256, 256}), w = uniform(Key(1), {256, 256});
  const std::size_t before = memory_stats().live_bytes;
  const auto f = compile([](const Tensor& x, const Tensor& v) { return tanh(matmul(x, v) + 0.1) * 2.; });
  f(a, w);
  EXPECT_THAT(f(a, w), IsNear(tanh(matmul(a, w) + 0.1) * 2.));
  // The product has no memory of its own.
  EXPECT_LT(memory_stats().live_bytes - before, 256 * 256 * sizeof(float));
}

// ---- random programs ----------------------------------------------------------------------------

// Returns the results of a random program, the same one for the same seed: operations on earlier
// values, reads and derivatives.
std::vector<Tensor> random_program(std::uint64_t seed, const std::vector<Tensor>& inputs) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<Tensor> vectors = inputs;
  for (int step = 0; step < 40; ++step) {
    const Tensor &a = vectors[pick(vectors.size())], &b = vectors[pick(vectors.size())];
    switch (pick(12)) {
      case 0: vectors.push_back(a + b); break;
      case 1: vectors.push_back(a * b * 0.5); break;
      case 2: vectors.push_back(tanh(a)); break;
      case 3: vectors.push_back(a - sum(b) * 0.1); break;
      case 4: vectors.push_back(where(a > b, a, b * 0.25)); break;
      case 5: vectors.push_back(a(slice(none, none, -1))); break;
      case 6: vectors.push_back(matmul(reshape(a, {1, 4}) * reshape(b, {4, 1}) * 0.1, b)); break;
      case 7: vectors.push_back(sum(a).item<float>() > 0 ? a : -a); break;
      case 8: vectors.push_back(grad([&](const Tensor& t) { return sum(sin(t) * b); })(a)); break;
      case 9: vectors.push_back(vmap([](const Tensor& t) { return exp(t * 0.1); })(a)); break;
      case 10: vectors.push_back(astype(astype(a * 3., int32), float32)); break;
      default: vectors.push_back(concat({a(slice(2, 4)), b(slice(0, 2))})); break;
    }
  }
  return {vectors.end() - 6, vectors.end()};
}

TEST(Compile, RandomProgramsGiveTheSameBits) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto f = compile([seed](const std::vector<Tensor>& inputs) { return random_program(seed, inputs); });
    for (int call = 0; call < 4; ++call) {
      const double scale = call == 1 ? 1 : 0.5 + call;
      const std::vector<Tensor> inputs = {tensor({0.5, -1., 2., 0.1}) * scale, tensor({-0.3, 0.2, 1.5, -2.}) * scale};
      const auto found = f(inputs), wanted = random_program(seed, inputs);
      for (std::size_t k = 0; k < wanted.size(); ++k)
        ASSERT_THAT(found[k], Is(wanted[k])) << "seed " << seed << ", call " << call << ", result " << k;
    }
  }
}

// A part of a concat is computed directly at its place in the result, unless it is a result itself,
// occurs twice, or kernels need it in another layout.
TEST(Compile, PartsOfAConcatAreMadeInPlace) {
  for (const Index n : {1, 3, 16, 17, 64, 1000}) {
    const auto f = [](const Tensor& a) {
      const Tensor p = sin(a), q = matmul(expand_dims(a, 1), expand_dims(p, 0)), r = cos(a), s = cumulative_sum(p);
      const Tensor once = concat({p, r, s}), twice = concat({r, r}), nested = concat({once * 2., exp(once), a});
      return std::tuple(once, twice, nested, sum(p * r), concat({q, q + 1.}, 1), concat({q * 2., q + 1.}, 0), s);
    };
    const auto compiled = compile(f);
    const Tensor first = arange(static_cast<double>(n)) * 0.01;
    compiled(first);
    const auto found = compiled(-first), expected = f(-first);
    const auto check = [&]<std::size_t... i>(std::index_sequence<i...>) {
      (([&] { EXPECT_THAT(std::get<i>(found), Is(std::get<i>(expected))) << n << ", " << i; }()), ...);
    };
    check(std::make_index_sequence<7>());
  }
}

// A recording at example arguments performs no operation of only one group of lanes, so that the
// first call gives the same as later calls.
TEST(Compile, RulesThatReadGiveTheSameAtEachCall) {
  using F = std::function<Tensor(const Tensor&)>;
  const Tensor lanes = tensor({1., -0.5, 0.5, -1.}, float64);
  const auto value = [](const Tensor& x) { return bool(x > 0) ? sin(x) : x * x; };
  const auto slope = [](const Tensor& x) { return bool(x > 0) ? cos(x) : 2. * x; };
  const auto by_jvp = [=](const Tensor& x) {
    return custom_jvp(value, [=](const Tensor& y, const Tensor& d) { return std::pair(value(y), slope(y) * d); })(x);
  };
  const auto by_vjp = [=](const Tensor& x) {
    return custom_vjp(
        value, [=](const Tensor& y) { return std::pair(value(y), y); },
        [=](const Tensor& y, const Tensor& g) { return slope(y) * g; })(x);
  };
  const std::pair<const char*, F> functions[] = {
      {"custom_jvp", by_jvp},
      {"custom_vjp", by_vjp},
      {"checkpoint", [=](const Tensor& x) { return checkpoint(value)(x); }},
      {"custom_jvp, twice", [=](const Tensor& x) { return by_jvp(x) + 0. * by_jvp(x); }},
      {"before a branch", [=](const Tensor& x) { return bool(x > 0.75) ? by_vjp(x) : by_vjp(x * 1.); }},
  };
  const Tensor expected = tensor({std::cos(1.), -1., std::cos(0.5), -2.}, float64);
  const Tensor plain = tensor({std::sin(1.), 0.25, std::sin(0.5), 1.}, float64);
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const auto by_grad = [](const auto& g, const Tensor& x) { return vmap(grad(g))(x); };
    const auto by_tangent = [](const auto& g, const Tensor& x) {
      return vmap([&](const Tensor& y) { return jvp(g, y, ones_like(y)).second; })(x);
    };
    const auto fresh = compile(f), tangents = compile(f), values = compile(f), met = compile(f);
    met(lanes(0)), met(lanes(1));
    for (int call = 0; call < 3; ++call) {
      EXPECT_THAT(by_grad(fresh, lanes), IsNear(expected));
      EXPECT_THAT(by_grad(met, lanes), IsNear(expected));
      EXPECT_THAT(by_tangent(tangents, lanes), IsNear(expected));
      EXPECT_THAT(vmap(values)(lanes), IsNear(plain));
      EXPECT_THAT(grad([&](const Tensor& x) { return sum(vmap(values)(x)); })(lanes), IsNear(expected));
      EXPECT_THAT(vmap([&, g = &f](const Tensor& x) { return grad(compile(*g))(x); })(lanes), IsNear(expected));
      EXPECT_THAT(hessian([&](const Tensor& x) { return sum(vmap(fresh)(x)); })(tensor({-0.5, -1.}, float64)),
                  IsNear(2 * eye(2, float64)));
    }
  }
}

}  // namespace
