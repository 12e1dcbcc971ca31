// compile with effects: handlers that throw, call the compiled function again or answer later, and
// several threads.
#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

#include <stave/stave.h>

#include "compile_effects.h"
#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

const Tensor x = tensor({1., 2., 3.});

TEST(CompileEffects, HandlersMayThrow) {
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

TEST(CompileEffects, HandlersMayCallTheFunctionOrResumeLater) {
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

TEST(CompileEffects, HostCallsMayReadTheirArguments) {
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

TEST(CompileEffects, EffectDuringAReplayMaySplitTheReplayedNode) {
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

TEST(CompileEffects, CheckOptionPerformsNoEffectTwice) {
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

TEST(CompileEffects, LoopsAndCheckpointsThatPerformEffectsAreUnrolledAndReplayed) {
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

}  // namespace
