// Stepper: functions run step by step. How far a step goes, breakpoints, answers, what is seen around; under transforms and around
// them, and what becomes of a function that is left.
#include <thread>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Sets a flag when it is destroyed.
struct Witness {
  int& destroyed;
  ~Witness() { ++destroyed; }
};

Tensor f(const Tensor& x) {
  const Tensor s = sin(x);
  return sum(s * x);
}

// exp; in layer1: sin, in it in inner: cos, then multiply; sum.
Tensor scoped(const Tensor& x) {
  Tensor y = exp(x);
  {
    const Scope layer("layer1");
    const Tensor s = sin(y);
    Tensor c;
    {
      const Scope inner("inner");
      c = tanh(cos(y));
    }
    y = s * c;
  }
  return sum(y);
}

const Tensor x3 = tensor({0.5, 1., 2.}, float64);

std::string name_at(stave_detail::AnyStepper& stepper) { return stepper.at().call().op().name; }

template <class Step>
std::vector<std::string> names(stave_detail::AnyStepper& stepper, Step step) {
  std::vector<std::string> list;
  while (step()) list.push_back(name_at(stepper));
  return list;
}
std::vector<std::string> all_steps(stave_detail::AnyStepper& stepper) {
  return names(stepper, [&] { return stepper.step(); });
}
std::vector<std::string> all_stops(stave_detail::AnyStepper& stepper) {
  return names(stepper, [&] { return stepper.go_on(); });
}

// ---- how far ---------------------------------------------------------------------------------------------------

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
    EXPECT_THAT(message_of<TransformError>([&] { stepper.at(); }), HasSubstr("it has not begun; take a step"));
    auto moved = std::move(stepper);
    EXPECT_FALSE(moved.result());
  }
  EXPECT_FALSE(ran);
}

TEST(Stepper, NextPassesScopesFurtherIn) {
  Stepper stepper(scoped, x3);
  ASSERT_TRUE(stepper.next());
  EXPECT_EQ(name_at(stepper), "exp");
  ASSERT_TRUE(stepper.next());
  EXPECT_EQ(name_at(stepper), "sum");  // past layer1
  EXPECT_FALSE(stepper.next());
  EXPECT_THAT(stepper.result().value(), Equals(scoped(x3)));

  Stepper inside(scoped, x3);
  inside.step();
  inside.step();
  EXPECT_EQ(name_at(inside), "sin");
  EXPECT_THAT(inside.at().scopes(), ElementsAre("layer1"));
  EXPECT_EQ(inside.at().reason(), "step");
  ASSERT_TRUE(inside.next());
  EXPECT_EQ(name_at(inside), "multiply");  // past inner
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
  EXPECT_FALSE(stepper.finish());  // no scope: to the end of the function
}

