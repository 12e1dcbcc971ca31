// Nonlinear least squares: methods, solvers, losses, bounds, derivatives, transforms and errors.

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <stave/handlers/numerics/least_squares.h>
#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/taylor/laplacian.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

using Method = LeastSquaresMethod;
using Solver = LeastSquaresSolver;

// Rosenbrock's function as a sum of squares, 2 (n - 1) residuals; the minimum is where all x are 1.
Tensor valley(const Tensor& x) {
  const Tensor left = x(slice(0, -1)), right = x(slice(1, none));
  return concat({10 * (right - square(left)), 1 - left});
}
// Its Jacobian: row i < n - 1 has -20 x_i and 10 in the columns i and i + 1, and row n - 1 + i has
// -1 in column i. The first element is given as two, which are added.
CsrMatrix valley_jacobian(const Tensor& x) {
  const Index n = x.size();
  std::vector<std::int32_t> offsets{0}, columns;
  std::vector<Tensor> values;
  const auto add = [&](Index column, const Tensor& value) {
    columns.push_back(static_cast<std::int32_t>(column));
    values.push_back(value);
  };
  const Tensor one = ones({}, x.dtype());
  for (Index i = 0; i < n - 1; ++i) {
    if (i == 0) add(0, -5 * x(0));
    add(i, i == 0 ? -15 * x(i) : -20 * x(i));
    add(i + 1, 10 * one);
    offsets.push_back(static_cast<std::int32_t>(columns.size()));
  }
  for (Index i = 0; i < n - 1; ++i) {
    add(i, -one);
    offsets.push_back(static_cast<std::int32_t>(columns.size()));
  }
  return {from(offsets), from(columns), stack(values)};
}

TEST(LeastSquares, MethodsAndSolversFindTheMinimumOfRosenbrocksFunction) {
  for (const Method method : {Method::levenberg_marquardt, Method::dogleg})
    for (const Index n : {2, 20}) {
      const Tensor start = full({n}, -1.2, float64);
      const auto check = [&](const LeastSquaresResult<Tensor>& found) {
        EXPECT_TRUE(found.converged());
        EXPECT_THAT(found.x, IsNear(ones({n}, float64), 1e-7));
        EXPECT_LT(found.cost.item<double>(), 1e-14);
        EXPECT_LT(found.steps.item<int>(), 200);
        EXPECT_THAT(found.optimality, IsNear(max(abs(found.grad))));
      };
      check(least_squares(valley, start, {.method = method}));
      check(least_squares(valley, start, {.method = method, .solver = Solver::cg}));
      check(least_squares(with_jacobian(valley, valley_jacobian), start, {.method = method}));
    }
}

struct Line {
  Tensor slope, offset;
};
struct Misfits {
  Tensor first, rest;
};

TEST(LeastSquares, UnknownsAndResidualsAreTrees) {
  const Tensor x = linspace(-1, 2, 20, float64), y = 3 * x - 0.5 + 0.1 * sin(9 * x);
  const auto misfit = [&](const Line& line) {
    const Tensor all = line.slope * x + line.offset - y;
    return Misfits{all(0), reshape(all(slice(1, none)), {1, 19})};
  };
  const auto found = least_squares(misfit, Line{tensor(0., float64), tensor(0., float64)});
  const Tensor a = stack({x, ones_like(x)}, -1), exact = lstsq(a, y);
  EXPECT_THAT(stack({found.x.slope, found.x.offset}), IsNear(exact));
  EXPECT_THAT(found.cost, IsNear(sum(square(matmul(a, exact) - y)) / 2));
  const Tensor variance = sum(square(matmul(a, exact) - y)) / 18;
  EXPECT_THAT(parameter_covariance(misfit, found.x), IsNear(inv(matmul(matrix_transpose(a), a)) * variance, 1e-9));
}

