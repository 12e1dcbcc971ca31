// Derivatives of linear algebra at singular matrices and at repeated eigenvalues, and matrices
// under transforms.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include "linalg.h"
#include "matchers.h"

namespace {

using namespace linalg_test;
using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The matrix of cofactors, from the determinants of `a` without one row and one column.
Tensor cofactors_of(const Tensor& a) {
  const Index n = a.shape(-1);
  std::vector<Tensor> entries;
  for (Index r = 0; r < n; ++r)
    for (Index c = 0; c < n; ++c) {
      const Tensor without_row = concat({a(slice(r)), a(slice(r + 1, none))});
      const Tensor rest = concat({without_row(slice(), slice(c)), without_row(slice(), slice(c + 1, none))}, 1);
      entries.push_back(det(rest) * ((r + c) % 2 == 0 ? 1 : -1));
    }
  return reshape(stack(entries), {n, n});
}

TEST(Det, HasCofactorsAsGradientAtAnyRank) {
  for (const Index n : {1, 2, 3, 4, 5, 6})
    for (Index rank = 0; rank <= n; ++rank) {
      const Tensor a = matmul(random_matrix({n, rank}, 11), random_matrix({rank, n}, 12));
      EXPECT_THAT(grad([](const Tensor& x) { return det(x); })(a), IsNear(cofactors_of(a), 1e-10)) << n << " " << rank;
    }
}

// det is a polynomial of degree n along any line, so its values give its derivatives.
TEST(Det, HasHigherDerivativesAtAnyRank) {
  for (const Index n : {3, 4, 5, 6, 7, 9})
    for (const Index rank : {0, 1, 2, 3, 4, 5, 7}) {
      if (rank > n) continue;
      const Tensor a = matmul(random_matrix({n, rank}, 13), random_matrix({rank, n}, 14)),
                   e = random_matrix({n, n}, 15);
      const auto along = [&](const Tensor& t) { return det(a + t * e); };
      // The coefficients come from interpolation at n + 1 points.
      std::vector<Tensor> powers, values;
      for (Index i = 0; i <= n; ++i) {
        const double t = std::cos(M_PI * (static_cast<double>(i) + 0.5) / static_cast<double>(n + 1));
        powers.push_back(pow(tensor(t, float64), arange(0, n + 1, 1, float64)));
        values.push_back(det(a + tensor(t, float64) * e));
      }
      const Tensor c = solve(stack(powers), stack(values));
      const double scale = std::max(1., largest(c)), tolerance = 1e-9 * scale;
      const Tensor zero = tensor(0., float64);
      std::function<Tensor(const Tensor&)> derivative = along;
      double factorial = 1;
      for (Index order = 1; order <= std::min<Index>(n, 6); ++order) {
        derivative = grad(derivative);
        factorial *= static_cast<double>(order);
        EXPECT_NEAR(derivative(zero).item<double>() / factorial, c(order).item<double>(), tolerance)
            << n << " " << rank << " " << order;
      }
    }
}

// det(t I) = t^n.
TEST(Det, HasTheDerivativesOfAPowerAtZero) {
  for (const Index n : {4, 5, 6}) {
    std::function<Tensor(const Tensor&)> derivative = [&](const Tensor& t) { return det(t * eye(n, float64)); };
    double factorial = 1;
    for (Index order = 1; order <= n; ++order) {
      derivative = [f = derivative](const Tensor& t) { return jvp(f, t, ones_like(t)).second; };
      factorial *= static_cast<double>(order);
      EXPECT_NEAR(derivative(tensor(0., float64)).item<double>(), order == n ? factorial : 0, 1e-9)
          << n << " " << order;
    }
  }
}

TEST(Det, OfEmptyAndSingularMatrices) {
  EXPECT_EQ(det(zeros({3, 3})).item<float>(), 0);
  const auto [sign, logarithm] = slogdet(doubles({{1, 2}, {2, 4}}));
  EXPECT_EQ(sign.item<double>(), 0);
  EXPECT_EQ(logarithm.item<double>(), -infinity);
  EXPECT_THAT(grad([](const Tensor& x) { return det(x); })(zeros({0, 0})), Equals(zeros({0, 0})));
}

// ---- values that repeat -------------------------------------------------------------------------

TEST(Repeated, SumsOfEigenvaluesAreSmooth) {
  const Tensor q = qr(random_matrix({5, 5}, 21)).first;
  const Tensor a = from_diagonal(q, doubles({1, 1, 1, 3, 3}), matrix_transpose(q));
  const auto trace_of = [](const Tensor& x) { return sum(eigh(x).first); };
  EXPECT_THAT(grad(trace_of)(a), IsNear(eye(5, float64), 1e-13));
  EXPECT_LE(largest(hessian(trace_of)(a)), 1e-12);
  // The projection onto the eigenspace of the value 1 has the derivative dp = p_1 e p_3 / (1 - 3)
  // plus its transpose, where p_1 and p_3 project onto the two eigenspaces.
  const auto projection = [](const Tensor& x) {
    const Tensor v = eigh(x).second(slice(), slice(3));
    return matmul(v, matrix_transpose(v));
  };
  const Tensor e = symmetric_matrix({5, 5}), p = projection(a), other = eye(5, float64) - p;
  const Tensor expected = matmul(p, e, other) / -2;
  EXPECT_THAT(jvp(projection, a, e).second, IsNear(expected + matrix_transpose(expected), 1e-13));
  // Compares second derivatives with differences, along a direction that
  // does not split the eigenvalues.
  const Tensor apart = e - matmul(p, e, p) - matmul(other, e, other) + p * 0.3;
  const auto weighed = [&](const Tensor& t) { return sum(projection(a + t * apart) * random_matrix({5, 5}, 22)); };
  const auto slope = grad(weighed);
  const double h = 1e-3;
  const double difference = (slope(tensor(h, float64)) - slope(tensor(-h, float64))).item<double>() / (2 * h);
  EXPECT_NEAR(grad(slope)(tensor(0., float64)).item<double>(), difference, 1e-4);
}

TEST(Repeated, PolarFactorsAreSmooth) {
  const auto polar = [](const Tensor& x) {
    const auto [u, s, vh] = svd(x, {.full_matrices = false});
    return matmul(u, vh);
  };
  // The singular values are 2, 2, 2.
  const Tensor a = eye(4, 3, 0, float64) * 2, e = random_matrix({4, 3}, 23);
  // The derivative at [2; 0] is the skew part of the square block, divided by 2 + 2,
  // and the rows below divided by 2.
  const Tensor top = e(slice(3)), expected = concat({(top - matrix_transpose(top)) / 4, e(slice(3, none)) / 2});
  EXPECT_THAT(jvp(polar, a, e).second, IsNear(expected, 1e-14));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(svdvals(x)); })(a), IsNear(eye(4, 3, 0, float64), 1e-14));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(std::get<1>(svd(x))); })(a), IsNear(eye(4, 3, 0, float64), 1e-14));
}

