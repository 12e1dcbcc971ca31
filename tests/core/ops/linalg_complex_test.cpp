// Linear algebra of complex matrices, small and large: the identities that define each function,
// and derivatives against differences.
#include <cmath>
#include <complex>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/core/ops/complex.h>
#include <stave/stave.h>

#include "linalg.h"
#include "matchers.h"

namespace {

using namespace linalg_test;
using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor complex_matrix(const Shape& shape, std::uint64_t seed = 1, Dtype dtype = complex128) {
  return complex(random_matrix(shape, seed, real_of(dtype)), random_matrix(shape, seed + 100, real_of(dtype)));
}
Tensor definite_matrix(const Shape& shape, Dtype dtype = complex128) {
  const Tensor x = complex_matrix(shape, 2, dtype);
  return matmul(x, conj_transpose(x)) / shape.back() + eye(shape.back(), dtype);
}
// A real array with the parts on a last axis, for comparisons.
Tensor parts(const Tensor& z) { return is_complex(z.dtype()) ? stack({real(z), imag(z)}, -1) : z; }

testing::AssertionResult agree(const Tensor& x, const Tensor& y, double units = 50) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype())
    return testing::AssertionFailure() << name_of(x.dtype()) << x.shape().str() << " is not " << name_of(y.dtype())
                                       << y.shape().str();
  const double error = error_of(parts(x), parts(y), std::max<Index>(1, x.rank() ? x.shape(-1) : 1));
  if (error <= units) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "differs by " << error << " units";
}
Tensor identity(const Shape& of, Index n, Dtype dtype) {
  Shape shape(std::span<const Index>(of.begin(), of.end() - 2));
  shape.push_back(n), shape.push_back(n);
  return broadcast_to(eye(n, dtype), shape);
}

class ComplexMatrices : public testing::TestWithParam<std::pair<Dtype, Shape>> {
 protected:
  Dtype dtype = GetParam().first;
  Shape shape = GetParam().second;
  Index m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
  Tensor a = complex_matrix(shape, 1, dtype);
  Tensor square() const { return matmul(a, conj_transpose(a)) / n + complex_matrix(Shape{m, m}, 9, dtype); }
  Tensor definite() const { return matmul(a, conj_transpose(a)) / n + eye(m, dtype); }
};

TEST_P(ComplexMatrices, FactorsMultiplyToTheMatrix) {
  const auto [q, r] = qr(a);
  EXPECT_TRUE(agree(matmul(q, r), a));
  EXPECT_TRUE(agree(matmul(conj_transpose(q), q), identity(shape, k, dtype)));
  EXPECT_TRUE(agree(triu(r), r));
  EXPECT_TRUE(agree(imag(diagonal(r)), zeros_like(real(diagonal(r)))));
  for (const bool full : {false, true}) {
    const auto [u, s, vh] = svd(a, {.full_matrices = full});
    EXPECT_EQ(s.dtype(), real_of(dtype));
    EXPECT_TRUE(agree(from_diagonal(u(ellipsis, slice(k)), s, vh(ellipsis, slice(k), slice())), a));
    EXPECT_TRUE(agree(matmul(conj_transpose(u), u), identity(shape, full ? m : k, dtype)));
    EXPECT_TRUE(agree(matmul(vh, conj_transpose(vh)), identity(shape, full ? n : k, dtype)));
    EXPECT_TRUE(agree(svdvals(a), s));
  }
  const auto [p, l, u] = lu(a);
  EXPECT_TRUE(agree(matmul(p, l, u), a));
  const auto [w, h] = polar(a);
  EXPECT_TRUE(agree(matmul(w, h), a));
  EXPECT_TRUE(agree(conj_transpose(h), h));
}

