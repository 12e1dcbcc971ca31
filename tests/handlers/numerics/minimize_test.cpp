// The methods of minimize on functions with known minima.

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

class MinimizeBy : public testing::TestWithParam<MinimizeMethod> {};
std::string name_of(MinimizeMethod method) {
  switch (method) {
    case MinimizeMethod::bfgs: return "bfgs";
    case MinimizeMethod::lbfgs: return "lbfgs";
    case MinimizeMethod::newton_cg: return "newton_cg";
    case MinimizeMethod::trust_ncg: return "trust_ncg";
    case MinimizeMethod::dogleg: return "dogleg";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(All, MinimizeBy,
                         testing::Values(MinimizeMethod::bfgs, MinimizeMethod::lbfgs, MinimizeMethod::newton_cg,
                                         MinimizeMethod::trust_ncg, MinimizeMethod::dogleg),
                         [](const auto& method) { return name_of(method.param); });

TEST_P(MinimizeBy, FindsTheMinimumOfRosenbrocksFunction) {
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
TEST_P(MinimizeBy, SolvesLeastSquaresOverATree) {
  const Tensor x = linspace(-1, 2, 20, float64), y = 3 * x - 0.5 + 0.1 * sin(9 * x);
  const auto loss = [&](const Line& line) { return sum(square(line.slope * x + line.offset - y)); };
  const auto found =
      minimize(loss, Line{tensor(0., float64), tensor(0., float64)}, {.method = GetParam(), .gtol = 1e-10});
  const Tensor exact = lstsq(stack({x, ones_like(x)}, -1), y);
  EXPECT_TRUE(found.converged);
  EXPECT_THAT(stack({found.x.slope, found.x.offset}), IsNear(exact));
}

TEST_P(MinimizeBy, StaysWhereTheFunctionIsDefined) {
  const auto f = [](const Tensor& x) { return sum(x - log(x)); };  // lowest at 1
  const auto found = minimize(f, tensor({5., 0.01}, float64), {.method = GetParam(), .gtol = 1e-9});
  EXPECT_TRUE(found.converged);
  EXPECT_TRUE(allclose(found.x, ones({2}, float64), 1e-8)) << found.x;
}

TEST_P(MinimizeBy, ReportsThatItDidNotConverge) {
  const auto falls =
      minimize([](const Tensor& x) { return sum(-x); }, zeros({2}, float64), {.method = GetParam(), .steps = 3});
  EXPECT_FALSE(falls.converged);
  const auto few = minimize(valley, full({2}, -1.2, float64), {.method = GetParam(), .steps = 2});
  EXPECT_FALSE(few.converged);
  EXPECT_EQ(few.steps, 2);
  EXPECT_LT(few.value.item<double>(), valley(full({2}, -1.2, float64)).item<double>());
}

TEST_P(MinimizeBy, AcceptsFloat32AndEmptyTensors) {
  const auto found = minimize(valley, full({2}, -1.2, float32), {.method = GetParam(), .gtol = 1e-3});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.x.dtype(), float32);
  EXPECT_TRUE(allclose(found.x, ones({2}), 1e-2)) << found.x;
  EXPECT_TRUE(minimize([](const Tensor& x) { return sum(x); }, zeros({0}, float64), {.method = GetParam()}).converged);
}

// The minimum is at asinh(a).
TEST_P(MinimizeBy, TheMinimumHasDerivativesByCapturedValues) {
  const auto lowest = [](const Tensor& a) {
    const auto loss = [&](const Tensor& x) { return sum(cosh(x) - a * x); };
    return minimize(loss, zeros({2}, float64), {.method = GetParam(), .gtol = 1e-11});
  };
  const Tensor a = tensor({0.5, -2.}, float64), slope = 1 / sqrt(1 + square(a));
  const auto of_x = [&](const Tensor& v) { return sum(lowest(v).x); };
  EXPECT_THAT(grad(of_x)(a), IsNear(slope, 1e-9));
  EXPECT_THAT(jvp([&](const Tensor& v) { return lowest(v).x; }, a, ones_like(a)).second, IsNear(slope, 1e-9));
  EXPECT_THAT(hessian(of_x)(a), IsNear(diag(-a * slope * slope * slope), 1e-9));
  EXPECT_THAT(grad([&](const Tensor& v) { return lowest(v).value; })(a), IsNear(-asinh(a), 1e-9));
  EXPECT_THAT(vmap(grad(of_x))(stack({a, a + 1})(slice(0, 1))), IsNear(reshape(slope, {1, 2}), 1e-9));
}

// At the start, a saddle in direction 1, the Hessian is not positive definite.
TEST(Minimize, MethodsWithTheHessianLeaveSaddles) {
  const auto f = [](const Tensor& x) { return square(x(0)) + square(square(x(1)) - 1) + 0.1 * x(1); };
  for (const MinimizeMethod method : {MinimizeMethod::newton_cg, MinimizeMethod::trust_ncg, MinimizeMethod::dogleg}) {
    const auto found = minimize(f, tensor({1., 0.1}, float64), {.method = method, .gtol = 1e-9});
    EXPECT_TRUE(found.converged);
    const double x = found.x(1).item<double>();
    EXPECT_NEAR(4 * x * (x * x - 1) + 0.1, 0, 1e-8);
    EXPECT_GT(3 * x * x, 1);  // the second derivative is positive
    EXPECT_LT(found.steps, 20);
  }
}

// A quadratic function takes one step, and conjugate gradients as many products as it has
// eigenvalues.
TEST(Minimize, NewtonSolvesAQuadraticFunctionInOneStep) {
  const Tensor scales = arange(1, 31, 1, float64);
  const auto f = [&](const Tensor& x) { return sum(scales * square(x - 0.01)) / 2; };
  const auto found = minimize(f, zeros({30}, float64), {.method = MinimizeMethod::dogleg, .gtol = 1e-10});
  EXPECT_EQ(found.steps, 1);
  EXPECT_THAT(found.x, IsNear(full({30}, 0.01, float64)));
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

// The minimum x(p) of x^4 / 4 + x^2 / 2 - p x, where x^3 + x = p, has the derivative
// 1 / (3 x^2 + 1).
TEST(Minimize, DerivativesOfACompiledMinimumAreRightOrRefused) {
  const auto root = [](const Tensor& p) {
    return minimize([&](const Tensor& x) { return square(square(x)) / 4 + square(x) / 2 - p * x; },
                    tensor(0.8, float64), {.gtol = 1e-12})
        .x;
  };
  const auto second = [](auto f) { return grad(grad(f)); };
  const auto compiled = compile(root);
  const Tensor p = tensor(2., float64);
  EXPECT_THAT(grad(compiled)(p), IsNear(tensor(0.25, float64), 1e-10));
  EXPECT_THAT(second(compiled)(p), IsNear(tensor(-3 / 32., float64), 1e-10));
  EXPECT_THAT(compile(second(second(root)))(p), IsNear(tensor(-24 * 75 / 16384., float64), 1e-10));
  EXPECT_THAT(message_of<TransformError>([&] { second(second(compiled))(p); }),
              HasSubstr("has derivatives up to order 3 here"));
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
  EXPECT_THAT(
      [&] { minimize([](const Tensor& x) { return sum(x - log(x)); }, -one, {.method = MinimizeMethod::trust_ncg}); },
      ThrowsMessage<Error>(HasSubstr("nan at the start")));
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