const Tensor times = arange(0, 24, 1, float64) / 8;
// The data of tests/data/least_squares.py.
Tensor observed() {
  Tensor y = 3 * exp(-1.3 * times) + 0.5 + 0.05 * sin(9 * times);
  return scatter_add(y, tensor({{3}, {11}, {17}}), tensor({1.5, -2., 1.}, float64));
}
Tensor decay(const Tensor& p) { return p(0) * exp(-p(1) * times) + p(2); }
Tensor misfit(const Tensor& p) { return decay(p) - observed(); }
const std::map<std::string, RobustLoss> losses{{"linear", RobustLoss::linear},
                                               {"soft_l1", RobustLoss::soft_l1},
                                               {"huber", RobustLoss::huber},
                                               {"cauchy", RobustLoss::cauchy},
                                               {"arctan", RobustLoss::arctan}};

TEST(LeastSquares, LossesAndBoundsAgreeWithSciPy) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/least_squares.csv");
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    std::string loss;
    double f_scale = 0, a = 0, b = 0, c = 0, cost = 0;
    bool bounded = false;
    words >> loss >> f_scale >> bounded >> a >> b >> c >> cost;
    const double inf = std::numeric_limits<double>::infinity();
    const Bounds bounds{bounded ? tensor({0., 0., 0.55}, float64) : full({3}, -inf, float64),
                        bounded ? tensor({2.5, 10., 10.}, float64) : full({3}, inf, float64)};
    for (const Method method : {Method::levenberg_marquardt, Method::dogleg}) {
      const auto found = least_squares(misfit, tensor({2., 1., 0.7}, float64), bounds,
                                       {.method = method,
                                        .loss = losses.at(loss),
                                        .f_scale = f_scale,
                                        .ftol = 1e-15,
                                        .xtol = 1e-10,
                                        .gtol = 1e-12,
                                        .steps = 1000});
      EXPECT_TRUE(found.converged()) << line;
      EXPECT_THAT(found.x, IsNear(tensor({a, b, c}, float64), 2e-6)) << line;
      EXPECT_THAT(found.cost, IsNear(tensor(cost, float64), 1e-10)) << line;
    }
  }
  EXPECT_EQ(rows, 20);
}

TEST(LeastSquares, BoundsHoldForAllSolvers) {
  const Bounds bounds{full({3}, -2., float64), tensor({0.5, 3., 3.}, float64)};
  const Tensor start = tensor({-1.2, 1., 1.}, float64);
  const Tensor reference = least_squares(valley, start, bounds, {.ftol = 1e-14}).x;
  EXPECT_EQ(reference(0).item<double>(), 0.5);
  EXPECT_THAT(least_squares(valley, start, bounds, {.solver = Solver::cg, .ftol = 1e-14}).x, IsNear(reference, 1e-6));
  EXPECT_THAT(least_squares(with_jacobian(valley, valley_jacobian), start, bounds, {.ftol = 1e-14}).x,
              IsNear(reference, 1e-6));
}

TEST(LeastSquares, RobustLossesHoldForAllSolvers) {
  LeastSquaresOptions options{.loss = RobustLoss::cauchy, .f_scale = 0.1, .ftol = 1e-14, .gtol = 1e-11};
  const Tensor start = tensor({2., 1., 0.7}, float64);
  const auto check = [](const LeastSquaresResult<Tensor>& found) {  // the result of SciPy, as above
    EXPECT_TRUE(found.converged());
    EXPECT_THAT(found.x, IsNear(tensor({3.02468571, 1.30406915, 0.49801143}, float64), 1e-6));
  };
  const auto dense_rows = [](const Tensor& p) -> CsrMatrix {
    return {arange(0, 73, 3, int32), reshape(broadcast_to(arange(0, 3, 1, int32), {24, 3}), {-1}),
            reshape(jacfwd(misfit)(p), {-1})};
  };
  check(least_squares(misfit, start, options));
  check(least_squares(with_jacobian(misfit, dense_rows), start, options));
  options.solver = Solver::cg;
  check(least_squares(misfit, start, options));
}

TEST(LeastSquares, Float32AndMixedDtypes) {
  const auto found = least_squares(valley, full({4}, -1.2, float32), {.gtol = 1e-4});
  EXPECT_EQ(found.x.dtype(), float32);
  EXPECT_TRUE(found.converged());
  EXPECT_THAT(found.x, IsNear(ones({4}), 1e-4));
  // float32 unknowns, float64 residuals
  const auto mixed = least_squares(misfit, tensor({2., 1., 0.7}));
  EXPECT_EQ(mixed.x.dtype(), float32);
  EXPECT_EQ(mixed.cost.dtype(), float64);
  EXPECT_THAT(astype(mixed.x, float64), IsNear(least_squares(misfit, tensor({2., 1., 0.7}, float64)).x, 1e-5));
}

