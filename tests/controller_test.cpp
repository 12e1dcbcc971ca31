// Controllers: the ways to use the rest of a computation, and the invariants that hold in each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>

#include <stave/core/effects/controller.h>
#include <stave/stave.h>

#include "witness.h"

namespace {

using namespace stave;
using stave_test::Witness;
using testing::ElementsAre;
using testing::HasSubstr;

struct Ask {
  using Result = int;
  int question;
};
struct Tell {
  using Result = void;
  int value;
};
struct WithDefault {
  using Result = int;
  int unhandled() const { return 7; }
};

// ---- one effect ---------------------------------------------------------------------------------

struct Double : Controls<Ask> {
  void handle(Ask& ask, Resumption<Ask> rest) override { rest.resume_last(2 * ask.question); }
};

TEST(Controller, ResumesWithAnAnswer) {
  Double doubles;
  const std::optional<int> sum = with(doubles, [] { return perform(Ask{1}) + perform(Ask{10}); });
  EXPECT_EQ(sum, 22);
}

// An answer of several parts may be given in braces, by the rules of its initialisation: an
// aggregate, a container, an operation's outputs.
struct Both {
  using Result = std::pair<int, std::string>;
};
struct Many {
  using Result = std::vector<int>;
};
struct Partition {
  int a = 0, b = 0;
};
struct Whole {
  using Result = Partition;
};
struct InBraces : Controls<Both, Many, Whole> {
  void handle(Both&, Resumption<Both> rest) override { rest.resume_last({1, "one"}); }
  void handle(Many&, Resumption<Many> rest) override { rest.resume({1, 2, 3}); }
  void handle(Whole&, Resumption<Whole> rest) override { rest.resume_last({4, 5}); }
};
struct OutputsInBraces : Controller {
  void handle(Call& call, Resumption<Call> rest) override {
    const Tensor x = perform(std::move(call))[0];
    rest.resume_last({x + 1.f});
  }
};

TEST(Controller, ResumesWithAnAnswerInBraces) {
  InBraces controller;
  const auto both = with(controller, [] { return perform(Both{}); });
  EXPECT_EQ(both->first, 1);
  EXPECT_EQ(both->second, "one");
  EXPECT_THAT(*with(controller, [] { return perform(Many{}); }), ElementsAre(1, 2, 3));
  EXPECT_EQ(with(controller, [] { return perform(Whole{}); })->b, 5);
  OutputsInBraces outputs;
  const Tensor zero = zeros({});
  EXPECT_EQ(with(outputs, [&] { return sin(zero); })->item<float>(), 1);
}

TEST(Controller, OfVoidGivesMonostate) {
  Double doubles;
  int seen = 0;
  const std::optional<std::monostate> done = with(doubles, [&] { seen = perform(Ask{4}); });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(seen, 8);
}

TEST(Controller, AMillionAnswersNeedNoStack) {
  Double doubles;
  const auto sum = with(doubles, [] {
    std::int64_t total = 0;
    for (int i = 0; i < 1'000'000; ++i) total += perform(Ask{i});
    return total;
  });
  EXPECT_EQ(sum, std::int64_t{999'999} * 1'000'000);
}

TEST(Controller, ResumeReturnsWhenTheRestHasRun) {
  struct Logs : Controls<Ask> {
    std::vector<int> log;
    void handle(Ask& ask, Resumption<Ask> rest) override {
      // This is a copy, because the effect's lifetime ends when it is answered.
      const int question = ask.question;
      log.push_back(question);
      rest.resume(question);
      log.push_back(-question);
    }
  } logs;
  with(logs, [] {
    perform(Ask{1});
    perform(Ask{2});
    perform(Ask{3});
  });
  EXPECT_THAT(logs.log, ElementsAre(1, 2, 3, -3, -2, -1));
}

TEST(Controller, ThrowsIntoTheComputation) {
  struct Refuses : Controls<Ask> {
    void handle(Ask& ask, Resumption<Ask> rest) override {
      rest.resume_throwing(std::make_exception_ptr(std::out_of_range("no " + std::to_string(ask.question))));
    }
  } refuses;
  const auto text = with(refuses, [] {
    try {
      perform(Ask{3});
    } catch (const std::out_of_range& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  EXPECT_EQ(text, "no 3");
}

TEST(Controller, ThrowingNothingIsAnError) {
  struct Refuses : Controls<Ask> {
    void handle(Ask&, Resumption<Ask> rest) override { rest.resume_throwing(std::current_exception()); }
  } refuses;
  EXPECT_THAT([&] { with(refuses, [] { perform(Ask{3}); }); },
              testing::ThrowsMessage<TransformError>(HasSubstr("resume_throwing: no exception is given")));
}

TEST(Controller, WhatLeavesTheBodyLeavesWith) {
  Double doubles;
  Frame* const top = stave_detail::current;
  EXPECT_THROW(with(doubles, []() -> int { throw std::out_of_range("x" + std::to_string(perform(Ask{1}))); }),
               std::out_of_range);
  EXPECT_EQ(stave_detail::current, top);
}

TEST(Controller, WhatLeavesHandleLeavesWithAndTheBodyUnwinds) {
  struct Throws : Controls<Ask> {
    void handle(Ask&, Resumption<Ask>) override { throw std::out_of_range("handle"); }
  } throws;
  int destroyed = 0;
  EXPECT_THROW(with(throws,
                    [&] {
                      Witness witness{destroyed};
                      perform(Ask{1});
                    }),
               std::out_of_range);
  EXPECT_EQ(destroyed, 1);

  struct ThrowsAfterwards : Controls<Ask> {
    void handle(Ask&, Resumption<Ask> rest) override {
      rest.resume_last(1);
      throw std::out_of_range("handle");
    }
  } afterwards;
  EXPECT_THROW(with(afterwards,
                    [&] {
                      Witness witness{destroyed};
                      perform(Ask{1});
                    }),
               std::out_of_range);
  EXPECT_EQ(destroyed, 2);
}

// ---- dropping -----------------------------------------------------------------------------------

struct Drops : Controls<Ask> {
  void handle(Ask&, Resumption<Ask> rest) override { rest.drop(); }
};

TEST(Controller, DroppingUnwinds) {
  Drops drops;
  int destroyed = 0;
  const auto result = with(drops, [&] {
    Witness witness{destroyed};
    return perform(Ask{1});
  });
  EXPECT_FALSE(result);
  EXPECT_EQ(destroyed, 1);
}

// The outer controller drops the body at each operation in turn. The inner controller performs one
// of them itself: then its own computation ends as well, and so does the body around both.
TEST(Controller, AnOuterOneDropsAllOfItsBody) {
  struct PassOn : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
  };
  struct AnswerFirst : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      Outputs outputs = perform(call);
      rest.resume_last(std::move(outputs));
      perform(call);
    }
  };
  struct DropAt : Controller {
    int left;
    explicit DropAt(int left) : left(left) {}
    void handle(Call& call, Resumption<Call> rest) override {
      if (left-- == 0) return rest.drop();
      rest.resume_last(perform(std::move(call)));
    }
  };
  const Tensor x = tensor({1., 2., 3.});
  for (int at = 0; at < 3; ++at) {
    int inner_ended = 0;
    bool went_on = false;
    const auto body = [&](auto inner) {
      const auto result = with(inner, [&] {
        const Witness end{inner_ended};
        return sum(square(sin(x)));
      });
      went_on = true;
      return result.value();
    };
    DropAt outer(at), other(2 * at + 1);
    EXPECT_FALSE(with(outer, [&] { return body(std::make_shared<PassOn>()); })) << at;
    EXPECT_TRUE(inner_ended == 1 && !went_on) << at;
    inner_ended = 0;
    EXPECT_FALSE(with(other, [&] { return body(std::make_shared<AnswerFirst>()); })) << at;
    EXPECT_TRUE(inner_ended == 1 && !went_on) << at;
  }
}

TEST(Controller, AnUnusedResumptionIsDropped) {
  struct Forgets : Controls<Ask> {
    void handle(Ask&, Resumption<Ask>) override {}
  } forgets;
  int destroyed = 0;
  EXPECT_FALSE(with(forgets, [&] {
    Witness witness{destroyed};
    return perform(Ask{1});
  }));
  EXPECT_EQ(destroyed, 1);
}

TEST(Controller, ASwallowedCancellationComesAgain) {
  Drops drops;
  int swallowed = 0;
  bool reached = false;
  const std::optional<int> result = with(drops, [&] {
    for (int i = 0; i < 3; ++i) try {
        perform(Ask{i});
      } catch (...) {
        ++swallowed;
      }
    reached = true;
    return 5;
  });
  EXPECT_FALSE(result);
  EXPECT_EQ(swallowed, 3);
  EXPECT_TRUE(reached);
}

TEST(Controller, DestructorsMayPerformWhileTheyUnwind) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  struct Performs {
    int& got;
    ~Performs() { got = perform(Ask{3}); }
  };
  Drops drops;
  int got = 0;
  with(below, [&] {
    EXPECT_FALSE(with(drops, [&] {
      Performs performs{got};
      return perform(Ask{1});
    }));
  });
  EXPECT_EQ(got, -3);
}

TEST(Controller, SuspendedInADestructorItIsAnsweredBelow) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  struct Performs {
    int& got;
    ~Performs() { got = perform(Ask{3}); }
  };
  Drops drops;
  int got = 0;
  std::string text;
  with(below, [&] {
    with(drops, [&] {  // its own exception is in flight when it is dropped
      try {
        Performs performs{got};
        throw std::runtime_error("own");
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
      perform(Ask{1});
      ADD_FAILURE() << "went on";
    });
  });
  EXPECT_EQ(got, -3);
  EXPECT_EQ(text, "own");
}

TEST(Controller, UncancellableWaits) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  Drops drops;
  std::vector<int> answers;
  with(below, [&] {
    EXPECT_FALSE(with(drops, [&]() -> int {
      {
        Uncancellable guard;
        answers.push_back(perform(Ask{1}));
        answers.push_back(perform(Ask{2}));
      }
      answers.push_back(perform(Ask{3}));
      return 0;
    }));
  });
  EXPECT_THAT(answers, ElementsAre(-1, -2));
}

TEST(Controller, WhatTheBodyThrowsWhileUnwindingIsNotLost) {
  Drops drops;
  EXPECT_THROW(with(drops,
                    [] {
                      try {
                        perform(Ask{1});
                      } catch (...) {
                        throw std::out_of_range("while unwinding");
                      }
                    }),
               std::out_of_range);
}

// ---- resuming later and elsewhere --------------------------------------------------------------

struct Keeps : Controls<Ask> {
  Resumption<Ask> rest;
  int question = 0;
  void handle(Ask& ask, Resumption<Ask> given) override {
    question = ask.question;
    rest = std::move(given);
  }
};

TEST(Controller, ResumedAfterWith) {
  auto keeps = std::make_shared<Keeps>();
  std::vector<int> log;
  EXPECT_FALSE(with(keeps, [&log] {
    log.push_back(perform(Ask{1}));
    log.push_back(perform(Ask{2}));
  }));
  EXPECT_EQ(keeps->question, 1);
  std::exchange(keeps->rest, {}).resume(10);
  EXPECT_EQ(keeps->question, 2);
  std::exchange(keeps->rest, {}).resume(20);
  EXPECT_FALSE(keeps->rest);
  EXPECT_THAT(log, ElementsAre(10, 20));
}

TEST(Controller, ASecondUseIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  Resumption<Ask> rest = std::move(keeps->rest);
  rest.resume(1);
  try {
    rest.resume(1);
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resume: this resumption was used or moved from"));
  }
}

TEST(Controller, AComputationThatWithCancelledSaysSo) {
  // The controller is not shared, so it could be gone at the time of the resumption.
  Keeps keeps;
  int destroyed = 0;
  EXPECT_FALSE(with(keeps, [&] {
    Witness witness{destroyed};
    perform(Ask{1});
  }));
  EXPECT_EQ(destroyed, 1);
  try {
    keeps.rest.resume(1);
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cancelled when `with` of its controller ended"));
  }
}

TEST(Controller, OnAnotherThreadIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  std::string text;
  std::thread([&] {
    try {
      keeps->rest.resume(1);
    } catch (const TransformError& error) {
      text = error.what();
    }
  }).join();
  EXPECT_THAT(text, HasSubstr("began on another thread"));
  std::exchange(keeps->rest, {}).resume(1);  // the resumption is still valid here
}

TEST(Controller, ResumeLastOutsideOfHandleIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  EXPECT_THROW(keeps->rest.resume_last(1), TransformError);
  std::exchange(keeps->rest, {}).drop();
}

TEST(Controller, ItsHandlersStandAboveTheResumers) {
  struct Answer : Handles<WithDefault> {
    int value;
    explicit Answer(int value) : value(value) {}
    int handle(WithDefault&) override { return value; }
  };
  auto keeps = std::make_shared<Keeps>();
  std::vector<int> log;
  Answer first(1), second(2), own(3);
  with(first, [&] {
    with(keeps, [&log, &own] {
      log.push_back(perform(WithDefault{}));  // answered under the handlers of the start
      perform(Ask{0});
      log.push_back(perform(WithDefault{}));  // answered under the handlers of the resumption
      with(own, [&] {
        perform(Ask{0});
        log.push_back(perform(WithDefault{}));  // answered under its own handler
      });
      log.push_back(perform(WithDefault{}));
    });
  });
  with(second, [&] { std::exchange(keeps->rest, {}).resume(0); });
  std::exchange(keeps->rest, {}).resume(0);
  EXPECT_THAT(log, ElementsAre(1, 2, 3, 7));
}

// Lanes of a program in lockstep: every lane performs its effect before any lane resumes.
TEST(Controller, Lockstep) {
  struct Lanes : Controls<Tell> {
    std::vector<std::pair<int, Resumption<Tell>>> waiting;
    void handle(Tell& tell, Resumption<Tell> rest) override { waiting.emplace_back(tell.value, std::move(rest)); }
  };
  auto lanes = std::make_shared<Lanes>();
  std::vector<int> finished;
  for (int lane = 0; lane < 3; ++lane)
    with(lanes, [lane, &finished] {
      for (int step = 0; step <= lane; ++step) perform(Tell{10 * lane + step});
      finished.push_back(lane);
    });
  std::vector<std::vector<int>> rounds;
  while (!lanes->waiting.empty()) {
    auto round = std::exchange(lanes->waiting, {});
    rounds.emplace_back();
    for (auto& [value, rest] : round) rounds.back().push_back(value);
    for (auto& [value, rest] : round) rest.resume();
  }
  EXPECT_THAT(rounds, ElementsAre(ElementsAre(0, 10, 20), ElementsAre(11, 21), ElementsAre(22)));
  EXPECT_THAT(finished, ElementsAre(0, 1, 2));
}

// ---- nesting ------------------------------------------------------------------------------------

TEST(Controller, AnOuterOneSuspendsInnerComputationsWithIt) {
  auto outer = std::make_shared<Keeps>();
  struct Tells : Controls<Tell> {
    std::vector<int> values;
    void handle(Tell& tell, Resumption<Tell> rest) override {
      values.push_back(tell.value);
      rest.resume_last();
    }
  } inner;
  int destroyed = 0;
  int sum = 0;
  auto begin = [&] {
    with(outer, [&] {
      sum += with(inner, [&] {
               Witness witness{destroyed};
               perform(Tell{1});
               const int answer = perform(Ask{5});  // passes the inner controller
               perform(Tell{answer});
               return answer;
             }).value();
    });
  };
  begin();
  EXPECT_THAT(inner.values, ElementsAre(1));
  std::exchange(outer->rest, {}).resume(40);
  EXPECT_THAT(inner.values, ElementsAre(1, 40));
  EXPECT_EQ(sum, 40);
  EXPECT_EQ(destroyed, 1);
  begin();
  std::exchange(outer->rest, {}).drop();  // both computations unwind
  EXPECT_EQ(destroyed, 2);
  EXPECT_EQ(sum, 40);
}

// An effect that an inner controller performs in `handle` is dropped: the drop unwinds the
// controller's `handle`, and the computations around it too.
TEST(Controller, ADropUnwindsAnInnerControllerAtWork) {
  struct Drops : Controls<Tell> {
    void handle(Tell&, Resumption<Tell> rest) override { rest.drop(); }
  } outer;
  struct Asked : Controls<Ask> {
    bool drops_first = false;
    void handle(Ask&, Resumption<Ask> rest) override {
      if (drops_first) rest.drop();
      perform(Tell{0});
      rest.resume_last(1);
    }
  } inner;
  for (const bool drops_first : {false, true}) {
    inner.drops_first = drops_first;
    int destroyed = 0;
    bool went_on = false;
    const std::optional<int> result = with(outer, [&] {
      Witness around{destroyed};
      const int answer = with(inner, [&] {
                           Witness witness{destroyed};
                           return perform(Ask{0});
                         }).value();
      went_on = true;
      return answer;
    });
    EXPECT_FALSE(result);
    EXPECT_FALSE(went_on);
    EXPECT_EQ(destroyed, 2);
  }
}

TEST(Controller, SuspendsInsideTheHandleOfALowerInterceptor) {
  // This handler is between the two controllers, and works on the inner computation's stack.
  struct AsksFor : Handles<Tell> {
    int got = 0, destroyed = 0;
    void handle(Tell& tell) override {
      Witness witness{destroyed};
      got = perform(Ask{tell.value});
    }
  } between;
  auto outer = std::make_shared<Keeps>();
  Double unrelated;
  auto begin = [&] { with(outer, [&] { with(between, [&] { with(unrelated, [] { perform(Tell{6}); }); }); }); };
  begin();
  EXPECT_EQ(outer->question, 6);
  std::exchange(outer->rest, {}).resume(60);
  EXPECT_EQ(between.got, 60);
  begin();
  std::exchange(outer->rest, {}).drop();
  EXPECT_EQ(between.destroyed, 2);
}

TEST(Controller, TheSameObjectNestedInItself) {
  Double doubles;
  EXPECT_EQ(with(doubles, [&] { return *with(doubles, [] { return perform(Ask{1}); }) + perform(Ask{2}); }), 6);
}

TEST(Controller, ExceptionsOfSuspendedComputationsAreTheirOwn) {
  auto first = std::make_shared<Keeps>(), second = std::make_shared<Keeps>();
  std::string texts[2];
  auto body = [&texts](int i) {
    return [&texts, i] {
      try {
        try {
          throw std::runtime_error("of " + std::to_string(i));
        } catch (...) {
          perform(Ask{i});
          throw;
        }
      } catch (const std::runtime_error& error) {
        texts[i] = error.what();
      }
    };
  };
  with(first, body(0));
  with(second, body(1));
  std::exchange(first->rest, {}).resume(0);
  std::exchange(second->rest, {}).resume(0);
  EXPECT_EQ(texts[0], "of 0");
  EXPECT_EQ(texts[1], "of 1");
}

TEST(Controller, ErrorsNameWhatStandsAround) {
  struct Fails : Controller {
    void handle(Call& call, Resumption<Call>) override { perform(call.with_inputs({ones({2}), ones({3})})); }
    std::string describe() const override { return "fails"; }
  } fails;
  try {
    grad([&](const Tensor& x) { return *with(fails, [&] { return x * x; }); })(tensor(1.));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("inside fails, inside grad"));
  }
}