TEST(Repeated, DerivativesAtTheZeroMatrixAreFinite) {
  const Tensor zero = zeros({3, 2}, float64);
  for (const MatrixOrder order :
       {MatrixOrder("fro"), MatrixOrder("nuc"), MatrixOrder(2), MatrixOrder(-2), MatrixOrder(1), MatrixOrder(infinity)})
    EXPECT_TRUE(all(isfinite(grad([&](const Tensor& x) { return matrix_norm(x, order); })(zero))).item<bool>());
  for (const double order : {1., 2., 3., 0.5, -1., infinity})
    EXPECT_THAT(grad([&](const Tensor& x) { return vector_norm(x, order); })(zeros({3}, float64)),
                Equals(zeros({3}, float64)))
        << order;
  EXPECT_THAT(grad([](const Tensor& x) { return sum(pinv(x)); })(zero), Equals(zero));
}

// The derivatives are taken along a direction in which the rank stays the same.
TEST(PseudoInverse, DerivativeIsRightWhereTheRankIsConstant) {
  const Tensor x = random_matrix({5, 2}, 31), y = random_matrix({2, 4}, 32), dx = random_matrix({5, 2}, 33),
               dy = random_matrix({2, 4}, 34);
  const Tensor b = random_matrix({5, 3}, 35);
  const auto along = [&](const Tensor& t) { return matmul(x + t * dx, y + t * dy); };
  const auto solution = [&](const Tensor& t) { return sum(square(lstsq(along(t), b))) + sum(pinv(along(t)) * 0.5); };
  const auto exact = [&](double t) {  // (x y)^+ = y^+ x^+ if both have full rank
    const Tensor left = x + dx * t, right = y + dy * t;
    const Tensor inverse = matmul(matmul(matrix_transpose(right), inv(matmul(right, matrix_transpose(right)))),
                                  matmul(inv(matmul(matrix_transpose(left), left)), matrix_transpose(left)));
    return (sum(square(matmul(inverse, b))) + sum(inverse) * 0.5).item<double>();
  };
  const Tensor zero = tensor(0., float64);
  const double h = 1e-5, g = 1e-3;
  EXPECT_NEAR(solution(zero).item<double>(), exact(0), 1e-11);
  EXPECT_NEAR(grad(solution)(zero).item<double>(), (exact(h) - exact(-h)) / (2 * h), 1e-5);
  EXPECT_NEAR(jvp(solution, zero, ones({}, float64)).second.item<double>(), (exact(h) - exact(-h)) / (2 * h), 1e-5);
  const double second = (exact(g) - 2 * exact(0) + exact(-g)) / (g * g);
  EXPECT_NEAR(grad(grad(solution))(zero).item<double>(), second, 1e-3 * std::max(1., std::abs(second)));
}

