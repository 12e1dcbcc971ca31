// odeint: values and derivatives for equations with known solutions.

#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

// y' = a y has the solution y = y0 e^(a (t - t0)).
const auto growth = odeint([](const Tensor& y, const Tensor&, const Tensor& a) { return a * y; });
const Tensor times = tensor({0., 0.3, 1.}, float64), rate = tensor(0.7, float64), start = tensor({2., -1.}, float64);

TEST(Odeint, SolvesExponentialGrowth) {
  const Tensor path = growth(start, times, rate);
  EXPECT_EQ(path.shape(), Shape(3, 2));
  EXPECT_TRUE(allclose(path, expand_dims(exp(0.7 * times), 1) * start, 1e-7));
  EXPECT_THAT(path(0), Equals(start));
}

TEST(Odeint, IntegratesBackwardInTime) {
  const Tensor back = growth(start, tensor({1., 0.2}, float64), rate);
  EXPECT_TRUE(allclose(back(1), start * std::exp(-0.7 * 0.8), 1e-7));
  EXPECT_THAT(growth(start, tensor({1., 1.}, float64), rate)(1), Equals(start));
}

struct Ball {
  Tensor height, speed;
};

// A fall with a push that depends on time: the state is a tree, and there are two arguments.
TEST(Odeint, StateMayBeATreeAndDependOnTime) {
  const auto fall = odeint([](const Ball& b, const Tensor& t, const Tensor& g, const Tensor& push) {
    return Ball{b.speed, -g + push * t};
  });
  const Ball path =
      fall(Ball{tensor(10., float64), tensor(1., float64)}, times, tensor(9.81, float64), tensor(6., float64));
  const Tensor expected = 10. + times - 9.81 / 2 * square(times) + times * times * times;
  EXPECT_TRUE(allclose(path.height, expected, 1e-7));
  EXPECT_TRUE(allclose(path.speed, 1. - 9.81 * times + 3 * square(times), 1e-7));
}

// The energy of a pendulum stays constant over many swings.
TEST(Odeint, ConservesEnergy) {
  const auto swing = odeint([](const Tensor& y, const Tensor&) { return stack({y(1), -sin(y(0))}); });
  const Tensor path = swing(tensor({2., 0.}, float64), linspace(0, 50, 26, float64));
  const Tensor energy = square(path(slice(), 1)) / 2 - cos(path(slice(), 0));
  EXPECT_TRUE(allclose(energy, full_like(energy, -std::cos(2.)), 1e-5));
}

TEST(Odeint, DerivativesEqualThoseOfTheSolution) {
  const Tensor weights = tensor({{0.3, 1.}, {-2., 0.5}, {1., 0.7}}, float64);
  const auto numeric = [&](const Tensor& y, const Tensor& t, const Tensor& a) {
    return sum(weights * sin(growth(y, t, a)));
  };
  const auto exact = [&](const Tensor& y, const Tensor& t, const Tensor& a) {
    return sum(weights * sin(expand_dims(exp(a * (t - t(0))), 1) * y));
  };
  const auto got = grad<0, 1, 2>(numeric)(start, times, rate), expected = grad<0, 1, 2>(exact)(start, times, rate);
  EXPECT_TRUE(allclose(std::get<0>(got), std::get<0>(expected), 1e-6));
  EXPECT_TRUE(allclose(std::get<1>(got), std::get<1>(expected), 1e-6, 1e-7));
  EXPECT_TRUE(allclose(std::get<2>(got), std::get<2>(expected), 1e-6));
  const auto slope = [&](const auto& f, const Tensor& a) {
    return grad([&](const Tensor& v) { return f(start, times, v); })(a);
  };
  const auto second = [&](const auto& f) { return grad([&](const Tensor& v) { return slope(f, v); })(rate); };
  EXPECT_TRUE(allclose(second(numeric), second(exact), 1e-5)) << second(numeric) << " " << second(exact);
  const auto along = [&](const auto& f) {
    return jvp([&](const Tensor& v) { return f(start, times, v); }, rate, tensor(1., float64)).second;
  };
  EXPECT_TRUE(allclose(along(numeric), along(exact), 1e-6));
}

// f depends on the time. Checks the derivatives with respect to all times, including the first one.
TEST(Odeint, DerivativesByTimesEqualThoseOfTheSolution) {
  // The solution is y0 e^(sin t - sin t0).
  const auto rise = odeint([](const Tensor& y, const Tensor& t) { return y * cos(t); });
  const Tensor from = tensor({0.4, 1.1, 2.}, float64), y = tensor({1.5}, float64);
  const auto numeric = [&](const Tensor& t) { return sum(square(rise(y, t))); };
  const auto exact = [&](const Tensor& t) { return sum(square(1.5 * exp(sin(t) - sin(t(0))))); };
  EXPECT_TRUE(allclose(grad(numeric)(from), grad(exact)(from), 1e-6));
}