TEST_P(ComplexMatrices, FactorsOfHermitianMatrices) {
  const Tensor h = definite(), l = cholesky(h);
  EXPECT_TRUE(agree(matmul(l, conj_transpose(l)), h));
  EXPECT_TRUE(agree(tril(l), l));
  EXPECT_TRUE(agree(cholesky(h, {.upper = true}), conj_transpose(l)));
  const Tensor indefinite = h - 2 * eye(m, dtype);
  const auto [w, v] = eigh(indefinite);
  EXPECT_EQ(w.dtype(), real_of(dtype));
  EXPECT_TRUE(agree(matmul(indefinite, v), v * expand_dims(w, -2)));
  EXPECT_TRUE(agree(matmul(conj_transpose(v), v), identity(shape, m, dtype)));
  EXPECT_TRUE(agree(eigvalsh(indefinite), w));
  const auto [lower, d, order] = ldl(indefinite);
  const Tensor rows = take_along_axis(indefinite, expand_dims(order, -1), -2);
  EXPECT_TRUE(agree(matmul(lower, d, conj_transpose(lower)), take_along_axis(rows, expand_dims(order, -2), -1), 500));
  const Tensor x = complex_matrix({m}, 7, dtype);
  const Tensor updated = cholesky_update(l, x);
  EXPECT_TRUE(agree(matmul(updated, conj_transpose(updated)), h + outer(x, conj(x))));
  EXPECT_TRUE(agree(updated, cholesky(h + outer(x, conj(x)))));
}

TEST_P(ComplexMatrices, Systems) {
  const Tensor c = square(), b = complex_matrix({m, 2}, 5, dtype);
  EXPECT_TRUE(agree(matmul(c, solve(c, b)), broadcast_to(b, solve(c, b).shape()), 5e3));
  EXPECT_TRUE(agree(matmul(c, inv(c)), identity(shape, m, dtype), 5e3));
  const Tensor t = definite(), l = cholesky(t);
  const Tensor x = triangular_solve(l, b, {.lower = true}),
               y = triangular_solve(l, b, {.lower = true, .transpose = true});
  EXPECT_TRUE(agree(matmul(l, x), broadcast_to(b, x.shape())));
  EXPECT_TRUE(agree(matmul(matrix_transpose(l), y), broadcast_to(b, y.shape())));
  const Tensor p = pinv(a);
  EXPECT_TRUE(agree(matmul(a, p, a), a, 5e3));
  EXPECT_TRUE(agree(conj_transpose(matmul(a, p)), matmul(a, p), 5e3));
  EXPECT_TRUE(agree(lstsq(a, b), matmul(p, b), 5e3));
}

TEST_P(ComplexMatrices, GeneralMatrices) {
  const Tensor c = square();
  const auto [w, v] = eig(c);
  EXPECT_TRUE(agree(matmul(c, v), v * expand_dims(w, -2)));
  EXPECT_TRUE(agree(sum(abs(v) * abs(v), -2), ones_like(real(w))));
  const auto [t, z] = schur(c);
  EXPECT_TRUE(agree(matmul(z, t, conj_transpose(z)), c));
  EXPECT_TRUE(agree(triu(t), t));
  EXPECT_TRUE(agree(prod(w, -1), det(c), 5e4));
  const auto [sign, log] = slogdet(c);
  EXPECT_TRUE(agree(sign * exp(astype(log, dtype)), det(c), 5e3));
  EXPECT_TRUE(agree(trace(c), sum(w, -1)));
  const Tensor root = sqrtm(c);
  EXPECT_TRUE(agree(matmul(root, root), c, 5e3));
  const Tensor h = definite();
  EXPECT_TRUE(agree(expm(logm(h)), h, 500));
  EXPECT_TRUE(agree(logm(expm(c / (4 * m))), c / (4 * m), 500));
  const Tensor q = complex_matrix({m, 2}, 6, dtype), b = complex_matrix({2, 2}, 8, dtype);
  const Tensor x = solve_sylvester(c, b, q);
  EXPECT_TRUE(agree(matmul(c, x) + matmul(x, b), broadcast_to(q, x.shape()), 5e3));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ComplexMatrices,
                         testing::Values(std::pair(complex128, Shape{3, 3}), std::pair(complex128, Shape{2, 3, 4, 3}),
                                         std::pair(complex128, Shape{2, 3, 5}), std::pair(complex128, Shape{1, 1}),
                                         std::pair(complex128, Shape{50, 40}), std::pair(complex64, Shape{3, 4, 4}),
                                         std::pair(complex64, Shape{33, 40})));

