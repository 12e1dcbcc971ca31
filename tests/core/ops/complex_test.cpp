// Complex numbers: values at the edges of functions, derivatives, printing, files, and errors.
// tests/table/rows_complex.cpp tests every function under every transform.
#include <complex>
#include <sstream>

#include <stave/core/io/programs.h>
#include <stave/core/program/lowered.h>
#include <stave/core/program/write_stablehlo.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;
using C = std::complex<double>;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr double pi = 3.141592653589793;

Tensor number(double re, double im) { return tensor(C(re, im), complex128); }
C value(const Tensor& z) { return z.item<C>(); }
void expect_same(const Tensor& z, C want) {
  const C got = value(z);
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  EXPECT_TRUE(same(got.real(), want.real()) && same(got.imag(), want.imag())) << got << " is not " << want;
}

// ---- dtypes and numbers -------------------------------------------------------------------------

// jnp.promote_types(row, column), with 64-bit types enabled.
TEST(Complex, PromotionEqualsJax) {
  for (const Dtype dtype : {bool_, int8, uint16, int32, int64, uint64, float16, bfloat16, float32, complex64}) {
    EXPECT_EQ(promote(dtype, complex64), complex64) << dtype;
    EXPECT_EQ(promote(complex128, dtype), complex128) << dtype;
    EXPECT_EQ((ones({2}, dtype) + ones({2}, complex64)).dtype(), complex64) << dtype;
  }
  EXPECT_EQ(promote(float64, complex64), complex128);
  EXPECT_EQ(promote(complex64, complex128), complex128);
}

TEST(Complex, NumbersGoInAndComeOut) {
  const std::vector<C> values{C(1, 2), C(-3, 0.5)};
  const Tensor z = from(values);
  EXPECT_EQ(z.dtype(), complex128);
  EXPECT_EQ(z.to_vector<C>(), values);
  EXPECT_EQ(std::vector<C>(z.data<C>().begin(), z.data<C>().end()), values);
  EXPECT_EQ(static_cast<C>(z(1)), values[1]);
  EXPECT_EQ(z(0).item<std::complex<float>>(), std::complex<float>(1, 2));
  EXPECT_EQ(tensor(3.).item<C>(), C(3, 0));
  EXPECT_EQ(tensor({C(1, 2), C(0, 1)}).dtype(), complex64);
  EXPECT_EQ(z(0).item<bool>(), true);
  EXPECT_EQ(zeros({}, complex64).item<bool>(), false);
  EXPECT_THAT([&] { z(0).item<double>(); }, ThrowsMessage<DtypeError>(HasSubstr("take real(x), imag(x) or abs(x)")));
  EXPECT_THAT([&] { z.to_vector<double>(); }, ThrowsMessage<DtypeError>(HasSubstr("the tensor is complex128 [2]")));
  EXPECT_THAT([&] { astype(z, float64); }, ThrowsMessage<DtypeError>(HasSubstr("no room for the imaginary part")));
  EXPECT_THAT(astype(z - C(1, 2), bool_), Equals(tensor({false, true})));
  EXPECT_THAT(astype(tensor({true, false}), complex64), Equals(tensor({C(1, 0), C(0, 0)})));
}

// The texts are those of str(array) in NumPy 2.4.
TEST(Complex, PrintsAsNumPy) {
  EXPECT_EQ(tensor({C(1, 2), C(3.5, -1), C(-0.25, 1e-3)}, complex128).str(),
            "[ 1.  +2.e+00j  3.5 -1.e+00j -0.25+1.e-03j]");
  EXPECT_EQ(tensor({{C(1e10, 2), C(nan, -1)}, {C(inf, -inf), C(0, 0)}}, complex128).str(),
            "[[1.e+10 +2.j    nan -1.j]\n [   inf-infj 0.e+00 +0.j]]");
  EXPECT_EQ((tensor({C(1, 2), C(3.5, -1)}) * 0.1).str(), "[0.1 +0.2j 0.35-0.1j]");
  EXPECT_EQ(number(1e20, 2e-7).str(), "(1e+20+2e-07j)");
  EXPECT_EQ(number(0, 2).str(), "2j");
  EXPECT_EQ(number(-0., 1).str(), "(-0+1j)");
  EXPECT_EQ(number(1, nan).str(), "(1+nanj)");
  EXPECT_EQ(complex(tensor(1.f / 3), tensor(1.f / 7)).str(), "(0.33333334+0.14285715j)");
  EXPECT_EQ((arange(1001) * C(1, 1)).str(),
            "[   0.   +0.j    1.   +1.j    2.   +2.j ...  998. +998.j  999. +999.j\n 1000.+1000.j]");
}

