// Stepper runs functions step by step: the length of a step, answers, and functions that are not
// finished.
#include <thread>

#include "stepped.h"
#include "witness.h"

namespace {

using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Stepper, StepsFromOperationToOperation) {
  Stepper stepper(f, x3);
  EXPECT_FALSE(stepper.ended());
  EXPECT_THAT(all_steps(stepper), ElementsAre("sin", "multiply", "sum"));
  EXPECT_TRUE(stepper.ended());
  EXPECT_THAT(stepper.result().value(), Equals(f(x3)));
}

TEST(Stepper, NothingRunsBeforeTheFirstStep) {
  bool ran = false;
  {
    Stepper stepper([&](const Tensor& x) { return ran = true, sin(x); }, x3);
    EXPECT_THAT(message_of<TransformError>([&] { stepper.at(); }), HasSubstr("it has not begun: take a step"));
    auto moved = std::move(stepper);
    EXPECT_FALSE(moved.result());
  }
  EXPECT_FALSE(ran);
}

TEST(Stepper, NextSkipsInnerScopes) {
  Stepper stepper(scoped, x3);
  ASSERT_TRUE(stepper.next());
  EXPECT_EQ(name_at(stepper), "exp");
  ASSERT_TRUE(stepper.next());
  EXPECT_EQ(name_at(stepper), "sum");  // skips layer1
  EXPECT_FALSE(stepper.next());
  EXPECT_THAT(stepper.result().value(), Equals(scoped(x3)));

  Stepper inside(scoped, x3);
  inside.step();
  inside.step();
  EXPECT_EQ(name_at(inside), "sin");
  EXPECT_THAT(inside.at().scopes(), ElementsAre("layer1"));
  EXPECT_EQ(inside.at().reason(), "step");
  ASSERT_TRUE(inside.next());
  EXPECT_EQ(name_at(inside), "multiply");  // skips inner
  EXPECT_EQ(inside.at().reason(), "next");
  ASSERT_TRUE(inside.next());
  EXPECT_EQ(name_at(inside), "sum");  // the scope has ended
}

TEST(Stepper, FinishGoesToTheEndOfTheScope) {
  Stepper stepper(scoped, x3);
  stepper.break_at({.operation = "cos"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_THAT(stepper.at().scopes(), ElementsAre("inner", "layer1"));
  ASSERT_TRUE(stepper.finish());
  EXPECT_EQ(name_at(stepper), "multiply");
  EXPECT_EQ(stepper.at().reason(), "finish");
  ASSERT_TRUE(stepper.finish());
  EXPECT_EQ(name_at(stepper), "sum");
  // Outside all scopes, finish runs to the end of the function.
  EXPECT_FALSE(stepper.finish());
}

// Two consecutive scopes with the same name are different scopes.
TEST(Stepper, ConsecutiveScopesOfOneNameAreDifferent) {
  const auto twice = [](Tensor x) {
    for (int i = 0; i < 2; ++i) {
      const Scope round("round");
      x = cos(sin(x));
    }
    return x;
  };
  Stepper stepper(twice, x3);
  stepper.step();
  ASSERT_TRUE(stepper.finish());
  EXPECT_EQ(name_at(stepper), "sin");
  EXPECT_THAT(all_steps(stepper), ElementsAre("cos"));
}

TEST(Stepper, GoOnStopsAtEachBreakpoint) {
  Stepper stepper(scoped, x3);
  const int at_exp = stepper.break_at({.operation = "exp"}), in_inner = stepper.break_at({.scope = "inner"});
  EXPECT_EQ(at_exp, 1);
  EXPECT_EQ(in_inner, 2);
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().reason(), "breakpoint 1: exp");
  stepper.remove_breakpoint(at_exp);
  EXPECT_THAT(all_stops(stepper), ElementsAre("cos", "tanh"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.remove_breakpoint(1); }), HasSubstr("there is no breakpoint 1"));
}

TEST(Stepper, BreakpointsStopEveryKindOfStep) {
  Stepper stepper(scoped, x3);
  stepper.break_at({.operation = "tanh"});
  stepper.next();
  ASSERT_TRUE(stepper.next());  // would skip layer1 without the breakpoint
  EXPECT_EQ(name_at(stepper), "tanh");
  EXPECT_EQ(stepper.at().reason(), "breakpoint 1: tanh");
}

TEST(Stepper, MillionStepsNeedConstantStack) {
  const auto steps = [](Tensor x) {
    for (int i = 0; i < 1'000'000; ++i) x = -std::move(x);
    return x;
  };
  Stepper stepper(steps, tensor(1.));
  stepper.break_at({.operation = "sin"});
  EXPECT_FALSE(stepper.go_on());
  EXPECT_EQ(stepper.result()->item<float>(), 1);
}

