// BFGS and L-BFGS on functions with known minima.

#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

// The minimum is 0, where all elements are 1.
Tensor valley(const Tensor& x) {
  const Index n = x.size();
  const Tensor left = x(slice(0, n - 1)), right = x(slice(1, none));
  return sum(100 * square(right - square(left)) + square(1 - left));
}

class Minimize : public testing::TestWithParam<MinimizeMethod> {};
INSTANTIATE_TEST_SUITE_P(By, Minimize, testing::Values(MinimizeMethod::bfgs, MinimizeMethod::lbfgs),
                         [](const auto& method) { return method.param == MinimizeMethod::bfgs ? "bfgs" : "lbfgs"; });

TEST_P(Minimize, FindsTheMinimumOfRosenbrocksFunction) {
  for (Index n : {2, 10}) {
    Tensor start = full({n}, -1.2, float64);
    const auto found = minimize(valley, start, {.method = GetParam(), .gtol = 1e-9});
    EXPECT_TRUE(found.converged);
    EXPECT_TRUE(allclose(found.x, ones({n}, float64), 1e-7)) << found.x;
    EXPECT_LT(found.value.item<double>(), 1e-15);
    EXPECT_LT(max(abs(found.grad)).item<double>(), 1e-9);
    EXPECT_LT(found.evaluations, 40 * n) << found.steps;
  }
}

struct Line {
  Tensor slope, offset;
};

// Least squares: the minimum is the solution of the normal equations.
TEST_P(Minimize, SolvesLeastSquaresOverATree) {
  const Tensor x = linspace(-1, 2, 20, float64), y = 3 * x - 0.5 + 0.1 * sin(9 * x);
  const auto loss = [&](const Line& line) { return sum(square(line.slope * x + line.offset - y)); };
  const auto found =
      minimize(loss, Line{tensor(0., float64), tensor(0., float64)}, {.method = GetParam(), .gtol = 1e-10});
  const Tensor exact = lstsq(stack({x, ones_like(x)}, -1), y);
  EXPECT_TRUE(found.converged);
  EXPECT_THAT(stack({found.x.slope, found.x.offset}), IsNear(exact));
}

TEST_P(Minimize, StaysWhereTheFunctionIsDefined) {
  const auto f = [](const Tensor& x) { return sum(x - log(x)); };  // lowest at 1
  const auto found = minimize(f, tensor({5., 0.01}, float64), {.method = GetParam(), .gtol = 1e-9});
  EXPECT_TRUE(found.converged);
  EXPECT_TRUE(allclose(found.x, ones({2}, float64), 1e-8)) << found.x;
}

TEST_P(Minimize, ReportsThatItDidNotConverge) {
  const auto falls =
      minimize([](const Tensor& x) { return sum(-x); }, zeros({2}, float64), {.method = GetParam(), .steps = 3});
  EXPECT_FALSE(falls.converged);
  const auto few = minimize(valley, full({2}, -1.2, float64), {.method = GetParam(), .steps = 2});
  EXPECT_FALSE(few.converged);
  EXPECT_EQ(few.steps, 2);
  EXPECT_LT(few.value.item<double>(), valley(full({2}, -1.2, float64)).item<double>());
}

TEST_P(Minimize, AcceptsFloat32AndEmptyTensors) {
  const auto found = minimize(valley, full({2}, -1.2, float32), {.method = GetParam(), .gtol = 1e-3});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.x.dtype(), float32);
  EXPECT_TRUE(allclose(found.x, ones({2}), 1e-2)) << found.x;
  EXPECT_TRUE(minimize([](const Tensor& x) { return sum(x); }, zeros({0}, float64), {.method = GetParam()}).converged);
}

// The minimum as a function of a parameter is a root of the gradient.
TEST(Minimize, CustomRootDifferentiatesTheMinimum) {
  // The minimum is at asinh(a).
  const auto loss = [](const Tensor& x, const Tensor& a) { return sum(cosh(x) - a * x); };
  const auto lowest =
      custom_root([&](const Tensor& x, const Tensor& a) { return grad(loss)(x, a); },
                  [&](const Tensor& a) {
                    return minimize([&](const Tensor& x) { return loss(x, a); }, zeros_like(a), {.gtol = 1e-11}).x;
                  });
  const Tensor a = tensor({0.5, -2.}, float64);
  EXPECT_TRUE(allclose(lowest(a), asinh(a), 1e-9));
  EXPECT_TRUE(allclose(grad([&](const Tensor& v) { return sum(lowest(v)); })(a), 1 / sqrt(1 + square(a)), 1e-8));
}

TEST(Minimize, Errors) {
  EXPECT_THAT([] { minimize([](const Tensor& x) { return sum(log(x)); }, tensor({-1.}, float64)); },
              ThrowsMessage<Error>(HasSubstr("minimize: the function is ")));
  const auto bowl = [](const Tensor& x) { return sum(square(x)); };
  const Tensor one = tensor({1., 2.}, float64);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect = [&](const Tensor& x, MinimizeOptions options, const char* text) {
    EXPECT_THAT([&] { minimize(bowl, x, options); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect(one, {.gtol = nan}, "minimize: gtol is nan");
  expect(one, {.gtol = -1}, "minimize: gtol is -1");
  expect(one, {.steps = -1}, "minimize: at most -1 steps");
  expect(one, {.method = MinimizeMethod::lbfgs, .memory = 0}, "minimize: L-BFGS is to keep 0 steps");
  expect(tensor({1., nan}, float64), {}, "minimize: the start has an element that is nan");
  EXPECT_THAT(
      [&] {
        minimize([](const Tensor& x) { return sum(sqrt(x)); }, tensor({0., 1.}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("an element of its gradient is inf")));
  EXPECT_THAT(
      [] {
        minimize([](const Tensor& x) { return sum(x * 1.); }, tensor({1, 2}));
      },
      ThrowsMessage<DtypeError>("minimize: the start is int32: convert it to floats with astype"));
}

}  // namespace