// ---- transforms, dtypes -------------------------------------------------------------------------

TEST(Solve, VmapOverRightSidesEqualsOneSystem) {
  const Tensor a = random_matrix({5, 5}, 41), b = random_matrix({7, 5}, 42);
  const Tensor each = vmap([&](const Tensor& side) { return solve(a, side); })(b);
  EXPECT_THAT(each, IsNear(matrix_transpose(solve(a, matrix_transpose(b))), 1e-12));
  EXPECT_THAT(solve(a, reshape(b, {7, 5, 1}))(slice(), slice(), 0), IsNear(each, 1e-12));
  // The derivative with respect to the matrix is the sum over the lanes.
  const auto total = [&](const Tensor& m) {
    return sum(square(vmap([&](const Tensor& side) { return solve(m, side); })(b)));
  };
  const auto plain = [&](const Tensor& m) { return sum(square(solve(m, matrix_transpose(b)))); };
  EXPECT_THAT(grad(total)(a), IsNear(grad(plain)(a), 1e-9 * largest(grad(plain)(a))));
}

TEST(Solve, FactorizesOnce) {
  struct Count : Handler {
    int factored = 0;
    Outputs handle(Call& call) override {
      factored += call.op().id == OpId::lu;
      return perform(std::move(call));
    }
  } count;
  const Tensor a = random_matrix({4, 4}, 43), b = random_matrix({4}, 44);
  with(count, [&] { hessian([&](const Tensor& x) { return sum(square(solve(x, b))); })(a); });
  EXPECT_EQ(count.factored, 1);
}

TEST(Halves, AreComputedInFloat32AndRoundedOnce) {
  const Tensor a = astype(positive_matrix({4, 4}), float16), b = astype(random_matrix({4}), float16);
  EXPECT_THAT(solve(a, b), Equals(astype(solve(astype(a, float32), astype(b, float32)), float16)));
  EXPECT_THAT(expm(a), Equals(astype(expm(astype(a, float32)), float16)));
  EXPECT_EQ(std::get<1>(svd(astype(a, bfloat16))).dtype(), bfloat16);
  EXPECT_EQ(det(tensor({{1, 2}, {3, 4}})).dtype(), float32);
  EXPECT_NEAR(det(tensor({{1, 2}, {3, 4}})).item<float>(), -2, 1e-6);
  EXPECT_EQ(solve(tensor({{2, 0}, {0, 4}}), astype(ones({2}), float64)).dtype(), float64);
}

TEST(Errors, NameDerivativesThatDoNotExist) {
  EXPECT_THAT(
      [] {
        grad([](const Tensor& x) { return sum(std::get<1>(lu(x))); })(zeros({2, 2}));
      },
      ThrowsMessage<LinalgError>(HasSubstr("triangular_solve: the matrix is singular")));
  EXPECT_THAT(
      [] {
        grad([](const Tensor& x) { return sum(qr(x).first); })(zeros({2, 2}));
      },
      ThrowsMessage<LinalgError>(HasSubstr("is singular")));
}

}  // namespace
