// laplacian: against the trace of the Hessian, and closed forms.
#include <stave/handlers/taylor/laplacian.h>

#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

const Tensor x = tensor({0.3, -0.7, 1.1}, float64);
const Tensor w = tensor({{0.2, -1., 0.5}, {1.5, 0.3, -0.4}, {0.7, 0.9, 1.}}, float64);

Tensor network(const Tensor& u) { return sum(tanh(matmul(w, sin(matmul(w, u))))) * exp(-sum(square(u))); }

template <class F>
void expect_trace(F f, const Tensor& at) {
  EXPECT_THAT(laplacian(f)(at), IsNear(trace(hessian(f)(at)), 1e-12));
}

// |x|^2n has the Laplacian 2n (2n + d - 2) |x|^(2n-2).
TEST(Laplacian, OfPowersOfTheRadius) {
  for (const double n : {1., 2., 3.}) {
    const auto f = [n](const Tensor& u) { return pow(sum(square(u)), n); };
    const double expected = 2 * n * (2 * n + 1) * std::pow(0.09 + 0.49 + 1.21, n - 1);
    EXPECT_THAT(laplacian(f)(x), IsNumber(expected, 1e-13)) << n;
  }
}

TEST(Laplacian, IsTheTraceOfTheHessian) {
  expect_trace(network, x);
  expect_trace([](const Tensor& u) { return logsumexp(matmul(w, u)) * prod(u); }, x);
  expect_trace([](const Tensor& u) { return det(w + u * w) + sum(solve(w * 2. + u, u)); }, x);
  expect_trace([](const Tensor& u) { return u(0) > 0. ? network(u) : sum(u); }, x);
}

TEST(Laplacian, OfHarmonicFunctionsIsZero) {
  const auto f = [](const Tensor& u) { return exp(u(0)) * sin(u(1)) + u(2); };
  EXPECT_THAT(laplacian(f)(x), IsNumber(0, 1e-15));
}

struct Point {
  Tensor position, height;
};
TEST(Laplacian, OfTreesAndSeveralResults) {
  const auto f = [](const Point& p, const Tensor& a) {
    return std::pair(a * sum(square(p.position)) * square(p.height), stack({p.height, square(p.height)}));
  };
  const Point p{tensor({1., 2.}, float64), tensor(3., float64)};
  const auto [first, second] = laplacian(f)(p, tensor(0.5, float64));
  EXPECT_THAT(first, IsNumber(0.5 * (4 * 9 + 5 * 2), 1e-13));
  EXPECT_THAT(second, IsNear(tensor({0., 2.}, float64), 1e-15));
}

TEST(Laplacian, NestsWithTheOtherTransforms) {
  const Tensor points = stack({x, 2. * x, x - 1.});
  const Tensor all = vmap(laplacian(network))(points);
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(all(i), IsNear(trace(hessian(network)(points(i))), 1e-12));
  const auto of = [](const Tensor& u) { return laplacian(network)(u); };
  EXPECT_THAT(grad(of)(x), IsNear(differences(of, x), 1e-7));
  // The Laplacian of the Laplacian of |x|^4 in three dimensions is 120.
  const auto fourth = [](const Tensor& u) { return square(sum(square(u))); };
  EXPECT_THAT(laplacian(laplacian(fourth))(x), IsNumber(120, 1e-12));
  const auto compiled = compile(of);
  EXPECT_THAT(compiled(x), IsNear(of(x), 1e-14));
  EXPECT_THAT(compiled(2. * x), IsNear(of(2. * x), 1e-14));
}

TEST(Laplacian, OfCheckpointsAndCustomRules) {
  expect_trace([](const Tensor& u) { return checkpoint([u](const Tensor& v) { return sum(sin(u) * v); })(exp(u)); }, x);
  const auto f =
      custom_vjp([](const Tensor& u) { return sum(sin(u)); }, [](const Tensor& u) { return std::pair(sum(sin(u)), u); },
                 [](const Tensor& u, const Tensor& ct) { return 3. * cos(u) * ct; });
  EXPECT_THAT(laplacian(f)(x), IsNear(-3. * sum(sin(x)), 1e-14));
}

TEST(Laplacian, RefusesWhatIsNotReal) {
  EXPECT_THAT(message_of<DtypeError>([] {
                laplacian([](const Tensor& u) { return sum(u); })(tensor({1, 2}));
              }),
              AllOf(HasSubstr("laplacian: argument 0 is int32 [2]"), HasSubstr("real floating")));
}

}  // namespace
