// Stepper in nests: around transforms and inside them, in other Steppers, around controllers, and
// in functions of higher-order operations. Also the handlers and scopes that it shows.
#include "stepped.h"

namespace {

using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- transforms ---------------------------------------------------------------------------------

TEST(Stepper, AroundGradItSeesBothPasses) {
  Stepper stepper(grad(f), x3);
  std::vector<std::string> forward, backward;
  while (stepper.step()) (stepper.at().in_backward_pass() ? backward : forward).push_back(name_at(stepper));
  EXPECT_THAT(std::vector(forward.begin(), forward.begin() + 3), ElementsAre("sin", "multiply", "sum"));
  EXPECT_THAT(backward, testing::Contains("cos"));
  EXPECT_THAT(stepper.result().value(), IsNear(x3 * cos(x3) + sin(x3)));
}

TEST(Stepper, NextSkipsTheBackwardPass) {
  Stepper stepper([](const Tensor& x) { return exp(grad(f)(x)); }, x3);
  stepper.break_at({.operation = "sum"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_FALSE(stepper.at().in_backward_pass());
  while (stepper.next() && name_at(stepper) != "exp") EXPECT_FALSE(stepper.at().in_backward_pass());
  EXPECT_FALSE(stepper.ended());
}

// Operations of the backward pass run in the scopes of the operation that they differentiate.
TEST(Stepper, FinishInTheBackwardPassLeavesTheScope) {
  Stepper stepper([](const Tensor& x) { return grad(scoped)(x); }, x3);
  stepper.break_at({.scope = "inner", .pass = Breakpoint::Pass::backward});
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

// f with sin(x) replaced by x, which is sum(x^2).
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

TEST(Stepper, MayRunUnderTransforms) {
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

// Several ways to step through a function to its end.
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
    // The operations inside a checkpoint come before its result.
    [](stave_detail::AnyStepper& stepper) {
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
    {"vmap whose lanes part",
     [](Function g) -> Function {
       return [g](const Tensor& x) {
         return vmap(grad([g](const Tensor& v) { return sum(v) > 5 ? g(v) : g(2 * v); }))(stack({x, x + 1, -x}));
       };
     }},
    {"debug of grad in vmap",
     [](Function g) -> Function {
       return [g](const Tensor& x) { return vmap(debug(grad(g), {.print = false}))(stack({x, x + 1})); };
     }},
};

TEST(Stepper, SteppingDoesNotChangeResultsOfAnyNest) {
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
    for (int stop = 1; stop < 12; ++stop) {  // the Stepper is destroyed in the middle
      Stepper stepper(nest(program), x3);
      for (int i = 0; i < stop && !stepper.ended(); ++i) stepper.step();
    }
    EXPECT_EQ(stave_detail::current, nullptr);
  }
}

TEST(Stepper, MayRunInsideAnotherStepper) {
  Stepper outer(stepped, x3);
  EXPECT_THAT(all_steps(outer), ElementsAre("sin", "multiply", "sum"));
  EXPECT_THAT(outer.result().value(), Equals(f(x3)));
  Stepper left(
      [](const Tensor& x) {
        Stepper inner(f, x);
        inner.step();
        return cos(x);  // `inner` is destroyed here
      },
      x3);
  EXPECT_THAT(all_steps(left), ElementsAre("cos"));
}

// The inner Stepper cannot unwind here, so its remaining operations run.
// The outer Stepper sees them like any others.
TEST(Stepper, OuterStepperSeesTheRestOfADroppedInnerOne) {
  Stepper outer(
      [](const Tensor& x) {
        {
          Stepper inner(
              [](const Tensor& v) {
                const Uncancellable guard;
                return cos(sin(v));
              },
              x);
          inner.step();
        }
        return exp(x);
      },
      x3);
  EXPECT_THAT(all_steps(outer), ElementsAre("sin", "cos", "exp"));
  EXPECT_THAT(outer.result().value(), Equals(exp(x3)));
}

TEST(Stepper, TwoSteppersMayInterleave) {
  Stepper a(f, x3), b(grad(f), x3 + 1);
  while (b.step())
    if (!a.ended()) a.step();
  EXPECT_THAT(a.result().value(), Equals(f(x3)));
  EXPECT_THAT(b.result().value(), Equals(grad(f)(x3 + 1)));
}

// The program has its own controller, and its operations run on that controller's stack.
TEST(Stepper, StepsThroughProgramsWithControllers) {
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

// ---- higher-order operations --------------------------------------------------------------------

Tensor checkpointed(const Tensor& x) { return cos(checkpoint(f)(exp(x))); }

TEST(Stepper, StepEntersCheckpointsAndNextSkipsThem) {
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

TEST(Stepper, StepsThroughCheckpointsInTheBackwardPass) {
  Stepper stepper(grad(checkpointed), x3);
  stepper.break_at({.operation = "multiply"});
  int forward = 0, backward = 0;
  while (stepper.go_on()) ++(stepper.at().in_backward_pass() ? backward : forward);
  EXPECT_EQ(forward, 1);
  EXPECT_GE(backward, 1);
  EXPECT_THAT(stepper.result().value(), IsNear(grad(checkpointed)(x3)));
  // With grad outside, the function runs again after the Stepper has been destroyed.
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

TEST(Stepper, PredicatesAreNotCalledAfterTheEnd) {
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

TEST(Stepper, BreakpointCallInACheckpointIsReachedOnce) {
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

// Stops at a breakpoint inside the checkpoint, and then after the checkpoint.
TEST(Stepper, PerformingACheckpointMayStopInsideFirst) {
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

TEST(Stepper, CheckpointCanBeAnsweredOnlyAfterItRan) {
  Stepper stepper(checkpointed, x3);
  stepper.break_at({.operation = "call"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().str(), "before call checkpoint f64[3] -> ?");
  EXPECT_THAT(
      message_of<TransformError>([&] { stepper.at().answer(Tensor(1.)); }),
      HasSubstr("Stepper: call calls a function, and its outputs are known only after that has run: perform it first"));
  ASSERT_TRUE(stepper.perform());
  EXPECT_EQ(stepper.at().str(), "after call checkpoint f64[3] -> f64[]");
  EXPECT_THAT(
      message_of<TransformError>([&] { stepper.at().answer(zeros({2}, float64)); }),
      HasSubstr("checkpoint: Stepper answered with float64 [2] on cpu for output 0, which is float64 [] on cpu"));
  stepper.at().answer(zeros({}, float64));
  EXPECT_THAT(all_steps(stepper), ElementsAre("cos"));
  EXPECT_THAT(stepper.result().value(), IsNumber(1));
}

TEST(Stepper, StepsThroughCompiledFunctions) {
  const auto compiled = compile(f);
  Stepper stepper([&](const Tensor& x) { return compiled(x); }, x3);
  EXPECT_THAT(all_steps(stepper), testing::IsSupersetOf({"sin", "sum"}));
  EXPECT_THAT(stepper.result().value(), IsNear(f(x3)));
}

TEST(Stepper, BreakpointCallsDoNotPreventReplays) {
  const auto compiled = compile([](const Tensor& x) {
    breakpoint("inside");
    return sin(x) * x;
  });
  compiled(x3);
  compiled(2 * x3);
  EXPECT_EQ(compiled.recordings(), 1u);  // the second call replayed the recording
  Stepper stepper([&](const Tensor& x) { return compiled(x); }, x3 + 1);
  stepper.break_at({.operation = "multiply"});
  ASSERT_TRUE(stepper.go_on());
  while (stepper.go_on()) {
  }
  EXPECT_THAT(stepper.result().value(), IsNear(sin(x3 + 1) * (x3 + 1)));
}

// ---- installed handlers and scopes --------------------------------------------------------------

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
  stepper.break_at({.operation = "cos", .scope = "inner", .pass = Breakpoint::Pass::forward});
  with(outside, [&] { stepper.go_on(); });
  std::vector<std::string> lines;
  for (const StopPoint::Surrounding& around : stepper.at().around())
    lines.push_back(around.name + (around.scope ? " scope" : "") + (around.at_work ? " at work" : ""));
  EXPECT_THAT(lines, ElementsAre("inner scope", "layer1 scope", "grad at work", "vmap over 2 lanes at work",
                                 "epoch scope", "Stepper at work", "outside"));
}

}  // namespace
