// Handlers of operations and of effects between nested transforms, and an operation with two
// outputs under them.
#include <numbers>

#include <stave/stave.h>

#include "matchers.h"
#include "nesting.h"

namespace nesting_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;

struct Seen : Handler {
  std::vector<std::string> calls;
  Outputs handle(Call& call) override {
    if (!call.inputs().empty()) calls.push_back(std::string(call.op().name) + call.input(0).shape().str());
    return perform(std::move(call));
  }
};

TEST(Interceptor, SeesOperationsAtItsPlaceInTheNest) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}, {5., 6.}});
  Seen inside, between, outside;
  const auto f = [&](T row) { return with(inside, [&] { return sum(sin(row)); }); };
  const auto g = [&](T row) { return with(between, [&] { return grad(f)(row); }); };
  const Tensor result = with(outside, [&] { return vmap(g)(x); });
  EXPECT_THAT(result, IsNear(cos(x)));
  EXPECT_THAT(inside.calls, ElementsAre("sin[2]", "sum[2]"));
  // The operations of the backward pass are included.
  EXPECT_THAT(between.calls, testing::IsSupersetOf({"sin[2]", "sum[2]", "cos[2]", "scale[2]"}));
  EXPECT_THAT(outside.calls, testing::IsSupersetOf({"sin[3,2]", "sum[3,2]", "cos[3,2]", "scale[3,2]"}));
}

TEST(Interceptor, OneObjectMayBeInstalledSeveralTimes) {
  CountOps once, thrice;
  const auto f = [](T x) { return sin(x) * x; };
  with(once, [&] { f(x3); });
  with(thrice, [&] { with(thrice, [&] { with(thrice, [&] { f(x3); }); }); });
  EXPECT_EQ(once.n, 2);
  EXPECT_EQ(thrice.n, 6);
}

// Answers sin with the same tensor each time, and abs with its own input.
struct Reuses : Handler {
  Tensor cached = number(0.5);
  Outputs handle(Call& call) override {
    if (&call.op() == &op_sin) return cached;
    if (&call.op() == &op_abs) return call.input(0);
    return perform(std::move(call));
  }
};

TEST(Interceptor, MayAnswerWithASharedTensor) {
  Reuses reuses;
  const auto f = [](T x, T y) { return sin(x) * sin(y) * abs(x); };
  with(reuses, [&] {
    // The value is .25 x. By the rules, d/dx [sin x sin y |x|] = cos x * .5 * x + .25.
    const auto [value, gradients] = value_and_grad<0, 1>(f)(number(2), number(3));
    EXPECT_THAT(value, IsNumber(0.5, 1e-12));
    EXPECT_THAT(std::get<0>(gradients), IsNumber(std::cos(2.) * .5 * 2 + .25, 1e-12));
    EXPECT_THAT(std::get<1>(gradients), IsNumber(std::cos(3.) * .5 * 2, 1e-12));
    EXPECT_THAT(jvp(f, std::tuple(number(2), number(3)), std::tuple(number(0), number(1))).second,
                IsNumber(std::cos(3.) * .5 * 2, 1e-12));
    EXPECT_THAT(grad([](T x) { return abs(x) * x; })(number(2)), IsNumber(4, 0));
  });
  EXPECT_EQ(live_notes(reuses.cached), 0);
  EXPECT_THAT(reuses.cached, IsNumber(0.5, 0));
}

// Inside grad, the operations that this handler performs are differentiated themselves. Outside
// grad, the handler only provides the value of sin, and grad uses the rule of sin.
struct SinAsCosine : Handler {
  Outputs handle(Call& call) override {
    if (&call.op() != &op_sin) return perform(std::move(call));
    return cos(call.input(0) - std::numbers::pi / 2);
  }
};

TEST(Interceptor, MayPerformOtherOperations) {
  SinAsCosine rewrite;
  const auto f = [](T x) { return sin(x) * x; };
  const auto rewritten = [&](T x) { return with(rewrite, [&] { return f(x); }); };
  const double expected = std::cos(0.6) * 0.6 + std::sin(0.6);
  EXPECT_THAT(grad(rewritten)(number(0.6)), IsNumber(expected, 1e-11));
  EXPECT_THAT(jvp(rewritten, number(0.6), number(1)).second, IsNumber(expected, 1e-11));
  EXPECT_THAT(with(rewrite, [&] { return grad(f)(number(0.6)); }), IsNumber(expected, 1e-11));
  EXPECT_THAT(vmap(grad(rewritten))(x3), IsNear(cos(x3) * x3 + sin(x3), 1e-11));
}

