// compile with effects: effects that a function performs, and errors of operations that it catches,
// happen at each call, once, in order, and lead to the same path as in the function itself.
#include <atomic>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

const Tensor x = tensor({1., 2., 3.});
const Tensor lanes = tensor({{1., 2., 3.}, {0.5, -1., 2.}});

/// Answers an effect by a function, and counts the answers.
template <class E>
struct By : Handles<E> {
  std::function<typename E::Result(E&)> answer;
  int asked = 0;
  explicit By(std::function<typename E::Result(E&)> f) : answer(std::move(f)) {}
  typename E::Result handle(E& effect) override {
    ++asked;
    return answer(effect);
  }
};
template <class E, class F>
By<E> by(F f) {
  return By<E>(std::move(f));
}

struct Rate {
  using Result = double;
};
struct Weights {
  using Result = Tensor;
  std::string name;
};
struct Log {
  using Result = void;
  std::string name;
  Tensor value;
};
struct Through {
  using Result = Tensor;
  Tensor value;
};

// ---- answers ------------------------------------------------------------------------------------

TEST(CompileEffects, AnAnswerChoosesTheWay) {
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

TEST(CompileEffects, ReplaysPerformEffectsWithWhatTheyCompute) {
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

TEST(CompileEffects, EachHappensOnceInACallWhateverIsMet) {
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

TEST(CompileEffects, WhatPassesThroughAnAnswerKeepsItsDerivative) {
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

TEST(CompileEffects, WhatCannotBeKeptIsPerformedByTheFunction) {
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

TEST(CompileEffects, AnswersThatNeverRepeatEndInPlainCalls) {
  int runs = 0;
  double rate = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, a * perform(Rate{}); });
  auto handler = by<Rate>([&](Rate&) { return ++rate; });
  for (int i = 1; i < 40; ++i) EXPECT_THAT(with(handler, [&] { return f(x); }), Is(x * i));
  EXPECT_EQ(runs, 39);
  EXPECT_EQ(handler.asked, 39);
  EXPECT_LE(f.recordings(), 16u);
}

TEST(CompileEffects, WithoutAHandlerItIsTheEffectsOwnAnswer) {
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

TEST(CompileEffects, WhoeverAnswersMayThrow) {
  struct Stop {};
  bool catches = false, throws = true;
  const auto plain = [&](const Tensor& a) {
    perform(Log{"begin", a});
    try {
      return a * perform(Rate{});
    } catch (const Stop&) {
      if (!catches) throw;
      return -a;
    }
  };
  const auto f = compile(plain);
  auto logs = by<Log>([](Log&) {});
  auto rates = by<Rate>([&](Rate&) -> double {
    if (throws) throw Stop();
    return 2;
  });
  const auto call = [&] { return with(logs, [&] { return with(rates, [&] { return f(x); }); }); };
  for (int again = 0; again < 3; ++again) {
    throws = false;
    EXPECT_THAT(call(), Is(x * 2.));
    throws = true;
    catches = false;
    EXPECT_THROW(call(), Stop);
    catches = true;
    EXPECT_THAT(call(), Is(-x));
  }
  EXPECT_EQ(logs.asked, 9);
  EXPECT_EQ(rates.asked, 9);
}

TEST(CompileEffects, WhoeverAnswersMayCallTheFunctionOrGoOnLater) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) { return ++runs, a * perform(Rate{}) + 1.; });
  int depth = 0;
  auto nests = by<Rate>([&](Rate&) {
    if (depth == 2) return 2.;
    ++depth;
    // The innermost call gets a rate that was not observed before.
    auto inner = by<Rate>([&](Rate&) { return 10. * depth; });
    const double found = sum(with(inner, [&] { return f(x); })).item<double>();
    return found / 100;
  });
  for (int again = 0; again < 3; ++again) {
    depth = 0;
    const Tensor nested = with(nests, [&] { return f(x); });
    EXPECT_THAT(nested, Is(x * (63. / 100) + 1.));
  }
  // A controller that resumes after another call of the function, or not at all.
  struct Later : Controls<Rate> {
    std::optional<Resumption<Rate>> rest;
    bool drops = false;
    void handle(Rate&, Resumption<Rate> waiting) override {
      if (!drops) rest = std::move(waiting);
    }
  };
  for (int again = 0; again < 3; ++again) {
    std::optional<Tensor> outcome;
    const auto later = std::make_shared<Later>();
    with(later, [&] { outcome = f(x); });
    auto handler = by<Rate>([&](Rate&) { return 100. + again; });
    // Adds a path meanwhile.
    EXPECT_THAT(with(handler, [&] { return f(x); }), Is(x * (100. + again) + 1.));
    EXPECT_FALSE(outcome);
    std::exchange(later->rest, {})->resume(3.);
    ASSERT_TRUE(outcome);
    EXPECT_THAT(*outcome, Is(x * 3. + 1.));
    later->drops = true;
    EXPECT_FALSE(with(later, [&] { return f(x); }));
  }
}

TEST(CompileEffects, ForeignCodeReadsItsArguments) {
  int runs = 0;
  const auto host = host_call(
      [](const Tensor& a) {
        const float first = a.data<float>()[0];
        if (first > 3) throw std::runtime_error("too large");
        return full({3}, first);
      },
      {{Shape{3}, float32}});
  const auto plain = [&](const Tensor& a) {
    try {
      return a + host(a * 2.);
    } catch (const std::runtime_error&) {
      return -a;
    }
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  for (int again = 0; again < 2; ++again)
    for (const double scale : {1., 2., 0.5, 3.}) EXPECT_THAT(f(x * scale), Is(plain(x * scale)));
  EXPECT_EQ(runs, 4);
  EXPECT_THAT(message_of<TransformError>([&] { trace(plain)(x)(x * 0.5); }),
              HasSubstr("the traced function read a value"));
}

TEST(CompileEffects, AWayMayPartWhileAReplayAsks) {
  const auto plain = [](const Tensor& a, const Tensor& at) {
    Tensor y = a * 2.;
    try {
      y = take(y, at, 0) - 1.;
    } catch (const IndexError&) {
      y = y + 1.;
    }
    return y * perform(Rate{});
  };
  const auto f = compile(plain);
  const Tensor good = tensor({0, 2}), bad = tensor({0, 5});
  auto three = by<Rate>([](Rate&) { return 3.; });
  with(three, [&] { f(x, good); });
  // The nested call adds a path, which splits the tree node that is being replayed.
  auto calls = by<Rate>([&](Rate&) {
    EXPECT_THAT(with(three, [&] { return f(x, bad); }), Is((x * 2. + 1.) * 3.));
    return 3.;
  });
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(with(calls, [&] { return f(x, good); }), Is((take(x * 2., good, 0) - 1.) * 3.));
  EXPECT_EQ(calls.asked, 2);
  EXPECT_EQ(f.recordings(), 2u);
}

TEST(CompileEffects, TheCheckAsksNothingAgain) {
  double factor = 2;
  const auto f = compile([&](const Tensor& a) { return a * factor * perform(Weights{"w"}); }, {.check = true});
  Tensor w = x;
  auto handler = by<Weights>([&](Weights&) { return w; });
  for (int i = 1; i < 4; ++i) {
    w = x * i;
    EXPECT_THAT(with(handler, [&] { return f(x); }), Is(x * 2. * w));
    EXPECT_EQ(handler.asked, i);
  }
  factor = 3;
  EXPECT_THAT(message_of<TransformError>([&] { with(handler, [&] { return f(x); }); }),
              HasSubstr("depends on more than its arguments"));
}

TEST(CompileEffects, LoopsAndCheckpointsThatAskAreUnrolledAndReplayed) {
  int runs = 0;
  const auto plain = [](const Tensor& a) {
    const Tensor y = loop(4, [](const Tensor& b) { return tanh(b) * perform(Rate{}); })(a);
    return grad([&](const Tensor& b) {
      return sum(checkpoint([](const Tensor& c) { return sin(c) * perform(Weights{"w"}); })(b) * y);
    })(y);
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  Tensor w = x;
  auto rates = by<Rate>([](Rate&) { return 0.5; });
  auto weights = by<Weights>([&](Weights&) { return w; });
  for (int i = 1; i < 4; ++i) {
    w = x * i;
    const auto call = [&](const auto& g) {
      return with(rates, [&] { return with(weights, [&] { return g(x * i); }); });
    };
    const Tensor wanted = call(plain);
    rates.asked = weights.asked = 0;
    EXPECT_THAT(call(f), Is(wanted));
    EXPECT_EQ(rates.asked, 4);
    EXPECT_EQ(weights.asked, 1);
  }
  EXPECT_EQ(runs, 1);
}

TEST(CompileEffects, ThreadsMayCallItAtOnce) {
  const auto f = compile([](const Tensor& a) {
    const double rate = perform(Rate{});
    return sum(a).item<float>() > 20 ? a * rate : a * perform(Weights{"w"}) + rate;
  });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const double rate = (i + t) % 3;
        const Tensor a = x * ((i + t) % 5 + 1), w = x * t;
        auto rates = by<Rate>([&](Rate&) { return rate; });
        auto weights = by<Weights>([&](Weights&) { return w; });
        const Tensor found = with(rates, [&] { return with(weights, [&] { return f(a); }); });
        wrong += !stave_detail::same_bits(found, sum(a).item<float>() > 20 ? a * rate : a * w + rate);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(f.recordings(), 15u);
}

// Returns true if a transform traces the derivative or the lanes of `a`.
bool is_followed(const Tensor& a) {
  for (const Note* note = a.node().notes; note; note = note->next)
    if (note->live() && note->owner->differentiates) return true;
  return !a.node().storage;
}

// ---- under transforms ---------------------------------------------------------------------------

/// Expects `transform` of the compiled f to equal `transform` of f, with the same effects, at each
/// of three calls.
template <class F, class Transform, class Under>
void expect_same_under(F f, Transform transform, const Tensor& at, Under under) {
  const auto compiled = compile(f);
  for (int i = 1; i < 4; ++i) {
    const auto [wanted, wanted_effects] = under([&] { return transform(f)(at * i); });
    const auto [found, effects] = under([&] { return transform(compiled)(at * i); });
    EXPECT_THAT(found, IsNear(wanted));
    EXPECT_EQ(effects, wanted_effects);
  }
}

TEST(CompileEffects, DerivativesAndLanesAskOnce) {
  bool inside = false;
  const auto answered = [&](const auto& body) {
    std::vector<std::string> happened;
    auto rates = by<Rate>([&](Rate&) { return happened.push_back("rate"), 0.5; });
    auto weights = by<Weights>([&](Weights& it) { return happened.push_back(it.name), x * 0.1; });
    // Logs whether a transform outside the function traces the value.
    auto logs =
        by<Log>([&](Log& it) { happened.push_back(it.name + (!inside && is_followed(it.value) ? ", followed" : "")); });
    auto through = by<Through>([&](Through& it) { return happened.push_back("through"), it.value; });
    const Tensor found =
        with(rates, [&] { return with(weights, [&] { return with(logs, [&] { return with(through, body); }); }); });
    return std::pair(found, happened);
  };
  const auto grads = [](auto f) { return grad(f); };
  const auto tangents = [](auto f) {
    return [f](const Tensor& a) { return jvp(f, std::tuple(a), std::tuple(a * 2.)).second; };
  };
  const auto in_lanes = [](auto f) { return vmap(f); };
  const auto each_grad = [](auto f) { return vmap(grad(f)); };
  const auto under_all = [&](auto f) {
    expect_same_under(f, grads, x, answered);
    expect_same_under(f, tangents, x, answered);
    expect_same_under(f, in_lanes, lanes, answered);
    expect_same_under(f, each_grad, lanes, answered);
    inside = true;
    expect_same_under([f](const Tensor& a) { return grad(f)(a); }, [](auto g) { return g; }, x, answered);
    inside = false;
  };
  under_all(
      [](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) * perform(Rate{}) * perform(Weights{"v"})); });
  under_all([](const Tensor& a) {
    const Tensor y = sin(a) * perform(Rate{});
    perform(Log{"y", y});
    return sum(y * perform(Weights{"w"}));
  });
  under_all([](const Tensor& a) {
    const Tensor y = sin(a) * perform(Weights{"w"});
    perform(Log{"y", y});
    return sum(y * a);
  });
  under_all([](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) + perform(Through{a * a})); });
  under_all(
      [](const Tensor& a) { return sum(checkpoint([](const Tensor& b) { return sin(b) * perform(Rate{}); })(a)); });
  // The backward pass runs the checkpoint again after the call is over.
  under_all([](const Tensor& a) {
    const Tensor y = a * perform(Rate{});
    return sum(checkpoint([](const Tensor& b) { return sin(b) * perform(Weights{"w"}); })(y));
  });
  // The exception that ends a recording is not an error of the function.
  under_all([](const Tensor& a) {
    try {
      return sum(perform(Through{a * a}));
    } catch (...) {
      return sum(a);
    }
  });
}

