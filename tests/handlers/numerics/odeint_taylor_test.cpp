// The Taylor method of odeint, and series of solutions, against mpmath.
#include <stave/handlers/taylor/jet.h>

#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

const auto lorenz = [](const Tensor& y, const Tensor&) {
  return stack({10. * (y(1) - y(0)), y(0) * (28. - y(2)) - y(1), y(0) * y(1) - 8. / 3. * y(2)});
};
const Tensor start = tensor({1., 1., 1.}, float64);
constexpr OdeOptions tight{.rtol = 1e-16, .atol = 1e-16, .method = OdeMethod::taylor, .order = 20};

// The solution at t = 1 by mpmath.odefun with 40 digits (tests/data/taylor_odes.py).
TEST(OdeintTaylor, SolvesTheLorenzSystemToTheLastDigits) {
  const Tensor path = odeint(lorenz, tight)(start, tensor({0., 1.}, float64));
  const std::vector<double> found = values(path(1)),
                            expected = {-9.3785700109250623608, -8.3570337884266447329, 29.36232533736342818};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 1e-14 * std::abs(expected[i])) << i;
}

// y' = y^2 + t with y(0) = 1/2, by mpmath: an equation that depends on time.
TEST(OdeintTaylor, SolvesAnEquationThatDependsOnTime) {
  const auto riccati = [](const Tensor& y, const Tensor& t) { return square(y) + t; };
  for (const int order : {0, 8, 20}) {
    const auto solve = odeint(riccati, {.rtol = 1e-14, .atol = 1e-14, .method = OdeMethod::taylor, .order = order});
    const Tensor path = solve(tensor(0.5, float64), tensor({0., 1.}, float64));
    EXPECT_THAT(path(1), IsNumber(2.1278712557905226858, 1e-13)) << order;
  }
}

TEST(OdeintTaylor, TakesFewerStepsThanTheOtherMethod) {
  int taylor_calls = 0, other_calls = 0;
  const auto counted = [](int& calls) {
    return [&calls](const Tensor& y, const Tensor& t) { return ++calls, lorenz(y, t); };
  };
  const Tensor times = tensor({0., 1.}, float64);
  odeint(counted(taylor_calls), {.rtol = 1e-12, .atol = 1e-12, .method = OdeMethod::taylor})(start, times);
  odeint(counted(other_calls), {.rtol = 1e-12, .atol = 1e-12})(start, times);
  EXPECT_LT(20 * taylor_calls, other_calls);
}

TEST(OdeintTaylor, HasDerivativesAndLanes) {
  const auto solve = odeint([](const Tensor& y, const Tensor&, const Tensor& a) { return a * y * (1. - y); },
                            {.rtol = 1e-14, .atol = 1e-14, .method = OdeMethod::taylor});
  const Tensor times = tensor({0., 0.7, 1.2}, float64), y0 = tensor(0.3, float64), a = tensor(1.5, float64);
  // The logistic curve y0 e / (1 - y0 + y0 e) with e = exp(a t).
  const auto exact = [&](const Tensor& y, const Tensor& rate) {
    const Tensor e = exp(rate * times);
    return y * e / (1. - y + y * e);
  };
  EXPECT_THAT(solve(y0, times, a), IsNear(exact(y0, a), 1e-13));
  const auto of_rate = [&](const Tensor& rate) { return sum(square(solve(y0, times, rate))); };
  const auto exactly = [&](const Tensor& rate) { return sum(square(exact(y0, rate))); };
  EXPECT_THAT(grad(of_rate)(a), IsNear(grad(exactly)(a), 1e-12));
  EXPECT_THAT(jvp(of_rate, a, a).second, IsNear(jvp(exactly, a, a).second, 1e-12));
  const Tensor rates = tensor({0.5, 1.5, 3.}, float64);
  const Tensor all = vmap([&](const Tensor& rate) { return solve(y0, times, rate); })(rates);
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(all(i), IsNear(exact(y0, rates(i)), 1e-13));
}