// ---- derivatives ----------------------------------------------------------------------------

const Tensor m33 = complex_matrix({3, 3}), m43 = complex_matrix({2, 4, 3}), m34 = complex_matrix({3, 4}, 5),
             side = complex_matrix({3, 2}, 4);

template <class F>
void differentiable(F f, const Tensor& x, int order = 2) {
  check_grads(f, x, {.order = order, .tolerance = 1e-5});
}

TEST(ComplexLinalgDerivatives, Factors) {
  differentiable([](const Tensor& x) { return cholesky(matmul(x, conj_transpose(x)) + eye(3, complex128)); }, m33);
  differentiable([](const Tensor& x) { return cholesky(x + 5 * eye(3, complex128)); }, m33);
  differentiable([](const Tensor& x) { return std::get<0>(lu_factor(x)); }, m33);
  for (const Tensor& a : {m33, m43, m34}) {
    differentiable(
        [](const Tensor& x) {
          const auto [q, r] = qr(x);
          return std::tuple(q, r);
        },
        a);
    differentiable([](const Tensor& x) { return svdvals(x); }, a);
    differentiable(
        [](const Tensor& x) {
          const auto [u, s, vh] = svd(x, {.full_matrices = false});
          return std::tuple(s, real(u * conj(u)), real(vh * conj(vh)), matmul(u, vh));
        },
        a);
    differentiable(
        [](const Tensor& x) {
          const auto [u, s, vh] = svd(x);
          const Index k = s.shape(-1);
          const Tensor u2 = u(ellipsis, slice(k, none)), v2 = vh(ellipsis, slice(k, none), slice());
          return std::tuple(matmul(u2, conj_transpose(u2)), matmul(conj_transpose(v2), v2));
        },
        a);
    differentiable([](const Tensor& x) { return std::get<1>(polar(x)); }, a);
    differentiable([](const Tensor& x) { return pinv(x); }, a);
    differentiable([](const Tensor& x) { return matrix_norm(x, "nuc"); }, a);
    differentiable([](const Tensor& x) { return matrix_norm(x); }, a);
    differentiable([](const Tensor& x) { return vector_norm(x, 3); }, a);
  }
  differentiable(
      [](const Tensor& x) {
        const Tensor q = qr(x, {.complete = true}).first(ellipsis, slice(3, none));
        return matmul(q, conj_transpose(q));
      },
      m43);
  differentiable(
      [](const Tensor& x) {
        const auto [w, v] = eigh(x);
        return std::tuple(w, v * conj(v), matmul(v * sin(expand_dims(w, -2)), conj_transpose(v)));
      },
      m33);
  differentiable(eigvalsh, m33);
  differentiable(
      [](const Tensor& x) {
        const auto [l, d, order] = ldl(x);
        return std::tuple(l, d);
      },
      m33);
}