TEST(CompileEffects, ARecordingUnderATransformServesTheNextCalls) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    const Tensor y = sum(sin(a) * perform(Weights{"w"}) * perform(Rate{}));
    perform(Log{"y", y});
    return y;
  });
  double logged = 0;
  auto rates = by<Rate>([](Rate&) { return 0.5; });
  auto weights = by<Weights>([](Weights&) { return x; });
  auto logs = by<Log>([&](Log& it) { logged = it.value.item<double>(); });
  for (int i = 1; i < 4; ++i) {
    const Tensor a = x * i;
    const Tensor found =
        with(rates, [&] { return with(weights, [&] { return with(logs, [&] { return grad(f)(a); }); }); });
    EXPECT_THAT(found, IsNear(cos(a) * x * 0.5));
    EXPECT_FLOAT_EQ(static_cast<float>(logged), sum(sin(a) * x * 0.5).item<float>());
  }
  EXPECT_EQ(runs, 1);
}

TEST(CompileEffects, AnswersThatATransformFollowsKeepTheirDerivatives) {
  // The handler runs inside grad: its answers depend on the differentiated value.
  const auto body = [](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) * perform(Weights{"w"})); };
  const auto compiled = compile(body);
  const auto loss = [](const auto& f) {
    return [&f](const Tensor& w) {
      auto handler = by<Weights>([&](Weights&) { return w; });
      return with(handler, [&] { return f(x) + f(w); });
    };
  };
  auto constant = by<Weights>([](Weights&) { return x; });
  for (int i = 1; i < 4; ++i) {
    const Tensor w = x * (0.5 * i);
    EXPECT_THAT(grad(loss(compiled))(w), IsNear(grad(loss(body))(w)));
    EXPECT_THAT(jacfwd(loss(compiled))(w), IsNear(jacfwd(loss(body))(w)));
    EXPECT_THAT(hessian(loss(compiled))(w), IsNear(hessian(loss(body))(w)));
    EXPECT_THAT(vmap(loss(compiled))(lanes * i), IsNear(vmap(loss(body))(lanes * i)));
    EXPECT_THAT(vmap(grad(loss(compiled)))(lanes * i), IsNear(vmap(grad(loss(body)))(lanes * i)));
    EXPECT_THAT(with(constant, [&] { return compiled(w); }), Is(with(constant, [&] { return body(w); })));
    EXPECT_THAT(with(constant, [&] { return grad(compiled)(w); }),
                IsNear(with(constant, [&] { return grad(body)(w); })));
  }
}