// ---- values at the edges: the C standard, Annex G -----------------------------------------------

TEST(Complex, BranchCutsAreContinuousFromTheSideOfTheirSign) {
  expect_same(sqrt(number(-4, 0.)), C(0, 2));
  expect_same(sqrt(number(-4, -0.)), C(0, -2));
  expect_same(log(number(-1, 0.)), C(0, pi));
  expect_same(log(number(-1, -0.)), C(0, -pi));
  EXPECT_THAT(asin(number(2, 0.)), IsNear(number(pi / 2, std::log(2 + std::sqrt(3)))));
  EXPECT_THAT(asin(number(2, -0.)), IsNear(number(pi / 2, -std::log(2 + std::sqrt(3)))));
  EXPECT_THAT(acosh(number(-2, 0.)), IsNear(number(std::log(2 + std::sqrt(3)), pi)));
  EXPECT_THAT(acosh(number(-2, -0.)), IsNear(number(std::log(2 + std::sqrt(3)), -pi)));
  EXPECT_THAT(atan(number(0., 2)), IsNear(number(pi / 2, std::log(3) / 2)));
  EXPECT_THAT(atan(number(-0., 2)), IsNear(number(-pi / 2, std::log(3) / 2)));
}

TEST(Complex, InfinitiesAndNaNFollowAnnexG) {
  expect_same(exp(number(-inf, 3)), C(-0., 0.));
  expect_same(exp(number(inf, 0.)), C(inf, 0.));
  expect_same(log(number(0., 0.)), C(-inf, 0.));
  expect_same(log(number(-inf, inf)), C(inf, 3 * pi / 4));
  expect_same(sqrt(number(-inf, 1)), C(0, inf));
  expect_same(tanh(number(inf, 1)), C(1, 0));
  expect_same(cosh(number(0, 0.)), C(1, 0));
  EXPECT_EQ(abs(number(inf, nan)).item<double>(), inf);
  EXPECT_TRUE(isnan(number(nan, 1)).item<bool>());
  EXPECT_TRUE(isinf(number(nan, -inf)).item<bool>());
  EXPECT_FALSE(isfinite(number(0, nan)).item<bool>());
  EXPECT_TRUE(std::isinf(value(number(1, 1) / number(0, 0)).real()));
  // G.5.1: a finite number over an infinite one is 0, and an infinite one over a finite one is
  // infinite.
  expect_same(number(1, -2) / number(inf, 1), C(0, -0.));
  expect_same(number(1, 2) / number(inf, inf), C(0, 0));
  expect_same(reciprocal(number(-inf, inf)), C(-0., -0.));
  expect_same(number(inf, 1) / number(2, 2), C(inf, -inf));
  expect_same(number(1, -inf) / number(0, 2), C(-inf, nan));
}

// The array API standard's special cases of expm1, and those of exp for 2^z = e^(z log 2).
TEST(Complex, ExponentialsOfInfinitiesAndNaN) {
  expect_same(expm1(number(0., 0.)), C(0., 0.));
  expect_same(expm1(number(0., -0.)), C(0., -0.));
  expect_same(expm1(number(2, inf)), C(nan, nan));
  expect_same(expm1(number(2, nan)), C(nan, nan));
  expect_same(expm1(number(inf, 0.)), C(inf, 0.));
  expect_same(expm1(number(-inf, 2)), C(-1, 0));
  expect_same(expm1(number(inf, 2)), C(-inf, inf));
  EXPECT_EQ(value(expm1(number(-inf, inf))), C(-1, 0));
  EXPECT_EQ(value(expm1(number(-inf, nan))), C(-1, 0));
  EXPECT_EQ(std::abs(value(expm1(number(inf, inf))).real()), inf);
  EXPECT_TRUE(std::isnan(value(expm1(number(inf, nan))).imag()));
  expect_same(expm1(number(nan, 0.)), C(nan, 0.));
  expect_same(expm1(number(nan, 2)), C(nan, nan));
  expect_same(expm1(number(1000, 0.)), C(inf, 0.));
  expect_same(expm1(number(1000, 2)), C(-inf, inf));
  expect_same(exp2(number(inf, 2)), C(inf, inf));  // the angle 2 log 2 is less than pi / 2
  expect_same(exp2(number(inf, -3)), C(-inf, -inf));
  expect_same(exp2(number(-inf, 3)), C(-0., 0.));
  expect_same(exp2(number(nan, 0.)), C(nan, 0.));
  expect_same(exp2(number(2, inf)), C(nan, nan));
  // 2^1024 is infinite, and its products with the cosine and the sine of 2.2 log 2 are not.
  EXPECT_TRUE(std::isfinite(value(exp2(number(1024, 2.2))).real()));
}

