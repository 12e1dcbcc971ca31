// The breakpoints of Stepper.
#include "stepped.h"

namespace {

using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(Stepper, BreakpointsMatchNameLabelShapeAndPredicate) {
  EXPECT_THAT(stops_of({.operation = "matmul"}), ElementsAre("matmul"));
  EXPECT_THAT(stops_of({.operation = "matmu"}), IsEmpty());
  EXPECT_THAT(stops_of({.label = "w"}), ElementsAre("matmul"));
  EXPECT_THAT(stops_of({.operation = "tanh", .label = "hidden"}), ElementsAre("tanh"));
  EXPECT_THAT(stops_of({.operation = "tanh", .label = "w"}), IsEmpty());
  // This breakpoint matches the shape of an operand.
  EXPECT_THAT(stops_of({.shape = Shape{2, 3}}), ElementsAre("matmul"));
  // This breakpoint matches the shape of the output.
  EXPECT_THAT(stops_of({.operation = "matmul", .shape = Shape{2, 5}}), ElementsAre("matmul"));
  EXPECT_THAT(stops_of({.shape = Shape{7}}), IsEmpty());
  EXPECT_THAT(stops_of({.predicate =
                            [](const Call& call) { return call.inputs().size() == 2 && call.input(1).shape()[1] == 5; },
                        .pass = Breakpoint::Pass::forward}),
              ElementsAre("matmul"));
}

TEST(Stepper, BreakpointsMatchForwardOrBackwardPass) {
  const auto forward = stops_of({.pass = Breakpoint::Pass::forward}),
             backward = stops_of({.pass = Breakpoint::Pass::backward});
  EXPECT_THAT(forward, testing::IsSupersetOf({"matmul", "tanh", "sum"}));
  EXPECT_THAT(backward, testing::Not(testing::Contains("matmul")));
  EXPECT_FALSE(backward.empty());
  Stepper stepper(grad(f), x3);
  stepper.break_at({.pass = Breakpoint::Pass::backward});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_TRUE(stepper.at().in_backward_pass());
  EXPECT_THAT(stepper.at().scopes(), ElementsAre("backward of grad"));
}

TEST(Stepper, BreakpointsStopAtTheFirstAndAtNewNans) {
  const auto nans = [](const Tensor& x) {
    const Tensor a = sqrt(x);     // a NaN arises
    const Tensor b = exp(a);      // an operand has a NaN
    const Tensor c = log(x - 3);  // a NaN arises
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

TEST(Stepper, NanIsFoundAtAnOperationAlreadyStoppedAt) {
  Stepper stepper([](const Tensor& x) { return exp(sqrt(x)); }, tensor(-1.));
  stepper.break_at({.nan = true});
  ASSERT_TRUE(stepper.step());
  EXPECT_FALSE(stepper.at().has_outputs());
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "after sqrt f32[] -> f32[]");
}

TEST(Stepper, AnswerMayRemoveANan) {
  Stepper stepper([](const Tensor& x) { return exp(sqrt(x)); }, tensor(-1.));
  stepper.break_at({.nan = true});
  ASSERT_TRUE(stepper.go_on());
  stepper.at().answer(tensor(0.));
  EXPECT_FALSE(stepper.go_on());
  EXPECT_THAT(stepper.result().value(), IsNumber(1));
}

TEST(Stepper, BreakpointsMatchOutputs) {
  const auto squares = [](const Tensor& x) { return sum(square(x) + 4.); };
  Stepper stepper(squares, x3);
  stepper.break_at({.yields = [](const Call&, std::span<const Tensor> outputs) {
    return outputs[0].rank() == 1 && outputs[0](-1).item<double>() > 4.5;
  }});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "after add f64[3], f64[3] -> f64[3]");
  EXPECT_FALSE(stepper.go_on());
  EXPECT_THAT(stepper.result().value(), Equals(squares(x3)));
  EXPECT_EQ((Breakpoint{.operation = "add", .nan_arises = true, .condition = "max > 3"}.str()),
            "add if max > 3 where a NaN arises");
}

TEST(Stepper, BreakpointsMayStopOnceOrSkipStops) {
  const auto five = [](Tensor x) {
    for (int i = 0; i < 5; ++i) x = sin(x);
    return x;
  };
  Stepper once(five, x3);
  once.break_at({.operation = "sin", .once = true});
  EXPECT_EQ(all_stops(once).size(), 1u);
  EXPECT_THAT(once.result().value(), Equals(five(x3)));
  Stepper later(five, x3);
  later.break_at({.operation = "sin", .ignore = 3});
  EXPECT_EQ(all_stops(later).size(), 2u);
  Stepper both(five, x3);
  both.break_at({.operation = "sin", .once = true, .ignore = 4});
  EXPECT_EQ(all_stops(both).size(), 1u);
}

TEST(Stepper, BreakpointWithoutConditionIsAnError) {
  Stepper stepper(f, x3);
  EXPECT_THAT(message_of<TransformError>([&] { stepper.break_at({}); }),
              HasSubstr("Stepper: a breakpoint must say where"));
  EXPECT_EQ((Breakpoint{.operation = "matmul",
                        .scope = "layer1",
                        .label = "w",
                        .shape = Shape{2, 3},
                        .nan = true,
                        .pass = Breakpoint::Pass::backward}
                 .str()),
            "matmul in layer1 of w of shape [2,3] that yields a NaN, backward");
}

TEST(Stepper, ExceptionOfAPredicateIsThrownInTheFunction) {
  Stepper stepper(f, x3);
  stepper.break_at({.predicate = [](const Call&) -> bool { throw std::out_of_range("of the predicate"); }});
  EXPECT_EQ(message_of<std::out_of_range>([&] { stepper.go_on(); }), "of the predicate");
  EXPECT_TRUE(stepper.ended());
}

TEST(Stepper, StopsAtBreakpointCalls) {
  const auto program = [](const Tensor& x) {
    const Scope scope("outer");
    const Tensor y = sin(x);
    breakpoint("between");
    breakpoint();
    return cos(y);
  };
  // No Stepper is installed.
  EXPECT_THAT(program(x3), Equals(cos(sin(x3))));
  Stepper stepper(program, x3);
  ASSERT_TRUE(stepper.go_on());
  EXPECT_FALSE(stepper.at().at_operation());
  EXPECT_EQ(stepper.at().str(), "at breakpoint between  [outer]");
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().call(); }),
              HasSubstr("Stepper: the program is stopped at a breakpoint() in its code, not at an operation"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.at().answer(x3); }), HasSubstr("not at an operation"));
  EXPECT_THAT(message_of<TransformError>([&] { stepper.perform(); }), HasSubstr("not at an operation"));
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

}  // namespace