TEST(CompileEffects, AReadThatMissesUnderATransformAsksNothingAgain) {
  const auto body = [](const Tensor& a) {
    const double rate = perform(Rate{});
    const Tensor y = a * perform(Weights{"w"});
    return sum(y).item<float>() > 20 ? sum(y * rate) : sum(y * y * perform(Rate{}));
  };
  const auto compiled = compile(body);
  auto rates = by<Rate>([](Rate&) { return 0.5; });
  auto weights = by<Weights>([](Weights&) { return x; });
  for (const double scale : {1., 2., 1., 3., 2.}) {
    const auto call = [&](const auto& f) {
      return with(rates, [&] { return with(weights, [&] { return grad(f)(x * scale); }); });
    };
    const Tensor wanted = call(body);
    const int rated = std::exchange(rates.asked, 0), weighed = std::exchange(weights.asked, 0);
    EXPECT_THAT(call(compiled), IsNear(wanted));
    EXPECT_EQ(std::exchange(rates.asked, 0), rated);
    EXPECT_EQ(std::exchange(weights.asked, 0), weighed);
  }
}

// ---- errors -------------------------------------------------------------------------------------

TEST(CompileEffects, ACaughtErrorIsAWay) {
  int runs = 0;
  const auto plain = [](const Tensor& a, const Tensor& at) {
    const Tensor y = a * 2.;
    try {
      return take(y, at, 0) + 1.;
    } catch (const IndexError&) {
      return y - 5.;
    }
  };
  const auto f = compile([&](const Tensor& a, const Tensor& at) { return ++runs, plain(a, at); });
  for (int i = 1; i < 5; ++i)
    for (const int at : {0, 7, 2, 9, -8}) EXPECT_THAT(f(x * i, tensor({at})), Is(plain(x * i, tensor({at}))));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f.recordings(), 2u);
  const auto other = compile(plain);  // the path with the error first
  for (int i = 1; i < 5; ++i)
    for (const int at : {7, 0, 9, 2}) EXPECT_THAT(other(x * i, tensor({at})), Is(plain(x * i, tensor({at}))));
  EXPECT_EQ(other.recordings(), 2u);
}

