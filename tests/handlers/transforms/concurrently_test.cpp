// concurrently: results, the turns that computations take, and reads from devices. A backend of
// separate memory (separate_backend.h) plays the device, and counts the operations that were
// requested but have not run.
#include <array>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "by_turns.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;

struct Tell {
  using Result = int;
  int value;
};
struct Hears : Handles<Tell> {
  std::vector<int> heard;
  int handle(Tell& tell) override {
    heard.push_back(tell.value);
    return static_cast<int>(heard.size());
  }
};

// ---- results ------------------------------------------------------------------------------------

TEST(Concurrently, GivesATuple) {
  const auto [a, b] = concurrently([] { return three_of(x); }, [] { return two_of(x); });
  EXPECT_THAT(a, IsNear(three_of(x)));
  EXPECT_THAT(b, IsNear(two_of(x)));
}

TEST(Concurrently, OfVoidGivesMonostateAndOfAReferenceACopy) {
  Tensor kept = x;
  bool ran = false;
  auto results = concurrently([&]() -> Tensor& { return kept; }, [&] { ran = true; });
  static_assert(std::is_same_v<decltype(results), std::tuple<Tensor, std::monostate>>);
  EXPECT_TRUE(ran);
}

TEST(Concurrently, AcceptsNoncopyableFunctionsAndResults) {
  auto function = [number = std::make_unique<int>(7)]() mutable { return std::move(number); };
  auto [seven, eight] = concurrently(std::move(function), [] { return std::make_unique<int>(8); });
  EXPECT_EQ(*seven + *eight, 15);
}

TEST(Concurrently, OfNoFunctionsGivesAnEmptyTuple) {
  static_assert(std::is_same_v<decltype(concurrently()), std::tuple<>>);
  concurrently();
  EXPECT_TRUE(concurrently(std::vector<std::function<Tensor()>>()).empty());
}

