// Roots, fixed points and linear systems: derivatives against closed
// forms, differences and `solve`.

#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

int searches = 0;

// Solves y^3 + y = a by a loop that reads values, so that no transform can differentiate it.
Tensor by_newton(const Tensor& a) {
  ++searches;
  Tensor y = zeros_like(a);
  for (Tensor step = ones_like(a); max(abs(step)).item<double>() > 1e-15;) {
    step = (y * y * y + y - a) / (3 * y * y + 1);
    y -= step;
  }
  return from(y.to_vector<double>(), a.shape());
}
const auto cubic = custom_root([](const Tensor& y, const Tensor& a) { return y * y * y + y - a; }, by_newton);

TEST(CustomRoot, DerivativesFollowFromTheEquation) {
  const Tensor a = tensor({2., 10., 30.}, float64), y = tensor({1., 2., 3.}, float64);
  EXPECT_THAT(cubic(a), IsNear(y));
  const auto first = [](const Tensor& v) { return grad([](const Tensor& w) { return sum(cubic(w)); })(v); };
  const Tensor slope = 1 / (3 * y * y + 1);
  EXPECT_THAT(first(a), IsNear(slope));
  EXPECT_THAT(jvp(cubic, a, tensor({1., 2., -1.}, float64)).second, IsNear(slope * tensor({1., 2., -1.}, float64)));
  // The second derivative is y'' = -6 y y'^3.
  const auto second = [&](const Tensor& v) { return grad([&](const Tensor& w) { return sum(first(w)); })(v); };
  EXPECT_THAT(second(a), IsNear(-6 * y * slope * slope * slope));
  EXPECT_THAT(jacfwd(cubic)(a), IsNear(diag(slope)));
  EXPECT_THAT(hessian([](const Tensor& v) { return sum(cubic(v)); })(a), IsNear(diag(-6 * y * slope * slope * slope)));
  check_grads([](const Tensor& v) { return sum(exp(cubic(v))); }, tensor({0.5, -1.}, float64), {.order = 3});
}

TEST(CustomRoot, DerivativeRunsTheSolverOnce) {
  searches = 0;
  grad([](const Tensor& w) { return sum(cubic(w)); })(tensor({2., 10.}, float64));
  EXPECT_EQ(searches, 1);
}

struct Circle {
  Tensor radius2, slope;
};
struct Point {
  Tensor x, y;
};

// The point where y = slope x meets the circle: x = sqrt(radius2 / (1 + slope^2)).
TEST(CustomRoot, VariablesMayBeTrees) {
  const auto meets = custom_root(
      [](const Point& p, const Circle& c) {
        return Point{p.x * p.x + p.y * p.y - c.radius2, p.y - c.slope * p.x};
      },
      [](const Circle& c) {
        const double x = std::sqrt(c.radius2.item<double>() / (1 + std::pow(c.slope.item<double>(), 2)));
        return Point{tensor(x, float64), tensor(x * c.slope.item<double>(), float64)};
      });
  const Circle circle{tensor(4., float64), tensor(0.75, float64)};
  const auto by_hand = [](const Circle& c) {
    const Tensor x = sqrt(c.radius2 / (1 + square(c.slope)));
    return x * x * x * c.slope;
  };
  const auto solved = [&](const Circle& c) {
    const Point p = meets(c);
    return p.x * p.x * p.y;
  };
  const Circle expected = grad(by_hand)(circle), got = grad(solved)(circle);
  EXPECT_THAT(got.radius2, IsNear(expected.radius2));
  EXPECT_THAT(got.slope, IsNear(expected.slope));
  check_grads(solved, circle, {.order = 2});
}

TEST(FixedPoint, FindsTheFixedPointAndItsDerivatives) {
  const auto rest =
      fixed_point([](const Tensor& x, const Tensor& w, const Tensor& b) { return tanh(matmul(w, x) + b); });
  const Tensor w = tensor({{0.3, -0.2}, {0.1, 0.4}}, float64), b = tensor({0.5, -0.7}, float64),
               start = zeros({2}, float64);
  const Tensor x = rest(start, w, b);
  EXPECT_THAT(tanh(matmul(w, x) + b), IsNear(x));
  // dx = D (dw x + w dx + db) with D = diag(1 - x^2).
  const Tensor d = diag(1 - x * x), inverse = inv(eye(2, float64) - matmul(d, w));
  EXPECT_THAT(jacrev([&](const Tensor& v) { return rest(start, w, v); })(b), IsNear(matmul(inverse, d)));
  EXPECT_THAT(grad([&](const Tensor& v) { return sum(rest(v, w, b)); })(start), Equals(zeros({2}, float64)));
  check_grads([&](const Tensor& u, const Tensor& v) { return sum(square(rest(zeros({2}, float64), u, v))); },
              std::tuple(w, b), {.order = 2});
}

