// Second and third derivatives by reverse mode of loops over linear algebra, whose operations read
// factors of their matrices: those of a recorded loop are those of its steps one by one, by forward
// mode.
#include <functional>
#include <string>
#include <utility>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace loop_linalg_test {

using namespace stave;
using namespace stave_test;

using Function = std::function<Tensor(const Tensor&)>;

// A general matrix, and a symmetric one whose eigenvalues differ.
Tensor general(const Tensor& s) { return 3. * eye(3, float64) + 0.5 * outer(s, sin(s)); }
Tensor symmetric(const Tensor& s) { return diag(tensor({3., 4., 6.}, float64)) + 0.5 * outer(sin(s), sin(s)); }

const std::pair<const char*, Function> steps[] = {
    {"solve", [](const Tensor& s) { return solve(general(s), s); }},
    {"solve_of_constants", [](const Tensor& s) { return sin(solve(2. * eye(3, float64), s)); }},
    {"inv", [](const Tensor& s) { return matmul(inv(general(s)), s); }},
    {"det", [](const Tensor& s) { return 0.02 * s * det(general(s)); }},
    {"slogdet", [](const Tensor& s) { return 0.2 * s * slogdet(general(s)).second; }},
    {"cholesky", [](const Tensor& s) { return 0.3 * matmul(cholesky(symmetric(s)), s); }},
    {"triangular_solve", [](const Tensor& s) { return triangular_solve(general(s), s); }},
    {"lstsq", [](const Tensor& s) { return lstsq(general(s), s); }},
    {"pinv", [](const Tensor& s) { return matmul(pinv(general(s)), s); }},
    {"qr", [](const Tensor& s) { return 0.2 * matmul(qr(general(s)).second, s); }},
    {"eigh", [](const Tensor& s) { return 0.1 * s * eigh(symmetric(s)).first; }},
    {"svdvals", [](const Tensor& s) { return 0.1 * s * svdvals(symmetric(s)); }},
};

class LoopLinalg : public testing::TestWithParam<std::pair<const char*, Function>> {};

TEST_P(LoopLinalg, HigherReverseModeIsForwardModeOfTheSteps) {
  const Function step = GetParam().second;
  const Function recorded = [=](const Tensor& x) { return sum(loop(4, step)(x)); };
  const Function stacked = [=](const Tensor& x) {
    const auto with_row = [=](const Tensor& s, const Tensor& row) { return std::pair(step(s) + 0.1 * row, s); };
    return sum(sin(scan(with_row)(x, outer(cos(tensor({0., 1., 2., 3.}, float64)), x)).second));
  };
  const Tensor x = tensor({0.3, -0.7, 1.1}, float64);
  const auto gradient_of_gradient = [](const Function& f) {
    return grad([f](const Tensor& at) { return sum(sin(grad(f)(at))); });
  };
  for (const Function& f : {recorded, stacked}) {
    const Tensor second = jacfwd(grad(f))(x), third = jacfwd(gradient_of_gradient(f))(x);
    EXPECT_THAT(compile(jacrev(grad(f)))(x), IsNear(second, 1e-10));
    EXPECT_THAT(jacrev(grad(compile(f)))(x), IsNear(second, 1e-10));
    EXPECT_THAT(compile(jacrev(gradient_of_gradient(f)))(x), IsNear(third, 1e-10));
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, LoopLinalg, testing::ValuesIn(steps), [](const auto& of) { return of.param.first; });

}  // namespace loop_linalg_test