TEST(Concurrently, OfARangeGivesAVector) {
  std::vector<std::function<Tensor()>> functions;
  for (int i = 0; i < 5; ++i) functions.emplace_back([i] { return x * i; });
  const std::vector<Tensor> results = concurrently(functions);
  ASSERT_EQ(results.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(results[static_cast<std::size_t>(i)], IsNumber(0.5 * i));

  const auto is_even = [](int i) { return [i] { return i % 2 == 0; }; };
  EXPECT_EQ(concurrently(std::array{is_even(0), is_even(1), is_even(2)}), (std::vector{true, false, true}));

  int ran = 0;
  std::vector<std::function<void()>> of_nothing(3, [&] { ++ran; });
  static_assert(std::is_void_v<decltype(concurrently(of_nothing))>);
  concurrently(of_nothing);
  EXPECT_EQ(ran, 3);
}

// ---- turns --------------------------------------------------------------------------------------

TEST(Concurrently, TurnIsOneOperation) {
  Names names;
  with(names, [] { concurrently([] { three_of(x); }, [] { two_of(x); }, [] { sqrt(x); }); });
  EXPECT_THAT(names.names, ElementsAre("sin", "exp", "sqrt", "cos", "log1p", "tan"));
}

TEST(Concurrently, OperationsAnsweredByInnerHandlersEndNoTurn) {
  struct Answers : Handler {
    Outputs handle(Call& call) override { return call.op().id == OpId::sin ? Outputs(x) : perform(std::move(call)); }
  } answers;
  Names names;
  with(names, [&] { concurrently([&] { with(answers, [] { three_of(x); }); }, [] { two_of(x); }); });
  EXPECT_THAT(names.names, ElementsAre("cos", "exp", "tan", "log1p"));
}

TEST(Concurrently, EffectsGoToOuterHandlersAndEndNoTurn) {
  Hears hears;
  const auto [a, b] = with(hears, [] {
    const auto first = [] {
      const int answer = perform(Tell{1});
      sin(x);
      return std::pair(answer, perform(Tell{2}));
    };
    const auto second = [] {
      const int answer = perform(Tell{3});
      const int next = perform(Tell{4});
      sin(x);
      return std::pair(answer, next);
    };
    return concurrently(first, second);
  });
  EXPECT_EQ(a, std::pair(1, 4));
  EXPECT_EQ(b, std::pair(2, 3));
  EXPECT_THAT(hears.heard, ElementsAre(1, 3, 4, 2));
}

TEST(Concurrently, EachHasItsOwnHandlersAndScopes) {
  const auto counted = [](int operations) {
    return [operations] {
      const Scope scope("of " + std::to_string(operations));
      Names mine;
      with(mine, [&] {
        for (int i = 0; i < operations; ++i) {
          sin(x);
          EXPECT_THAT(scopes(), ElementsAre("of " + std::to_string(operations)));
        }
      });
      return mine.names.size();
    };
  };
  EXPECT_EQ(concurrently(counted(3), counted(1), counted(5)), std::tuple(3, 1, 5));
  EXPECT_EQ(current_handlers(), "");
}

TEST(Concurrently, OuterHandlersSeeTheScopesOfThePerformer) {
  struct Where : Handler {
    std::vector<std::string> at;
    Outputs handle(Call& call) override {
      for (const std::string& scope : scopes()) at.push_back(scope);
      return perform(std::move(call));
    }
  } where;
  const auto scoped = [](const char* name) {
    return [name] {
      const Scope scope(name);
      sin(x);
    };
  };
  with(where, [&] { concurrently(scoped("a"), scoped("b")); });
  EXPECT_THAT(where.at, ElementsAre("a", "b"));
}

TEST(Concurrently, YieldEndsATurn) {
  std::string order;
  const auto says = [&](char name) {
    return [&order, name] {
      for (int i = 0; i < 3; ++i) order += name, yield();
    };
  };
  concurrently(says('a'), says('b'));
  EXPECT_EQ(order, "ababab");
  yield();  // does nothing, as there is only one computation
}

TEST(Concurrently, OnlyYieldEndsTurnsIfOperationsDoNot) {
  Names names;
  with(names, [] {
    concurrently(
        {.at_operations = false}, [] { three_of(x); }, [] { exp(x), yield(), sqrt(x); }, [] { tanh(x); });
  });
  EXPECT_THAT(names.names, ElementsAre("sin", "cos", "tan", "exp", "tanh", "sqrt"));
}

TEST(Concurrently, ProducerAndConsumerExchangeValues) {
  std::vector<int> channel, got;
  bool over = false;
  concurrently(
      [&] {
        for (int i = 1; i <= 4; ++i) {
          while (!channel.empty()) yield();
          channel.push_back(i * i);
        }
        over = true;
      },
      [&] {
        while (!over || !channel.empty()) {
          while (!channel.empty()) got.push_back(channel.back()), channel.pop_back();
          yield();
        }
      });
  EXPECT_THAT(got, ElementsAre(1, 4, 9, 16));
}

TEST(Concurrently, InnerTurnsAreTurnsOfTheOuter) {
  Names names;
  with(names, [] {
    concurrently([] { concurrently([] { sin(x), cos(x); }, [] { sinh(x), cosh(x); }); },
                 [] { exp(x), log(x), sqrt(x); });
  });
  EXPECT_THAT(names.names, ElementsAre("sin", "exp", "sinh", "log", "cos", "sqrt", "cosh"));
}

TEST(Concurrently, YieldEndsTurnsOfAllOuterLevels) {
  bool told = false, heard = false;
  concurrently(
      [&] {
        concurrently([&] {
          while (!told) yield();
          heard = true;
        });
      },
      [&] { yield(), told = true; });
  EXPECT_TRUE(heard);
}

TEST(Concurrently, ManyComputationsOfManyOperationsGiveTheirResults) {
  std::vector<std::function<double()>> functions;
  for (int i = 0; i < 1000; ++i)
    functions.emplace_back([i] {
      Tensor y = tensor(0., float64);
      for (int j = 0; j < i % 50; ++j) y = y + 1.;
      return y.item<double>();
    });
  const std::vector<double> counts = concurrently(functions);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(counts[static_cast<std::size_t>(i)], i % 50);

  const auto counts_to = [](int n) {
    return [n] {
      int i = 0;
      for (Tensor y = x; i < n; ++i) y = y + 1.;
      return i;
    };
  };
  EXPECT_EQ(concurrently(counts_to(200'000), counts_to(100'000)), std::tuple(200'000, 100'000));
}

Tensor deep(const Tensor& v, int depth) { return depth == 0 ? v : deep(sin(v), depth - 1) + 1.; }

TEST(Concurrently, EachMayRecurseDeeply) {
  const Tensor expected = deep(x, 100);
  const auto [a, b] = concurrently([] { return deep(x, 100); }, [] { return deep(x, 100); });
  EXPECT_THAT(a, IsNear(expected));
  EXPECT_THAT(b, IsNear(expected));
}

// Recurses until there is no stack left for another program, and then calls `at_the_end`.
int to_the_end_of_the_stack(const std::function<void()>& at_the_end) {
  std::array<volatile char, 512> room{};
  if (stave_detail::stack_is_nearly_full()) at_the_end();
  else to_the_end_of_the_stack(at_the_end);
  return room[0];  // read after the call, so that the call is no tail call
}

TEST(Concurrently, TurnsErrorsAndCancellingWorkAtTheEndOfTheStack) {
  int destroyed = 0;
  const auto deep_down = [&] {
    const Witness witness{destroyed};
    to_the_end_of_the_stack([] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_THAT(sin(x), IsNumber(std::sin(0.5)));
        EXPECT_THROW(matmul(xs, zeros({5}, float64)), ShapeError);
      }
      for (;;) yield();
    });
  };
  EXPECT_THROW(concurrently(deep_down, deep_down,
                            [] {
                              for (int i = 0; i < 100; ++i) sin(x);
                              throw Oops{1};
                            }),
               Oops);
  EXPECT_EQ(destroyed, 2);
}