TEST(LeastSquares, FewerResidualsThanUnknownsAndNone) {
  const auto found =
      least_squares([](const Tensor& x) { return reshape(sum(square(x)) - 4, {1}); }, tensor({1., 2., 3.}, float64));
  EXPECT_NEAR(sum(square(found.x)).item<double>(), 4, 1e-7);
  EXPECT_TRUE(least_squares([](const Tensor& x) { return 2 * x; }, zeros({0}, float64)).converged());
}

// ---- derivatives with respect to captured values ------------------------------------------------

// The minimum as a function of the data and of a parameter in the residual.
Tensor fitted(const Tensor& parameters, RobustLoss loss, bool bounded) {
  const auto residual = [&](const Tensor& p) {
    return p(0) * exp(-parameters(0) * p(1) * times) + square(p(2)) * parameters(1) - observed() * parameters(2);
  };
  const LeastSquaresOptions options{.loss = loss, .f_scale = 0.3, .ftol = 0, .xtol = 1e-11, .gtol = 1e-13};
  const Tensor start = tensor({2., 1., 0.7}, float64);
  if (!bounded) return least_squares(residual, start, options).x;
  const Bounds bounds{zeros({3}, float64), stack({2.5 * parameters(2), parameters(3), parameters(3)})};
  return least_squares(residual, start, bounds, options).x;
}
const Tensor parameters = tensor({1.1, 0.9, 1.05, 10.}, float64);
// Central differences of order 4, along coordinate i. The search finds a minimum to some 1e-8,
// which limits them.
template <class F>
Tensor difference(const F& f, const Tensor& x, Index i, double h) {
  const auto at = [&](double step) {
    return f(x + step * astype(one_hot(tensor(static_cast<int>(i)), x.size()), float64));
  };
  return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
}

TEST(LeastSquares, DerivativesByCapturedValues) {
  for (const RobustLoss loss : {RobustLoss::linear, RobustLoss::cauchy})
    for (const bool bounded : {false, true}) {
      const auto f = [&](const Tensor& p) { return fitted(p, loss, bounded); };
      const Tensor jacobian = jacfwd(f)(parameters);
      EXPECT_THAT(jacrev(f)(parameters), IsNear(jacobian, 1e-9));
      for (Index i = 0; i < 4; ++i)
        EXPECT_THAT(jacobian(ellipsis, i), IsNear(difference(f, parameters, i, 2e-2), 5e-6)) << bounded << " " << i;
    }
}

TEST(LeastSquares, SecondAndThirdDerivatives) {
  const auto f = [](const Tensor& p) { return sum(square(fitted(p, RobustLoss::linear, false))); };
  const Tensor second = hessian(f)(parameters);
  const auto g = [&](const Tensor& p) { return grad(f)(p); };
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(second(i), IsNear(difference(g, parameters, i, 2e-2), 1e-5)) << i;
  const Tensor along = tensor({1., -1., 0.5, 0.}, float64);
  const Tensor third = jvp([&](const Tensor& p) { return hvp(f, p, along); }, parameters, along).second;
  const auto curvature = [&](const Tensor& s) { return hvp(f, parameters + s(0) * along, along); };
  EXPECT_THAT(third, IsNear(difference(curvature, zeros({1}, float64), 0, 2e-2), 1e-4));
}

// x(p) with x^3 + x = p, found as a minimum. The derivatives at p = 2, x = 1 are k! times the
// coefficients of the inverse of 4 h + 3 h^2 + h^3 (Lagrange's formula).
Tensor cubic_root(const Tensor& p) {
  const auto residual = [&](const Tensor& x) { return x * x * x + x - p; };
  return least_squares(residual, tensor(0.8, float64), {.ftol = 0, .xtol = 1e-15, .gtol = 1e-15}).x;
}
const std::vector<double> root_coefficients{1, 1 / 4., -3 / 64., 7 / 512., -75 / 16384., 213 / 131072.};
double factorial(int k) { return k == 0 ? 1 : k * factorial(k - 1); }

