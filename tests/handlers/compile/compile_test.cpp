// compile: a replay gives the results of the function, whatever the function reads, throws or
// captures, and wherever it is called.
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

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

TEST(Compile, ALineSearchIsRecordedOnceForEachPath) {
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

TEST(Compile, ReadsDistinguishZerosAndNanByBits) {
  const auto f = compile([](const Tensor& a) { return 1. / a.item<double>(); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(f(tensor(0., float64)), std::numeric_limits<double>::infinity());
    EXPECT_EQ(f(tensor(-0., float64)), -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(f(tensor(nan, float64))));
  }
  EXPECT_EQ(f.recordings(), 3u);
}

TEST(Compile, LayoutsAreDistinguished) {
  const auto f = compile([](const Tensor& a) { return a.is_contiguous() ? a * 2. : a; });
  const Tensor m = reshape(arange(4.), {2, 2}), t = permute_dims(m, {1, 0});
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(f(m), Is(m * 2.));
    EXPECT_THAT(f(t), Is(t));
  }
}

TEST(Compile, ReadsThatNeverRepeatStopRecording) {
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

// ---- errors -------------------------------------------------------------------------------------

TEST(Compile, FunctionMayCatchItsErrors) {
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

TEST(Compile, UnusedOperationThatThrowsIsNotRemoved) {
  const auto f = compile([](const Tensor& a, const Tensor& at) {
    static_cast<void>(take(a, at, 0));
    return a * 2.;
  });
  EXPECT_THAT(f(x, tensor({0, 1})), Is(x * 2.));
  EXPECT_THROW(f(x, tensor({0, 7})), IndexError);
  EXPECT_THAT(f(x, tensor({2, 1})), Is(x * 2.));
}

TEST(Compile, ExceptionAfterANewReadLeavesNoPartialRecording) {
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

TEST(Compile, NondeterministicFunctionIsNotReplayed) {
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

TEST(Compile, LabelsDoNotAffectRecordingsAndAreKept) {
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

TEST(Compile, ResultsMayHaveNontensorMembers) {
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

TEST(Compile, CheckOptionThrowsIfTheResultDiffers) {
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

TEST(Compile, HandlerAppliesOnlyWhileItIsInstalled) {
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

TEST(Compile, EffectsAreAnsweredAtEveryCall) {
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

TEST(Compile, TransformsEqualThoseOfTheUncompiledFunction) {
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

TEST(Compile, CompiledFunctionMayCallAnother) {
  int inner_runs = 0;
  const auto inner = compile([&](const Tensor& a) { return ++inner_runs, a * a; });
  const auto outer = compile([&](const Tensor& a) { return inner(a) + inner(a * 2.); });
  for (int i = 1; i < 4; ++i) EXPECT_THAT(outer(x * i), Is(x * i * (x * i) + x * i * 2. * (x * i * 2.)));
  EXPECT_EQ(inner_runs, 2);
}

TEST(Compile, FunctionMayCallItselfCompiled) {
  std::function<Tensor(const Tensor&)> self;
  const auto f = compile([&](const Tensor& a) { return sum(a).item<float>() > 10 ? a : self(a * 2.) + 1.; });
  self = [&](const Tensor& a) { return f(a); };
  for (int again = 0; again < 3; ++again) EXPECT_THAT(f(x), Is(x * 2. + 1.));
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

}  // namespace
