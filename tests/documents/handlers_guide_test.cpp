// The code and the claims of the guides on handlers, effects, threads and compile. The snippets of
// the guides are lines of this file (readme_test.cpp checks that); each is part of a test of the
// guide's claim about it.
#include <thread>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using stave_test::Equals;
using stave_test::IsNear;
using stave_test::IsNumber;
using stave_test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// ---- interceptors -------------------------------------------------------------------------------

struct CountOps : Handler {
  int n = 0;
  Outputs handle(Call& call) override {
    ++n;                              // looks
    return perform(std::move(call));  // and passes it on, to the handler below
  }
  std::string describe() const override { return "counting"; }
};

TEST(HandlersGuide, WhereAHandlerStandsSaysWhatItSees) {
  const auto f = [](const Tensor& x) { return sum(sin(x)); };
  const Tensor x = tensor({1., 2.});
  CountOps around, inside;
  with(around, [&] { return grad(f)(x); });                                      // forward and backward
  grad([&](const Tensor& v) { return with(inside, [&] { return f(v); }); })(x);  // forward
  EXPECT_EQ(inside.n, 2);
  EXPECT_GT(around.n, inside.n + 1);
}

TEST(HandlersGuide, AHandlerNeverMeetsItsOwnOperations) {
  struct Doubles : Handler {
    Outputs handle(Call& call) override { return 2 * perform(std::move(call))[0]; }
  } doubles;
  CountOps below;
  const Tensor y = with(below, [&] { return with(doubles, [] { return sin(tensor(1.)); }); });
  EXPECT_THAT(y, IsNumber(2 * std::sin(1.)));
  EXPECT_EQ(below.n, 2);
  EXPECT_THAT(with(doubles, [&] { return with(doubles, [] { return sin(tensor(1.)); }); }), IsNumber(8 * std::sin(1.)));
}

TEST(HandlersGuide, ErrorsNameWhatStandsAround) {
  CountOps counting;
  const std::string message = message_of<ShapeError>(
      [&] { grad([&](const Tensor& x) { return with(counting, [&] { return sum(x + ones({3})); }); })(ones({2})); });
  EXPECT_THAT(message, HasSubstr("inside counting, inside grad"));
}

// A handler that records a program, to compute it again.
struct Record : Handler {
  std::vector<Call> calls;
  Outputs handle(Call& call) override {
    calls.push_back(call);  // a copy counts its inputs: they stay
    return perform(std::move(call));
  }
};

TEST(HandlersGuide, ACopyOfACallMayBeKept) {
  Record record;
  const Tensor x = tensor({1., 2.}), y = with(record, [&] { return exp(sin(x) * 2.); });
  ASSERT_EQ(record.calls.size(), 3u);
  EXPECT_THAT(perform(record.calls.back())[0], Equals(y));
  EXPECT_THAT(perform(record.calls[0])[0], Equals(sin(x)));

  const Tensor xs = tensor({{1., 2.}, {3., 4.}});
  record.calls.clear();
  // Outside vmap the handler sees one call for all lanes.
  with(record, [&] { return vmap([](const Tensor& v) { return sin(v); })(xs); });
  EXPECT_THAT(perform(record.calls.back())[0], Equals(sin(xs)));
  vmap([&](const Tensor& v) { return with(record, [&] { return cos(v); }); })(
      xs);  // inside: of a value that ends with it
  EXPECT_THAT(message_of<TransformError>([&] { perform(record.calls.back()); }), HasSubstr("vmap"));
}

// ---- notes --------------------------------------------------------------------------------------

// A handler that notes on each value how many operations, one after another, produced it.
struct Depth : Handler {
  Notes<int> depth{"Depth"};
  int of(const Tensor& x) const { return depth.find(x) ? *depth.find(x) : 0; }
  Outputs handle(Call& call) override {
    int deepest = 0;
    for (const Tensor& input : call.inputs()) deepest = std::max(deepest, of(input));
    Outputs outputs = perform(std::move(call));
    for (Tensor& output : outputs) output = depth.put(std::move(output), deepest + 1);
    return outputs;
  }
};

TEST(HandlersGuide, NotesEndWithTheirMakerOrTheirValue) {
  const Tensor x = tensor({1., 2.});
  Tensor y;
  {
    Depth depth;
    y = with(depth, [&] { return cos(sin(x)) + x; });
    EXPECT_EQ(depth.of(y), 3);
    EXPECT_EQ(depth.of(x), 0);
    EXPECT_EQ(live_notes(y), 1);

    const auto f = [&](const Tensor& v) {
      return with(depth, [&] {
        const Tensor z = sum(sin(v));
        EXPECT_EQ(depth.of(z), 2);
        return z;
      });
    };
    EXPECT_THAT(grad(f)(x), IsNear(cos(x)));
    EXPECT_THAT(vmap(grad(f))(stack({x, x})), IsNear(cos(stack({x, x}))));
  }
  EXPECT_EQ(live_notes(y), 0);  // Depth ended, and its notes with it
}

