// Controllers answer effects, inside each other, around tensor operations and between transforms.
#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/core/effects/controller.h>
#include <stave/stave.h>

#include "controllers.h"
#include "witness.h"

namespace {

using namespace controller_test;
using namespace stave;
using stave_test::Witness;
using testing::ElementsAre;
using testing::HasSubstr;

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

TEST(Controller, ABodyWithoutAResultGivesMonostate) {
  Double doubles;
  int seen = 0;
  const std::optional<std::monostate> done = with(doubles, [&] { seen = perform(Ask{4}); });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(seen, 8);
}

TEST(Controller, MillionAnswersNeedConstantStack) {
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

TEST(Controller, ResumeThrowingThrowsIntoTheComputation) {
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

TEST(Controller, ResumeThrowingWithoutExceptionIsAnError) {
  struct Refuses : Controls<Ask> {
    void handle(Ask&, Resumption<Ask> rest) override { rest.resume_throwing(std::current_exception()); }
  } refuses;
  EXPECT_THAT([&] { with(refuses, [] { perform(Ask{3}); }); },
              testing::ThrowsMessage<TransformError>(HasSubstr("resume_throwing: no exception is given")));
}

TEST(Controller, ExceptionOfTheBodyPropagatesOutOfWith) {
  Double doubles;
  Frame* const top = stave_detail::current;
  EXPECT_THROW(with(doubles, []() -> int { throw std::out_of_range("x" + std::to_string(perform(Ask{1}))); }),
               std::out_of_range);
  EXPECT_EQ(stave_detail::current, top);
}

TEST(Controller, ExceptionInHandleUnwindsTheBodyAndPropagates) {
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

// ---- nesting ------------------------------------------------------------------------------------

TEST(Controller, OuterControllerSuspendsInnerComputationsToo) {
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
TEST(Controller, DropUnwindsTheHandleOfAnInnerController) {
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

TEST(Controller, SuspensionMayCrossTheHandleOfAnotherHandler) {
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

TEST(Controller, OneObjectMayBeInstalledInsideItself) {
  Double doubles;
  EXPECT_EQ(with(doubles, [&] { return *with(doubles, [] { return perform(Ask{1}); }) + perform(Ask{2}); }), 6);
}

TEST(Controller, SuspendedComputationsKeepTheirOwnExceptions) {
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

TEST(Controller, ErrorsNameTheInstalledHandlers) {
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

TEST(Controller, ControlsOperationsInsideAndOutsideOfTransforms) {
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

TEST(Controller, ManyComputationsMayBeSuspendedAtOnce) {
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

TEST(Controller, ThreadsHaveIndependentComputations) {
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

TEST(Controller, UnhandledEffectInsideIsAnErrorThatNamesIt) {
  Double doubles;
  try {
    with(doubles, [] { perform(Tell{1}); });
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no handler for the effect controller_test::Tell"));
  }
}

}  // namespace
