// compile with effects: the effects that a function performs happen at each call, once and in
// order, and their answers lead to the same path as in the function itself.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>

#include <stave/stave.h>

#include "compile_effects.h"
#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

const Tensor x = tensor({1., 2., 3.});

// ---- answers ------------------------------------------------------------------------------------

TEST(CompileEffects, AnAnswerChoosesThePath) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    const double rate = perform(Rate{});
    return rate > 1 ? a * rate : a - rate;
  });
  int calls = 0;
  for (const double rate : {5., 0.5, 5., 0.5, 2., 5.}) {
    auto handler = by<Rate>([&](Rate&) { return rate; });
    const Tensor a = x * ++calls;
    EXPECT_THAT(with(handler, [&] { return f(a); }), Is(rate > 1 ? a * rate : a - rate));
    EXPECT_EQ(handler.asked, 1);
  }
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(f.recordings(), 3u);
}

TEST(CompileEffects, FloatsOfAnswersAreComparedByTheirBits) {
  struct Bounds {
    std::vector<double> at;
    int n;
  };
  struct AskBounds {
    using Result = Bounds;
  };
  const auto f = compile([](const Tensor& a) {
    const double rate = perform(Rate{});
    return astype(a, float64) * 0. + 1. / rate + 1. / perform(AskBounds{}).at[1];
  });
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  double rate = 0, bound = 0;
  auto rates = by<Rate>([&](Rate&) { return rate; });
  auto bounds = by<AskBounds>([&](AskBounds&) { return Bounds{{1., bound}, 2}; });
  const auto call = [&] { return with(rates, [&] { return with(bounds, [&] { return f(x); }); }); };
  for (int again = 0; again < 2; ++again) {
    rate = 0., bound = 1.;
    EXPECT_THAT(call(), Is(full({3}, inf, float64)));
    rate = -0.;
    EXPECT_THAT(call(), Is(full({3}, -inf, float64)));
    rate = 1., bound = -0.;
    EXPECT_THAT(call(), Is(full({3}, -inf, float64)));
    bound = 0.;
    EXPECT_THAT(call(), Is(full({3}, inf, float64)));
    bound = nan;
    EXPECT_TRUE(all(isnan(call())).item<bool>());
    rate = nan;
    EXPECT_TRUE(all(isnan(call())).item<bool>());
  }
  EXPECT_EQ(f.recordings(), 6u);
}