TEST(HandlersGuide, InputsOfGradAndJvpKeepTheirNotesAndLanesHaveNone) {
  Depth depth;
  const Tensor y = with(depth, [] { return sin(tensor({1., 2.})); });
  std::vector<int> found;
  const auto f = [&](const Tensor& v) {
    found.push_back(depth.of(v));
    return sum(v);
  };
  grad(f)(y);
  jvp(f, y, y);
  vmap(f)(y);
  vmap(f, {.in_axes = unmapped, .axis_size = 2})(y);
  EXPECT_THAT(found, ElementsAre(1, 1, 0, 1));
}

TEST(HandlersGuide, ANotedValueStaysOnItsThread) {
  Depth depth;
  const Tensor y = with(depth, [] { return sin(tensor(1.)); });
  std::string message;
  std::thread([&] { message = message_of<TransformError>([&] { cos(y); }); }).join();
  EXPECT_THAT(message, HasSubstr("Depth"));
}

// ---- controllers --------------------------------------------------------------------------------

struct Yield {
  using Result = void;
  int value;
};

struct Generator : Controls<Yield> {
  int value = 0;
  Resumption<Yield> rest;
  void handle(Yield& yield, Resumption<Yield> r) override {
    value = yield.value;  // read now: the effect ends with its answer
    rest = std::move(r);  // kept, for whoever wants the next one
  }
};

TEST(HandlersGuide, AGenerator) {
  auto squares = std::make_shared<Generator>();
  with(squares, [] {
    for (int i = 1;; ++i) perform(Yield{i * i});
  });
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) {
    seen.push_back(squares->value);
    squares->rest.resume();  // until the next Yield
  }
  squares->rest.drop();  // the loop unwinds
  EXPECT_THAT(seen, ElementsAre(1, 4, 9));
}

TEST(HandlersGuide, AControllerThatKeepsItsResumptionKeepsItself) {
  std::weak_ptr<Generator> generator;
  {
    auto one = std::make_shared<Generator>();
    generator = one;
    with(one, [] { perform(Yield{1}); });
  }
  ASSERT_FALSE(generator.expired());  // controller -> resumption -> computation -> controller
  generator.lock()->rest = {};        // dropped: the circle is open
  EXPECT_TRUE(generator.expired());
}

TEST(HandlersGuide, ALentControllerEndsWithWith) {
  Generator generator;
  with(generator, [] { perform(Yield{1}); });
  EXPECT_THAT(message_of<TransformError>([&] { generator.rest.resume(); }),
              HasSubstr("cancelled when `with` of its controller ended"));
}

TEST(HandlersGuide, OnceAndOnItsThread) {
  auto generator = std::make_shared<Generator>();
  with(generator, [] { perform(Yield{1}); });
  std::string message;
  std::thread([&] { message = message_of<TransformError>([&] { generator->rest.resume(); }); }).join();
  EXPECT_THAT(message, HasSubstr("began on another thread"));
  generator->rest.resume();
  EXPECT_THAT(message_of<TransformError>([&] { generator->rest.resume(); }), HasSubstr("was used or moved from"));
}

struct Ask {
  using Result = int;
};

TEST(HandlersGuide, ResumeComesBackResumeLastDoesNot) {
  struct Logs : Controls<Ask> {
    std::string log;
    void handle(Ask&, Resumption<Ask> rest) override {
      log += "(";
      rest.resume(1);  // the rest of the program runs here
      log += ")";
    }
  } logs;
  EXPECT_THAT(with(logs, [] { return perform(Ask{}) + perform(Ask{}); }), Optional(2));
  EXPECT_EQ(logs.log, "(())");

  struct Last : Controls<Ask> {
    std::string log;
    void handle(Ask&, Resumption<Ask> rest) override {
      log += "(";
      rest.resume_last(1);  // the rest of the program runs when `handle` has returned
      log += ")";
    }
  } last;
  EXPECT_THAT(with(last, [] { return perform(Ask{}) + perform(Ask{}); }), Optional(2));
  EXPECT_EQ(last.log, "()()");
}

TEST(HandlersGuide, AComputationKeepsItsHandlersAndStandsAboveTheResumers) {
  auto generator = std::make_shared<Generator>();
  CountOps own, first, second;
  with(first, [&] {
    with(generator, [&] {
      with(own, [&] {
        sin(tensor(1.));
        perform(Yield{0});
        cos(tensor(1.));
      });
    });
  });
  with(second, [&] { generator->rest.resume(); });
  EXPECT_EQ(own.n, 2);
  EXPECT_EQ(first.n, 1);
  EXPECT_EQ(second.n, 1);
}