// Two scopes of one name, one right after the other, are two.
TEST(Stepper, AScopeEndsThoughItsNameIsEnteredAgain) {
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

TEST(Stepper, GoOnGoesFromBreakpointToBreakpoint) {
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

TEST(Stepper, BreakpointsComeFirstWhateverIsAsked) {
  Stepper stepper(scoped, x3);
  stepper.break_at({.operation = "tanh"});
  stepper.next();
  ASSERT_TRUE(stepper.next());  // would pass layer1
  EXPECT_EQ(name_at(stepper), "tanh");
  EXPECT_EQ(stepper.at().reason(), "breakpoint 1: tanh");
}

TEST(Stepper, ALoopOfAMillionNeedsNoStack) {
  const auto steps = [](Tensor x) {
    for (int i = 0; i < 1'000'000; ++i) x = -std::move(x);
    return x;
  };
  Stepper stepper(steps, tensor(1.));
  stepper.break_at({.operation = "sin"});
  EXPECT_FALSE(stepper.go_on());
  EXPECT_EQ(stepper.result()->item<float>(), 1);
}

// ---- breakpoints -----------------------------------------------------------------------------------------------

std::vector<std::string> stops_of(Breakpoint breakpoint) {
  Stepper stepper(
      [](const Tensor& x, const Tensor& w) {
        const Tensor h = label(matmul(w, x), "hidden");
        return sum(grad([](const Tensor& v) { return sum(tanh(v)); })(h));
      },
      ones({3, 5}), label(ones({2, 3}), "w"));
  stepper.break_at(std::move(breakpoint));
  return all_stops(stepper);
}

TEST(Stepper, BreakpointsByWhatAnOperationIs) {
  EXPECT_THAT(stops_of({.operation = "matmul"}), ElementsAre("matmul"));
  EXPECT_THAT(stops_of({.operation = "matmu"}), IsEmpty());
  EXPECT_THAT(stops_of({.label = "w"}), ElementsAre("matmul"));
  EXPECT_THAT(stops_of({.operation = "tanh", .label = "hidden"}), ElementsAre("tanh"));
  EXPECT_THAT(stops_of({.operation = "tanh", .label = "w"}), IsEmpty());
  EXPECT_THAT(stops_of({.shape = Shape{2, 3}}), ElementsAre("matmul"));                         // of an operand
  EXPECT_THAT(stops_of({.operation = "matmul", .shape = Shape{2, 5}}), ElementsAre("matmul"));  // of the output
  EXPECT_THAT(stops_of({.shape = Shape{7}}), IsEmpty());
  EXPECT_THAT(stops_of({.predicate =
                            [](const Call& call) { return call.inputs().size() == 2 && call.input(1).shape()[1] == 5; },
                        .pass = Pass::forward}),
              ElementsAre("matmul"));
}

TEST(Stepper, BreakpointsByPass) {
  const auto forward = stops_of({.pass = Pass::forward}), backward = stops_of({.pass = Pass::backward});
  EXPECT_THAT(forward, testing::IsSupersetOf({"matmul", "tanh", "sum"}));
  EXPECT_THAT(backward, testing::Not(testing::Contains("matmul")));
  EXPECT_FALSE(backward.empty());
  Stepper stepper(grad(f), x3);
  stepper.break_at({.pass = Pass::backward});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_TRUE(stepper.at().in_backward_pass());
  EXPECT_THAT(stepper.at().scopes(), ElementsAre("backward of grad"));
}

TEST(Stepper, TheFirstNanAndWhereAnotherArises) {
  const auto nans = [](const Tensor& x) {
    const Tensor a = sqrt(x);     // arises
    const Tensor b = exp(a);      // has an operand with one
    const Tensor c = log(x - 3);  // arises
    return sum(b + c);
  };
  Stepper stepper(nans, tensor({-1., 1., 4.}, float64));
  stepper.break_at({.nan = true});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(name_at(stepper), "sqrt");
  EXPECT_TRUE(stepper.at().has_outputs());
  EXPECT_EQ(stepper.at().reason(), "breakpoint 1: any operation that yields a NaN");
  EXPECT_EQ(stepper.at().str(), "after sqrt f64[3] -> f64[3]");
  EXPECT_TRUE(std::isnan(stepper.at().outputs()[0][0].item<double>()));
  EXPECT_THAT(all_stops(stepper), ElementsAre("log"));

  Stepper from_outside([](const Tensor& x) { return cos(sin(x)); }, tensor(NAN));
  from_outside.break_at({.nan = true});
  EXPECT_THAT(all_stops(from_outside), ElementsAre("sin"));
}

TEST(Stepper, ANanIsFoundAtAnOperationThatWasStoodBefore) {
  Stepper stepper([](const Tensor& x) { return exp(sqrt(x)); }, tensor(-1.));
  stepper.break_at({.nan = true});
  ASSERT_TRUE(stepper.step());
  EXPECT_FALSE(stepper.at().has_outputs());
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "after sqrt f32[] -> f32[]");
}

TEST(Stepper, ANanAnsweredAwayIsGone) {
  Stepper stepper([](const Tensor& x) { return exp(sqrt(x)); }, tensor(-1.));
  stepper.break_at({.nan = true});
  ASSERT_TRUE(stepper.go_on());
  stepper.at().answer(tensor(0.));
  EXPECT_FALSE(stepper.go_on());
  EXPECT_THAT(stepper.result().value(), IsNumber(1));
}

TEST(Stepper, ABreakpointSaysWhere) {
  Stepper stepper(f, x3);
  EXPECT_THAT(message_of<TransformError>([&] { stepper.break_at({}); }),
              HasSubstr("Stepper: a breakpoint must say where"));
  EXPECT_EQ((Breakpoint{.operation = "matmul",
                        .scope = "layer1",
                        .label = "w",
                        .shape = Shape{2, 3},
                        .nan = true,
                        .pass = Pass::backward}
                 .str()),
            "matmul in layer1 of w of shape [2,3] that yields a NaN, backward");
}

TEST(Stepper, WhatAPredicateThrowsTheFunctionThrows) {
  Stepper stepper(f, x3);
  stepper.break_at({.predicate = [](const Call&) -> bool { throw std::out_of_range("of the predicate"); }});
  EXPECT_EQ(message_of<std::out_of_range>([&] { stepper.go_on(); }), "of the predicate");
  EXPECT_TRUE(stepper.ended());
}

TEST(Stepper, BreakpointsInTheCode) {
  const auto program = [](const Tensor& x) {
    const Scope scope("outer");
    const Tensor y = sin(x);
    breakpoint("between");
    breakpoint();
    return cos(y);
  };
  EXPECT_THAT(program(x3), Equals(cos(sin(x3))));  // nobody is there
  Stepper stepper(program, x3);
  ASSERT_TRUE(stepper.go_on());
  EXPECT_FALSE(stepper.at().at_operation());
  EXPECT_EQ(stepper.at().str(), "at breakpoint between  [outer]");
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().call(); }),
              HasSubstr("Stepper: the program stands at a breakpoint() in its code, and no operation waits"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(x3); }), HasSubstr("no operation waits"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.perform(); }), HasSubstr("no operation waits"));
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "at breakpoint  [outer]");
  ASSERT_TRUE(stepper.step());
  EXPECT_EQ(name_at(stepper), "cos");
  EXPECT_FALSE(stepper.step());
  EXPECT_THAT(stepper.result().value(), Equals(program(x3)));

  Stepper batched([&](const Tensor& x) { return vmap(grad([&](const Tensor& v) { return sum(program(v)); }))(x); },
                  stack({x3, x3}));
  ASSERT_TRUE(batched.go_on());
  EXPECT_EQ(batched.at().str(), "at breakpoint between  [outer]");
}

