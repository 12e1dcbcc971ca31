// Effects and handlers without tensors: this file includes no tensor header.

#include <stave/core/effects/effect.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/effects/scope.h>

namespace effect_test {

using namespace stave;
using testing::ElementsAre;
using testing::HasSubstr;

struct Ask {  // an effect without a default answer
  using Result = int;
};
struct LearningRate {  // an effect with a default answer
  using Result = float;
  float unhandled() const { return 0.25f; }
};
struct Log {
  using Result = void;
  std::string line;
};
struct Number {  // answered by an outer handler, forwarded by inner ones
  using Result = int;
  int value;
  int unhandled() const { return value; }
};

struct Answer : Handles<Ask> {
  int answer;
  int asked = 0;
  explicit Answer(int answer) : answer(answer) {}
  int handle(Ask&) override {
    ++asked;
    return answer;
  }
  std::string describe() const override { return "answer"; }
};

// Performs the effect that it answers again, for handlers outside itself.
struct Forwarder : Handles<Number> {
  int digit;
  int seen = 0;
  explicit Forwarder(int digit) : digit(digit) {}
  int handle(Number& effect) override {
    ++seen;
    return perform(Number{effect.value * 10 + digit});
  }
  std::string describe() const override { return "forwarder " + std::to_string(digit); }
};

// ---- the handler that answers -------------------------------------------------------------------

TEST(Effect, InnermostHandlerAnswers) {
  Answer outer(1), inner(2);
  with(outer, [&] {
    EXPECT_EQ(perform(Ask{}), 1);
    with(inner, [] { EXPECT_EQ(perform(Ask{}), 2); });
    EXPECT_EQ(perform(Ask{}), 1);
  });
  EXPECT_EQ(outer.asked, 2);
  EXPECT_EQ(inner.asked, 1);
}

TEST(Effect, HandlersOfOtherEffectsAreSkipped) {
  Answer answer(7);
  Forwarder other(0);
  EXPECT_EQ(with(answer, [&] { return with(other, [] { return perform(Ask{}); }); }), 7);
  EXPECT_EQ(other.seen, 0);
}

TEST(Effect, WithoutAHandlerAnEffectGivesItsDefaultAnswer) {
  EXPECT_EQ(perform(LearningRate{}), 0.25f);
  Answer other(1);
  with(other, [] { EXPECT_EQ(perform(LearningRate{}), 0.25f); });

  struct Constant : Handles<LearningRate> {
    float handle(LearningRate& effect) override { return 2 * effect.unhandled(); }
  } constant;
  with(constant, [] { EXPECT_EQ(perform(LearningRate{}), 0.5f); });
}

TEST(Effect, UnhandledWithoutDefaultIsAnErrorThatNamesTheType) {
  EXPECT_THAT([] { perform(Ask{}); },
              testing::ThrowsMessage<TransformError>(
                  "perform: no handler for the effect effect_test::Ask, and it has no unhandled() to fall back on"));
  Forwarder bystander(4);
  EXPECT_THAT([&] { with(bystander, [] { perform(Ask{}); }); },
              testing::ThrowsMessage<TransformError>(testing::EndsWith("\n  inside forwarder 4")));
}

TEST(Effect, ResultsMayBeVoidOrMoveOnly) {
  struct Unique {
    using Result = std::unique_ptr<int>;
  };
  struct Both : Handles<Log, Unique> {
    std::vector<std::string> lines;
    void handle(Log& log) override { lines.push_back(std::move(log.line)); }
    std::unique_ptr<int> handle(Unique&) override { return std::make_unique<int>(5); }
  } both;
  const int five = with(both, [] {
    perform(Log{"a"});
    perform(Log{"b"});
    return *perform(Unique{});
  });
  EXPECT_EQ(five, 5);
  EXPECT_THAT(both.lines, ElementsAre("a", "b"));
}

// ---- effects that handlers perform --------------------------------------------------------------

TEST(Effect, EffectsThatAHandlerPerformsGoToTheHandlersBelow) {
  Forwarder one(1), two(2), three(3);
  const auto nest = [&](auto body) { return with(one, [&] { return with(two, [&] { return with(three, body); }); }); };
  // Each handler answers once, from the innermost one outwards.
  EXPECT_EQ(nest([] { return perform(Number{0}); }), 321);
  EXPECT_EQ(one.seen + two.seen + three.seen, 3);
}

TEST(Effect, OneHandlerObjectInstalledTwiceAnswersTwice) {
  Forwarder f(1);
  EXPECT_EQ(with(f, [&] { return with(f, [] { return perform(Number{0}); }); }), 11);
  EXPECT_EQ(f.seen, 2);
  EXPECT_EQ(with(f, [&] { return with(f, [&] { return with(f, [] { return perform(Number{0}); }); }); }), 111);
  EXPECT_EQ(f.seen, 5);
}

// A computation that a handler starts runs under the handlers outside it, and under those that it
// installs itself.
TEST(Effect, AHandlerMayInstallHandlers) {
  struct Starts : Handles<Ask> {
    Forwarder inner{7};
    int handle(Ask&) override {
      return with(inner, [] { return perform(Number{0}); });
    }
  } starts;
  Forwarder below(1), above(9);
  EXPECT_EQ(with(below, [&] { return with(starts, [&] { return with(above, [] { return perform(Ask{}); }); }); }), 71);
  EXPECT_EQ(above.seen, 0);
}

TEST(Effect, PassesDownThroughManyHandlersOnceEach) {
  struct Successor : Handles<Number> {
    int handle(Number& effect) override { return perform(Number{effect.value + 1}); }
  } successor;
  const auto nest = [&](auto& self, int depth) -> int {
    return depth == 0 ? perform(Number{0}) : with(successor, [&] { return self(self, depth - 1); });
  };
  EXPECT_EQ(nest(nest, 1000), 1000);
}

// ---- with ---------------------------------------------------------------------------------------

TEST(With, ReturnsWhatBodyReturns) {
  Answer answer(1);
  int variable = 3;
  decltype(auto) reference = with(answer, [&]() -> int& { return variable; });
  static_assert(std::is_same_v<decltype(reference), int&>);
  EXPECT_EQ(&reference, &variable);
  EXPECT_EQ(*with(answer, [] { return std::make_unique<int>(4); }), 4);
  static_assert(std::is_void_v<decltype(with(answer, [] {}))>);
  EXPECT_EQ(with(Answer(9), [] { return perform(Ask{}); }), 9);  // a temporary handler
}

TEST(With, TakesMoveOnlyBodies) {
  Answer answer(1);
  EXPECT_EQ(with(answer, [p = std::make_unique<int>(2)] { return *p + perform(Ask{}); }), 3);
}

// ---- exceptions ---------------------------------------------------------------------------------

TEST(Exceptions, ThrownByTheBodyRestoreTheHandlerStack) {
  Answer answer(1);
  Forwarder f(2);
  with(answer, [&] {
    EXPECT_THROW(with(f, [&] { with(answer, [] { throw std::runtime_error("body"); }); }), std::runtime_error);
    EXPECT_EQ(current_handlers(), "answer");
  });
  EXPECT_EQ(current_handlers(), "");
  EXPECT_EQ(error_context(), "");
}

TEST(Exceptions, ThrownByAHandlerReachThePerformer) {
  struct Throws : Handles<Ask> {
    int handle(Ask&) override { throw std::runtime_error("no answer"); }
    std::string describe() const override { return "throws"; }
  } throws;
  Forwarder above(1);
  with(throws, [&] {
    with(above, [] {
      EXPECT_THROW(perform(Ask{}), std::runtime_error);
      // The performer's handler stack is restored.
      EXPECT_EQ(current_handlers(), "forwarder 1, throws");
      EXPECT_THROW(perform(Ask{}), std::runtime_error);
    });
  });
  EXPECT_EQ(current_handlers(), "");
}

TEST(Exceptions, HandlerMayCatchAnExceptionFromBelow) {
  struct Catches : Handles<Ask> {
    int handle(Ask&) override {
      try {
        return perform(Ask{});
      } catch (const TransformError&) {
        return -1;
      }
    }
  } catches;
  EXPECT_EQ(with(catches, [&] { return with(catches, [] { return perform(Ask{}); }); }), -1);
}

// ---- the current handlers -----------------------------------------------------------------------

TEST(CurrentHandlers, AreListedFromInsideOut) {
  EXPECT_EQ(current_handlers(), "");
  Answer answer(1);
  Forwarder one(1), two(2);
  with(answer, [&] {
    with(one, [&] {
      Scope scope("a scope");
      // A scope handles nothing: effects pass it.
      EXPECT_EQ(perform(Number{0}), 1);
      EXPECT_EQ(perform(Ask{}), 1);
      with(two, [] {
        EXPECT_EQ(current_handlers(), "forwarder 2, a scope, forwarder 1, answer");
        EXPECT_EQ(error_context(), "\n  inside forwarder 2, inside a scope, inside forwarder 1, inside answer");
      });
      EXPECT_EQ(current_handlers(), "a scope, forwarder 1, answer");
    });
    EXPECT_EQ(current_handlers(), "answer");
  });
}

// While a handler runs, an error still names the scopes and handlers of the performer.
TEST(CurrentHandlers, IncludeThePerformerWhileAHandlerRuns) {
  struct Asks : Handles<Ask> {
    std::string seen;
    int handle(Ask&) override {
      seen = current_handlers();
      return 0;
    }
    std::string describe() const override { return "asks"; }
  } asks;
  Answer below(1);
  Forwarder above(5);
  with(below, [&] { with(asks, [&] { with(above, [] { perform(Ask{}); }); }); });
  EXPECT_EQ(asks.seen, "forwarder 5, asks, answer");
}

TEST(CurrentHandlers, ArePerThread) {
  Answer answer(1);
  with(answer, [] {
    std::thread([] {
      EXPECT_EQ(current_handlers(), "");
      EXPECT_THROW(perform(Ask{}), TransformError);
      Answer other(2);
      with(other, [] { EXPECT_EQ(perform(Ask{}), 2); });
    }).join();
    EXPECT_EQ(perform(Ask{}), 1);
  });
}

TEST(InstallationIds, AreNeverUsedTwice) {
  std::vector<InstallationId> mine, theirs;
  std::thread other([&] {
    for (int i = 0; i < 3000; ++i) theirs.push_back(next_installation_id());
  });
  for (int i = 0; i < 3000; ++i) mine.push_back(next_installation_id());
  other.join();
  mine.insert(mine.end(), theirs.begin(), theirs.end());
  std::sort(mine.begin(), mine.end());
  EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end()), mine.end());
  EXPECT_NE(mine.front(), InstallationId{0});
}

}  // namespace effect_test