// ---- tensor operations --------------------------------------------------------------------------

struct Passes : Controller {
  int count = 0;
  void handle(Call& call, Resumption<Call> rest) override {
    ++count;
    rest.resume_last(perform(std::move(call)));
  }
};

TEST(Controller, OfOperationsUnderAndAboveTransforms) {
  Passes passes;
  const auto f = [](const Tensor& x) { return sum(sin(x) * x); };
  const auto controlled = [&](const Tensor& x) { return *with(passes, [&] { return f(x); }); };
  const Tensor x = tensor({1., 2., 3.}), xs = tensor({{1., 2., 3.}, {4., 5., 6.}});
  EXPECT_TRUE(array_equal(controlled(x), f(x)));
  EXPECT_EQ(passes.count, 3);
  EXPECT_TRUE(array_equal(grad(controlled)(x), grad(f)(x)));
  EXPECT_TRUE(array_equal(*with(passes, [&] { return grad(f)(x); }), grad(f)(x)));
  EXPECT_TRUE(array_equal(vmap(grad(controlled))(xs), vmap(grad(f))(xs)));
  EXPECT_TRUE(array_equal(*with(passes, [&] { return vmap(grad(f))(xs); }), vmap(grad(f))(xs)));
  EXPECT_TRUE(array_equal(jvp(grad(controlled), x, x).second, jvp(grad(f), x, x).second));
}

