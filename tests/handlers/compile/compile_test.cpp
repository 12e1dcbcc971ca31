// compile: a replay gives the function's results, whatever the function reads, throws or captures,
// and wherever it is called.
#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Tensor x = tensor({1., 2., 3.});

TEST(Compile, RunsTheFunctionOnce) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, tanh(a * 2. + 1.); });
  for (int i = 0; i < 4; ++i) EXPECT_THAT(f(x * i), Is(tanh(x * i * 2. + 1.)));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, ServesForwardAndBackwardAsOneProgram) {
  struct Params {
    Tensor w, b;
  };
  const auto loss = [](const Params& p, const Tensor& a) { return sum(square(tanh(matmul(a, p.w) + p.b))); };
  const auto step = compile(value_and_grad(loss));
  const Tensor inputs = reshape(arange(0., 1.2, 0.1), {4, 3});
  for (int i = 1; i < 4; ++i) {
    const Params params{reshape(arange(6.), {3, 2}) * 0.1 * i, tensor({0.5, -0.5})};
    const auto [value, gradient] = step(params, inputs);
    const auto [wanted, wanted_gradient] = value_and_grad(loss)(params, inputs);
    EXPECT_THAT(value, Is(wanted));
    EXPECT_THAT(gradient.w, Is(wanted_gradient.w));
    EXPECT_THAT(gradient.b, Is(wanted_gradient.b));
  }
  EXPECT_EQ(step.recordings(), 1u);
}

TEST(Compile, ASignatureIsShapesDtypesStridesStructureAndNumbers) {
  const auto f = compile([](const std::vector<Tensor>& xs, int power, double scale) {
    Tensor y = xs[0] * scale;
    for (int i = 1; i < power; ++i) y = y * xs.back();
    return y;
  });
  const auto expect = [&](const std::vector<Tensor>& xs, int power, double scale, std::size_t recordings) {
    Tensor y = xs[0] * scale;
    for (int i = 1; i < power; ++i) y = y * xs.back();
    for (int again = 0; again < 2; ++again) EXPECT_THAT(f(xs, power, scale), Is(y));
    EXPECT_EQ(f.recordings(), recordings);
  };
  expect({x}, 2, 1.5, 1);
  expect({x}, 3, 1.5, 2);
  expect({x}, 3, 0., 3);
  expect({x}, 3, -0., 4);
  expect({x, x}, 3, -0., 5);
  expect({astype(x, float64)}, 3, 1.5, 6);
  const Tensor square_ = reshape(arange(9.), {3, 3});
  expect({square_}, 2, 1.5, 7);
  expect({permute_dims(square_, {1, 0})}, 2, 1.5, 8);
  expect({x}, 2, 1.5, 8);
}

TEST(Compile, ReadsAreBranches) {
  int runs = 0;
  const auto f = [&](const Tensor& a) {
    ++runs;
    Tensor y = a;
    while (sum(y).item<float>() < 100) y = y * 2.;
    return y - a;
  };
  const auto compiled = compile(f);
  for (const double scale : {1., 20., 1., 3., 20., 300., 1., 3.}) {
    const int before = runs;
    const Tensor found = compiled(x * scale);
    const int replayed = runs == before;
    EXPECT_THAT(found, Is(f(x * scale)));
    static_cast<void>(replayed);
  }
  EXPECT_EQ(compiled.recordings(), 4u);
}

TEST(Compile, ALineSearchIsRecordedOnceForEachWay) {
  const auto search = [](const Tensor& start) {
    const auto f = [](const Tensor& a) { return sum(square(square(a) - 2.)); };
    Tensor at = start;
    for (int k = 0; k < 30; ++k) {
      const auto [value, slope] = value_and_grad(f)(at);
      Tensor step = tensor(1.);
      while (f(at - step * slope) > value - 1e-4 * step * sum(slope * slope)) step = step * 0.5;
      at = at - step * slope;
      if (sum(slope * slope).item<float>() < 1e-8f) break;
    }
    return at;
  };
  const auto compiled = compile(search);
  const std::vector<Tensor> starts = {x, x * 0.3, tensor({5., 0.1, -1.}), x, x * 0.3};
  for (const Tensor& start : starts) EXPECT_THAT(compiled(start), Is(search(start)));
  const std::size_t recorded = compiled.recordings();
  EXPECT_LE(recorded, 3u);
  for (const Tensor& start : starts) EXPECT_THAT(compiled(start), Is(search(start)));
  EXPECT_EQ(compiled.recordings(), recorded);
}