TEST(FixedPoint, FailureToConvergeIsAnError) {
  const auto doubled = fixed_point([](const Tensor& x) { return 2 * x + 1; }, {.steps = 20});
  EXPECT_THAT([&] { doubled(tensor(1., float64)); },
              ThrowsMessage<Error>(HasSubstr("fixed_point: after 20 steps the last one moved an element by ")));
  const auto lost = fixed_point([](const Tensor& x) { return x - x / 0.; }, {.steps = 5});
  EXPECT_THAT([&] { lost(tensor(1., float64)); },
              ThrowsMessage<Error>(HasSubstr("fixed_point: step 1 gave an element that is inf")));
  const auto undefined = fixed_point([](const Tensor& x, const Tensor& a) { return sqrt(a) + 0.5 * x; });
  EXPECT_THAT([&] { undefined(tensor(1., float64), tensor(-1., float64)); },
              ThrowsMessage<Error>(HasSubstr("fixed_point: step 1 gave an element that is nan")));
}

TEST(FixedPoint, InvalidOptionsAndStartAreErrors) {
  const auto half = [](const Tensor& x) { return 0.5 * x; };
  const Tensor one = tensor(1., float64);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double wrong : {nan, -1e-3, inf})
    EXPECT_THAT([&] { fixed_point(half, {.tolerance = wrong})(one); },
                ThrowsMessage<Error>(HasSubstr("fixed_point: the tolerance is ")));
  for (const Index wrong : {Index{0}, Index{-3}})
    EXPECT_THAT([&] { fixed_point(half, {.steps = wrong})(one); },
                ThrowsMessage<Error>(HasSubstr("there must be at least 1")));
  EXPECT_THAT(
      [&] {
        fixed_point(half)(tensor({1., nan}, float64));
      },
      ThrowsMessage<Error>(HasSubstr("fixed_point: the start has an element that is nan")));
  EXPECT_THAT([&] { fixed_point(half)(tensor(inf, float64)); },
              ThrowsMessage<Error>(HasSubstr("fixed_point: the start has an element that is inf")));
  EXPECT_THAT(fixed_point(half, {.tolerance = 1e-3, .steps = 20})(one), IsNear(tensor(0., float64), 2e-3));
}

// ---- linear systems -----------------------------------------------------------------------------

Tensor conjugate_gradient(const Tensor& b, const Tensor& a) {
  Tensor x = zeros_like(b), r = b, p = b, rr = sum(r * r);
  for (int step = 0; step < 50 && rr.item<double>() > 1e-30; ++step) {
    const Tensor ap = matmul(a, p), alpha = rr / sum(p * ap);
    x += alpha * p;
    r -= alpha * ap;
    const Tensor next = sum(r * r);
    p = r + next / rr * p;
    rr = next;
  }
  return x;
}
Tensor product(const Tensor& x, const Tensor& a) { return matmul(a, x); }

TEST(CustomLinearSolve, DerivativesEqualThoseOfSolve) {
  const Tensor m = uniform(Key(1), {4, 4}, float64), a = matmul(m, transpose(m)) + eye(4, float64);
  const Tensor b = uniform(Key(2), {4}, float64);
  const auto iterative = custom_linear_solve(product, conjugate_gradient);
  const auto loss = [](const auto& solver) {
    return [solver](const Tensor& right, const Tensor& matrix) {
      return sum(sin(solver(right, (matrix + transpose(matrix)) / 2)));
    };
  };
  const auto direct = loss([](const Tensor& right, const Tensor& matrix) { return solve(matrix, right); });
  EXPECT_THAT(iterative(b, a), IsNear(solve(a, b)));
  const auto [db, da] = grad<0, 1>(loss(iterative))(b, a);
  const auto [eb, ea] = grad<0, 1>(direct)(b, a);
  EXPECT_THAT(db, IsNear(eb));
  EXPECT_THAT(da, IsNear(ea));
  const Tensor v = uniform(Key(3), {4, 4}, float64);
  const auto of_matrix = [&](const auto& f) { return [&b, f](const Tensor& matrix) { return f(b, matrix); }; };
  EXPECT_THAT(hvp(of_matrix(loss(iterative)), a, v), IsNear(hvp(of_matrix(direct), a, v)));
  EXPECT_THAT(jvp(of_matrix(loss(iterative)), a, v).second, IsNear(jvp(of_matrix(direct), a, v).second));
}

TEST(CustomLinearSolve, TransposeSolveMayBeGiven) {
  const Tensor a = uniform(Key(4), {3, 3}, float64) + 2 * eye(3, float64), b = uniform(Key(5), {3}, float64);
  const auto solver = custom_linear_solve(
      product, [](const Tensor& right, const Tensor& matrix) { return solve(matrix, right); },
      [](const Tensor& right, const Tensor& matrix) { return solve(transpose(matrix), right); });
  const auto f = [&](const Tensor& right, const Tensor& matrix) { return sum(exp(solver(right, matrix))); };
  check_grads(f, std::tuple(b, a), {.order = 3});
  EXPECT_THAT(vmap([&](const Tensor& right) { return solver(right, a); })(stack({b, 2 * b})),
              IsNear(stack({solve(a, b), 2 * solve(a, b)})));
}

}  // namespace