TEST(Complex, SignOfNaNIsNaN) {
  expect_same(sign(number(inf, nan)), C(nan, nan));
  expect_same(sign(number(nan, -inf)), C(nan, nan));
  expect_same(sign(number(nan, 0)), C(nan, nan));
}

TEST(Complex, InverseTangentsAreExactlySymmetric) {
  const Tensor z = normal(Key(3), {1000}, complex128);
  EXPECT_THAT(atan(-z), Equals(-atan(z)));
  EXPECT_THAT(atan(conj(z)), Equals(conj(atan(z))));
  EXPECT_THAT(atanh(-z), Equals(-atanh(z)));
  EXPECT_THAT(atanh(conj(z)), Equals(conj(atanh(z))));
}

// Complex numbers are sorted by their real part, then by their imaginary part, as NumPy sorts them.
TEST(Complex, DistinctElements) {
  const Tensor z = tensor({C(1, 2), C(0, 3), C(1, -2), C(-0., 3), C(1, 2), C(nan, 0), C(nan, 0)}, complex128);
  const UniqueAll all = unique_all(z);
  EXPECT_THAT(all.values(slice(3)), Equals(tensor({C(0, 3), C(1, -2), C(1, 2)}, complex128)));
  EXPECT_THAT(all.indices, Equals(tensor({1, 2, 0, 5, 6})));
  EXPECT_THAT(all.inverse_indices, Equals(tensor({2, 0, 1, 0, 2, 3, 4})));
  EXPECT_THAT(all.counts, Equals(tensor({2, 1, 2, 1, 1})));
  EXPECT_THAT(unique_values(z)(slice(3)), Equals(all.values(slice(3))));
  EXPECT_THAT(unique_counts(z).second, Equals(all.counts));
  EXPECT_THAT(unique_inverse(z).second, Equals(all.inverse_indices));
  EXPECT_EQ(unique_values(zeros({0}, complex64)).size(), 0);
  const Tensor some = tensor({{C(1, 2), C(2, 1)}, {C(0, 3), C(nan, 0)}}, complex64);
  EXPECT_THAT(isin(some, z), Equals(tensor({{true, false}, {true, false}})));
  EXPECT_THAT(isin(tensor({1., 2.}), tensor({C(1, 0), C(2, 1)}, complex64)), Equals(tensor({true, false})));
}

TEST(Complex, MatricesWithoutElements) {
  for (const Dtype dtype : {complex64, complex128})
    for (const Shape& shape : {Shape(3, 0), Shape(0, 0), Shape(2, 3, 0), Shape(0, 3)}) {
      const Tensor a = zeros(shape, dtype);
      EXPECT_EQ(svdvals(a).shape(-1), 0);
      EXPECT_EQ(sum(matrix_rank(a)).item<int>(), 0);
      for (const double order : {1., 2., inf}) EXPECT_EQ(sum(matrix_norm(a, order)).item<double>(), 0);
      EXPECT_EQ(sum(matrix_norm(a, "nuc")).item<double>(), 0);
    }
  EXPECT_EQ(solve(zeros({2, 0, 0}, complex128), zeros({2, 0, 3}, complex128)).shape(), Shape(2, 0, 3));
}