TEST(ComplexLinalgDerivatives, Systems) {
  differentiable(inv, m33);
  check_grads(solve, std::tuple(m33, side), {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& a, const Tensor& b) { return triangular_solve(a, b, {.transpose = true}); },
              std::tuple(m33, side), {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& a, const Tensor& b) { return lstsq(a, b); }, std::tuple(m34, side),
              {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& a, const Tensor& b) { return lstsq(a, b); },
              std::tuple(m43, complex_matrix({2, 4, 2}, 8)), {.order = 2, .tolerance = 1e-5});
  check_grads(solve_sylvester, std::tuple(m33, complex_matrix({2, 2}, 6), side), {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& a, const Tensor& b) { return solve_banded(a, b, {.lower = 2, .upper = 1}); },
              std::tuple(complex_matrix({2, 4, 5}, 6), complex_matrix({5, 2}, 7)), {.order = 2, .tolerance = 1e-5});
  check_grads(
      tridiagonal_solve,
      std::tuple(complex_matrix({5}, 6), complex_matrix({5}, 7) + 4, complex_matrix({5}, 8), complex_matrix({5}, 9)),
      {.order = 2, .tolerance = 1e-5});
}

TEST(ComplexLinalgDerivatives, Functions) {
  differentiable(det, m33);
  differentiable(det, complex_matrix({8, 8}), 1);
  differentiable(
      [](const Tensor& x) {
        const auto [sign, log] = slogdet(x);
        return std::tuple(sign, log);
      },
      m33);
  differentiable(expm, m33 * 0.3);
  differentiable([](const Tensor& x) { return sqrtm(x + 4 * eye(3, complex128)); }, m33);
  differentiable([](const Tensor& x) { return logm(x + 4 * eye(3, complex128)); }, m33);
  differentiable([](const Tensor& x) { return matrix_power(x, -3); }, m33);
  differentiable(eigvals, m33);
  const auto both = [](const Tensor& x) {
    const auto [w, v] = eig(x);
    return std::tuple(w, v);
  };
  differentiable(both, m33);
  differentiable(both, real(m33));
  differentiable(both, real(complex_matrix({2, 4, 4}, 12)));
  check_grads([](const Tensor& l, const Tensor& x) { return cholesky_update(l, x); },
              std::tuple(cholesky(definite_matrix({3, 3})), complex_matrix({3}, 4)), {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& d, const Tensor& e) { return eigh_tridiagonal(d, e).first; },
              std::tuple(random_matrix({4}), complex_matrix({3}, 4)), {.order = 2, .tolerance = 1e-5});
  check_grads([](const Tensor& x, const Tensor& y) { return vecdot(x, y); }, std::tuple(m33, m34(slice(), slice(3))),
              {.order = 2, .tolerance = 1e-5});
}

// A determinant of 0, whose cofactors are not.
TEST(ComplexLinalgDerivatives, DetOfSingularMatrix) {
  const Tensor u = complex_matrix({3, 1}), v = complex_matrix({3, 1}, 5), w = complex_matrix({3, 1}, 6),
               x = complex_matrix({3, 1}, 7);
  differentiable(det, matmul(u, matrix_transpose(v)) + matmul(w, matrix_transpose(x)));
  const Tensor large = matmul(complex_matrix({9, 8}), complex_matrix({8, 9}, 5));
  differentiable(det, large, 1);
}