TEST(Compile, ZerosAndNaNAreToldApartByTheirBits) {
  const auto f = compile([](const Tensor& a) { return 1. / a.item<double>(); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(f(tensor(0., float64)), std::numeric_limits<double>::infinity());
    EXPECT_EQ(f(tensor(-0., float64)), -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(f(tensor(nan, float64))));
  }
  EXPECT_EQ(f.recordings(), 3u);
}

TEST(Compile, LayoutsAreNotMistaken) {
  const auto f = compile([](const Tensor& a) { return a.is_contiguous() ? a * 2. : a; });
  const Tensor m = reshape(arange(4.), {2, 2}), t = permute_dims(m, {1, 0});
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(f(m), Is(m * 2.));
    EXPECT_THAT(f(t), Is(t));
  }
}

TEST(Compile, ValuesThatNeverRepeatEndInPlainCalls) {
  double logged = 0;
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    const Tensor value = sum(a * a);
    logged = value.item<double>();
    return value * 2.;
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(f(x * i), Is(sum(x * i * (x * i)) * 2.));
    EXPECT_EQ(logged, 14. * i * i);
  }
  EXPECT_EQ(runs, 100);
  EXPECT_LE(f.recordings(), 16u);
}

TEST(Compile, LongReadsAreBranchesUpToALimit) {
  for (const Index n : {100, 1 << 20, (1 << 22) + 1}) {
    int runs = 0;
    const auto f = compile([&](const Tensor& a) { return ++runs, a * a.to_vector<float>().back(); });
    const Tensor many = linspace(1., 1., n);
    for (const int i : {1, 2, 1, 2, 3, 1}) EXPECT_THAT(f(many * i), Is(many * i * i));
    EXPECT_EQ(runs, n > 1 << 22 ? 6 : 3) << n;
  }
  const auto by_data = compile([](const Tensor& a) { return a * a.data<float>()[1]; });
  for (int i = 1; i < 4; ++i) EXPECT_THAT(by_data(x * i), Is(x * i * (2. * i)));
}

// ---- vmap inside a compiled function ------------------------------------------------------------