// ---- answers ---------------------------------------------------------------------------------------------------

TEST(Stepper, AnAnswerStandsInPlaceOfTheOperation) {
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

TEST(Stepper, PerformStaysAndItsResultMayBeReplaced) {
  Stepper stepper(f, x3);
  stepper.step();
  EXPECT_THAT(stepper.at().outputs(), IsEmpty());
  EXPECT_EQ(stepper.at().str(), "before sin f64[3] -> f64[3]");
  ASSERT_TRUE(stepper.perform());
  EXPECT_EQ(stepper.at().reason(), "performed");
  EXPECT_EQ(name_at(stepper), "sin");
  EXPECT_THAT(stepper.at().outputs()[0], Equals(sin(x3)));
  EXPECT_THAT(stepper.at().call().input(0), Equals(x3));  // its buffer was not taken
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

// ---- the end ---------------------------------------------------------------------------------------------------

TEST(Stepper, AfterTheEndNoStepIsLeft) {
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
              HasSubstr("Stepper: a step is taken inside the function while it runs"));
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
      stepper.break_at({.pass = Pass::backward});
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

// A destructor that performs, under the guard: the rest unwinds all the same.
TEST(Stepper, DroppedWhereItMustNotThrowItUnwindsLater) {
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
  EXPECT_THAT(total, Equals(zeros({2})));  // what was under the guard was performed
}

TEST(Stepper, WhatIsThrownLeavesTheStep) {
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

TEST(Stepper, WhatAnOperationThrowsTheFunctionMayCatch) {
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

TEST(Stepper, CancelledFromOutsideItUnwinds) {
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

TEST(Stepper, DestroyedOnAnotherThreadItUnwindsOnItsOwn) {
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
  another.step();  // begins another computation
  EXPECT_EQ(destroyed, 1);
}

TEST(Stepper, OfVoidGivesMonostateAndNamesWillDo) {
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

// ---- transforms ------------------------------------------------------------------------------------------------

TEST(Stepper, AroundGradItSeesBothPasses) {
  Stepper stepper(grad(f), x3);
  std::vector<std::string> forward, backward;
  while (stepper.step()) (stepper.at().in_backward_pass() ? backward : forward).push_back(name_at(stepper));
  EXPECT_THAT(std::vector(forward.begin(), forward.begin() + 3), ElementsAre("sin", "multiply", "sum"));
  EXPECT_THAT(backward, testing::Contains("cos"));
  EXPECT_THAT(stepper.result().value(), IsNear(x3 * cos(x3) + sin(x3)));
}

TEST(Stepper, NextPassesTheBackwardPass) {
  Stepper stepper([](const Tensor& x) { return exp(grad(f)(x)); }, x3);
  stepper.break_at({.operation = "sum"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_FALSE(stepper.at().in_backward_pass());
  while (stepper.next() && name_at(stepper) != "exp") EXPECT_FALSE(stepper.at().in_backward_pass());
  EXPECT_FALSE(stepper.ended());
}

// What is performed for an operation in the backward pass is in the scopes of that operation.
TEST(Stepper, FinishInTheBackwardPassLeavesTheScopesOfTheOperation) {
  Stepper stepper([](const Tensor& x) { return grad(scoped)(x); }, x3);
  stepper.break_at({.scope = "inner", .pass = Pass::backward});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_THAT(stepper.at().scopes(), ElementsAre("inner", "layer1", "backward of grad"));
  stepper.remove_breakpoint(1);
  ASSERT_TRUE(stepper.finish());
  EXPECT_THAT(stepper.at().scopes(), testing::Not(testing::Contains("inner")));
}

TEST(Stepper, InsideVmapItSeesOneLaneAndOutsideAll) {
  const Tensor xs = stack({x3, x3 + 1});
  std::vector<std::string> inside, outside;
  const Tensor slopes = vmap(grad([&](const Tensor& x) {
    Stepper stepper(f, x);
    while (stepper.step()) inside.push_back(stepper.at().str());
    return stepper.result().value();
  }))(xs);
  EXPECT_THAT(inside, ElementsAre("before sin f64[3] -> f64[3]", "before multiply f64[3], f64[3] -> f64[3]",
                                  "before sum axes=[0] f64[3] -> f64[]"));
  EXPECT_THAT(slopes, IsNear(xs * cos(xs) + sin(xs)));

  Stepper stepper(vmap(grad(f)), xs);
  while (stepper.step()) outside.push_back(stepper.at().str());
  EXPECT_EQ(outside[0], "before sin f64[2,3] -> f64[2,3]");
  EXPECT_THAT(outside, testing::Contains(HasSubstr("cos f64[2,3] -> f64[2,3]  [backward of grad]")));
  EXPECT_THAT(stepper.result().value(), IsNear(slopes));
}

// f with sin(x) replaced by x: x^2.
Tensor without_sin(const Tensor& x) {
  Stepper stepper(f, x);
  stepper.break_at({.operation = "sin"});
  while (stepper.go_on()) stepper.at().answer(stepper.at().call().input(0));
  return stepper.result().value();
}
Tensor stepped(const Tensor& x) {
  Stepper stepper(f, x);
  while (stepper.step()) {
    if (name_at(stepper) == "multiply") stepper.perform();
  }
  return stepper.result().value();
}

TEST(Stepper, UnderTransforms) {
  const Tensor xs = stack({x3, x3 + 1}), slope = x3 * cos(x3) + sin(x3), v = tensor({1., -1., 0.5}, float64);
  EXPECT_THAT(grad(stepped)(x3), IsNear(slope));
  EXPECT_THAT(grad(without_sin)(x3), IsNear(2 * x3));
  EXPECT_THAT(jvp(stepped, x3, v).second, IsNear(sum(slope * v)));
  EXPECT_THAT(jvp(without_sin, x3, v).second, IsNear(sum(2 * x3 * v)));
  EXPECT_THAT(vmap(without_sin)(xs), IsNear(sum(xs * xs, 1)));
  EXPECT_THAT(vmap(grad(without_sin))(xs), IsNear(2 * xs));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(vmap(stepped)(x)); })(xs), IsNear(xs * cos(xs) + sin(xs)));
  EXPECT_THAT(hvp(without_sin, x3, v), IsNear(2 * v));
}

using Function = std::function<Tensor(const Tensor&)>;
using Walk = void (*)(stave_detail::AnyStepper&);

// Ways through a function, each to its end.
const Walk walks[] = {
    [](stave_detail::AnyStepper& stepper) {
      while (stepper.step()) {
      }
    },
    [](stave_detail::AnyStepper& stepper) {
      while (stepper.next()) {
      }
    },
    [](stave_detail::AnyStepper& stepper) {
      while (stepper.step() && stepper.finish()) {
      }
    },
    [](stave_detail::AnyStepper& stepper) {  // those inside of a checkpoint come first
      while (stepper.step() && (stepper.at().has_outputs() || stepper.perform())) {
      }
    },
    [](stave_detail::AnyStepper& stepper) {
      stepper.break_at({.nan = true});
      stepper.break_at({.scope = "inner"});
      while (stepper.go_on()) {
      }
    },
};
const std::pair<const char*, Function (*)(Function)> nests[] = {
    {"itself", [](Function g) -> Function { return g; }},
    {"grad", [](Function g) -> Function { return [g](const Tensor& x) { return grad(g)(x); }; }},
    {"vmap", [](Function g) -> Function { return [g](const Tensor& x) {
                                            return vmap(g)(stack({x, x + 1}));
                                          }; }},
    {"jvp", [](Function g) -> Function { return [g](const Tensor& x) { return jvp(g, x, cos(x)).second; }; }},
    {"vmap of grad",
     [](Function g) -> Function { return [g](const Tensor& x) {
                                    return vmap(grad(g))(stack({x, x + 1}));
                                  }; }},
    {"vmap of vmap of grad",
     [](Function g) -> Function {
       return [g](const Tensor& x) { return vmap(vmap(grad(g)))(reshape(stack({x, x + 1, x, -x}), {2, 2, 3})); };
     }},
    {"grad of vmap",
     [](Function g) -> Function {
       return [g](const Tensor& x) {
         return grad([g](const Tensor& v) { return sum(vmap(g)(stack({v, 2 * v}))); })(x);
       };
     }},
    {"jvp of grad", [](Function g) -> Function { return [g](const Tensor& x) { return hvp(g, x, cos(x)); }; }},
    {"hessian", [](Function g) -> Function { return [g](const Tensor& x) { return hessian(g)(x); }; }},
    {"checkpoint in grad",
     [](Function g) -> Function { return [g](const Tensor& x) { return grad(checkpoint(g))(x); }; }},
    {"debug of grad in vmap",
     [](Function g) -> Function {
       return [g](const Tensor& x) { return vmap(debug(grad(g), {.print = false}))(stack({x, x + 1})); };
     }},
};

TEST(Stepper, AnyNestGivesWhatItGivesWithoutSteps) {
  const Function program = [](const Tensor& x) {
    return scoped(checkpoint([](const Tensor& v) { return sin(v) * v; })(x));
  };
  for (const auto& [name, nest] : nests) {
    const Tensor expected = nest(program)(x3);
    for (const Walk& walk : walks) {
      SCOPED_TRACE(std::string(name) + ", walk " + std::to_string(&walk - walks));
      Stepper around(nest(program), x3);
      walk(around);
      EXPECT_THAT(around.result().value(), IsNear(expected));
      const Function inside = [&](const Tensor& x) {
        Stepper stepper(program, x);
        walk(stepper);
        return stepper.result().value();
      };
      EXPECT_THAT(nest(inside)(x3), IsNear(expected));
      Stepper both(nest(inside), x3);
      walk(both);
      EXPECT_THAT(both.result().value(), IsNear(expected));
    }
    for (int stop = 1; stop < 12; ++stop) {  // left in the middle
      Stepper stepper(nest(program), x3);
      for (int i = 0; i < stop && !stepper.ended(); ++i) stepper.step();
    }
    EXPECT_EQ(stave_detail::current, nullptr);
  }
}

TEST(Stepper, AStepperInsideAStepper) {
  Stepper outer(stepped, x3);
  EXPECT_THAT(all_steps(outer), ElementsAre("sin", "multiply", "sum"));
  EXPECT_THAT(outer.result().value(), Equals(f(x3)));
  Stepper left(
      [](const Tensor& x) {
        Stepper inner(f, x);
        inner.step();
        return cos(x);  // inner is dropped
      },
      x3);
  EXPECT_THAT(all_steps(left), ElementsAre("cos"));
}

TEST(Stepper, TwoInterleaved) {
  Stepper a(f, x3), b(grad(f), x3 + 1);
  while (b.step())
    if (!a.ended()) a.step();
  EXPECT_THAT(a.result().value(), Equals(f(x3)));
  EXPECT_THAT(b.result().value(), Equals(grad(f)(x3 + 1)));
}

// The program has a controller of its own, on whose stack its operations run.
TEST(Stepper, OfProgramsWithControllersOfTheirOwn) {
  struct Twice : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      rest.resume_last(call.op().id == OpId::sin ? Outputs(2. * perform(call)[0]) : perform(call));
    }
  };
  const auto program = [](const Tensor& x) {
    Twice twice;
    return with(twice, [&] { return checkpoint(f)(x) + cos(x); }).value();
  };
  Stepper stepper(program, x3);
  const auto seen = all_steps(stepper);
  EXPECT_THAT(seen, testing::IsSupersetOf({"call", "sin", "sum", "cos"}));
  EXPECT_THAT(stepper.result().value(), Equals(program(x3)));

  struct Ask {
    using Result = Tensor;
  };
  struct Answer : Controls<Ask> {
    void handle(Ask&, Resumption<Ask> rest) override { rest.resume_last(exp(x3)); }
  };
  const auto asking = [](const Tensor& x) {
    Answer answer;
    return with(answer, [&] { return checkpoint([](const Tensor& v) { return v * perform(Ask{}); })(sin(x)); }).value();
  };
  Stepper asked(asking, x3);
  EXPECT_THAT(all_steps(asked), ElementsAre("sin", "call", "exp", "multiply"));
  EXPECT_THAT(asked.result().value(), Equals(sin(x3) * exp(x3)));
}

// ---- operations that carry functions ---------------------------------------------------------------------------

Tensor checkpointed(const Tensor& x) { return cos(checkpoint(f)(exp(x))); }

TEST(Stepper, GoesIntoCheckpointsAndPastThem) {
  Stepper into(checkpointed, x3);
  EXPECT_THAT(all_steps(into), ElementsAre("exp", "call", "sin", "multiply", "sum", "cos"));
  EXPECT_THAT(into.result().value(), Equals(checkpointed(x3)));

  Stepper past(checkpointed, x3);
  EXPECT_THAT(names(past, [&] { return past.next(); }), ElementsAre("exp", "call", "cos"));

  Stepper out(checkpointed, x3);
  out.break_at({.operation = "multiply"});
  ASSERT_TRUE(out.go_on());
  ASSERT_TRUE(out.finish());
  EXPECT_EQ(name_at(out), "cos");
}

TEST(Stepper, InBackwardPassesCheckpointsRunAgain) {
  Stepper stepper(grad(checkpointed), x3);
  stepper.break_at({.operation = "multiply"});
  int forward = 0, backward = 0;
  while (stepper.go_on()) ++(stepper.at().in_backward_pass() ? backward : forward);
  EXPECT_EQ(forward, 1);
  EXPECT_GE(backward, 1);
  EXPECT_THAT(stepper.result().value(), IsNear(grad(checkpointed)(x3)));
  // grad outside: the function runs again when the Stepper is gone.
  EXPECT_THAT(grad([](const Tensor& x) {
                Stepper inner(checkpointed, x);
                while (inner.step()) {
                }
                return inner.result().value();
              })(x3),
              IsNear(grad(checkpointed)(x3)));
  EXPECT_THAT(vmap(grad([](const Tensor& x) {
                Stepper inner(checkpointed, x);
                while (inner.step()) {
                }
                return inner.result().value();
              }))(stack({x3, x3 + 1})),
              IsNear(vmap(grad(checkpointed))(stack({x3, x3 + 1}))));
}

TEST(Stepper, WhenItHasEndedPredicatesAreAskedNoMore) {
  int asked = 0, at_the_end = -1;
  grad([&](const Tensor& x) {
    Stepper inner(checkpointed, x);
    inner.break_at({.predicate = [&](const Call&) { return ++asked, false; }});
    inner.go_on();
    at_the_end = asked;
    return inner.result().value();
  })(x3);
  EXPECT_EQ(at_the_end, 6);
  EXPECT_EQ(asked, at_the_end);
}

TEST(Stepper, ABreakpointInACheckpointIsReachedOnce) {
  int reached = 0;
  Stepper stepper(grad(checkpoint([](const Tensor& x) {
                    breakpoint("inside");
                    return sum(sin(x));
                  })),
                  x3);
  for (; stepper.go_on(); ++reached) EXPECT_FALSE(stepper.at().at_operation());
  EXPECT_EQ(reached, 1);
  EXPECT_THAT(stepper.result().value(), IsNear(cos(x3)));
}

// A breakpoint in what a checkpoint performs, and then the place after it.
TEST(Stepper, PerformingACheckpointMayStandInsideFirst) {
  Stepper stepper(checkpointed, x3);
  stepper.break_at({.operation = "multiply"});
  stepper.step();
  stepper.step();
  ASSERT_EQ(name_at(stepper), "call");
  ASSERT_TRUE(stepper.perform());
  EXPECT_EQ(name_at(stepper), "multiply");
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "after call checkpoint f64[3] -> f64[]");
  EXPECT_FALSE(stepper.go_on());
}

TEST(Stepper, ACheckpointIsAnsweredAfterItWasPerformed) {
  Stepper stepper(checkpointed, x3);
  stepper.break_at({.operation = "call"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "before call checkpoint f64[3] -> ?");
  EXPECT_THAT(
      message_of<TransformError>([&] { stepper.at().answer(Tensor(1.)); }),
      HasSubstr("Stepper: call carries a function, and what it yields is known when that has run: perform it first"));
  ASSERT_TRUE(stepper.perform());
  EXPECT_EQ(stepper.at().str(), "after call checkpoint f64[3] -> f64[]");
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(zeros({2}, float64)); }),
              HasSubstr("Stepper: output 0 of call is f64[], and the answer f64[2]"));
  stepper.at().answer(zeros({}, float64));
  EXPECT_THAT(all_steps(stepper), ElementsAre("cos"));
  EXPECT_THAT(stepper.result().value(), IsNumber(1));
}