// Gradients of the real part of the sum of f(z), by JAX 0.4 in double precision:
//   jax.grad(lambda z: jnp.real(jnp.sum(f(z))))(z)
TEST(ComplexLinalgDerivatives, GradientsAreThoseOfJax) {
  using C = std::complex<double>;
  const auto matrix = [](std::vector<C> z) { return from(z, {2, 2}); };
  const Tensor a = matrix({{2, 1}, {0.5, -1}, {-0.25, 0.5}, {1.5, -0.5}});
  const Tensor w = matrix({{1, 0.5}, {-0.5, 2}, {0.25, -1}, {2, 0}});
  const Tensor b = from(std::vector<C>{{1, 2}, {0.5, -1}}, {2, 1});
  const Tensor h = matmul(a, conj_transpose(a)) + eye(2, complex128);
  const Tensor one_three = tensor({1., 3.}, float64), c = complex(tensor(1., float64), 2.);
  const auto check = [](const char* name, auto f, const Tensor& z, const Tensor& expected) {
    const Tensor found = grad([&](const Tensor& x) { return real(sum(f(x))); })(z);
    EXPECT_THAT(parts(found), IsNear(parts(expected), 1e-13)) << name;
  };
  check(
      "solve", [&](const Tensor& x) { return w * solve(x, b); }, a,
      matrix({{0.0752, -1.4464}, {-1.0128, -0.3904}, {-1.0944, -0.8192}, {-0.8384, 0.5888}}));
  check(
      "inv", [&](const Tensor& x) { return w * inv(x); }, a,
      matrix({{0.0736, 0.1248}, {0.0496, -0.4672}, {0.1408, -0.0256}, {-0.3712, -0.2816}}));
  check(
      "pinv", [&](const Tensor& x) { return w * pinv(x); }, a,
      matrix({{0.0736, 0.1248}, {0.0496, -0.4672}, {0.1408, -0.0256}, {-0.3712, -0.2816}}));
  check(
      "det", [&](const Tensor& x) { return c * det(x); }, a, matrix({{2.5, 2.5}, {1.25, 0}, {-2.5, 0}, {0, 5}}));
  check(
      "slogdet",
      [&](const Tensor& x) {
        const auto [sign, log] = slogdet(x);
        return c * sign + 3 * log;
      },
      a, matrix({{1.76, 0.48}, {0.56, -0.32}, {-1.12, 0.64}, {1.28, 2.24}}));
  check(
      "cholesky", [&](const Tensor& x) { return w * cholesky(x); }, h,
      matrix({{0.203534035021529, 0},
              {-0.057831955975004, -0.022816242861483},
              {-0.057831955975004, 0.022816242861483},
              {0.604683585011751, 0}}));
  check(
      "eigvalsh", [&](const Tensor& x) { return one_three * eigvalsh(x); }, h,
      matrix({{2.523809523809524, 0},
              {0.380952380952381, 0.761904761904762},
              {0.380952380952381, -0.761904761904762},
              {1.476190476190476, 0}}));
  check(
      "svdvals", [&](const Tensor& x) { return one_three * svdvals(x); }, a,
      matrix({{1.49071198499986, -0.468509480999956},
              {0.234254740499978, -0.63887656499994},
              {-0.532397137499951, 1.149977816999892},
              {2.086996778999805, 1.064794274999901}}));
  check(
      "qr",
      [&](const Tensor& x) {
        const auto [q, r] = qr(x);
        return w * (q + r);
      },
      a,
      matrix({{-1.229868089680122, 0.226628525344667},
              {-0.529310317077521, -1.457772676541369},
              {-0.49434623152322, -0.51578406500177},
              {-2.466499305398121, -0.273332376851507}}));
  check(
      "expm", [&](const Tensor& x) { return w * expm(x); }, a * 0.5,
      matrix({{2.764243809159339, 4.262028886244703},
              {-2.773704407199339, 5.265257432134016},
              {2.628718110412538, -3.750549390248064},
              {5.477421866082406, 0.321569997224695}}));
  check(
      "eigvals", [&](const Tensor& x) { return exp(eigvals(x)); }, a,
      matrix({{4.111010775818777, 8.136549148801796},
              {-2.398794067319016, 2.063207780748417},
              {4.797588134638032, -4.126415561496833},
              {4.782183348959972, -0.787454547333072}}));
  check(
      "eigvals", [&](const Tensor& x) { return exp(eigvals(x)); }, doubles({{1, 2}, {-1, 0.5}}),
      doubles({{7.507801364106583e-01, -1.496636341148291}, {2.993272682296582, 2.461965836512661e-03}}));
  check(
      "norm", [&](const Tensor& x) { return matrix_norm(x); }, a,
      matrix({{0.66436383882992, -0.33218191941496},
              {0.16609095970748, 0.33218191941496},
              {-0.08304547985374, -0.16609095970748},
              {0.49827287912244, 0.16609095970748}}));
  check(
      "nuclear norm", [&](const Tensor& x) { return matrix_norm(x, "nuc"); }, a,
      matrix({{0.894427190999916, -0.383325938999964},
              {0.191662969499982, 0.127775312999988},
              {-0.191662969499982, 0.127775312999988},
              {0.894427190999916, 0.383325938999964}}));
  check(
      "vecdot", [&](const Tensor& x) { return w * vecdot(x, conj(x) * b(slice(), 0)); }, a,
      matrix({{13, -3.5}, {3.125, 1.25}, {6.25, 0}, {8.75, -1.25}}));
}