TEST(OdeintTaylor, RefusesOrdersThatItCannotUse) {
  const auto solve = [](OdeOptions options) {
    return message_of<Error>([&] { odeint(lorenz, options)(start, tensor({0., 1.}, float64)); });
  };
  EXPECT_THAT(solve({.method = OdeMethod::taylor, .order = 1}), HasSubstr("odeint: the order is 1"));
  EXPECT_THAT(solve({.order = 5}), HasSubstr("odeint: the order is 5"));
  const auto explodes = [](const Tensor& y, const Tensor&) { return square(y); };
  EXPECT_THAT(message_of<Error>([&] {
                odeint(explodes, {.method = OdeMethod::taylor})(tensor(1., float64), tensor({0., 2.}, float64));
              }),
              AllOf(HasSubstr("odeint: at t = 1"), HasSubstr("grow without bound")));
}

TEST(SeriesOfSolution, OfExponentialGrowthIsItsSeries) {
  const Tensor y0 = tensor({2., -1.}, float64), t0 = tensor(0.5, float64);
  // y' = 2 t y: y = y0 exp(t^2 - 1/4), with t = 1/2 + s: exp(s + s^2).
  const std::vector<Tensor> found =
      series_of_solution([](const Tensor& y, const Tensor& t) { return 2. * t * y; }, y0, t0, 4);
  const double expected[] = {1, 1, 1.5, 7. / 6, 25. / 24};
  ASSERT_EQ(found.size(), 5u);
  for (std::size_t k = 0; k < 5; ++k) EXPECT_THAT(found[k], IsNear(expected[k] * y0, 1e-15)) << k;
}

struct Ball {
  Tensor height, speed;
};
Ball fall(const Ball& ball, const Tensor& t) { return {ball.speed, t - 9.81}; }
TEST(SeriesOfSolution, OfATree) {
  const Ball ball{tensor(10., float64), tensor(1., float64)};
  const std::vector<Ball> found = series_of_solution(fall, ball, tensor(0., float64), 3);
  EXPECT_THAT(found[2].height, IsNumber(-9.81 / 2, 1e-15));
  EXPECT_THAT(found[3].height, IsNumber(1. / 6, 1e-15));
  EXPECT_THAT(found[2].speed, IsNumber(0.5, 1e-15));
}

TEST(SeriesOfSolution, TakesFewOperations) {
  CountOps ops;
  with(ops, [] { series_of_solution(lorenz, start, tensor(0., float64), 20); });
  EXPECT_LE(ops.n, 1139);
}

// A long function needs no deep recursion.
TEST(SeriesOfSolution, OfALongFunction) {
  const auto f = [](const Tensor& y, const Tensor&) {
    Tensor z = y;
    for (int i = 0; i < 50'000; ++i) z = z * 1.;
    return z;
  };
  const auto found = series_of_solution(f, tensor(1., float64), tensor(0., float64), 3);
  EXPECT_THAT(found[3], IsNumber(1. / 6, 1e-15));
}

// y' = y exp(z)^4 exp(z)^-4 with z = y: the loop's steps, which a recorder discards, compute exp(z)
// too.
TEST(SeriesOfSolution, OfALoopThatIsRecorded) {
  const auto coefficients = [](const Tensor& y0) {
    const auto f = [](const Tensor& y, const Tensor&) {
      const Tensor z = 0.5 * y + 0.5 * y;
      const Tensor s = loop(4, [z](const Tensor& r) { return r * exp(z); })(y);
      return s * exp(-4. * z) * exp(z) / exp(z);
    };
    return stack(series_of_solution(f, y0, tensor(0., float64), 3));
  };
  const Tensor y0 = tensor(0.5, float64), expected = tensor({0.5, 0.5, 0.25, 0.5 / 6}, float64);
  EXPECT_THAT(coefficients(y0), IsNear(expected, 1e-14));
  EXPECT_THAT(compile(coefficients)(y0), IsNear(expected, 1e-14));
  EXPECT_THAT(trace(coefficients)(y0)(y0), IsNear(expected, 1e-14));
  const Tensor many = compile([&](const Tensor& ys) { return vmap(coefficients)(ys); })(stack({y0, 2. * y0}));
  EXPECT_THAT(many, IsNear(stack({expected, 2. * expected}), 1e-14));
}

TEST(SeriesOfSolution, RefusesADerivativeOfAnotherShape) {
  EXPECT_THAT(message_of<ShapeError>([] {
                series_of_solution([](const Tensor& y, const Tensor&) { return sum(y); }, start, tensor(0., float64),
                                   2);
              }),
              HasSubstr("jet: the derivative of the solution is float64 [], the solution float64 [3]"));
}

}  // namespace