// Constants created inside the function are large here: one number for all lanes, or an array.
TEST(Compile, WaysOfManyLanesAreKept) {
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

// A large tensor that each run creates anew is recognised as equal; so is a region that the
// backward pass builds.
TEST(Compile, WhatIsMadeAnewDoesNotDifferForItsSize) {
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

TEST(Compile, PatternsOfLanesThatDoNotRepeatAreNotRecordedForLong) {
  int runs = 0;
  const auto f = compile(vmap([&](const Tensor& v) { return ++runs, bool(sum(v) > 0) ? sin(v) : v * 2.; }));
  for (int i = 0; i < 200; ++i) f(normal(Key(static_cast<std::uint64_t>(i)), {1000, 2}));
  EXPECT_EQ(runs, 2 * 200);
  EXPECT_LE(f.recordings(), 4u);
}

TEST(Compile, WhatIsMadeInsideIsTheSameEachTime) {
  const auto f = [](const Tensor& a) {
    const Tensor weights = tensor({1., 0.5, 0.25}), two = Tensor(2);
    return sum(a * weights).item<float>() > 3 ? a * two : a + weights;
  };
  const auto compiled = compile(f);
  for (int again = 0; again < 2; ++again)
    for (const double scale : {1., 2., 1.5}) EXPECT_THAT(compiled(x * scale), Is(f(x * scale)));
  EXPECT_EQ(compiled.recordings(), 3u);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Compile, AnErrorThatTheFunctionCatchesIsItsOwn) {
  const auto f = [](const Tensor& a, const Tensor& at) {
    try {
      return take(a, at, 0);
    } catch (const IndexError&) {
      return zeros({2});
    }
  };
  const auto compiled = compile(f);
  const Tensor good = tensor({0, 2}), bad = tensor({0, 5});
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(compiled(x, bad), Is(zeros({2})));
    EXPECT_THAT(compiled(x, good), Is(tensor({1., 3.})));
  }
}

TEST(Compile, AnErrorOfAReplayNamesTheOperationItsScopesAndTheCall) {
  const auto f = compile([](const Tensor& a, const Tensor& at) {
    const Scope model("model"), layer("embedding");
    return take(a * 2., at, 0) + 1.;
  });
  const Tensor good = tensor({0, 2});
  EXPECT_THAT(f(x, good), Is(tensor({3., 7.})));
  const auto expect_named = [&] {
    const Scope scope("step 3");
    EXPECT_EQ(message_of<IndexError>([&] {
                f(x, tensor({0, 7}));
              }),
              "take: index 7 is out of range for axis 0 with size 3\n"
              "  inside embedding, inside model, inside compile, inside step 3");
  };
  for (int again = 0; again < 2; ++again) expect_named();
  EXPECT_THAT(f(x, good), Is(tensor({3., 7.})));
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, AnUnusedErrorStays) {
  const auto f = compile([](const Tensor& a, const Tensor& at) {
    static_cast<void>(take(a, at, 0));
    return a * 2.;
  });
  EXPECT_THAT(f(x, tensor({0, 1})), Is(x * 2.));
  EXPECT_THROW(f(x, tensor({0, 7})), IndexError);
  EXPECT_THAT(f(x, tensor({2, 1})), Is(x * 2.));
}

TEST(Compile, AFunctionThatThrowsAfterANewReadLeavesNothingHalf) {
  const auto f = compile([](const Tensor& a) {
    const Tensor y = a * 2.;
    if (sum(a).item<float>() > 10) throw std::runtime_error("too large");
    return y + 1.;
  });
  EXPECT_THAT(f(x), Is(x * 2. + 1.));
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW(f(x * 10.), std::runtime_error);
    EXPECT_THAT(f(x), Is(x * 2. + 1.));
  }
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, AFunctionThatDoesNotFollowItselfIsCalled) {
  int calls = 0;
  const auto f = compile([&](const Tensor& a) {
    const bool odd = ++calls % 2;
    const Tensor y = odd ? sin(a) : cos(a);
    return sum(y).item<float>() > 100 ? y : y * 2.;
  });
  // Each call reads another value, so that f runs each time, and its path changes.
  for (int i = 1; i < 12; ++i) EXPECT_THAT(f(x * i), Is((i % 2 ? sin(x * i) : cos(x * i)) * 2.));
}

// ---- captures and results -----------------------------------------------------------------------

TEST(Compile, ACapturedValueOfAnOuterGradientKeepsItsDerivative) {
  const auto outer = [](const Tensor& w) {
    const auto f = compile([&](const Tensor& a) { return sum(a * w); });
    return f(x) + f(x);
  };
  for (int again = 0; again < 2; ++again) EXPECT_THAT(grad(outer)(x), IsNear(2. * x));
  Tensor captured = x;
  const auto shared = compile([&](const Tensor& a) { return sum(a * captured); });
  EXPECT_THAT(shared(x), IsNumber(14., 1e-6));
  const auto by_captured = [&](const Tensor& w) {
    captured = w;
    const Tensor y = shared(x);
    captured = x;
    return y;
  };
  for (int again = 0; again < 2; ++again) EXPECT_THAT(grad(by_captured)(x), IsNear(x));
}

TEST(Compile, LabelsChangeNothingAndStay) {
  int runs = 0;
  const Tensor weights = label(tensor({1., 0.5, 0.25}), "weights");
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    return std::vector<Tensor>{label(a * weights, "scaled"), a, label(a + 0., "scaled"), a * 2.};
  });
  for (int i = 1; i < 4; ++i) {
    const Tensor a = i == 2 ? x * i : label(x * i, "points");
    const auto found = f(a);
    EXPECT_THAT(found[0], Is(a * weights));
    EXPECT_EQ(label_of(found[0]), "scaled");
    EXPECT_EQ(label_of(found[1]), label_of(a));
    EXPECT_EQ(label_of(found[2]), "scaled");
    EXPECT_EQ(label_of(found[3]), "");
  }
  EXPECT_EQ(runs, 1);
}