// The squares of the parts would overflow or underflow.
TEST(Complex, LargeAndSmallNumbersKeepTheirDigits) {
  EXPECT_EQ(abs(number(3e300, 4e300)).item<double>(), 5e300);
  EXPECT_EQ(abs(number(3e-300, 4e-300)).item<double>(), 5e-300);
  EXPECT_THAT(number(1e300, 1e300) / number(1e300, 1e300), IsNear(number(1, 0)));
  EXPECT_THAT(number(1e-300, 0) / number(1e-300, 1e-300), IsNear(number(0.5, -0.5)));
  EXPECT_THAT(reciprocal(number(0, 1e-200)) * 1e-200, IsNear(number(0, -1)));
  EXPECT_THAT(sign(number(3e300, -4e300)), IsNear(number(0.6, -0.8)));
  // log(1 + z) by its series z - z^2 / 2.
  EXPECT_THAT(log1p(number(1e-12, 1e-12)) * 1e12, IsNear(number(1, 1 - 1e-12), 1e-15));
  // |1 + z|^2 = 1 + 1e-20 for this z, which log1p(z) reads without loss.
  EXPECT_NEAR(value(log1p(number(-0.5e-20, 1e-10))).real() * 1e40, 0, 1e5);
  EXPECT_THAT(expm1(number(1e-12, 1e-12)) * 1e12, IsNear(number(1, 1 + 1e-12), 1e-15));
}

TEST(Complex, ComparisonsByOrderAreErrors) {
  const Tensor z = tensor({C(1, 2)});
  const auto refused = ThrowsMessage<DtypeError>(HasSubstr("complex numbers have no order"));
  EXPECT_THAT([&] { static_cast<void>(z < z); }, refused);
  EXPECT_THAT([&] { maximum(z, 1); }, refused);
  EXPECT_THAT([&] { max(z); }, refused);
  EXPECT_THAT([&] { argmin(z, 0); }, refused);
  EXPECT_THAT([&] { sort(z); }, refused);
  for (const auto& f : {floor, erf, relu, lgamma, softplus})
    EXPECT_THAT([&] { static_cast<Tensor (*)(Tensor)>(f)(z); },
                ThrowsMessage<DtypeError>(HasSubstr("is not defined for complex64")));
  EXPECT_THAT([&] { complex(z, 1); }, ThrowsMessage<DtypeError>(HasSubstr("must be real")));
  EXPECT_THAT(z == z, Equals(tensor({true})));
  EXPECT_THAT(z != conj(z), Equals(tensor({true})));
  EXPECT_THAT(logical_and(z, zeros({1}, complex64)), Equals(tensor({false})));
}

TEST(Complex, RealNumbersHaveParts) {
  const Tensor x = tensor({-1., 2., nan}, float64);
  EXPECT_THAT(real(x), IsNear(x));
  EXPECT_THAT(imag(x), Equals(zeros({3}, float64)));
  EXPECT_THAT(conj(x), IsNear(x));
  EXPECT_THAT(angle(x), IsNear(tensor({pi, 0., nan}, float64)));
  EXPECT_EQ(angle(tensor({1, 2})).dtype(), float32);
}

// Operands of every layout, and more elements than fit a block.
TEST(Complex, LayoutsAndLargeArrays) {
  const Tensor z = complex(normal(Key(0), {70, 300}, float64), normal(Key(1), {70, 300}, float64));
  for (const Tensor& x : {matrix_transpose(z), z(slice(none, none, 3), slice(none, none, -2)),
                          broadcast_to(expand_dims(z(0), 0), {40, 300}), flip(z)}) {
    const Tensor y = contiguous(x);
    EXPECT_THAT(x * x + exp(x), Equals(y * y + exp(y)));
    EXPECT_THAT(sum(x, 0), IsNear(sum(y, 0)));
    EXPECT_THAT(prod(x(slice(0, 5)), 0), IsNear(prod(y(slice(0, 5)), 0)));
    EXPECT_THAT(cumulative_sum(x, 1), IsNear(cumulative_sum(y, 1)));
    EXPECT_THAT(where(real(x) > 0, x, 0), Equals(where(real(y) > 0, y, 0)));
    EXPECT_THAT(matmul(x, matrix_transpose(x)), IsNear(matmul(y, contiguous(matrix_transpose(y))), 1e-11));
    EXPECT_THAT(concat({x, y}, 0), Equals(concat({y, x}, 0)));
  }
  const Tensor wide = astype(z, complex64);
  EXPECT_THAT(sum(wide), IsNear(astype(sum(astype(wide, complex128)), complex64)));
}