TEST(CompileEffects, TensorsOfAnswersAreInputs) {
  int runs = 0;
  const auto plain = [](const Tensor& a) {
    const Tensor w = perform(Weights{"w"}), b = perform(Weights{"b"});
    return tanh(a * w + b) * w;
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  Tensor w = x, b = tensor(0.5);
  auto handler = by<Weights>([&](Weights& asked) { return asked.name == "w" ? w : b; });
  const auto expect_same = [&](int run) {
    const Tensor found = with(handler, [&] { return f(x); });
    EXPECT_THAT(found, Is(with(handler, [&] { return plain(x); })));
    EXPECT_EQ(runs, run);
  };
  expect_same(1);
  for (int i = 2; i < 5; ++i) {
    w = x * i;
    b = tensor(0.1 * i);
    expect_same(1);
  }
  w = tensor(2.);  // another shape
  expect_same(2);
  w = astype(x, float64);
  expect_same(3);
  w = reshape(arange(6.), {3, 2})(slice(), 0);  // other strides
  expect_same(4);
  w = x;
  expect_same(4);
  EXPECT_EQ(handler.asked, 4 * 8);
}

struct Params {
  Tensor w;
  std::vector<Tensor> more;
  std::map<std::string, Tensor> named;
  std::optional<Tensor> bias;
  int power = 1;
  std::string how = "plain";
};
struct AskParams {
  using Result = std::pair<Params, Key>;
};

TEST(CompileEffects, AnswersAreTrees) {
  int runs = 0;
  const auto plain = [](const Tensor& a) {
    const auto [p, key] = perform(AskParams{});
    Tensor y = a * p.w + normal(key, {3});
    for (const Tensor& m : p.more) y = y * m;
    for (const auto& [name, value] : p.named) y = y + value;
    if (p.bias) y = y + *p.bias;
    for (int i = 1; i < p.power; ++i) y = y * y;
    return p.how == "plain" ? y : -y;
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  std::pair<Params, Key> answer{{x, {x, tensor(2.)}, {{"a", x}}, {}}, Key(0)};
  auto handler = by<AskParams>([&](AskParams&) { return answer; });
  const auto expect_same = [&](int run) {
    for (int again = 0; again < 2; ++again) {
      answer.first.w = answer.first.w + 0.25;
      EXPECT_THAT(with(handler, [&] { return f(x); }), Is(with(handler, [&] { return plain(x); })));
      EXPECT_EQ(runs, run);
    }
  };
  expect_same(1);
  answer.second = Key(7);
  answer.first.more = {x * 3., tensor(5.)};
  expect_same(1);
  answer.first.bias = x;
  expect_same(2);
  answer.first.power = 2;
  expect_same(3);
  answer.first.how = "negative";
  expect_same(4);
  answer.first.more.clear();
  expect_same(5);
  answer.first.named["b"] = x;
  expect_same(6);
}

TEST(CompileEffects, ReplaysPassComputedValuesToEffects) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    const Scope layer("layer");
    const Tensor h = tanh(a);
    perform(Log{"h", label(h, "hidden")});
    const Tensor y = h * 2.;
    perform(Log{"y", y});
    perform(Log{"constant", tensor({9., 8.})});
    perform(Log{"nothing", {}});
    return y + 1.;
  });
  std::vector<std::string> names;
  std::vector<Tensor> values;
  auto handler = by<Log>([&](Log& log) {
    names.push_back(log.name + "@" + scopes().at(0) + (log.value.defined() ? label_of(log.value) : ""));
    values.push_back(log.value);
    if (log.value.defined())
      // The handler's read of the value is not a read of the function.
      static_cast<void>(log.value.to_vector<float>());
  });
  for (int i = 1; i < 25; ++i) {
    names.clear();
    values.clear();
    const Tensor a = x * i;
    EXPECT_THAT(with(handler, [&] { return f(a); }), Is(tanh(a) * 2. + 1.));
    EXPECT_THAT(names, ElementsAre("h@layerhidden", "y@layer", "constant@layer", "nothing@layer"));
    EXPECT_THAT(values[0], Is(tanh(a)));
    EXPECT_THAT(values[1], Is(tanh(a) * 2.));
    EXPECT_THAT(values[2], Is(tensor({9., 8.})));
    EXPECT_FALSE(values[3].defined());
  }
  EXPECT_EQ(runs, 1);
}