// ---- answers ------------------------------------------------------------------------------------

TEST(Stepper, AnswerReplacesTheOperation) {
  Stepper stepper(f, x3);
  CountOps below;
  with(below, [&] {
    stepper.step();
    stepper.at().answer(stepper.at().call().input(0));
    EXPECT_TRUE(stepper.at().has_outputs());
    stepper.go_on();
  });
  EXPECT_THAT(stepper.result().value(), IsNumber(0.25 + 1 + 4));  // sum(x * x)
  EXPECT_EQ(below.n, 2);                                          // sin was never computed
}

TEST(Stepper, PerformedResultMayBeReplaced) {
  Stepper stepper(f, x3);
  stepper.step();
  EXPECT_THAT(stepper.at().outputs(), IsEmpty());
  EXPECT_EQ(stepper.at().str(), "before sin f64[3] -> f64[3]");
  ASSERT_TRUE(stepper.perform());
  EXPECT_EQ(stepper.at().reason(), "performed");
  EXPECT_EQ(name_at(stepper), "sin");
  EXPECT_THAT(stepper.at().outputs()[0], Equals(sin(x3)));
  EXPECT_THAT(stepper.at().call().input(0), Equals(x3));  // its buffer was not taken over
  EXPECT_THAT(message_of<TransformError>([&] { stepper.perform(); }),
              HasSubstr("Stepper: sin has its outputs already"));
  stepper.at().answer(2. * stepper.at().outputs()[0]);
  EXPECT_THAT(all_steps(stepper), ElementsAre("multiply", "sum"));
  EXPECT_THAT(stepper.result().value(), IsNear(2. * f(x3)));
}

TEST(Stepper, WrongAnswersAreErrorsAndChangeNothing) {
  Stepper stepper(f, x3);
  stepper.step();
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(zeros({2}, float64)); }),
              HasSubstr("sin: Stepper answered with float64 [2] on cpu for output 0, which is float64 [3] on cpu"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(zeros({3}, float32)); }),
              HasSubstr("sin: Stepper answered with float32 [3] on cpu for output 0, which is float64 [3] on cpu"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(Outputs{}); }),
              HasSubstr("sin: Stepper answered with 0 output(s) instead of 1"));
  EXPECT_THROW(stepper.at().answer(Tensor()), TransformError);
  EXPECT_FALSE(stepper.at().has_outputs());
  EXPECT_FALSE(stepper.go_on());
  EXPECT_THAT(stepper.result().value(), Equals(f(x3)));
}

TEST(Stepper, SeveralOutputsMayBeAnswered) {
  const auto largest = [](const Tensor& x) {
    const auto [q, r] = qr(x);
    return matmul(q, r);
  };
  const Tensor m = tensor({{1., 2.}, {3., 5.}}, float64);
  Stepper stepper(largest, m);
  stepper.break_at({.operation = "qr"});
  ASSERT_TRUE(stepper.go_on());
  Outputs outputs;
  outputs.push_back(eye(2, float64));
  outputs.push_back(2. * eye(2, float64));
  stepper.at().answer(outputs);
  EXPECT_FALSE(stepper.go_on());
  EXPECT_THAT(stepper.result().value(), Equals(2. * eye(2, float64)));
}

// ---- the end ------------------------------------------------------------------------------------

TEST(Stepper, UseAfterTheEndIsAnError) {
  Stepper stepper(f, x3);
  EXPECT_FALSE(stepper.go_on());
  for (const auto& step : {&stave_detail::AnyStepper::step, &stave_detail::AnyStepper::next,
                           &stave_detail::AnyStepper::finish, &stave_detail::AnyStepper::go_on})
    EXPECT_THAT(message_of<TransformError>([&] { (stepper.*step)(); }),
                HasSubstr("Stepper: the function has ended, and no step is left"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at(); }), HasSubstr("it has ended"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.drop(); }), HasSubstr("it has ended"));
}

TEST(Stepper, AStepInsideTheFunctionItselfIsAnError) {
  stave_detail::AnyStepper* self = nullptr;
  Stepper stepper([&](const Tensor& x) { return self->step(), sin(x); }, x3);
  self = &stepper;
  EXPECT_THAT(message_of<TransformError>([&] { stepper.step(); }),
              HasSubstr("Stepper: this step is taken inside the function, while it runs"));
}