TEST(Compile, ResultsMayBeArgumentsViewsOrTheSame) {
  const auto f = compile([](const Tensor& a, const Tensor& b) {
    const Tensor y = a * 2. + b;
    return std::vector<Tensor>{
        a, a(slice(1, 3)), y, y, reshape(y, {1, 3}), permute_dims(reshape(b, {3, 1}), {1, 0}), tensor({9.})};
  });
  std::vector<Tensor> first;
  for (int i = 1; i < 4; ++i) {
    const Tensor a = x * i;
    const auto found = f(a, a);
    const Tensor y = a * 2. + a;
    const std::vector<Tensor> wanted = {a, a(slice(1, 3)), y, y, reshape(y, {1, 3}), reshape(a, {1, 3}), tensor({9.})};
    for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_THAT(found[k], Is(wanted[k]));
    if (i == 1) first = found;
  }
  EXPECT_THAT(first[2], Is(x * 2. + x));  // later calls do not change it
}

TEST(Compile, ArgumentsMayBeMovedIn) {
  const auto f = compile([](Tensor a) { return std::move(a) * 2. + 1.; });
  for (int i = 0; i < 3; ++i) {
    Tensor a = x * i;
    EXPECT_THAT(f(std::move(a)), Is(x * i * 2. + 1.));
  }
}

TEST(Compile, ResultsNeedBeNoTensors) {
  struct Fit {
    Tensor at;
    int iterations;
    std::string how;
  };
  const auto f = compile([](const Tensor& a) {
    int n = 0;
    Tensor y = a;
    for (; sum(y).item<float>() < 50; ++n) y = y * 2.;
    return Fit{y, n, n > 2 ? "slow" : "fast"};
  });
  for (int again = 0; again < 2; ++again) {
    const Fit slow = f(x), fast = f(x * 5.);
    EXPECT_EQ(slow.iterations, 4);
    EXPECT_EQ(slow.how, "slow");
    EXPECT_THAT(slow.at, Is(x * 16.));
    EXPECT_EQ(fast.iterations, 1);
    EXPECT_EQ(fast.how, "fast");
  }
}

TEST(Compile, AnArgumentMayHaveEmptyTensors) {
  struct Layer {
    Tensor w, b;
  };
  const auto plain = [](const Layer& layer, const Tensor& a) {
    return Layer{layer.b.defined() ? a * layer.w + layer.b : a * layer.w, {}};
  };
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(f(Layer{x, {}}, x * i).w, Is(x * i * x));
    EXPECT_THAT(f(Layer{x, x}, x * i).w, Is(x * i * x + x));
  }
  EXPECT_EQ(f.recordings(), 2u);
  EXPECT_FALSE(f(Layer{x, {}}, x).b.defined());
  EXPECT_THAT(trace(plain)(Layer{x, {}}, x)(Layer{x, {}}, x * 2.).w, Is(x * 2. * x));
}

TEST(Compile, KeysAreInputs) {
  const auto f = compile([](const Key& key, const Tensor& a) { return a + normal(key, {3}); });
  for (int seed = 0; seed < 4; ++seed) EXPECT_THAT(f(Key(seed), x), Is(x + normal(Key(seed), {3})));
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, AskedToCheckItThrowsWhereTheFunctionGivesSomethingElse) {
  double factor = 2;
  const auto f = compile([&](const Tensor& a) { return a * factor; }, {.check = true});
  EXPECT_THAT(f(x), Is(x * 2.));
  EXPECT_THAT(f(x * 3.), Is(x * 3. * 2.));
  factor = 3;
  EXPECT_THAT(([&] { f(x); }), ThrowsMessage<TransformError>(HasSubstr("depends on more than its arguments")));
}

// ---- under handlers, and inside other compiled functions ----------------------------------------

struct Halves : Handler {
  Outputs handle(Call& call) override {
    Outputs outputs = perform(std::move(call));
    for (Tensor& output : outputs) output = output * 0.5;
    return outputs;
  }
};

TEST(Compile, AHandlerSeesOperationsAndLeavesNothingBehind) {
  const auto f = compile([](const Tensor& a) { return a * 2.; });
  Halves halves;
  EXPECT_THAT(with(halves, [&] { return f(x); }), Is(x));
  EXPECT_THAT(f(x), Is(x * 2.));
  EXPECT_THAT(with(halves, [&] { return f(x); }), Is(x));
  EXPECT_THAT(f(x), Is(x * 2.));
}

struct Ask {
  using Result = double;
};
struct Answers : Handles<Ask> {
  double value;
  explicit Answers(double answer) : value(answer) {}
  double handle(Ask&) override { return value; }
};