TEST(CompileEffects, EachEffectHappensOncePerCallOnAnyPath) {
  int runs = 0;
  const auto plain = [](const Tensor& a) {
    perform(Log{"begin", a});
    const Tensor y = a * perform(Weights{"w"});
    if (sum(y).item<float>() > 20) return y - perform(Rate{});
    perform(Log{"small", y});
    return y * perform(Rate{});
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  std::vector<std::string> happened;
  double rate = 2;
  auto logs = by<Log>([&](Log& log) { happened.push_back(log.name + log.value.str()); });
  auto weights = by<Weights>([&](Weights& asked) { return happened.push_back(asked.name), x; });
  auto rates = by<Rate>([&](Rate&) { return happened.push_back("rate"), rate; });
  const auto in_all = [&](const auto& body) {
    happened.clear();
    return with(logs, [&] { return with(weights, [&] { return with(rates, body); }); });
  };
  for (const auto& [scale, factor] :
       std::vector<std::pair<double, double>>{{1., 2.}, {1.25, 2.}, {2., 2.}, {2., 3.}, {1., 3.}, {1., 2.}, {2., 2.}}) {
    rate = factor;
    const Tensor a = x * scale;
    const Tensor wanted = in_all([&] { return plain(a); });
    const auto wanted_effects = happened;
    const Tensor found = in_all([&] { return f(a); });
    EXPECT_THAT(found, Is(wanted));
    EXPECT_EQ(happened, wanted_effects);
  }
  // The sums 14, 17.5 and 28 are read; each path performs Rate.
  EXPECT_EQ(f.recordings(), 5u);
  EXPECT_EQ(runs, 5);
}

TEST(CompileEffects, TensorPassedThroughAnAnswerKeepsItsDerivative) {
  struct Put {
    using Result = void;
    Tensor value;
  };
  struct Get {
    using Result = Tensor;
  };
  const auto plain = [](const Tensor& a) {
    return grad([&](const Tensor& b) {
      const Tensor y = perform(Through{b * b});
      perform(Put{y * 3.});
      return sum(y * a + perform(Get{}) * b);
    })(a);
  };
  int runs = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  Tensor state = x;
  auto puts = by<Put>([&](Put& put) { state = put.value; });
  auto gets = by<Get>([&](Get&) { return state; });
  const auto expect_same = [&](auto through, const Tensor& a) {
    auto handler = by<Through>(through);
    const auto call = [&](const auto& g) {
      return with(puts, [&] { return with(gets, [&] { return with(handler, [&] { return g(a); }); }); });
    };
    const Tensor wanted = call(plain);
    EXPECT_THAT(call(f), Is(wanted));
  };
  for (int again = 1; again < 4; ++again) {
    expect_same([](Through& it) { return it.value; }, x * again);
    expect_same([](Through& it) { return stop_gradient(it.value) * 2.; }, x * again);
    expect_same([](Through&) { return x; }, x * again);
  }
  EXPECT_EQ(runs, 2);  // one for the value itself, one for another value
}

TEST(CompileEffects, EffectsThatCannotBeRecordedArePerformedByTheFunction) {
  struct ByPointer {
    using Result = double;
    const double* number;
  };
  struct Fill {
    using Result = void;
    std::vector<double>& numbers;
  };
  struct Unique {
    using Result = std::unique_ptr<double>;
  };
  struct Shared {
    using Result = std::shared_ptr<Tensor>;
  };
  struct MoveOnly {
    using Result = double;
    std::unique_ptr<int> token;
  };
  const auto check = [](auto& handler, auto ask) {
    int runs = 0;
    const auto plain = [&](const Tensor& a) { return a * ask(); };
    const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
    for (int i = 1; i < 4; ++i) {
      const Tensor wanted = with(handler, [&] { return plain(x * i); });
      const int before = handler.asked;
      EXPECT_THAT(with(handler, [&] { return f(x * i); }), Is(wanted));
      EXPECT_EQ(handler.asked, before + 1);
    }
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(f.recordings(), 0u);
  };
  double n = 0;
  auto pointers = by<ByPointer>([](ByPointer& it) { return *it.number * 2; });
  check(pointers, [&] {
    const double local = 3;
    return perform(ByPointer{&local});
  });
  auto fills = by<Fill>([&](Fill& it) { it.numbers.push_back(4); });
  check(fills, [&] {
    std::vector<double> numbers;
    perform(Fill{numbers});
    return numbers.at(0);
  });
  auto uniques = by<Unique>([&](Unique&) { return std::make_unique<double>(5); });
  check(uniques, [&] { return *perform(Unique{}); });
  auto shareds = by<Shared>([&](Shared&) { return std::make_shared<Tensor>(x); });
  check(shareds, [&] { return *perform(Shared{}); });
  auto moves = by<MoveOnly>([&](MoveOnly& it) { return *it.token + ++n * 0; });
  check(moves, [&] { return perform(MoveOnly{std::make_unique<int>(6)}); });
}

TEST(CompileEffects, AnswersThatNeverRepeatStopRecording) {
  int runs = 0;
  double rate = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, a * perform(Rate{}); });
  auto handler = by<Rate>([&](Rate&) { return ++rate; });
  for (int i = 1; i < 40; ++i) EXPECT_THAT(with(handler, [&] { return f(x); }), Is(x * i));
  EXPECT_EQ(runs, 39);
  EXPECT_EQ(handler.asked, 39);
  EXPECT_LE(f.recordings(), 16u);
}