// ---- cancelling ---------------------------------------------------------------------------------

struct DropAll : Controller {
  void handle(Call&, Resumption<Call> rest) override { rest.drop(); }
};

struct Rescale {
  Tensor& total;
  ~Rescale() {
    Uncancellable guard;  // a destructor is noexcept: its operations must not throw Cancelled
    total = total * 0.5;
  }
};

TEST(HandlersGuide, GuardedDestructorsComputeWhereverTheyAreDropped) {
  DropAll drop_all;
  Tensor total = tensor(8.);
  bool reached = false;
  EXPECT_FALSE(with(drop_all, [&] {
    { Rescale at_the_end_of_a_scope{total}; }  // dropped here: answered all the same
    reached = true;
    Rescale while_unwinding{total};
    sin(total);  // dropped at last
    ADD_FAILURE() << "went on";
  }));
  EXPECT_TRUE(reached);
  EXPECT_THAT(total, IsNumber(2));
}

TEST(HandlersGuideDeathTest, CancelledOutOfNoexceptTerminates) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto compute = [](const Tensor& x) noexcept { return sin(x); };
  DropAll drop_all;
  EXPECT_DEATH(with(drop_all, [&] { return compute(tensor(1.)); }), "");
}

TEST(HandlersGuide, CatchAllMustLetCancelledGo) {
  DropAll drop_all;
  int caught = 0;
  const auto result = with(drop_all, [&] {
    try {
      return sin(tensor(1.));
    } catch (const std::exception&) {  // Cancelled is none
      ADD_FAILURE();
    } catch (...) {
      ++caught;
      throw;
    }
    return Tensor();
  });
  EXPECT_EQ(caught, 1);
  EXPECT_FALSE(result);
}

// ---- higher-order operations --------------------------------------------------------------------

struct Names : Handler {
  std::vector<std::string> names;
  Outputs handle(Call& call) override {
    names.push_back(call.op().name);
    return perform(std::move(call));
  }
};

TEST(HandlersGuide, AHandlerSeesACheckpointAndWhatRunsInIt) {
  const Tensor x = tensor(2.);
  const auto layer = checkpoint([](const Tensor& v) { return sin(v) * v; });
  Names around;
  with(around, [&] { return layer(x); });  // call sin multiply
  EXPECT_THAT(around.names, ElementsAre("call", "sin", "multiply"));

  const auto names = std::make_shared<Names>();  // kept alive for the backward pass
  grad([&](const Tensor& v) { return with(names, [&] { return layer(v); }); })(x);
  EXPECT_THAT(names->names, ElementsAre("call", "sin", "multiply", "sin", "multiply"));

  Names lent;
  EXPECT_THAT(message_of<TransformError>(
                  [&] { grad([&](const Tensor& v) { return with(lent, [&] { return layer(v); }); })(x); }),
              HasSubstr("has ended: install it outside of grad, or give `with` a std::shared_ptr of it"));
}

struct Scale {
  using Result = Tensor;
  Tensor x;
};
struct Doubles : Handles<Scale> {
  Tensor handle(Scale& scale) override { return 2 * scale.x; }
};

TEST(HandlersGuide, WhatIsComputedOutsideHasLostItsDerivative) {
  const auto f = [](const Tensor& x) { return x * perform(Scale{x}); };
  Doubles doubles;  // answers 2 * scale.x
  const auto inside = [&](const Tensor& x) { return with(doubles, [&] { return f(x); }); };
  EXPECT_THAT(grad(inside)(tensor(3.)), IsNumber(12));  // of 2 x * x
  EXPECT_THAT(message_of<TransformError>([&] { with(doubles, [&] { return grad(f)(tensor(3.)); }); }),
              HasSubstr("its derivative would be lost"));
}

struct Draw {
  using Result = double;
};
struct Dice : Handles<Draw> {
  int drawn = 0;
  double handle(Draw&) override { return ++drawn; }
};

TEST(HandlersGuide, EffectsInACheckpointAreAnsweredOnce) {
  const auto noisy = checkpoint([](const Tensor& x) { return x * x * perform(Draw{}); });
  Dice dice;
  const Tensor slope = with(dice, [&] { return grad(noisy)(tensor(3.)); });  // 2 x * 1
  EXPECT_THAT(slope, IsNumber(6));
  EXPECT_EQ(dice.drawn, 1);  // though the function ran twice
}

