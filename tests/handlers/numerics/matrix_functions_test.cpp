// Functions of Hermitian matrices: values and derivatives against expm and sqrtm.

#include <stave/core/ops/complex.h>
#include <stave/handlers/numerics/matrix_functions.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;

namespace {

Tensor parts(const Tensor& z) { return is_complex(z.dtype()) ? stack({real(z), imag(z)}, -1) : z; }

const auto exponential = [](const Tensor& a) { return hermitian_function([](const Tensor& w) { return exp(w); }, a); };
const auto root = [](const Tensor& a) { return hermitian_function([](const Tensor& w) { return sqrt(w); }, a); };

TEST(HermitianFunction, ValuesAndDerivativesAreThoseOfExpmAndSqrtm) {
  for (const bool is_complex : {false, true}) {
    Tensor a = normal(Key(1), {2, 4, 4}, float64), t = normal(Key(2), {2, 4, 4}, float64);
    if (is_complex) a = complex(a, normal(Key(3), {2, 4, 4}, float64)), t = complex(t, t * 0.5);
    const Tensor h = (a + conj_transpose(a)) * 0.25, dh = (t + conj_transpose(t)) * 0.5;
    EXPECT_THAT(parts(exponential(h)), IsNear(parts(expm(h)), 1e-12));
    EXPECT_THAT(parts(jvp(exponential, h, dh).second), IsNear(parts(jvp(expm, h, dh).second), 1e-9));
    const Tensor p = matmul(h, h) + eye(4, float64);
    EXPECT_THAT(parts(root(p)), IsNear(parts(sqrtm(p)), 1e-12));
    EXPECT_THAT(parts(jvp(root, p, dh).second), IsNear(parts(jvp(sqrtm, p, dh).second), 1e-9));
    check_grads(exponential, h, {.order = 2, .tolerance = 1e-5});
  }
}

// At a multiple of the identity all eigenvalues are equal, and the derivative of exp is exp times
// the tangent.
TEST(HermitianFunction, EqualEigenvalues) {
  const Tensor t = tensor({{1., 2.}, {2., -1.}}, float64), a = eye(2, float64) * 0.5;
  EXPECT_THAT(jvp(exponential, a, t).second, IsNear(t * std::exp(0.5), 1e-12));
  const auto sum_of = [](const Tensor& x) { return sum(exponential(x) * tensor({{1., 3.}, {-1., 2.}}, float64)); };
  EXPECT_THAT(grad(sum_of)(a), IsNear(tensor({{1., 1.}, {1., 2.}}, float64) * std::exp(0.5), 1e-12));
}

}  // namespace