TEST(Stepper, OfCompiledFunctions) {
  const auto compiled = compile(f);
  Stepper stepper([&](const Tensor& x) { return compiled(x); }, x3);
  EXPECT_THAT(all_steps(stepper), testing::IsSupersetOf({"sin", "sum"}));
  EXPECT_THAT(stepper.result().value(), IsNear(f(x3)));
}

// ---- what stands around ----------------------------------------------------------------------------------------

TEST(Stepper, ShowsHandlersAndScopes) {
  struct Outside : Handler {
    Outputs handle(Call& call) override { return perform(std::move(call)); }
    std::string describe() const override { return "outside"; }
  } outside;
  Stepper stepper(
      [](const Tensor& x) {
        const Scope epoch("epoch");
        return vmap(grad(scoped))(x);
      },
      stack({x3, x3}));
  stepper.break_at({.operation = "cos", .scope = "inner", .pass = Pass::forward});
  with(outside, [&] { stepper.go_on(); });
  std::vector<std::string> lines;
  for (const Surrounding& around : stepper.at().around())
    lines.push_back(around.name + (around.scope ? " scope" : "") + (around.at_work ? " at work" : ""));
  EXPECT_THAT(lines, ElementsAre("inner scope", "layer1 scope", "grad at work", "vmap over 2 lanes at work",
                                 "epoch scope", "Stepper at work", "outside"));
}

}  // namespace