TEST(HandlersGuide, CapturesAreDifferentiatedByCheckpointsAndRefusedByRules) {
  const auto captured = [](const Tensor& w) { return checkpoint([w](const Tensor& x) { return w * x; })(tensor(3.)); };
  EXPECT_THAT(grad(captured)(tensor(2.)), IsNumber(3));

  const auto scaled = [](const Tensor& w, const Tensor& x) {
    return custom_jvp([w](const Tensor& v) { return w * v; },
                      [w](const Tensor& v, const Tensor& dv) { return std::pair(w * v, w * dv); })(x);
  };
  EXPECT_THAT(grad<1>(scaled)(tensor(2.), tensor(3.)), IsNumber(2));
  EXPECT_THAT(message_of<TransformError>([&] { grad<0>(scaled)(tensor(2.), tensor(3.)); }),
              HasSubstr("its function captures a value that grad transforms, and the rule gives no derivative for it: "
                        "pass it as an argument"));
  EXPECT_THAT(vmap(scaled)(tensor({2., 3.}), tensor({1., 1.})), Equals(tensor({2., 3.})));
}

TEST(HandlersGuide, RulesOfBatching) {
  const auto solve = custom_vmap([](const Tensor& a, const Tensor& b) { return b / a; },
                                 [](Index lanes, const std::vector<bool>& batched, const Tensor& a, const Tensor& b) {
                                   // Computed once for all lanes if `a` is the same for each lane.
                                   const Tensor inverse = 1 / a;
                                   EXPECT_EQ(batched, (std::vector<bool>{false, true}));
                                   EXPECT_EQ(lanes, 2);
                                   return inverse * b;
                                 });
  EXPECT_THAT(vmap(solve, {.in_axes = {unmapped, 0}})(tensor(2.), tensor({4., 6.})), Equals(tensor({2., 3.})));
}

TEST(HandlersGuide, LinearizeRunsTheFunctionOnce) {
  Names names;
  const auto [y, df] = with(names, [] { return linearize(sin, tensor(0.)); });
  names.names.clear();
  EXPECT_THAT(with(names, [&, &map = df] { return map(tensor(3.)); }), IsNumber(3));
  EXPECT_THAT(names.names, testing::Not(testing::Contains("sin")));
}

// ---- pitfalls -----------------------------------------------------------------------------------

TEST(HandlersGuide, AValueThatEscapesVmapIsAnErrorAndOneOfGradAConstant) {
  Tensor kept;
  vmap([&](const Tensor& x) { return kept = sin(x); })(tensor({1., 2.}));
  EXPECT_THAT(message_of<TransformError>([&] { kept + 1; }), HasSubstr("vmap"));

  grad([&](const Tensor& x) { return kept = sin(x); })(tensor(1.));
  EXPECT_THAT(kept + 1, IsNumber(std::sin(1.) + 1));
}

TEST(HandlersGuide, OperandsInOrder) {
  Names names;
  const Tensor x = tensor(1.);
  with(names, [&] {
    const Tensor s = sin(x), c = cos(x);  // in this order; sin(x) * cos(x) would leave it to the compiler
    return s * c;
  });
  EXPECT_THAT(names.names, ElementsAre("sin", "cos", "multiply"));
}

struct Half : Handler {
  int n = 0;
  Outputs handle(Call& call) override {
    ++n;
    Outputs outputs = perform(std::move(call));
    return {outputs[0] / 2.};
  }
};

TEST(HandlersGuide, AThreadBeginsWithoutHandlers) {
  CountOps counting;
  Tensor slope;
  const auto run = [&] {
    const auto [y, pullback] = vjp([](const Tensor& x) { return sum(sin(x)); }, tensor({0., 1.}));
    std::thread other([&, pullback = pullback] { std::tie(slope) = pullback(ones({})); });  // sees no handler
    other.join();
    return y;
  };
  with(counting, run);
  EXPECT_EQ(counting.n, 2);  // sin and sum
  EXPECT_THAT(slope, IsNear(cos(tensor({0., 1.}))));
}

TEST(HandlersGuide, AHandlerStandsInsideOfACompiledFunction) {
  Half half;
  const auto f = [](const Tensor& x) { return sin(x); };
  const Tensor at = tensor({1., 2.});
  const auto fast = compile([&](const Tensor& x) { return with(half, [&] { return f(x); }); }, {.name = "f"});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(fast(at), IsNear(sin(at) / 2.));
  EXPECT_EQ(half.n, 1);
  const auto compiled = compile(f);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(with(half, [&] { return compiled(at); }), IsNear(sin(at) / 2.));
  EXPECT_EQ(half.n, 4);
  EXPECT_EQ(compiled.recordings(), 0u);
}

}  // namespace