// ---- other contracts ------------------------------------------------------------------------

TEST(ComplexLinalg, ErrorsNameTheMatrix) {
  Tensor a = definite_matrix({2, 2, 3, 3});
  a = a - 10 * reshape(tensor({0., 1., 0., 0.}, float64), {2, 2, 1, 1}) * eye(3, complex128);
  EXPECT_THAT(
      [&] { cholesky(a); },
      ThrowsMessage<LinalgError>(HasSubstr("cholesky: matrix [0,1] of the stack [2,2] is not positive definite")));
  EXPECT_TRUE(all(isnan(real(cholesky(a, {.nan_if_indefinite = true})(0, 1)))).item<bool>());
  EXPECT_THAT(
      [&] {
        solve(zeros({2, 2}, complex64), ones({2}, complex64));
      },
      ThrowsMessage<LinalgError>(HasSubstr("solve: the matrix is singular")));
  EXPECT_THAT(
      [&] {
        logm(zeros({1, 2, 2}, complex64));
      },
      ThrowsMessage<LinalgError>(HasSubstr("logm: matrix [0] of the stack [1] is singular")));
  EXPECT_THAT(
      [&] {
        sqrtm(doubles({{0, 1}, {0, 0}}));
      },
      ThrowsMessage<LinalgError>(HasSubstr("sqrtm: the matrix has no real square root")));
  EXPECT_THAT([&] { sqrtm(-eye(2, float64)); }, ThrowsMessage<LinalgError>(HasSubstr("convert it to a complex dtype")));
  EXPECT_THAT([&] { solve_sylvester(eye(2, float64), -eye(2, float64), eye(2, float64)); },
              ThrowsMessage<LinalgError>(HasSubstr("a and -b have a common eigenvalue")));
  EXPECT_THAT(
      [&] {
        solve_banded(zeros({2, 1, 3}), ones({3}), {});
      },
      ThrowsMessage<LinalgError>(HasSubstr("solve_banded: matrix [0] of the stack [2] is singular")));
  EXPECT_THAT([&] { grad([](const Tensor& x) { return sum(schur(x).first); })(eye(2, float64)); },
              ThrowsMessage<Error>(HasSubstr("schur")));
}

TEST(ComplexLinalg, NotFiniteMatricesGiveNan) {
  for (const Dtype dtype : {float64, complex128}) {
    const Tensor a = full({3, 3}, std::nan(""), dtype);
    for (const Tensor& x : {eigvals(a), schur(a).first, sqrtm(a), logm(a), std::get<0>(ldl(a)), eig(a).second})
      EXPECT_TRUE(all(isnan(real(x))).item<bool>());
    for (const Tensor& x : {real(cholesky(a)), eigvalsh(a), svdvals(a), real(expm(a)), real(det(a)), slogdet(a).second})
      EXPECT_TRUE(all(isnan(x)).item<bool>());
  }
}