TEST(CompileEffects, WithoutAHandlerTheEffectGivesItsDefaultAnswer) {
  struct Default {
    using Result = Tensor;
    Tensor unhandled() const { return x * 2.; }
  };
  int runs = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, a + perform(Default{}); });
  auto handler = by<Default>([](Default&) { return x * 5.; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(f(x), Is(x + x * 2.));
    EXPECT_THAT(with(handler, [&] { return f(x); }), Is(x + x * 5.));
  }
  EXPECT_EQ(runs, 1);
  const auto unanswered = compile([](const Tensor& a) { return a * perform(Rate{}); });
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of<TransformError>([&] { unanswered(x); }), HasSubstr("no handler for the effect"));
}

// ---- random programs ----------------------------------------------------------------------------

// Returns the results of a random program, the same one for the same seed: operations on earlier
// values, reads, effects, caught errors and derivatives.
std::vector<Tensor> random_program(std::uint64_t seed, const std::vector<Tensor>& inputs) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<Tensor> vectors = inputs;
  for (int step = 0; step < 25; ++step) {
    const Tensor a = vectors[pick(vectors.size())], b = vectors[pick(vectors.size())];
    switch (pick(10)) {
      case 0: vectors.push_back(a + b); break;
      case 1: vectors.push_back(tanh(a) * b); break;
      case 2: vectors.push_back(a - sum(b) * 0.1); break;
      case 3: vectors.push_back(sum(a).item<float>() > 0 ? a : -a); break;
      case 4: vectors.push_back(grad([&](const Tensor& t) { return sum(sin(perform(Through{t})) * b); })(a)); break;
      case 5: vectors.push_back(tanh(a) * perform(Rate{})); break;
      case 6: vectors.push_back(a * perform(Weights{std::to_string(step)})); break;
      case 7: perform(Log{std::to_string(step), tanh(b)}); break;
      case 8: vectors.push_back(perform(Through{tanh(a)})); break;
      default: try { vectors.push_back(take(a, astype(tanh(b) * 5., int32), 0));
        } catch (const IndexError&) {
          vectors.push_back(b * 0.5);
        }
    }
  }
  return {vectors.end() - 3, vectors.end()};
}

TEST(CompileEffects, RandomProgramsGiveTheSameBitsAndPerformTheSameEffects) {
  std::size_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    int runs = 0;
    const auto f =
        compile([&, seed](const std::vector<Tensor>& inputs) { return ++runs, random_program(seed, inputs); });
    for (int call = 0; call < 18; ++call) {  // each of six inputs three times
      const double scale = call % 3 == 1 ? 1 : 0.5 + call % 3;
      const std::vector<Tensor> inputs = {tensor({0.5, -1., 2., 0.1}) * scale, tensor({-0.3, 0.2, 1.5, -2.}) * scale};
      const auto told = [&](const auto& g) {
        std::vector<std::string> happened;
        auto rates = by<Rate>([&](Rate&) { return happened.push_back("rate"), call % 2 ? 0.5 : 2.; });
        auto weights = by<Weights>([&](Weights& it) { return happened.push_back(it.name), inputs[1] * 0.5; });
        auto logs = by<Log>([&](Log& it) { happened.push_back(it.name + it.value.str()); });
        auto through = by<Through>([&](Through& it) {
          happened.push_back(it.value.str());
          return call % 2 ? it.value : stop_gradient(it.value) * 0.5;
        });
        auto found = with(rates, [&] {
          return with(weights, [&] { return with(logs, [&] { return with(through, [&] { return g(inputs); }); }); });
        });
        return std::pair(found, happened);
      };
      const auto [wanted, wanted_effects] = told([&](const auto& in) { return random_program(seed, in); });
      const auto [found, effects] = told(f);
      for (std::size_t k = 0; k < wanted.size(); ++k)
        ASSERT_THAT(found[k], Is(wanted[k])) << "seed " << seed << ", call " << call << ", result " << k;
      ASSERT_EQ(effects, wanted_effects) << "seed " << seed << ", call " << call;
    }
    replayed += static_cast<std::size_t>(18 - runs);
  }
  EXPECT_GE(replayed, 700u);
}

}  // namespace