// np.mean, np.var, np.std(z, ddof=1), np.linalg.norm of this z.
TEST(Complex, MeansVariancesAndNorms) {
  const Tensor z = tensor({C(1, 2), C(-3, 0.5), C(0, -4)}, complex128);
  EXPECT_THAT(mean(z), IsNear(number(-2. / 3, -0.5)));
  EXPECT_THAT(var(z), IsNear(tensor(9.388888888888888, float64)));
  EXPECT_THAT(stave::std(z, all_axes, drop_dims, 1), IsNear(tensor(3.7527767497325675, float64)));
  EXPECT_THAT(norm(z), IsNear(tensor(5.5, float64)));
  EXPECT_THAT([&] { mse_loss(z, z); }, ThrowsMessage<DtypeError>(HasSubstr("is not defined for complex128")));
  EXPECT_THAT([&] { layer_norm(z); }, ThrowsMessage<DtypeError>(HasSubstr("is not defined for complex128")));
  EXPECT_THAT([&] { softmax(z, 0); }, ThrowsMessage<DtypeError>(HasSubstr("softmax")));
}

// (a + ib) (c + id) has the parts ac - bd and ad + bc, for products that BLAS computes too.
TEST(Complex, MatmulIsFourRealProducts) {
  for (const Dtype dtype : {float32, float64})
    for (const Index n : {1, 2, 5, 17, 90}) {
      const auto random = [&](std::uint64_t seed) { return normal(Key(seed), {n, n}, dtype); };
      const Tensor a = random(0), b = random(1), c = random(2), d = random(3);
      EXPECT_THAT(
          matmul(complex(a, b), complex(c, d)),
          IsNear(complex(matmul(a, c) - matmul(b, d), matmul(a, d) + matmul(b, c)), dtype == float32 ? 1e-4 : 1e-11));
      EXPECT_THAT(matmul(complex(a, b), complex(c, d)(0)),
                  IsNear(complex(matmul(a, c(0)) - matmul(b, d(0)), matmul(a, d(0)) + matmul(b, c(0))),
                         dtype == float32 ? 1e-4 : 1e-11));
    }
}

// ---- derivatives --------------------------------------------------------------------------------

// With z = x + iy, the gradient of |z|^2 = x^2 + y^2 is 2x - 2iy.
TEST(Complex, GradientOfARealLoss) {
  const auto loss = [](const Tensor& z) { return square(abs(z)); };
  EXPECT_THAT(grad(loss)(number(3, 4)), IsNear(number(6, -8)));
  EXPECT_THAT(grad([](const Tensor& z) { return real(z * conj(z)); })(number(3, 4)), IsNear(number(6, -8)));
  EXPECT_THAT(grad([](const Tensor& z) { return imag(z); })(number(3, 4)), IsNear(number(0, -1)));
  EXPECT_THAT(grad([](const Tensor& x) { return real(exp(x * C(0, 1))); })(tensor(0.5, float64)),
              IsNear(tensor(-std::sin(0.5), float64)));
  EXPECT_THAT(grad([](const Tensor& z) { return abs(z); })(number(0, 0)), IsNear(number(0, 0)));
  // Gradient descent goes against the conjugate.
  Tensor z = number(3, 4);
  for (int i = 0; i < 50; ++i) z = z - 0.25 * conj(grad(loss)(z));
  EXPECT_LT(abs(z).item<double>(), 1e-10);
}

TEST(Complex, GradientOfAComplexLossIsHolomorphicOrAnError) {
  const auto cube = [](const Tensor& z) { return z * z * z; };
  EXPECT_THAT(grad(cube, {.holomorphic = true})(number(1, 2)), IsNear(number(-9, 12)));  // 3 z^2
  EXPECT_THAT([&] { grad(cube)(number(1, 2)); }, ThrowsMessage<DtypeError>(HasSubstr("set .holomorphic")));
  EXPECT_THAT([&] { grad(cube, {.holomorphic = true})(tensor(1.)); },
              ThrowsMessage<DtypeError>(HasSubstr("convert it with astype to a complex dtype")));
  EXPECT_THAT([&] { grad([](const Tensor& z) { return abs(z); }, {.holomorphic = true})(number(1, 2)); },
              ThrowsMessage<DtypeError>(HasSubstr("its result must be complex")));
  EXPECT_THAT([&] { jacfwd(cube)(number(1, 2)); }, ThrowsMessage<DtypeError>(HasSubstr("along 1 and one along i")));
  EXPECT_THAT([&] { jacrev(cube)(number(1, 2)); }, ThrowsMessage<DtypeError>(HasSubstr("along 1 and one along i")));
  EXPECT_THAT([&] { jacfwd(cube, {.holomorphic = true})(tensor(1.)); },
              ThrowsMessage<DtypeError>(HasSubstr("jacfwd: .holomorphic is set, but")));
  EXPECT_THAT([&] { jacfwd([](const Tensor& z) { return abs(z); }, {.holomorphic = true})(number(1, 2)); },
              ThrowsMessage<DtypeError>(HasSubstr("jacfwd: .holomorphic is set, but the result is float")));
}