TEST(CompileEffects, ManyErrorsAndReadsOneAfterTheOther) {
  int runs = 0;
  const auto plain = [](const Tensor& a, const Tensor& m, const Tensor& at) {
    Tensor y = a;
    for (int i = 0; i < 3; ++i) try {
        y = y + take(a, at[i], 0);
      } catch (const IndexError&) {
        if (sum(y).item<float>() > 100) return y;
        y = y * 0.5;
      }
    Tensor jittered = m;
    for (int tries = 0; tries < 4; ++tries) try {
        return matmul(cholesky(jittered), y);
      } catch (const LinalgError&) {
        jittered = jittered + eye(3);
      }
    return -y;
  };
  const auto f = compile([&](const Tensor& a, const Tensor& m, const Tensor& at) { return ++runs, plain(a, m, at); });
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Tensor at = tensor({int(random() % 4), int(random() % 4), int(random() % 4)});
    const Tensor m = eye(3) * (1. - static_cast<double>(random() % 6)), a = x * (random() % 3 == 0 ? 100. : 1.);
    EXPECT_THAT(f(a, m, at), Is(plain(a, m, at)));
  }
  // 8 outcomes of three takes, times 5 of four cholesky; and paths that end early
  EXPECT_GE(runs, 20);
  EXPECT_LE(runs, 130);
  EXPECT_EQ(f.recordings(), static_cast<std::size_t>(runs));
}