int without_end(const Tensor& v) { return v.rank() == 0 ? without_end(v + 1.) + 1 : 0; }

TEST(ConcurrentlyDeathTest, EndlessRecursionHitsTheGuardPage) {
  if (STAVE_ASAN || STAVE_TSAN) GTEST_SKIP() << "the sanitizers have a message of their own";
  EXPECT_EXIT(concurrently([] { without_end(x); }, [] { without_end(x); }), testing::KilledBySignal(SIGSEGV), "");
}

Tensor nested(int depth) {
  if (depth == 0) return sin(x);
  const auto [a, b] = concurrently([&] { return nested(depth - 1); }, [&] { return nested(depth - 1); });
  return a + b;
}

TEST(Concurrently, CanBeNestedDeeply) { EXPECT_THAT(nested(6), IsNear(sin(x) * 64)); }

TEST(Concurrently, WorksOnSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int j = 0; j < 50; ++j) {
        const auto [a, b] = concurrently([] { return three_of(x); }, [] { return two_of(x); });
        EXPECT_THAT(a, IsNear(three_of(x)));
        EXPECT_THAT(b, IsNear(two_of(x)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// ---- devices ------------------------------------------------------------------------------------

/// A device that computes nothing until the host reads: requested operations wait for the read.
class Lazy final : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
           std::span<const View> outputs) override {
    SeparateBackend::run(op, attributes, inputs, outputs);
    ++waiting;
  }
  void read(void* to, const void* from, std::size_t bytes) override {
    waits.push_back(std::exchange(waiting, 0));
    SeparateBackend::read(to, from, bytes);
  }
  int waiting = 0;         // operations requested since the last read
  std::vector<int> waits;  // for each read, how many operations it waited for
};

// Halves v until it is small, and reads v after each n operations.
double halves(Tensor v, int n) {
  do
    for (int i = 0; i < n; ++i) v = v * 0.5;
  while (v > 0.01);
  return v.item<double>();
}

TEST(Concurrently, DeviceReadsWaitUntilOthersQueuedTheirWork) {
  Lazy device(0);
  const Tensor v = to(tensor(1., float64), cuda(0));
  device.waiting = 0, device.waits.clear();
  const double expected = halves(v, 3);
  const std::vector<int> of_one = std::exchange(device.waits, {});
  // Three halvings and a comparison each time; then item().
  EXPECT_THAT(of_one, ElementsAre(4, 4, 4, 0));
  const auto [a, b] = concurrently([&] { return halves(v, 3); }, [&] { return halves(v, 3); });
  EXPECT_EQ(a, expected);
  EXPECT_EQ(b, expected);
  // The second read of each pair waits for nothing.
  EXPECT_THAT(device.waits, ElementsAre(8, 0, 8, 0, 8, 0, 0, 0));
}

TEST(Concurrently, WaitForComputationsWithoutReadsIsBounded) {
  Lazy device(0);
  const Tensor v = to(tensor(1., float64), cuda(0));
  bool done = false;
  int steps = 0;
  concurrently([&] { done = (v * 2.).item<double>() == 2.; },
               [&] {
                 Tensor y = v;
                 while (!done) y = y + 1., ++steps;
               });
  EXPECT_TRUE(done);
  EXPECT_GE(steps, 60);
  EXPECT_LE(steps, 70);
}

TEST(Concurrently, TransfersToTheHostCountAsReads) {
  Lazy device(0);
  const Tensor v = to(tensor(1., float64), cuda(0));
  device.waiting = 0, device.waits.clear();
  concurrently([&] { to(v * 2., cpu); },
               [&] {
                 Tensor y = v;
                 for (int i = 0; i < 10; ++i) y = y + 1.;
               });
  EXPECT_THAT(device.waits, ElementsAre(11));
}

TEST(Concurrently, NestedReadsWaitForOuterComputations) {
  Lazy device(0);
  const Tensor v = to(tensor(1., float64), cuda(0));
  device.waiting = 0, device.waits.clear();
  const auto reads = [&] { return (v * 2.).item<double>(); };
  concurrently([&] { concurrently(reads, reads); },
               [&] {
                 Tensor y = v;
                 for (int i = 0; i < 10; ++i) y = y + 1.;
               });
  EXPECT_THAT(device.waits, ElementsAre(12, 0));
}

}  // namespace