// f(u, v) = (u v, u^3) has the Jacobian ((v, u), (3 u^2, 0)); u^2 v has the Hessian
// ((2 v, 2 u), (2 u, 0)).
TEST(Complex, JacobiansOfHolomorphicFunctions) {
  const Tensor z = stack({number(1, 2), number(3, -1)}), zero = number(0, 0);
  const Tensor u = z[0], v = z[1];
  const auto f = [](const Tensor& x) { return stack({x[0] * x[1], x[0] * x[0] * x[0]}); };
  const Tensor expected = stack({stack({v, u}), stack({3. * u * u, zero})});
  EXPECT_THAT(jacfwd(f, {.holomorphic = true})(z), IsNear(expected));
  EXPECT_THAT(jacrev(f, {.holomorphic = true})(z), IsNear(expected));
  const auto g = [](const Tensor& x) { return x[0] * x[0] * x[1]; };
  EXPECT_THAT(hessian(g, {.holomorphic = true})(z), IsNear(stack({stack({2. * v, 2. * u}), stack({2. * u, zero})})));
}

TEST(Complex, TransformsCompose) {
  const auto f = [](const Tensor& z) { return real(sum(exp(z) * conj(z) / (1. + square(z)))); };
  const Tensor z = complex(normal(Key(0), {4, 3}, float64), normal(Key(1), {4, 3}, float64));
  const Tensor lanes = vmap(grad(f))(z);
  for (Index i = 0; i < 4; ++i) EXPECT_THAT(lanes(i), IsNear(grad(f)(z(i))));
  EXPECT_THAT(compile(grad(f))(z), IsNear(grad(f)(z)));
  EXPECT_THAT(compile(vmap(grad(f)))(z), IsNear(lanes));
  check_grads([&](const Tensor& x) { return vmap(f)(x); }, z, {.order = 2});
}

// A tape of several MiB recomputes values; those of complex numbers are kept, or recomputed right.
// Chains of elementwise operations become one region, with the bits of single operations.
TEST(Complex, CompiledChainsAreFused) {
  const auto f = [](const Tensor& z, const Tensor& w, const Tensor& m) {
    return z * w * m + conj(z) / (w + 2.) - C(0, 1) * real(z) * exp(-0.5 * w) + where(m > 0, z, w);
  };
  const auto loss = [&](const Tensor& z, const Tensor& w, const Tensor& m) { return sum(square(abs(f(z, w, m)))); };
  for (const Dtype dtype : {complex64, complex128})
    for (const Shape& shape : {Shape(), Shape(3), Shape(5, 7), Shape(70000)}) {
      const Tensor z = normal(Key(1), shape, dtype), w = normal(Key(2), shape, dtype);
      const Tensor m = normal(Key(3), shape, real_of(dtype));
      const auto compiled = compile(f);
      const auto gradients = compile(grad<0, 1, 2>(loss));
      const double tolerance = dtype == complex64 ? 1e-4 : 1e-12;
      for (int call = 0; call < 3; ++call) {
        EXPECT_THAT(compiled(z, w, m), Equals(f(z, w, m)));
        const auto [dz, dw, dm] = grad<0, 1, 2>(loss)(z, w, m);
        const auto [cz, cw, cm] = gradients(z, w, m);
        EXPECT_LE(max(abs(dz - cz)).item<double>(), tolerance);
        EXPECT_LE(max(abs(dw - cw)).item<double>(), tolerance);
        EXPECT_LE(max(abs(dm - cm)).item<double>(), tolerance);
      }
    }
  const Tensor z = normal(Key(1), {4}, complex64);
  const Program program = optimized(trace([](const Tensor& x) { return real(x * x + conj(x)); })(z));
  EXPECT_EQ(program.instructions.size(), 1u) << program;
  const Folder folder;
  save_program(folder / "program.stave", program);
  EXPECT_THAT(load_program(folder / "program.stave")(std::vector{z})[0], Equals(program(std::vector{z})[0]));
  // Only the region is complex inside.
  const Program inside = optimized(trace([](const Tensor& x) { return abs(complex(x, x) * complex(x, 1)); })(real(z)));
  const stave_detail::Lowered code = stave_detail::lower(inside);
  EXPECT_EQ(code.input_shapes[0], Shape{4});
  EXPECT_EQ(code.output_shapes[0], Shape{4});
  std::ostringstream text;
  write_stablehlo(text, inside);
  EXPECT_THAT(text.str(), HasSubstr("stablehlo.complex"));
}