TEST(CompileEffects, AnErrorIsKnownByItsType) {
  const auto plain = [](const Tensor& a, const Tensor& at) {
    try {
      return solve(a, take(x, at, 0));
    } catch (const IndexError&) {
      return x;
    } catch (const LinalgError&) {
      return -x;
    }
  };
  const auto f = compile(plain);
  const Tensor good = tensor({0, 1, 2}), bad = tensor({0, 1, 3});
  for (int again = 0; again < 3; ++again)
    for (const Tensor& a : {eye(3), zeros({3, 3})})
      for (const Tensor& at : {good, bad}) EXPECT_THAT(f(a, at), Is(plain(a, at)));
  EXPECT_EQ(f.recordings(), 3u);
}

const Op op_picky =
    define_op({.name = "picky",
               .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
               .cpu =
                   [](const Attributes*, std::span<const View> in, std::span<const View> out) {
                     const float first = elements<const float>(in[0])[0];
                     if (first == 2) throw IndexError("2");
                     if (first == 3) throw LinalgError("3");
                     if (first == 4) throw std::runtime_error("4");
                     std::ranges::fill(elements<float>(out[0]), first);
                   }});

TEST(CompileEffects, AnOperationMayThrowErrorsOfSeveralTypes) {
  int runs = 0;
  const auto plain = [&](const Tensor& a) {
    try {
      return apply(op_picky, {a + 1.});
    } catch (const IndexError&) {
      return a * 2.;
    } catch (const LinalgError&) {
      return a * 3.;
    } catch (const std::runtime_error& error) {
      return a * 4.;
    }
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  for (int again = 0; again < 3; ++again)
    for (const int i : {0, 1, 2, 5, 1, 2}) EXPECT_THAT(f(x * i), Is(plain(x * i)));
  EXPECT_EQ(runs, 3);
  for (int again = 0; again < 3; ++again) EXPECT_THAT(f(x * 3.), Is(x * 12.));
  // f runs again each time, as this is not an error of the library.
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(f.recordings(), 3u);
}

TEST(CompileEffects, WhoAsksForTheTextIsGivenThatOfTheCall) {
  const auto plain = [](const Tensor& a, const Tensor& at) {
    try {
      return std::pair(take(a, at, 0), std::string());
    } catch (const IndexError& error) {
      return std::pair(a, std::string(error.what()));
    }
  };
  const auto f = compile(plain);
  for (int at = 0; at < 12; ++at) {
    const auto [found, text] = f(x, tensor({at}));
    EXPECT_THAT(found, Is(at < 3 ? x(slice(at, at + 1)) : x));
    if (at < 3) EXPECT_EQ(text, "");
    else EXPECT_THAT(text, HasSubstr("index " + std::to_string(at) + " is out of range"));
  }
}

TEST(CompileEffects, AnErrorThatIsNotCaughtReachesTheCaller) {
  const auto f = compile([](const Tensor& a, const Tensor& at) {
    const Scope model("model");
    try {
      return take(a, at, 0);
    } catch (const LinalgError&) {
      return a;
    }
  });
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(f(x, tensor({1})), Is(tensor({2.})));
    EXPECT_EQ(message_of<IndexError>([&] { f(x, tensor({5})); }),
              "take: index 5 is out of range for axis 0 with size 3\n  inside model, inside compile");
  }
  // The first error is caught, the second one leaves the function.
  const auto g = compile([](const Tensor& a, const Tensor& at) {
    try {
      return take(a, at, 0);
    } catch (const IndexError&) {
      if (sum(a).item<float>() > 10) throw;
      return a;
    }
  });
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(g(x, tensor({5})), Is(x));
    EXPECT_THAT(message_of<IndexError>([&] { g(x * 2., tensor({5})); }), HasSubstr("take: index 5 is out of range"));
    EXPECT_THAT(g(x * 2., tensor({1})), Is(tensor({4.})));
  }
}