TEST(Compile, EffectsAreAnsweredEachTime) {
  const auto f = compile([](const Tensor& a) { return a * perform(Ask{}); });
  for (const double answer : {5., 1., 5.}) {
    Answers answers(answer);
    EXPECT_THAT(with(answers, [&] { return f(x); }), Is(x * answer));
  }
  // An effect that is answered inside the function needs no answer from outside.
  int runs = 0;
  const auto g = compile([&](const Tensor& a) {
    ++runs;
    Answers answers(3.);
    return with(answers, [&] { return a * perform(Ask{}); });
  });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(g(x), Is(x * 3.));
  EXPECT_EQ(runs, 1);
}

TEST(Compile, TransformsOfItAreThoseOfTheFunction) {
  const auto plain = [](const Tensor& a) {
    const Tensor y = sin(a) * a;
    return sum(sum(a).item<float>() > 5 ? y * 2. : y);
  };
  const auto f = compile(plain);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(grad(f)(x), Is(grad(plain)(x)));  // the first gradient has no recording to use
    EXPECT_THAT(f(x), Is(plain(x)));
    EXPECT_THAT(compile(grad(f))(x), Is(grad(plain)(x)));
    EXPECT_THAT(grad([&](const Tensor& a) { return sum(compile(grad(compile(plain)))(a)); })(x),
                Is(grad([&](const Tensor& a) { return sum(grad(plain)(a)); })(x)));
  }
  const auto smooth = compile([](const Tensor& a) { return sum(sin(a) * a); });
  const Tensor lanes = stack({x, x * 2.});
  EXPECT_THAT(vmap(smooth)(lanes), IsNear(stack({smooth(x), smooth(x * 2.)})));
  EXPECT_THAT(vmap(grad(smooth))(lanes), IsNear(stack({grad(smooth)(x), grad(smooth)(x * 2.)})));
  EXPECT_THAT(grad([&](const Tensor& a) { return checkpoint(smooth)(a); })(x), IsNear(grad(smooth)(x)));
  EXPECT_THAT(vmap([&](const Tensor& a) { return jvp(smooth, std::tuple(a), std::tuple(a)).second; })(lanes),
              IsNear(vmap([&](const Tensor& a) {
                return jvp([](const Tensor& b) { return sum(sin(b) * b); }, std::tuple(a), std::tuple(a)).second;
              })(lanes)));
}

TEST(Compile, CompiledFunctionsNest) {
  int inner_runs = 0;
  const auto inner = compile([&](const Tensor& a) { return ++inner_runs, a * a; });
  const auto outer = compile([&](const Tensor& a) { return inner(a) + inner(a * 2.); });
  for (int i = 1; i < 4; ++i) EXPECT_THAT(outer(x * i), Is(x * i * (x * i) + x * i * 2. * (x * i * 2.)));
  EXPECT_EQ(inner_runs, 2);
}

TEST(Compile, AFunctionMayCallItsCompiledSelf) {
  std::function<Tensor(const Tensor&)> self;
  const auto f = compile([&](const Tensor& a) { return sum(a).item<float>() > 10 ? a : self(a * 2.) + 1.; });
  self = [&](const Tensor& a) { return f(a); };
  for (int again = 0; again < 3; ++again) EXPECT_THAT(f(x), Is(x * 2. + 1.));
}

TEST(Compile, ProgramsOnADeviceTouchItsMemoryThroughItsBackendAlone) {
  SeparateBackend backend(0);
  const auto plain = [](const Tensor& a, const Tensor& b) {
    const Tensor y = tanh(matmul(a, b) * 2. + 1.) * full({3, 3}, 0.5, float32, a.device());
    return std::pair(sum(y, 0), concat({y, reshape(permute_dims(y, {1, 0}), {3, 3}) - 1.}));
  };
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1;
  const Device gpu = cuda(0);
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) {
    const auto [s, y] = f(to(a * i, gpu), to(b, gpu));
    const auto [sum_here, y_here] = plain(a * i, b);
    EXPECT_EQ(y.device(), gpu);
    EXPECT_THAT(to(s, cpu), Is(sum_here));
    EXPECT_THAT(to(y, cpu), Is(y_here));
  }
  EXPECT_EQ(f.recordings(), 1u);
}