TEST(Complex, ElementwiseOpsTakeThem) {
  const auto op = elementwise_op("square_plus_one", [](auto x) { return x * x + 1; });
  const Tensor z = normal(Key(1), {4}, complex128);
  EXPECT_THAT(op(z), IsNear(z * z + 1));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(real(op(x))); })(z), IsNear(2 * z));
}

TEST(Complex, LongTapesRecomputeNothingWrong) {
  const auto f = [](const Tensor& z) {
    Tensor y = z;
    for (int i = 0; i < 12; ++i) y = y * z / (1. + y) + conj(y);
    return sum(abs(y));
  };
  const Tensor z = complex(normal(Key(0), {400, 100}, float64), normal(Key(1), {400, 100}, float64));
  const Tensor want = grad(f, {.recompute = Recompute::never})(z);
  EXPECT_THAT(grad(f)(z), Equals(want));
  EXPECT_THAT(grad(f, {.recompute = Recompute::always})(z), Equals(want));
  EXPECT_THAT(compile(grad(f))(z), IsNear(want, 1e-9));
}

// ---- the debugger, files, random numbers --------------------------------------------------------

TEST(Complex, SummariesShowAbsoluteValues) {
  EXPECT_EQ(summary_of(tensor({C(3, 4), C(0, -1)}, complex128)), "c128[2] abs: min 1 max 5 mean 3 std 2 nan 0 inf 0");
  EXPECT_EQ(summary_of(tensor({C(nan, 0), C(0, -inf)})), "c64[2] abs: min inf max inf mean nan std nan nan 1 inf 1");
  std::ostringstream out;
  debug([](const Tensor& z) { return exp(z); }, {.out = &out})(number(0, 0));
  EXPECT_THAT(out.str(), HasSubstr("exp c128[] -> c128[]"));
}

TEST(Complex, FilesKeepThem) {
  const Folder folder;
  const Tensor z = tensor({{C(1, 2), C(-3, 0.5)}, {C(nan, inf), C(0, -0.)}});
  for (const Dtype dtype : {complex64, complex128}) {
    save_npy(folder / "z.npy", astype(z, dtype));
    EXPECT_EQ(load_npy(folder / "z.npy").dtype(), dtype);
    EXPECT_EQ(load_npy(folder / "z.npy").str(), astype(z, dtype).str());
  }
  save_safetensors(folder / "z.safetensors", std::map<std::string, Tensor>{{"z", z}});
  EXPECT_EQ((load_safetensors<std::map<std::string, Tensor>>(folder / "z.safetensors").at("z").str()), z.str());
  const auto f = [](const Tensor& x) { return sum(x * C(0, 2) + C(1, -1)); };
  save_program(folder / "f.stave", trace(f)(z(0)));
  EXPECT_THAT(load_program(folder / "f.stave")(std::vector<Tensor>{z(0)})[0], Equals(f(z(0))));
}

// jax.random.normal(jax.random.key(0), (3,), 'complex128'), with 64-bit types enabled, by JAX 0.10.
TEST(Complex, NormalEqualsJax) {
  const Tensor z = normal(Key(0), {20000}, complex128);
  EXPECT_NEAR(abs(mean(z)).item<double>(), 0, 0.02);
  EXPECT_NEAR(mean(square(abs(z))).item<double>(), 1, 0.03);
  EXPECT_THAT(normal(Key(0), {3}, complex128),
              IsNear(tensor({C(1.329381886098021, -0.9905746487658766), C(-0.34027037111235725, 1.0126794395709957),
                             C(0.2937726243708857, 0.4418078801945642)},
                            complex128),
                     1e-12));
}

}  // namespace