using Curve = std::function<Tensor(const Tensor&)>;
Curve derivative_of(const Curve& f, int order, bool forward) {
  if (order == 0) return f;
  const Curve lower = derivative_of(f, order - 1, forward);
  if (!forward) return grad(lower);
  return [lower](const Tensor& p) { return jvp(lower, p, ones_like(p)).second; };
}

TEST(LeastSquares, DerivativesOfAnyOrderAreThoseOfTheInverseFunction) {
  const Tensor p = tensor(2., float64);
  for (const bool forward : {false, true})
    for (int k = 1; k <= 5; ++k) {
      const double expected = factorial(k) * root_coefficients[static_cast<std::size_t>(k)];
      const auto slope = derivative_of(cubic_root, k, forward);
      EXPECT_THAT(slope(p), IsNear(tensor(expected, float64), 1e-10)) << k;
      EXPECT_THAT(compile(slope)(p), IsNear(tensor(expected, float64), 1e-10)) << k;
    }
}

// A recording has derivatives up to the third order. Beyond them, forward mode runs the function
// itself, and reverse mode refuses.
TEST(LeastSquares, DerivativesOfACompiledFunctionAreRightOrRefused) {
  const Tensor p = tensor(2., float64);
  for (const bool forward : {false, true})
    for (int k = 1; k <= 5; ++k) {
      const double expected = factorial(k) * root_coefficients[static_cast<std::size_t>(k)];
      const auto compiled = compile(cubic_root);
      compiled(p);
      const auto slope = derivative_of(compiled, k, forward);
      if (forward || k <= 3) {
        EXPECT_THAT(slope(p), IsNear(tensor(expected, float64), 1e-10)) << k;
      } else {
        EXPECT_THAT(message_of<TransformError>([&] { slope(p); }),
                    HasSubstr("has derivatives up to order 3 here: differentiate inside of compile"))
            << k;
      }
    }
  // The fourth derivative, the first of which the recording itself takes.
  const auto slope = compile(derivative_of(cubic_root, 1, true));
  EXPECT_THAT(derivative_of(slope, 3, true)(p), IsNear(tensor(24 * root_coefficients[4], float64), 1e-10));
  EXPECT_THROW(derivative_of(slope, 3, false)(p), TransformError);
}

TEST(LeastSquares, SeriesOfTheMinimumAreThoseOfTheInverseFunction) {
  const Tensor p = tensor(2., float64);
  const auto series = taylor(cubic_root, 5);
  const auto compiled = compile([&](const Tensor& at) { return series(at, ones_like(at)); });
  const auto of_compiled = taylor(compile(cubic_root), 5)(p, ones_like(p));
  for (const std::vector<Tensor>& found : {series(p, ones_like(p)), compiled(p), of_compiled})
    for (std::size_t k = 0; k <= 5; ++k)
      EXPECT_THAT(found[k], IsNear(tensor(root_coefficients[k], float64), 1e-10)) << k;
  EXPECT_THAT(laplacian(cubic_root)(p), IsNear(tensor(2 * root_coefficients[2], float64), 1e-10));
}

TEST(LeastSquares, CostGradientAndCovarianceHaveDerivatives) {
  const auto residual_with = [](const Tensor& q) {
    return [q](const Tensor& p) { return p(0) * exp(-q * p(1) * times) + p(2) - observed(); };
  };
  const auto f = [&](const Tensor& q) {
    const auto residual = residual_with(q(0));
    const auto found =
        least_squares(residual, tensor({2., 1., 0.7}, float64), {.ftol = 0, .xtol = 1e-11, .gtol = 1e-13});
    return concat({reshape(found.cost, {1}), found.grad, reshape(parameter_covariance(residual, found.x), {-1})});
  };
  const Tensor q = tensor({1.2}, float64);
  EXPECT_THAT(jacfwd(f)(q)(ellipsis, 0), IsNear(difference(f, q, 0, 2e-2), 5e-6));
}