// Passes calls on as lvalues and reads them afterwards. The old values must still be there.
struct ReadsAfterwards : Handler {
  std::vector<double> seen;
  Outputs handle(Call& call) override {
    Outputs outputs = perform(call);
    for (const Tensor& input : call.inputs())
      if (input.node().storage) seen.push_back(values(input)[0]);
    return outputs;
  }
};

TEST(Interceptor, MayReadTheCallAfterPerforming) {
  ReadsAfterwards reads;
  with(reads, [] { return (full({1000}, 2.) * 3.) + 4.; });
  EXPECT_THAT(reads.seen, ElementsAre(2, 3, 6, 4));
}

// A handler is an ordinary program. It may differentiate, or compute its answer more than once.
TEST(Interceptor, MayRunTransformsItself) {
  struct AbsBySlope : Handler {
    Outputs handle(Call& call) override {
      if (&call.op() != &op_abs) return perform(std::move(call));
      return grad([](T x) { return sum(square(x)); })(call.input(0));  // 2x
    }
  } slope;
  struct Twice : Handler {
    Outputs handle(Call& call) override {
      perform(call);
      return perform(std::move(call));
    }
  } twice;
  const auto f = [](T x) { return abs(x) * x; };
  // g(x) = 2x^2.
  const auto g = [&](T x) { return with(slope, [&] { return with(twice, [&] { return f(x); }); }); };
  EXPECT_THAT(g(number(3)), IsNumber(18, 0));
  EXPECT_THAT(grad(g)(number(3)), IsNumber(12, 0));
  EXPECT_THAT(grad(grad(g))(number(3)), IsNumber(4, 0));
  EXPECT_THAT(jvp(g, number(3), number(1)).second, IsNumber(12, 0));
  EXPECT_THAT(vmap(grad(g))(x3), IsNear(4 * x3));
  EXPECT_THAT(with(slope, [&] { return vmap(f)(x3); }), IsNear(2 * x3 * x3));
}

// ---- a user-defined operation with two outputs --------------------------------------------------

Outputs sine_and_cosine(T x);
constexpr auto twice = [](const Call& call, SmallVector<Abstract, 1>& outputs) {
  for (int i = 0; i < 2; ++i) outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
};
constexpr Op op_sine_and_cosine{
    .id = OpId::count,  // no backend knows it
    .name = "sine_and_cosine",
    .infer = twice,
    .reads = {ValueSet::outputs},
    .jvp =
        [](const JvpContext& c) {
          Outputs tangents(scale(c.tangent(0), c.out(1)));
          tangents.push_back(-scale(c.tangent(0), c.out(0)));
          return tangents;
        },
    .vjp =
        [](const VjpContext& c, int) {
          Tensor sum = zeros_like(c.out(0));
          if (c.ct(0).defined()) sum = sum + scale(c.ct(0), c.out(1));
          if (c.ct(1).defined()) sum = sum - scale(c.ct(1), c.out(0));
          return sum;
        },
    .batch = [](const BatchContext& c) { return sine_and_cosine(c.in(0)); },
};
Outputs sine_and_cosine(T x) { return perform(Call(op_sine_and_cosine, {x})); }

struct ComputesSineAndCosine : Handler {
  Outputs handle(Call& call) override {
    if (&call.op() != &op_sine_and_cosine) return perform(std::move(call));
    Outputs outputs(sin(call.input(0)));
    outputs.push_back(cos(call.input(0)));
    return outputs;
  }
};