TEST(Controller, StopsAComputationEarlyUnderGrad) {
  struct StopAtTan : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().id == OpId::tan) return;
      rest.resume_last(perform(std::move(call)));
    }
  } stop;
  const std::size_t before = memory_stats().live_bytes;
  EXPECT_FALSE(with(stop, [] { return grad([](const Tensor& x) { return tan(sin(x)); })(tensor(1.)); }));
  EXPECT_EQ(memory_stats().live_bytes, before);
}

TEST(Controller, LargeOperationsInsideRun) {
  Double doubles;
  const auto total = with(doubles, [] {
    const Tensor x = ones({1 << 20});
    perform(Ask{1});
    return sum(x + x).item<float>();
  });
  EXPECT_EQ(total, 2.f * (1 << 20));
}

TEST(Controller, ManyComputationsAtOnce) {
  auto lanes = std::make_shared<Keeps>();
  std::vector<Resumption<Ask>> waiting;
  constexpr int count = 20'000;
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    with(lanes, [i, &sum] { sum += perform(Ask{i}); });
    waiting.push_back(std::move(lanes->rest));
  }
  for (int i = 0; i < count; ++i) waiting[static_cast<std::size_t>(i)].resume(i);
  EXPECT_EQ(sum, std::int64_t{count} * (count - 1) / 2);
}

TEST(Controller, ThreadsHaveTheirOwn) {
  std::vector<std::thread> threads;
  std::array<std::int64_t, 4> sums{};
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      Double doubles;
      for (int i = 0; i < 200; ++i)
        sums[t] += *with(doubles, [&] {
          return perform(Ask{i}) + grad([](const Tensor& x) { return x * x; })(tensor(1.)).item<int>();
        });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 200 * 199 + 400);
}

TEST(Controller, UnhandledInsideIsAClearError) {
  Double doubles;
  try {
    with(doubles, [] { perform(Tell{1}); });
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no handler for the effect (anonymous namespace)::Tell"));
  }
}

}  // namespace