// ---- other transforms --------------------------------------------------------------------

TEST(LeastSquares, MapsOverStartsAndData) {
  const auto f = [](const Tensor& start, const Tensor& p) {
    return least_squares([&](const Tensor& b) { return decay(b) - observed() * p(0) - p(1); }, start,
                         {.loss = RobustLoss::soft_l1});
  };
  const Tensor starts = tensor({{2., 1., 0.7}, {5., 3., 0.}, {1., 0.2, 1.}}, float64);
  const Tensor p = tensor({{1., 0.}, {0.5, 1.}, {2., -1.}}, float64);
  const auto all = vmap(f)(starts, p);
  for (Index i = 0; i < 3; ++i) {
    const auto one = f(starts(i), p(i));
    EXPECT_THAT(all.x(i), IsNear(one.x, 1e-10));
    EXPECT_THAT(all.cost(i), IsNear(one.cost, 1e-10));
    EXPECT_EQ(all.steps(i).item<int>(), one.steps.item<int>());
    EXPECT_EQ(all.status(i).item<int>(), one.status.item<int>());
  }
  for (const Solver solver : {Solver::cg, Solver::qr}) {
    const auto by = [&](const Tensor& start) { return least_squares(valley, start, {.solver = solver}).x; };
    EXPECT_THAT(vmap(by)(tensor({{-1.2, 1.}, {2., 3.}}, float64)), IsNear(ones({2, 2}, float64), 1e-6));
  }
  const auto sparse = [](const Tensor& start) {
    return least_squares(with_jacobian(valley, valley_jacobian), start).x;
  };
  EXPECT_THAT(vmap(sparse)(tensor({{-1.2, 1.}, {2., 3.}}, float64)), IsNear(ones({2, 2}, float64), 1e-6));
}

// Lanes part only where one is finished, so that a path is a number of steps.
TEST(LeastSquares, LanesTakeTheirStepsTogether) {
  int paths = 0;
  const auto f = [&](const Tensor& start) {
    ++paths;
    return least_squares(misfit, start).steps;
  };
  const Tensor amplitude = linspace(1, 6, 16, float64), starts = stack({amplitude, 2 / amplitude, amplitude / 5}, 1);
  const std::vector<double> steps = values(vmap(f)(starts));
  EXPECT_EQ(paths, static_cast<int>(std::set<double>(steps.begin(), steps.end()).size()));
  EXPECT_LT(paths, 10);
}

TEST(LeastSquares, DerivativesNestWithVmapAndCompile) {
  const auto f = [](const Tensor& p) { return sum(fitted(p, RobustLoss::linear, true)); };
  const Tensor slope = grad(f)(parameters), other = parameters * 1.01;
  const Tensor both = stack({parameters, other}), slopes = stack({slope, grad(f)(other)});
  EXPECT_THAT(vmap(grad(f))(both), IsNear(slopes, 1e-8));
  EXPECT_THAT(grad([&](const Tensor& p) { return sum(vmap(f)(p)); })(both), IsNear(slopes, 1e-8));
  const auto compiled = compile(f);
  EXPECT_THAT(compiled(parameters), IsNear(f(parameters), 1e-10));
  EXPECT_THAT(compiled(other), IsNear(f(other), 1e-10));
  EXPECT_THAT(compile(grad(f))(parameters), IsNear(slope, 1e-8));
  EXPECT_THAT(grad(compiled)(parameters), IsNear(slope, 1e-8));
  EXPECT_THAT(hessian(compiled)(parameters), IsNear(hessian(f)(parameters), 1e-6));
}

// ---- errors ------------------------------------------------------------------------------

TEST(LeastSquares, ReportsThatItDidNotConverge) {
  const auto few = least_squares(valley, full({2}, -1.2, float64), {.steps = 2});
  EXPECT_FALSE(few.converged());
  EXPECT_EQ(few.steps.item<int>(), 2);
  EXPECT_EQ(few.status.item<int>(), static_cast<int>(LeastSquaresStatus::steps_used_up));
}