TEST(Odeint, UnderVmapEachLaneHasItsOwnSteps) {
  const Tensor rates = tensor({0.7, -30., 2.}, float64);
  const Tensor paths = vmap(growth, {.in_axes = {unmapped, unmapped, 0}})(start, times, rates);
  for (int lane = 0; lane < 3; ++lane) EXPECT_THAT(paths(lane), Equals(growth(start, times, rates(lane))));
  const auto last = [](const Tensor& a) { return growth(start, times, a)(-1, 0); };
  EXPECT_THAT(vmap(grad(last))(rates),
              IsNear(stack({grad(last)(rates(0)), grad(last)(rates(1)), grad(last)(rates(2))})));
}

TEST(Odeint, NonfiniteArgumentsAreErrorsBeforeTheFirstStep) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  int calls = 0;
  const auto counted = [&](OdeOptions options) {
    return odeint(
        [&](const Tensor& y, const Tensor&, const Tensor& a) {
          ++calls;
          return a * y;
        },
        options);
  };
  const Tensor one = tensor({1., 2.}, float64), ts = tensor({0., 1.}, float64), a = tensor(-1., float64);
  const auto expect = [&](const Tensor& y, const Tensor& at, const Tensor& by, OdeOptions options, const char* text) {
    EXPECT_THAT([&] { counted(options)(y, at, by); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect(one, tensor({0., nan}, float64), a, {}, "odeint: time 1 is nan");
  expect(one, tensor({0., 1., inf}, float64), a, {}, "odeint: time 2 is inf");
  expect(tensor({1., nan}, float64), ts, a, {}, "odeint: the start has an element that is nan");
  expect(tensor({inf, 1.}, float64), ts, a, {}, "odeint: the start has an element that is inf");
  for (const double wrong : {nan, inf, -1.}) {
    expect(one, ts, a, {.rtol = wrong}, "odeint: the tolerances are rtol = ");
    expect(one, ts, a, {.atol = wrong}, "odeint: the tolerances are rtol = ");
  }
  expect(one, ts, a, {.rtol = 0, .atol = 0}, "odeint: the tolerances are rtol = 0 and atol = 0");
  expect(one, ts, a, {.steps = 0}, "odeint: at most 0 steps");
  EXPECT_EQ(calls, 0);
  expect(one, ts, tensor(nan, float64), {}, "at the first time, t = 0, the equation gives a derivative that is nan");
  EXPECT_LE(calls, 2);
  const auto lanes = vmap(counted({}), {.in_axes = {0, 0, unmapped}});
  EXPECT_THAT(
      [&] {
        lanes(stack({one, one}), stack({ts, tensor({0., nan}, float64)}), a);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("odeint: time 1 is nan"), HasSubstr("lane 1 of 2"))));
  EXPECT_THAT(
      [&] {
        lanes(stack({one, one * nan}), stack({ts, ts}), a);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("odeint: the start has an element that is nan"), HasSubstr("lane 1 of 2"))));
}

TEST(Odeint, Errors) {
  // The solution 1 / (1 - t) has a pole at 1.
  const auto explodes = odeint([](const Tensor& y, const Tensor&) { return y * y; });
  EXPECT_THAT(
      [&] {
        explodes(tensor(1., float64), tensor({0., 2.}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("odeint: at t = 1 no step is short enough for the tolerances")));
  const auto few = odeint([](const Tensor& y, const Tensor&) { return cos(100 * y); }, {.steps = 3});
  EXPECT_THAT(
      [&] {
        few(tensor(1., float64), tensor({0., 2.}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("there were 3 steps since the previous requested time")));
  EXPECT_THAT(
      [&] {
        growth(start, tensor({0., 1., 0.5}, float64), rate);
      },
      ThrowsMessage<Error>("odeint: times must rise or fall throughout: 0, 1, 0.5"));
  EXPECT_THAT([&] { growth(start, tensor(1., float64), rate); },
              ThrowsMessage<ShapeError>(HasSubstr("odeint: times have shape []")));
  EXPECT_THAT(
      [&] {
        growth(tensor({1, 2}), times, rate);
      },
      ThrowsMessage<DtypeError>(HasSubstr("odeint: the start is int32")));
}

}  // namespace