// A device that records kernels as a CUDA graph does, with the addresses and numbers of the time of
// recording. Like a caching allocator, it hands out freed memory first.
class RecordingBackend : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;

  void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
           std::span<const View> outputs) override {
    if (!recording) return SeparateBackend::run(op, attributes, inputs, outputs);
    if (op.name == refused) throw Error("it cannot be recorded");
    Asked& asked = recording->emplace_back(&op, attributes);
    for (const View& view : inputs) asked.keep(view);
    asked.inputs = inputs.size();
    for (const View& view : outputs) asked.keep(view);
  }
  std::unique_ptr<RecordedWork> record(FunctionRef<void()> work) override {
    ++records;
    auto made = std::make_unique<Work>(*this);
    recording = &made->all;
    try {
      work();
    } catch (const Error&) {
      made = nullptr;
    }
    recording = nullptr;
    return made;
  }

  std::atomic<int> records = 0, repeats = 0;
  std::string_view refused = "nothing";
  bool fails = false;  // true: replaying a recording fails

 protected:
  StoragePtr take(std::size_t bytes) override {
    const std::lock_guard lock(mutex);
    const auto found =
        std::find_if(spare.rbegin(), spare.rend(), [&](const StoragePtr& it) { return it->bytes == bytes; });
    if (found == spare.rend()) return SeparateBackend::take(bytes);
    StoragePtr memory = std::move(*found);
    spare.erase(std::next(found).base());
    return memory;
  }
  void give(StoragePtr memory) noexcept override {
    const std::lock_guard lock(mutex);
    spare.push_back(std::move(memory));
  }

 private:
  struct Asked {
    const Op* op;
    const Attributes* attributes;
    std::size_t inputs = 0;
    struct Kept {
      View view;
      std::vector<Index> shape, strides;
      Bytes16 number;
    };
    std::vector<Kept> kept = {};

    Asked(const Op* op, const Attributes* attributes) : op(op), attributes(attributes) {}
    void keep(const View& view) {
      Kept& copy = kept.emplace_back(
          Kept{view, {view.shape.begin(), view.shape.end()}, {view.strides.begin(), view.strides.end()}, {}});
      if (view.is_host_constant) std::memcpy(&copy.number, view.data, size_of(view.dtype));
    }
  };
  struct Work final : RecordedWork {
    RecordingBackend& backend;
    std::vector<Asked> all;
    explicit Work(RecordingBackend& backend) : backend(backend) {}
    void repeat() override {
      if (backend.fails) throw Error("of the device");
      ++backend.repeats;
      for (Asked& asked : all) {
        std::vector<View> views;
        for (Asked::Kept& it : asked.kept)
          views.push_back({it.view.is_host_constant ? &it.number : it.view.data, it.view.dtype, it.shape, it.strides,
                           it.view.is_host_constant});
        const std::span<const View> found = views;
        backend.SeparateBackend::run(*asked.op, asked.attributes, found.first(asked.inputs),
                                     found.subspan(asked.inputs));
      }
    }
  };
  static inline thread_local std::vector<Asked>* recording = nullptr;
  std::mutex mutex;
  std::vector<StoragePtr> spare;
};

std::pair<Tensor, Tensor> layer(const Tensor& a, const Tensor& b) {
  const Tensor y = tanh(matmul(a, b) * 2. + 1.) * full({3, 3}, 0.5, float32, a.device());
  return {matmul(y, a) - sum(y, 0), y(slice(1, 3))};
}

// Arguments of `layer`, on the host and on the device.
struct LayerOnADevice {
  RecordingBackend backend{0};
  const Device gpu = cuda(0);
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1, there_b = to(b, gpu);
};

TEST(Compile, KernelsAreRecordedWhereAddressesAreMetAgain) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const auto f = compile(layer);
  f(to(a, gpu), there_b);
  for (int i = 1; i < 30; ++i) {
    const Tensor there = to(a * i, gpu);  // at the address of the previous argument
    const auto [y, part] = f(there, there_b);
    const auto [wanted, wanted_part] = layer(a * i, b);
    EXPECT_THAT(to(y, cpu), Is(wanted));
    EXPECT_THAT(to(part, cpu), Is(wanted_part));
  }
  EXPECT_EQ(f.recordings(), 1u);
  EXPECT_GE(backend.records, 1);
  EXPECT_LE(backend.records, 3);
  EXPECT_GE(backend.repeats, 20);
}