TEST(Stepper, DroppingUnwinds) {
  for (const bool by_destruction : {true, false}) {
    int destroyed = 0;
    bool reached = false;
    const std::size_t before = memory_stats().live_bytes;
    {
      Stepper stepper(
          [&](const Tensor& x) {
            const Witness witness{destroyed};
            const Tensor y = vmap(grad([](const Tensor& v) { return sum(cos(sin(v))); }))(x);
            reached = true;
            return y;
          },
          ones({4, 1 << 10}));
      stepper.break_at({.pass = Breakpoint::Pass::backward});
      ASSERT_TRUE(stepper.go_on());
      EXPECT_EQ(destroyed, 0);
      if (!by_destruction) {
        stepper.drop();
        EXPECT_EQ(destroyed, 1);
        EXPECT_TRUE(stepper.ended());
      }
      EXPECT_FALSE(stepper.result());
    }
    EXPECT_EQ(destroyed, 1);
    EXPECT_FALSE(reached);
    EXPECT_EQ(memory_stats().live_bytes, before);
    EXPECT_EQ(stave_detail::current, nullptr);
  }
}

// The function is dropped while the guard forbids unwinding. The guarded operations run,
// and then the function unwinds.
TEST(Stepper, UncancellableDelaysADrop) {
  bool reached = false;
  Tensor total = ones({2});
  {
    Stepper stepper(
        [&](const Tensor& x) {
          {
            const Uncancellable guard;
            total = total * sum(sin(x));
          }
          const Tensor y = cos(x);
          reached = true;
          return y;
        },
        zeros({2}));
    stepper.step();
    EXPECT_EQ(name_at(stepper), "sin");
  }
  EXPECT_FALSE(reached);
  // The guarded operations were performed.
  EXPECT_THAT(total, Equals(zeros({2})));
}

TEST(Stepper, ExceptionOfTheFunctionLeavesTheStep) {
  int destroyed = 0;
  Stepper stepper(
      [&](const Tensor& x) -> Tensor {
        const Witness witness{destroyed};
        sin(x);
        throw std::out_of_range("of f");
      },
      x3);
  ASSERT_TRUE(stepper.step());
  EXPECT_EQ(message_of<std::out_of_range>([&] { stepper.step(); }), "of f");
  EXPECT_EQ(destroyed, 1);
  EXPECT_TRUE(stepper.ended());
  EXPECT_FALSE(stepper.result());
}

struct NoSin : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id == OpId::sin) throw std::domain_error("no sin");
    return perform(std::move(call));
  }
};

TEST(Stepper, FunctionMayCatchErrorsOfOperations) {
  Stepper stepper(
      [](const Tensor& x) {
        try {
          return sin(x);
        } catch (const std::domain_error&) {
          return cos(x);
        }
      },
      x3);
  NoSin no_sin;
  EXPECT_THAT(with(no_sin, [&] { return all_steps(stepper); }), ElementsAre("sin", "cos"));
  EXPECT_THAT(stepper.result().value(), Equals(cos(x3)));
}

TEST(Stepper, DropByAnOuterControllerUnwindsIt) {
  struct StopAtCos : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().id != OpId::cos) rest.resume_last(perform(std::move(call)));
    }
  } stop;
  int destroyed = 0;
  EXPECT_FALSE(with(stop, [&] {
    Stepper stepper(
        [&](const Tensor& x) {
          const Witness witness{destroyed};
          return cos(sin(x));
        },
        x3);
    return all_steps(stepper).size();
  }));
  EXPECT_EQ(destroyed, 1);
}

TEST(Stepper, DestroyedOnAnotherThreadItUnwindsOnItsThread) {
  int destroyed = 0;
  auto stepper = std::make_unique<Stepper<Tensor>>(
      [&](const Tensor& x) {
        const Witness witness{destroyed};
        return cos(sin(x));
      },
      x3);
  stepper->step();
  std::thread([moved = std::move(stepper)]() mutable { moved.reset(); }).join();
  Stepper another(f, x3);
  another.step();  // starts another computation
  EXPECT_EQ(destroyed, 1);
}

TEST(Stepper, VoidGivesMonostateAndOperationNamesAreAccepted) {
  Tensor y;
  Stepper nothing([&] { y = sin(x3); });
  EXPECT_FALSE(nothing.go_on());
  EXPECT_EQ(nothing.result(), std::monostate());
  Stepper named(sin, x3);
  EXPECT_THAT(all_steps(named), ElementsAre("sin"));
  EXPECT_THAT(named.result().value(), Equals(sin(x3)));
  Stepper binary(add, x3, x3);
  EXPECT_THAT(all_steps(binary), ElementsAre("add"));
}

}  // namespace