TEST(SeveralOutputs, WorkUnderEveryTransform) {
  ComputesSineAndCosine below;
  with(below, [] {
    const auto both = [](T x) {
      const Outputs sc = sine_and_cosine(x);
      return sc[0] * sc[1] * sc[1];
    };
    const auto first = [](T x) { return sine_and_cosine(x)[0]; };
    const auto second = [](T x) { return sine_and_cosine(x)[1]; };
    const Tensor s = sin(x3), c = cos(x3), slope = c * c * c - 2 * s * s * c;
    EXPECT_THAT(jvp(both, x3, ones_like(x3)).second, IsNear(slope));
    EXPECT_THAT(vmap(grad(both))(x3), IsNear(slope));
    EXPECT_THAT(grad([&](T x) { return sum(both(x)); })(x3), IsNear(slope));
    EXPECT_THAT(vmap(grad(first))(x3), IsNear(c));
    EXPECT_THAT(vmap(grad(second))(x3), IsNear(-s));
    EXPECT_THAT(vmap(grad(grad(first)))(x3), IsNear(-s));
    EXPECT_THAT(vmap(hessian(both))(x3), IsNear(2 * s * s * s - 7 * s * c * c));
    const auto [out, pullback] = vjp([](T x) { return std::pair(sine_and_cosine(x)[0], sine_and_cosine(x)[1]); }, x3);
    EXPECT_THAT(std::get<0>(pullback(std::pair(v3, Tensor()))), IsNear(v3 * c));
    check_grads(both, x3, {.order = 2});
  });
}

// ---- user-defined effects -----------------------------------------------------------------------

struct Strength {
  using Result = Tensor;
  Tensor unhandled() const { return full({}, 1., float64); }
};
struct Report {
  using Result = void;
  Tensor value;
  void unhandled() const {}
};
struct Constant : Handles<Strength> {
  Tensor value;
  explicit Constant(Tensor value) : value(std::move(value)) {}
  Tensor handle(Strength&) override { return value; }
};
struct Collect : Handles<Report> {
  std::vector<Tensor> values;
  void handle(Report& report) override { values.push_back(report.value); }
};

Tensor regularised(T x) {
  perform(Report{x * 2});
  return sum(square(x)) + perform(Strength{}) * sum(x);
}

TEST(Effects, AreHandledOutsideOfAnyNest) {
  EXPECT_THAT(grad(regularised)(x3), IsNear(2 * x3 + 1));
  Constant strength(number(5));
  with(strength, [&] {
    EXPECT_THAT(grad(regularised)(x3), IsNear(2 * x3 + 5));
    EXPECT_THAT(jvp(regularised, x3, ones_like(x3)).second, IsNumber(2 * 1.6 + 15, 1e-12));
    const Tensor rows = stack({x3, v3});
    EXPECT_THAT(vmap(grad(regularised))(rows), IsNear(2 * rows + 5));
    EXPECT_THAT(hessian(regularised)(x3), IsNear(2 * eye(3, float64)));
  });
}

// An answer may be a value of an outer transform.
TEST(Effects, MayCarryDifferentiatedValues) {
  const auto by_strength = [](T c) {
    Constant strength(c);
    return with(strength, [] { return regularised(x3); });
  };
  EXPECT_THAT(grad(by_strength)(number(2)), IsNumber(1.6, 1e-12));
  EXPECT_THAT(vmap(by_strength)(tensor({0., 1.}, float64)), IsNear(sum(square(x3)) + tensor({0., 1.6}, float64)));
  const auto mixed = [&](T c) {
    Constant strength(c);
    // This is sum (2x + c)^2.
    return with(strength, [] { return sum(square(grad(regularised)(x3))); });
  };
  EXPECT_THAT(grad(mixed)(number(2)), IsNumber(2 * (2 * 1.6 + 3 * 2), 1e-12));
}

// One handler may answer operations and effects. Operations and effects that it performs while
// answering go to the handlers outside it.
TEST(Effects, OneHandlerMayAnswerEffectsAndOperations) {
  struct Both : Handles<Call, Strength> {
    int operations = 0;
    Outputs handle(Call& call) override {
      ++operations;
      perform(Report{call.input(0)});
      return perform(std::move(call));
    }
    Tensor handle(Strength&) override { return number(operations); }
  } both;
  Collect above, below;
  Tensor seen;
  const auto program = [&] {
    sum(square(x3));
    seen = perform(Strength{});
  };
  with(below, [&] { with(both, [&] { with(above, program); }); });
  EXPECT_THAT(seen, IsNumber(2, 0));
  EXPECT_EQ(below.values.size(), static_cast<std::size_t>(both.operations));
  EXPECT_TRUE(above.values.empty());
}

TEST(Effects, MayPassIntermediateValuesOut) {
  Collect collect;
  with(collect, [] { grad(regularised)(x3); });
  ASSERT_EQ(collect.values.size(), 1u);
  EXPECT_THAT(collect.values[0], IsNear(2 * x3));
  EXPECT_EQ(live_notes(collect.values[0]), 0);  // grad has ended, so the value is a constant.
}

}  // namespace nesting_test
