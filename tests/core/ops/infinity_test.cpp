// Composed functions at infinities and where squares overflow. Values and derivatives
// in both modes must be the limits of the closed forms. Where a closed form has no
// limit, JAX 0.10 gives NaN, and so does Stave.

#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace infinity_test {

using namespace stave;
using namespace stave_test;

using T = const Tensor&;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// Checks the value of f at x and its gradient by grad and by jvp, in float32 and float64.
void check(Tensor (*f)(const Tensor&), std::vector<double> x, double value, std::vector<double> gradient) {
  for (Dtype dtype : {float32, float64}) {
    const Tensor at = astype(from(x), dtype), expected = astype(from(gradient), dtype);
    EXPECT_THAT(f(at), IsNumber(value));
    EXPECT_THAT(grad(f)(at), IsNear(expected, 2e-6)) << at;
    EXPECT_THAT(jacfwd(f)(at), IsNear(expected, 2e-6)) << at;
    EXPECT_THAT(vmap(grad(f))(expand_dims(at, 0)), IsNear(expand_dims(expected, 0), 2e-6)) << at;
  }
}

Tensor logsumexp_of(T x) { return logsumexp(x); }
Tensor norm_of(T x) { return norm(x); }
Tensor std_of(T x) { return stave::std(x); }
Tensor var_of(T x) { return var(x); }
Tensor mean_of(T x) { return mean(x); }
Tensor softplus_of(T x) { return sum(softplus(x)); }
Tensor sigmoid_of(T x) { return sum(sigmoid(x)); }
Tensor softmax_of(T x) { return softmax(x)[0]; }
Tensor log_softmax_of(T x) { return log_softmax(x)[0]; }
Tensor global_norm_of(T x) { return global_norm(std::vector{x, x}); }

TEST(Infinities, Logsumexp) {
  check(logsumexp_of, {inf, 2}, inf, {1, 0});
  check(logsumexp_of, {-inf, 2}, 2, {0, 1});
  check(logsumexp_of, {inf, -inf, inf}, inf, {0.5, 0, 0.5});
  check(logsumexp_of, {-inf, -inf}, -inf, {0.5, 0.5});
  check(logsumexp_of, {1e30, 1e30}, 1e30, {0.5, 0.5});
  check(logsumexp_of, {nan, 1}, nan, {nan, nan});
  EXPECT_THAT(hessian(logsumexp_of)(tensor({0., 0.})), IsNear(tensor({{0.25, -0.25}, {-0.25, 0.25}})));
  EXPECT_THAT(hessian(logsumexp_of)(tensor({inf, 2.})), Equals(zeros({2, 2})));
  EXPECT_THAT(logsumexp(tensor({{inf, 1.}, {0., 0.}}), 1, keepdims), IsNear(tensor({{inf}, {std::log(2.)}})));
}

TEST(Infinities, Norm) {
  check(norm_of, {inf, 2}, inf, {1, 0});
  check(norm_of, {-inf, 2}, inf, {-1, 0});
  check(norm_of, {0, 0}, 0, {0, 0});
  check(norm_of, {nan, 1}, nan, {nan, nan});
  check(norm_of, {3e30, 4e30}, 5e30, {0.6, 0.8});
  check(norm_of, {-3e-30, 4e-30}, 5e-30, {-0.6, 0.8});
  check(global_norm_of, {3e30, 4e30}, 5e30 * std::sqrt(2), {0.6 * std::sqrt(2), 0.8 * std::sqrt(2)});
  check(global_norm_of, {0, 0}, 0, {0, 0});
  EXPECT_THAT(norm(tensor({{3., 4.}, {0., 0.}}), 1), IsNear(tensor({5., 0.})));
  EXPECT_THAT(norm(zeros({0, 2}), 0, keepdims), Equals(zeros({1, 2})));
  EXPECT_THAT(hessian(norm_of)(tensor({3., 4.})), IsNear(tensor({{16., -12.}, {-12., 9.}}) / 125));
}

TEST(Infinities, MeanVarStd) {
  check(mean_of, {inf, 2}, inf, {0.5, 0.5});
  check(mean_of, {inf, -inf}, nan, {0.5, 0.5});
  check(var_of, {inf, 2}, nan, {nan, nan});
  check(std_of, {inf, 2}, nan, {nan, nan});
  check(std_of, {1, 1}, 0, {0, 0});
  check(std_of, {1e30, -1e30}, 1e30, {0.5, -0.5});
}

TEST(Infinities, ElementwiseSigmoids) {
  check(softplus_of, {inf, -inf, 0}, inf, {1, 0, 0.5});
  check(sigmoid_of, {inf, -inf, 0}, 1.5, {0, 0, 0.25});
  EXPECT_THAT(hessian(softplus_of)(tensor({inf, -inf, 0.})),
              IsNear(tensor({{0., 0., 0.}, {0., 0., 0.}, {0., 0., 0.25}})));
}

TEST(Infinities, Softmax) {
  check(softmax_of, {0, -inf}, 1, {0, 0});
  check(softmax_of, {-inf, 2}, 0, {0, 0});
  check(softmax_of, {inf, 2}, nan, {nan, nan});
  check(softmax_of, {1e30, 1e30}, 0.5, {0.25, -0.25});
  check(log_softmax_of, {-inf, 2}, -inf, {1, -1});
  check(log_softmax_of, {0, -inf}, 0, {0, 0});
  check(log_softmax_of, {inf, 2}, nan, {nan, nan});
}

}  // namespace infinity_test