TEST(Compile, ResultsThatAreKeptAreNotWrittenAgain) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const auto f = compile(layer);
  std::vector<std::pair<Tensor, Tensor>> kept;
  std::vector<Tensor> arguments;
  for (int i = 0; i < 40; ++i) {
    arguments.push_back(to(a * i, gpu));
    kept.push_back(f(arguments.back(), there_b));  // no address occurs twice
  }
  EXPECT_EQ(backend.records, 0);
  for (int round = 0; round < 3; ++round)
    // Three sets of addresses.
    for (int i = 0; i < 3; ++i) f(arguments[static_cast<std::size_t>(i)], there_b);
  EXPECT_LE(backend.records, 6);
  for (int i = 0; i < 40; ++i) EXPECT_THAT(to(kept[static_cast<std::size_t>(i)].first, cpu), Is(layer(a * i, b).first));
}

TEST(Compile, AParameterLoopGoesRoundAFewSetsOfAddresses) {
  RecordingBackend backend(0);
  const auto step = [](const Tensor& w, const Tensor& data) {
    return w - 0.1 * grad([&](const Tensor& v) { return sum(square(matmul(data, v) - 1.)); })(w);
  };
  const auto f = compile(step);
  const Tensor data = reshape(arange(0., 1.2, 0.1), {4, 3}), there = to(data, cuda(0));
  Tensor w = ones({3, 2}), trained = to(w, cuda(0));
  for (int i = 0; i < 20; ++i) {
    w = step(w, data);
    trained = f(trained, there);
  }
  EXPECT_THAT(to(trained, cpu), Is(w));
  EXPECT_LE(backend.records, 4);
  EXPECT_GE(backend.repeats, 12);
}

TEST(Compile, WhatCannotBeRecordedIsTriedOnce) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  backend.refused = "matmul";
  const auto f = compile(layer);
  for (int i = 0; i < 20; ++i) {
    const Tensor there = to(a * i, gpu);
    EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a * i, b).first));
  }
  EXPECT_EQ(backend.records, 1);
  EXPECT_EQ(backend.repeats, 0);
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, ARecordingThatFailsLeavesTheFunction) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const Tensor there = to(a, gpu);
  const auto f = compile(layer);
  for (int i = 0; i < 6; ++i) f(there, there_b);
  ASSERT_GE(backend.repeats, 1);
  backend.fails = true;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a, b).first));
  backend.fails = false;
  for (int i = 0; i < 6; ++i) EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a, b).first));
}

TEST(Compile, ANumberOnADeviceMayBeAnArgument) {
  RecordingBackend backend(0);
  const Device gpu = cuda(0);
  const auto plain = [](const Tensor& a, const Tensor& rate) { return matmul(a, a * rate) + sum(rate * a) - rate; };
  const auto f = compile(plain);
  const Tensor a = reshape(arange(9.), {3, 3}), there = to(a, gpu);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(to(f(there, tensor(0.5 * i, float32, gpu)), cpu), Is(plain(a, tensor(0.5 * i))));
    EXPECT_THAT(to(f(there, to(tensor(0.5 * i), gpu)), cpu), Is(plain(a, tensor(0.5 * i))));
  }
}

TEST(Compile, ThreadsHaveRecordingsOfTheirOwn) {
  RecordingBackend backend(0);
  const Device gpu = cuda(0);
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1;
  const auto f = compile(layer);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Tensor there_b = to(b * (t + 1), gpu);
      for (int i = 0; i < 100; ++i) {
        const Tensor there = to(a * (i % 5), gpu);
        wrong += !stave_detail::same_bits(to(f(there, there_b).first, cpu), layer(a * (i % 5), b * (t + 1)).first);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(backend.records, 64);
}

TEST(Compile, ThreadsMayCallItAtOnce) {
  const auto f = compile([](const Tensor& a) {
    Tensor y = a;
    while (sum(y).item<float>() < 100) y = y * 2. + 1.;
    return tanh(y * 0.01) + a;
  });
  const auto plain = [](const Tensor& a) {
    Tensor y = a;
    while (sum(y).item<float>() < 100) y = y * 2. + 1.;
    return tanh(y * 0.01) + a;
  };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const Tensor a = x * ((i + t) % 7 + 1);
        wrong += !stave_detail::same_bits(f(a), plain(a));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(f.recordings(), 7u);
}

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

TEST(Compile, AFunctionThatPerformsMillionsIsCalled) {
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

TEST(Compile, WhatAResultIsMadeOfInPlaceLiesInItsMemory) {
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
TEST(Compile, RulesThatReadAreWhatTheyAreAtTheFirstCall) {
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