TEST(ComplexLinalg, EmptyMatrices) {
  for (const Dtype dtype : {float64, complex128}) {
    const Tensor none = zeros({0, 0}, dtype), stack = zeros({0, 3, 3}, dtype);
    for (const Tensor& a : {none, stack}) {
      EXPECT_EQ(eig(a).second.shape(), a.shape());
      EXPECT_EQ(schur(a).first.shape(), a.shape());
      EXPECT_EQ(sqrtm(a).shape(), a.shape());
      EXPECT_EQ(logm(a).shape(), a.shape());
      EXPECT_EQ(std::get<0>(ldl(a)).shape(), a.shape());
      EXPECT_EQ(cholesky(a).shape(), a.shape());
      EXPECT_EQ(eigh(a).second.shape(), a.shape());
      EXPECT_EQ(expm(a).shape(), a.shape());
      EXPECT_EQ(solve_sylvester(a, a, a).shape(), a.shape());
    }
    EXPECT_EQ(det(none).dtype(), dtype);
    EXPECT_TRUE(agree(det(none), ones({}, dtype)));
    EXPECT_TRUE(agree(std::get<0>(svd(zeros({2, 0}, dtype))), eye(2, dtype)));
  }
}

TEST(ComplexLinalg, RealMatricesWithComplexEigenvalues) {
  const Tensor turn = doubles({{0, -1}, {1, 0}});
  EXPECT_THAT(imag(eigvals(turn)), IsNear(tensor({1., -1.}, float64)));
  EXPECT_THAT(real(eigvals(turn)), IsNear(tensor({0., 0.}, float64)));
  // A rotation by a right angle: its root turns by half, and its logarithm is the angle.
  const double h = std::sqrt(0.5), angle = std::numbers::pi / 2;
  EXPECT_THAT(sqrtm(turn), IsNear(doubles({{h, -h}, {h, h}})));
  EXPECT_THAT(logm(turn), IsNear(doubles({{0, -angle}, {angle, 0}})));
  EXPECT_EQ(eigvals(turn).dtype(), complex128);
  EXPECT_EQ(eigvals(astype(turn, float16)).dtype(), complex64);
  EXPECT_THAT(schur(turn).first, IsNear(turn));
  const Tensor negative = astype(doubles({{-4, 0}, {0, -9}}), complex128);
  EXPECT_THAT(imag(sqrtm(negative)), IsNear(doubles({{2, 0}, {0, 3}})));
  EXPECT_THAT(imag(logm(negative)), IsNear(doubles({{std::numbers::pi, 0}, {0, std::numbers::pi}})));
}

TEST(ComplexLinalg, NormsAndProducts) {
  using C = std::complex<double>;
  const Tensor x = from(std::vector<C>{{3, 4}, {0, 2}, {5, 12}, {1, 0}}, {2, 2});
  EXPECT_THAT(matrix_norm(x), IsNear(tensor(std::sqrt(25. + 4 + 169 + 1), float64)));
  EXPECT_THAT(matrix_norm(x, 1), IsNear(tensor(18., float64)));
  EXPECT_THAT(vector_norm(x, std::numeric_limits<double>::infinity()), IsNear(tensor(13., float64)));
  EXPECT_THAT(vector_norm(x, 1), IsNear(tensor(21., float64)));
  EXPECT_THAT(vector_norm(x, 0), IsNear(tensor(4., float64)));
  EXPECT_THAT(parts(vecdot(x(0), x(1))), IsNear(tensor({15. + 48, 36. - 20 - 2}, float64)));
  EXPECT_THAT(matrix_rank(x), Equals(tensor(2, int32)));
  EXPECT_THAT(parts(trace(x)), IsNear(tensor({4., 4.}, float64)));
  EXPECT_THAT(cond(astype(doubles({{3, 0}, {0, -6}}), complex128)), IsNear(tensor(2., float64)));
  EXPECT_THAT(cond(doubles({{1, 1}, {1, 1}})) > 1e15, Equals(tensor(true)));
  EXPECT_THAT(cond(doubles({{3, 0}, {0, -6}}), 1), IsNear(tensor(2., float64)));
  EXPECT_THAT(toeplitz(tensor({1, 2, 3}), tensor({9, 5, 6, 7})),
              Equals(tensor({{1, 5, 6, 7}, {2, 1, 5, 6}, {3, 2, 1, 5}})));
  EXPECT_THAT(imag(toeplitz(from(std::vector<C>{{1, 0}, {0, 2}}, {2}))), IsNear(doubles({{0, -2}, {2, 0}})));
  EXPECT_THAT(block_diag({tensor({{1, 2}}), tensor({{3}, {4}})}), Equals(tensor({{1, 2, 0}, {0, 0, 3}, {0, 0, 4}})));
}