TEST(LeastSquares, RejectsStepsToResidualsThatAreNotFinite) {
  const auto found = least_squares([](const Tensor& x) { return log(x) + x - 1; }, tensor({8.}, float64));
  EXPECT_TRUE(found.converged());
  EXPECT_THAT(found.x, IsNear(ones({1}, float64), 1e-7));
}

TEST(LeastSquares, Errors) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor one = tensor({1., 2.}, float64);
  const auto expect = [&](const LeastSquaresOptions& options, const char* text) {
    EXPECT_THAT([&] { least_squares(valley, one, options); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect({.ftol = nan}, "least_squares: ftol is nan; it must be a number that is not negative");
  expect({.xtol = -1}, "least_squares: xtol is -1; it must be");
  expect({.gtol = -1}, "least_squares: gtol is -1; it must be");
  expect({.steps = -1}, "least_squares: at most -1 steps: give a positive number");
  expect({.f_scale = 0}, "least_squares: f_scale is 0; it must be positive");
  EXPECT_THAT(
      [&] {
        least_squares(valley, tensor({1., nan}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("least_squares: the start has an element that is nan")));
  EXPECT_THAT(
      [&] {
        least_squares([](const Tensor& x) { return log(x); }, tensor({-1., 1.}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("least_squares: at the start an element of the residuals is nan")));
  EXPECT_THAT(
      [&] {
        least_squares([](const Tensor& x) { return sqrt(x) + 1; }, tensor({0., 1.}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("least_squares: at the start an element of the gradient is inf")));
  EXPECT_THAT(
      [&] {
        least_squares([](const Tensor& x) { return x * 1.; }, tensor({1, 2}));
      },
      ThrowsMessage<DtypeError>(HasSubstr("least_squares: the start is int32: convert it to floats")));
  EXPECT_THAT([&] { least_squares([](const Tensor& x) { return astype(x, int32); }, one); },
              ThrowsMessage<DtypeError>(HasSubstr("least_squares: the residuals are int32: they must be floats")));
  EXPECT_THAT(
      [&] {
        least_squares(valley, one, Bounds{tensor({0., 0.}, float64), tensor({3., 1.}, float64)});
      },
      ThrowsMessage<Error>(
          HasSubstr("least_squares: element 1 of the start is 2, which is not within its bounds, 0 and 1")));
  EXPECT_THAT(
      [&] {
        least_squares(valley, one, Bounds{tensor({0.}, float64), one});
      },
      ThrowsMessage<ShapeError>(HasSubstr("there are 2 unknowns, 1 lower bounds and 2 upper bounds")));
  EXPECT_THAT([&] { parameter_covariance([](const Tensor& x) { return x; }, one); },
              ThrowsMessage<Error>(HasSubstr("parameter_covariance: 2 residuals are too few")));
  // a minimum with a singular Hessian has no derivative
  const auto flat = [&](const Tensor& a) {
    return sum(least_squares([&](const Tensor& x) { return a - x(0) - x(1); }, one).x);
  };
  EXPECT_THROW(grad(flat)(tensor(1., float64)), LinalgError);
}

TEST(LeastSquares, ErrorsOfSparseJacobians) {
  const Tensor one = tensor({1., 2.}, float64);
  const auto expect = [&]<class E>(E*, const CsrMatrix& j, const char* text) {
    EXPECT_THAT([&] { least_squares(with_jacobian(valley, [&](const Tensor&) { return j; }), one); },
                ThrowsMessage<E>(HasSubstr(text)));
  };
  const Tensor offsets = tensor({0, 2, 3}), columns = tensor({0, 1, 0}), values = ones({3}, float64);
  expect((ShapeError*)nullptr, {tensor({0, 3}), columns, values}, "for 2 residuals they must be [3], [elements]");
  expect((ShapeError*)nullptr, {tensor({0, 2, 2}), columns, values}, "must rise from 0 to the number of elements, 3");
  expect((DtypeError*)nullptr, {offsets, columns, tensor({1, 2, 3})},
         "values of int32: they must be integers, integers and floats");
  expect((IndexError*)nullptr, {offsets, tensor({0, 2, 0}), values}, "has an element in column 2, and there are 2");
}

}  // namespace