TEST(CompileEffects, ErrorsAreCaughtUnderTransforms) {
  const auto take_or = [](const Tensor& a, const Tensor& at) {
    try {
      return sum(take(sin(a), at, 0));
    } catch (const IndexError&) {
      return sum(a * a);
    }
  };
  const auto in_checkpoint = [](const Tensor& a, const Tensor& at) {
    try {
      return sum(checkpoint([at](const Tensor& b) { return take(sin(b), at, 0); })(a));
    } catch (const IndexError&) {
      return sum(a * a);
    }
  };
  const auto check = [](const auto& plain) {
    const auto f = compile(plain);
    for (int again = 1; again < 4; ++again)
      for (const int at : {7, 1, 9, 2}) {
        const auto bind = [&](const auto& g) { return [&g, at](const Tensor& a) { return g(a, tensor({at})); }; };
        EXPECT_THAT(grad(bind(f))(x * again), IsNear(grad(bind(plain))(x * again)));
        EXPECT_THAT(vmap(grad(bind(f)))(lanes * again), IsNear(vmap(grad(bind(plain)))(lanes * again)));
        EXPECT_THAT(bind(f)(x * again), Is(bind(plain)(x * again)));
        EXPECT_THAT(compile(grad(bind(f)))(x * again), Is(grad(bind(plain))(x * again)));
      }
  };
  check(take_or);
  check(in_checkpoint);
}

TEST(CompileEffects, AnErrorInAStepOfALoopIsCaught) {
  const auto outside = [](const Tensor& a, const Tensor& at) {
    try {
      return loop(5, [&](const Tensor& b) { return b * 0.5 + take(b, at, 0); })(a);
    } catch (const IndexError&) {
      return a;
    }
  };
  const auto inside = [](const Tensor& a, const Tensor& at) {
    return loop(5, [&](const Tensor& b) {
      try {
        return b * 0.5 + take(b, at, 0);
      } catch (const IndexError&) {
        return b + 1.;
      }
    })(a);
  };
  const auto f = compile(outside);
  const auto g = compile(inside);
  for (int again = 1; again < 4; ++again)
    for (const int at : {1, 7, 2, 8}) {
      EXPECT_THAT(f(x * again, tensor({at})), Is(outside(x * again, tensor({at}))));
      EXPECT_THAT(g(x * again, tensor({at})), Is(inside(x * again, tensor({at}))));
    }
}

TEST(CompileEffects, AStepMayCatchWhatTheFirstStepsDoNotThrow) {
  struct State {
    Tensor y, at;
  };
  const auto plain = [](const Tensor& a) {
    return loop(6,
                [](const State& s) {
                  try {
                    return State{s.y * 0.5 + take(s.y, s.at, 0), s.at + 1};
                  } catch (const IndexError&) {
                    return State{s.y - 1., s.at + 1};
                  }
                })(State{a, tensor(0)})
        .y;
  };
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(f(x * i), Is(plain(x * i)));
    EXPECT_THAT(f(arange(6.) * i), Is(plain(arange(6.) * i)));  // no operation throws here
    EXPECT_THAT(trace(plain)(x)(x * i), Is(plain(x * i)));
  }
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

TEST(CompileEffects, RandomProgramsGiveTheSameBitsAndAskTheSame) {
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