TEST(ComplexLinalg, BandsAreThoseOfTheMatrix) {
  for (const Dtype dtype : {float32, float64, complex64, complex128}) {
    const auto random = [&](const Shape& shape, std::uint64_t seed) {
      return is_complex(dtype) ? complex_matrix(shape, seed, dtype) : random_matrix(shape, seed, dtype);
    };
    const Tensor full = random({2, 6, 6}, 1) + 4 * eye(6, dtype), band = triu(tril(full, 2), -1);
    std::vector<Tensor> bands;
    for (Index d = 2; d >= -1; --d) {
      const Tensor x = diagonal(full, d);
      bands.push_back(pad(x, {{0, 0}, {std::max<Index>(d, 0), std::max<Index>(-d, 0)}}, std::nan("")));
    }
    const Tensor b = random({6, 3}, 2), x = solve_banded(stack(bands, -2), b, {.lower = 1, .upper = 2});
    EXPECT_TRUE(agree(matmul(band, x), broadcast_to(b, x.shape())));
    const Tensor three = triu(tril(full, 1), -1), nan = astype(broadcast_to(Tensor(std::nan("")), {2, 1}), dtype);
    const Tensor y = tridiagonal_solve(concat({nan, diagonal(full, -1)}, -1), diagonal(full),
                                       concat({diagonal(full, 1), nan}, -1), b);
    EXPECT_TRUE(agree(matmul(three, y), broadcast_to(b, y.shape())));
    const Tensor v = b(slice(), 0), z = solve_banded(stack(bands, -2), v, {.lower = 1, .upper = 2});
    EXPECT_TRUE(agree(z, x(ellipsis, 0)));
  }
}

TEST(ComplexLinalg, LanesAndPrograms) {
  const Tensor stack = complex_matrix({4, 3, 3}), b = complex_matrix({3, 2}, 3);
  EXPECT_TRUE(agree(vmap([&](const Tensor& x) { return solve(x, b); })(stack), solve(stack, b)));
  EXPECT_TRUE(agree(vmap(eigvals)(stack), eigvals(stack)));
  const auto f = [](const Tensor& x) {
    const Tensor h = matmul(x, conj_transpose(x)) + eye(3, complex128);
    return real(sum(solve(x, cholesky(h)))) + slogdet(h).second + sum(real(eig(x).first)) + sum(svdvals(x));
  };
  const auto g = [&](const Tensor& x) { return grad(f)(x); };
  EXPECT_TRUE(agree(compile(g)(stack(0)), g(stack(0))));
  EXPECT_TRUE(agree(compile(g)(stack(1)), g(stack(1))));
}

// The eigenvalues of a defective matrix have no derivative: it is NaN, and not a wrong number.
TEST(GeneralLinalg, EigenvaluesOfDefectiveMatricesHaveNoDerivative) {
  const auto f = [](const Tensor& a) { return real(sum(square(eigvals(a)))); };
  for (const Tensor& a : {tensor({{2., 1.}, {0., 2.}}, float64), tensor({{0., 1.}, {0., 0.}}, float64)})
    EXPECT_TRUE(all(isnan(grad(f)(a))).item<bool>());
  const Tensor close = tensor({{2., 1.}, {1e-6, 2.}}, float64);
  EXPECT_THAT(grad(f)(close), IsNear(2 * matrix_transpose(close), 1e-9));
}

}  // namespace
