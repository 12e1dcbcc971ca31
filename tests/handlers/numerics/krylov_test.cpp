// Krylov methods: solutions against `solve`, derivatives by differences.

#include <stave/core/ops/complex.h>
#include <stave/handlers/numerics/krylov.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

Tensor random_matrix(const Shape& shape, std::uint64_t seed, Dtype dtype) {
  if (!is_complex(dtype)) return normal(Key(seed), shape, dtype);
  return complex(normal(Key(seed), shape, real_of(dtype)), normal(Key(seed + 100), shape, real_of(dtype)));
}
Tensor hermitian(Index n, Dtype dtype) {
  const Tensor x = random_matrix({n, n}, 1, dtype);
  return matmul(x, conj_transpose(x)) / n + eye(n, dtype);
}
Tensor parts(const Tensor& z) { return is_complex(z.dtype()) ? stack({real(z), imag(z)}, -1) : z; }

const auto product = [](const Tensor& x, const Tensor& a) { return matmul(a, x); };

TEST(Krylov, SolutionsAreThoseOfSolve) {
  for (const Dtype dtype : {float32, float64, complex64, complex128}) {
    const Index n = 30;
    const Tensor a = hermitian(n, dtype), c = random_matrix({n, n}, 3, dtype) * 0.1 + eye(n, dtype) * 2,
                 b = random_matrix({n}, 2, dtype);
    const double tolerance = real_of(dtype) == float64 ? 1e-8 : 1e-3;
    EXPECT_THAT(parts(cg(product)(b, a)), IsNear(parts(solve(a, b)), tolerance));
    EXPECT_THAT(parts(gmres(product)(b, c)), IsNear(parts(solve(c, b)), tolerance));
    EXPECT_THAT(parts(gmres(product, {.restart = 5})(b, c)), IsNear(parts(solve(c, b)), tolerance));
    EXPECT_THAT(parts(bicgstab(product)(b, c)), IsNear(parts(solve(c, b)), tolerance));
    EXPECT_THAT(parts(cg(product)(zeros_like(b), a)), IsNear(parts(zeros_like(b))));
  }
}

// x'' = b at nine points: the right side is a tree, the product a stencil.
TEST(Krylov, ProductsOfTrees) {
  using Pair = std::pair<Tensor, Tensor>;
  const auto stencil = [](const Pair& x) {
    const auto second = [](const Tensor& y) {
      const Tensor around = pad(y, {{1, 1}});
      return 2 * y - around(slice(none, -2)) - around(slice(2, none));
    };
    return Pair(second(x.first), 3 * x.second);
  };
  const auto [x, y] = cg(stencil)(Pair(ones({9}, float64), full({2}, 6, float64)));
  const Tensor i = arange(1, 10, 1, float64);
  EXPECT_THAT(x, IsNear(i * (10 - i) / 2));
  EXPECT_THAT(y, IsNear(full({2}, 2, float64)));
}

TEST(Krylov, DerivativesAreThoseOfTheSystem) {
  for (const Dtype dtype : {float64, complex128}) {
    const Tensor a = hermitian(4, dtype), c = random_matrix({4, 4}, 3, dtype) + eye(4, dtype) * 5,
                 b = random_matrix({4}, 2, dtype);
    const KrylovOptions precise{.tolerance = 1e-14};
    const auto symmetric = [&](const Tensor& side, const Tensor& m) {
      return cg(product, precise)(side, (m + conj_transpose(m)) * 0.5);
    };
    check_grads(symmetric, std::tuple(b, a), {.order = 2, .tolerance = 1e-5});
    check_grads([&](const Tensor& side, const Tensor& m) { return gmres(product, precise)(side, m); }, std::tuple(b, c),
                {.order = 2, .tolerance = 1e-5});
    check_grads([&](const Tensor& side, const Tensor& m) { return bicgstab(product, precise)(side, m); },
                std::tuple(b, c), {.order = 2, .tolerance = 1e-5});
  }
}

// The matrix is diagonal but for a small part, and its diagonal spans five orders of magnitude.
Tensor badly_scaled(Index n, Dtype dtype, bool is_hermitian) {
  const Tensor part = is_hermitian ? hermitian(n, dtype) : random_matrix({n, n}, 3, dtype);
  const Tensor scale = pow(10, linspace(0., 2.5, n, real_of(dtype)));
  return expand_dims(scale, Shape{1}) * (eye(n, dtype) + 0.02 * part) * scale;
}
const auto by_diagonal = [](const Tensor& b, const Tensor& a) { return b / diagonal(a); };

TEST(Krylov, PreconditionersSaveProducts) {
  for (const Dtype dtype : {float64, complex128}) {
    const Index n = 100;
    const Tensor a = badly_scaled(n, dtype, true), c = badly_scaled(n, dtype, false), b = random_matrix({n}, 2, dtype);
    int products = 0;
    const auto counted = [&](const Tensor& x, const Tensor& m) {
      ++products;
      return matmul(m, x);
    };
    const auto expect_fewer = [&](const Tensor& m, const auto& plain, const auto& preconditioned) {
      const Tensor expected = solve(m, b), unit = abs(diagonal(m));
      products = 0;
      const Tensor x = plain(b, m);
      const int without = std::exchange(products, 0);
      const Tensor y = preconditioned(b, m);
      EXPECT_LT(2 * products, without);
      EXPECT_THAT(parts(unit * y), IsNear(parts(unit * expected), 1e-6));
    };
    const KrylovOptions precise{.tolerance = 1e-12, .steps = 4000, .restart = 100};
    expect_fewer(a, cg(counted, precise), cg(counted, by_diagonal, precise));
    expect_fewer(c, gmres(counted, precise), gmres(counted, by_diagonal, precise));
    expect_fewer(c, bicgstab(counted, precise), bicgstab(counted, by_diagonal, precise));
  }
}

TEST(Krylov, PreconditionersHaveNoPartInDerivatives) {
  for (const Dtype dtype : {float64, complex128}) {
    const Tensor a = hermitian(4, dtype), c = random_matrix({4, 4}, 3, dtype) + eye(4, dtype) * 5,
                 b = random_matrix({4}, 2, dtype);
    const KrylovOptions precise{.tolerance = 1e-14};
    const auto symmetric = [&](const Tensor& side, const Tensor& m) {
      return cg(product, by_diagonal, precise)(side, (m + conj_transpose(m)) * 0.5);
    };
    check_grads(symmetric, std::tuple(b, a), {.order = 2, .tolerance = 1e-5});
    check_grads([&](const Tensor& side, const Tensor& m) { return gmres(product, by_diagonal, precise)(side, m); },
                std::tuple(b, c), {.order = 2, .tolerance = 1e-5});
    check_grads([&](const Tensor& side, const Tensor& m) { return bicgstab(product, by_diagonal, precise)(side, m); },
                std::tuple(b, c), {.order = 2, .tolerance = 1e-5});
  }
}

TEST(Krylov, Errors) {
  const Tensor turn = tensor({{0., 1.}, {-1., 0.}}, float64), b = tensor({1., 0.}, float64);
  EXPECT_THAT([&] { cg(product)(b, turn); }, ThrowsMessage<Error>(HasSubstr("cg: after ")));
  EXPECT_THAT([&] { gmres(product, {.steps = 1, .restart = 1})(b, turn); },
              ThrowsMessage<Error>(HasSubstr("give more steps, a larger tolerance, or another method")));
  EXPECT_THAT([&] { bicgstab(product, {.tolerance = -1.})(b, turn); },
              ThrowsMessage<Error>(HasSubstr("bicgstab: tolerance -1, 0 steps")));
}

}  // namespace
