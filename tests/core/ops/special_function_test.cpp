// Bit operations on integers, special functions and activations: edge cases, kinks, parameters and
// higher derivatives. tests/table tests values, derivatives and batching of every operation, and
// the conformance tests measure the accuracy.

#include <cmath>
#include <limits>

#include <stave/handlers/taylor/jet.h>
#include <stave/stave.h>

#include "matchers.h"

namespace special_function_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

// The expected values are those of numpy.bitwise_and and similar functions.
TEST(SpecialFunctions, BitOperationsEqualNumPy) {
  const Tensor a = tensor({12, -7, 255, 0}), b = tensor({10, 6, -1, 5});
  EXPECT_THAT(a & b, Equals(tensor({8, 0, 255, 0})));
  EXPECT_THAT(a | b, Equals(tensor({14, -1, -1, 5})));
  EXPECT_THAT(a ^ b, Equals(tensor({6, -1, -256, 5})));
  EXPECT_THAT(~a, Equals(tensor({-13, 6, -256, -1})));
  EXPECT_THAT(a & 6, Equals(tensor({4, 0, 6, 0})));
  EXPECT_THAT(1 | b, Equals(tensor({11, 7, -1, 5})));
  EXPECT_THAT(~tensor({0, 200}, uint8), Equals(tensor({255, 55}, uint8)));
  const Tensor yes_no = tensor({true, false}), other = tensor({true, true});
  EXPECT_THAT(yes_no & other, Equals(yes_no));
  EXPECT_THAT(yes_no | other, Equals(other));
  EXPECT_THAT(yes_no ^ other, Equals(tensor({false, true})));
  EXPECT_THAT(~yes_no, Equals(tensor({false, true})));
  EXPECT_EQ((yes_no & tensor({1, 3}, uint8)).dtype(), uint8);
  EXPECT_EQ(array_equal(yes_no & (tensor({1, 2}) == 1), yes_no), true);
}

// The expected values are those of scipy.special.multigammaln.
TEST(SpecialFunctions, MultigammalnHasAnyDimension) {
  const auto check = [](int d, double a, double expected) {
    SCOPED_TRACE(d);
    EXPECT_THAT(multigammaln(tensor(a, float64), d), IsNumber(expected, 1e-14 * std::abs(expected)));
    EXPECT_THAT(multigammaln(tensor({inf, 0.5 * (d - 1), nan}, float64), d), IsNear(tensor({inf, nan, nan}, float64)));
    check_grads([&](const Tensor& x) { return multigammaln(x, d); }, tensor(a, float64), {.order = 2});
  };
  check(1, 2.5, 0.2846828704729192);
  check(2, 0.75, 2.063668419054073);
  check(4, 3.25, 4.885676849443774);
  check(5, 2.125, 7.992459815937246);
  check(8, 40.5, 832.6142251189559);
}

TEST(SpecialFunctions, ShiftsBeyondTheWidthLeaveTheSign) {
  const Tensor a = tensor({5, -5, 5, -5, 5, -5, 5, -5}), places = tensor({1, 1, 31, 31, 32, 32, -1, -1});
  EXPECT_THAT(bitwise_left_shift(a, places), Equals(tensor({10, -10, -2147483647 - 1, -2147483647 - 1, 0, 0, 0, 0})));
  EXPECT_THAT(bitwise_right_shift(a, places), Equals(tensor({2, -3, 0, -1, 0, -1, 0, -1})));
  EXPECT_THAT(bitwise_left_shift(tensor({200, 1}, uint8), 1), Equals(tensor({144, 2}, uint8)));
  EXPECT_THAT(bitwise_right_shift(tensor({200, 255}, uint8), 8), Equals(tensor({0, 0}, uint8)));
  EXPECT_THAT(bitwise_left_shift(1, tensor({0, 5, 200}, uint8)), Equals(tensor({1, 32, 0}, uint8)));
  EXPECT_THAT(bitwise_left_shift(tensor({true, false}), tensor({true, true})),
              Equals(tensor({2, 0})));  // int32, as for +
}

TEST(SpecialFunctions, BitOperationsRefuseFloats) {
  const Tensor x = tensor({1., 2.}), i = tensor({1, 2});
  EXPECT_THAT(
      [&] { bitwise_invert(x); },
      ThrowsMessage<DtypeError>("bitwise_invert: float32 has no bits to work on: give integers or bool, by astype"));
  EXPECT_THAT([&] { i& x; }, ThrowsMessage<DtypeError>(HasSubstr("bitwise_and: float32 has no bits")));
  EXPECT_THAT([&] { i | 1.5; }, ThrowsMessage<DtypeError>(HasSubstr("bitwise_or: float32 has no bits")));
  EXPECT_THAT(
      [&] { bitwise_left_shift(x, 1); },
      ThrowsMessage<DtypeError>("bitwise_left_shift: float32 has no bits to work on: give integers, by astype"));
  EXPECT_THAT([&] { bitwise_xor(i, Tensor()); }, testing::Throws<TransformError>());
}

// Edge cases. The expected values come from NumPy, SciPy and the limits of the formulas.
TEST(SpecialFunctions, HaveTheirSpecialValues) {
  EXPECT_THAT(log2(tensor({8., 0., -1., inf})), IsNear(tensor({3., -inf, nan, inf})));
  EXPECT_THAT(log10(tensor({1000., 0., -1., inf})), IsNear(tensor({3., -inf, nan, inf})));
  EXPECT_THAT(exp2(tensor({10., -inf, inf, -149.})), IsNear(tensor({1024., 0., inf, 0x1p-149}), 0));
  EXPECT_THAT(reciprocal(tensor({4., 0., -0., inf})), IsNear(tensor({0.25, inf, -inf, 0.})));
  EXPECT_THAT(reciprocal(tensor({4, 2})), Equals(tensor({0.25, 0.5})));
  EXPECT_THAT(erfc(tensor({0., inf, -inf, nan})), IsNear(tensor({1., 0., 2., nan})));
  EXPECT_THAT(erfc(tensor(20., float64)), IsNear(tensor(5.395865611607901e-176, float64)));
  EXPECT_THAT(lgamma(tensor({1., 2., 0., -3., inf, -inf, -0.5})),
              IsNear(tensor({0., 0., inf, inf, inf, inf, 1.2655121234846454})));
  EXPECT_THAT(digamma(tensor({1., 0., -0., -2., inf, -inf, -0.5})),
              IsNear(tensor({-0.5772156649015329, -inf, inf, nan, inf, nan, 0.03648997397857652})));
  EXPECT_THAT(polygamma(1, tensor({1., 0., -1., -0.5, inf})),
              IsNear(tensor({1.6449340668482264, inf, inf, 8.934802200544679, 0.})));
  EXPECT_THAT(polygamma(2, tensor({1., 0., -0.5, 3.})),
              IsNear(tensor({-2.404113806319189, -inf, -0.8287966442343209, -0.15411380631918858})));
  EXPECT_THAT(polygamma(0, tensor({2.5})), Equals(digamma(tensor({2.5}))));
  EXPECT_THAT([] { polygamma(-1, tensor(1.)); }, ThrowsMessage<IndexError>("polygamma: the order -1 is negative"));
  EXPECT_THAT(zeta(tensor({2., 3., 1., 0.5}), 1), IsNear(tensor({1.6449340668482264, 1.2020569031595942, inf, nan})));
  EXPECT_THAT(hypot(tensor({3., 3e38, inf, -inf, 1e-45}), tensor({4., 1e38, nan, 1., 0.})),
              IsNear(tensor({5., 3.1622777e38, inf, inf, 1e-45})));
  EXPECT_THAT(logaddexp(tensor({0., inf, -inf, -inf, inf, 1000., nan}), tensor({0., inf, -inf, 3., -inf, 1000., inf})),
              IsNear(tensor({std::log(2.), inf, -inf, 3., inf, 1000 + std::log(2.), nan})));
  EXPECT_THAT(xlogy(tensor({0., 0., 0., 2., 0., -0.}), tensor({0., inf, -1., 0., nan, 0.})),
              IsNear(tensor({0., 0., 0., -inf, nan, 0.})));
  EXPECT_THAT(xlog1py(tensor({0., 0., 2., 0., 1.}), tensor({-1., inf, -1., nan, 1e-10})),
              IsNear(tensor({0., 0., -inf, nan, 1e-10})));
  EXPECT_THAT(entr(tensor({0., 1., -1., nan, inf, 0.5})), IsNear(tensor({0., 0., -inf, nan, -inf, std::log(2.) / 2})));
  EXPECT_THAT(logit(tensor({0., 1., 0.5, -0.5, 2., nan})), IsNear(tensor({-inf, inf, 0., nan, nan, nan})));
  EXPECT_THAT(logit(tensor(0.5 + 0x1p-40, float64)), IsNear(tensor(0x1p-38, float64), 1e-15));
  EXPECT_THAT(signbit(tensor({-0., 0., -1., -inf})), Equals(tensor({true, false, true, true})));
  EXPECT_THAT(signbit(tensor({-3, 3})), Equals(tensor({true, false})));
  EXPECT_THAT(1 / copysign(tensor({0., 0.}), tensor({-0., 1.})), IsNear(tensor({-inf, inf})));
  EXPECT_THAT(copysign(tensor({1., nan}), -2), IsNear(tensor({-1., nan})));
  EXPECT_THAT(nextafter(tensor({1., 0., -0., 1.}), tensor({2., -1., 1., 1.})),
              IsNear(tensor({1 + 0x1p-23, -0x1p-149, 0x1p-149, 1.}), 0));
  EXPECT_THAT(nextafter(tensor({1., inf}, float64), 0),
              IsNear(tensor({1 - 0x1p-53, 0x1.fffffffffffffp1023}, float64), 0));
  EXPECT_EQ(nextafter(tensor({1, 2}), 5).dtype(), float32);
  EXPECT_EQ(hypot(3, 4.), 5.);  // plain numbers use the C++ function
}

// The formulas are those of torch.nn.functional, evaluated by mpmath.
TEST(Activations, EqualPyTorchForModerateNumbers) {
  const Tensor x = tensor({-2., -0.5, 0., 0.5, 3.5}, float64);
  const auto expected = [](std::initializer_list<NestedList> list) { return IsNear(tensor(list, float64), 1e-14); };
  EXPECT_THAT(gelu(x),
              expected({-0.04550026389635842, -0.15426876936299344, 0.0, 0.34573123063700656, 3.4991857982233756}));
  EXPECT_THAT(gelu_tanh(x),
              expected({-0.04540230591222498, -0.15428599017485609, 0.0, 0.34571400982514394, 3.499383802344626}));
  EXPECT_THAT(silu(x),
              expected({-0.23840584404423512, -0.18877033439907273, 0.0, 0.3112296656009273, 3.397407192370253}));
  EXPECT_THAT(leaky_relu(x, 0.1), expected({-0.2, -0.05, 0., 0.5, 3.5}));
  EXPECT_THAT(elu(x, 2), expected({-1.7293294335267746, -0.7869386805747332, 0.0, 0.5, 3.5}));
  EXPECT_THAT(hardtanh(x), expected({-1., -0.5, 0., 0.5, 1.}));
  EXPECT_THAT(hardsigmoid(x), expected({1. / 6, 2.5 / 6, 0.5, 3.5 / 6, 1.}));
  EXPECT_THAT(hardswish(x), expected({-2. / 6, -1.25 / 6, 0., 1.75 / 6, 3.5}));
  EXPECT_EQ(gelu(tensor({1, 2})).dtype(), float32);
  EXPECT_EQ(elu(tensor({1, 2})).dtype(), float32);
  EXPECT_EQ(mish(tensor({1, 2})).dtype(), float32);
}

// Far from 0, values and derivatives are the limits. At a kink the derivative is PyTorch's.
TEST(Activations, HaveLimitsAtInfinityAndPyTorchsSlopesAtKinks) {
  using F = Tensor (*)(const Tensor&);
  struct Case {
    const char* name;
    F f;
    std::vector<double> x, value, derivative;
  };
  const Case cases[] = {
      {"gelu",
       [](const Tensor& x) { return gelu(x); },
       {-inf, -1e30, 0, 1e30, inf},
       {0, 0, 0, 1e30, inf},
       {0, 0, 0.5, 1, 1}},
      {"gelu_tanh",
       [](const Tensor& x) { return gelu_tanh(x); },
       {-inf, -1e30, 0, 1e30, inf},
       {0, 0, 0, 1e30, inf},
       {0, 0, 0.5, 1, 1}},
      {"silu",
       [](const Tensor& x) { return silu(x); },
       {-inf, -1e30, 0, 1e30, inf},
       {0, 0, 0, 1e30, inf},
       {0, 0, 0.5, 1, 1}},
      {"mish",
       [](const Tensor& x) { return mish(x); },
       {-inf, -1e30, 0, 1e30, inf},
       {0, 0, 0, 1e30, inf},
       {0, 0, 0.6, 1, 1}},
      {"leaky_relu",
       [](const Tensor& x) { return leaky_relu(x, 0.5); },
       {-inf, -2, 0, 2, inf},
       {-inf, -1, 0, 2, inf},
       {0.5, 0.5, 0.5, 1, 1}},
      {"elu", [](const Tensor& x) { return elu(x, 2); }, {-inf, 0, 1e30, inf}, {-2, 0, 1e30, inf}, {0, 2, 1, 1}},
      {"celu", [](const Tensor& x) { return celu(x, 2); }, {-inf, 0, 1e30, inf}, {-2, 0, 1e30, inf}, {0, 1, 1, 1}},
      {"selu",
       [](const Tensor& x) { return selu(x); },
       {-inf, 0, inf},
       {-1.7580993408473766, 0, inf},
       {0, 1.7580993408473766, 1.0507009873554805}},
      {"hardtanh",
       [](const Tensor& x) { return hardtanh(x); },
       {-inf, -1, 0.5, 1, inf},
       {-1, -1, 0.5, 1, 1},
       {0, 0, 1, 0, 0}},
      {"hardsigmoid",
       [](const Tensor& x) { return hardsigmoid(x); },
       {-inf, -3, 0, 3, inf},
       {0, 0, 0.5, 1, 1},
       {0, 0, 1. / 6, 0, 0}},
      {"hardswish",
       [](const Tensor& x) { return hardswish(x); },
       {-inf, -3, 0, 3, inf},
       {0, 0, 0, 3, inf},
       {0, 0, 0.5, 1, 1}},
      {"log_sigmoid",
       [](const Tensor& x) { return log_sigmoid(x); },
       {-inf, -1e30, 0, inf},
       {-inf, -1e30, -std::log(2.), 0},
       {1, 1, 0.5, 0}},
      {"entr", [](const Tensor& x) { return entr(x); }, {0, 1, -1, inf}, {0, 0, -inf, -inf}, {inf, -1, 0, -inf}},
  };
  for (const Case& c : cases)
    for (Dtype dtype : {float32, float64}) {
      SCOPED_TRACE(c.name);
      const Tensor x = astype(from(c.x), dtype);
      EXPECT_THAT(c.f(x), IsNear(astype(from(c.value), dtype)));
      EXPECT_THAT(grad([&](const Tensor& t) { return sum(c.f(t)); })(x), IsNear(astype(from(c.derivative), dtype)));
      EXPECT_THAT(jvp(c.f, x, ones_like(x)).second, IsNear(astype(from(c.derivative), dtype)));
      EXPECT_THAT(c.f(full({1}, nan, dtype)), IsNear(full({1}, nan, dtype)));
    }
}

TEST(Activations, ParametersHaveDerivatives) {
  const Tensor x = tensor({-2., 1000.}, float64), alpha = tensor(0.5, float64);
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(leaky_relu(x, a)); })(alpha), IsNear(tensor(-2., float64)));
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(elu(x, a)); })(alpha), IsNear(tensor(std::expm1(-2.), float64)));
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(celu(x, a)); })(alpha),
              IsNear(tensor(std::expm1(-4.) + 4 * std::exp(-4.), float64)));
}

// Derivatives by parameters are computed up to the eighth order. The values of zeta's are
// mpmath's.
TEST(SpecialFunctions, DerivativesByParametersAreNanFromTheNinthOrderOn) {
  const Tensor a = tensor({1.25, 2.25}, float64), x = tensor(0.4, float64), one = ones_like(a);
  const auto check = [&](const char* name, auto f) {
    const std::vector<Tensor> series = taylor(f, 10)(a, one);
    for (std::size_t k = 0; k < series.size(); ++k) {
      EXPECT_EQ(bool(all(isfinite(series[k]))), k <= 8) << name << k;
      EXPECT_EQ(bool(all(isnan(series[k]))), k > 8) << name << k;
    }
  };
  check("gammainc", [&](const Tensor& u) { return gammainc(u, x); });
  check("gammaincc", [&](const Tensor& u) { return gammaincc(u, x); });
  check("gamma_density", [&](const Tensor& u) { return gamma_density(u, x); });
  check("betainc, a", [&](const Tensor& u) { return betainc(u, 1.5, x); });
  check("betainc, b", [&](const Tensor& u) { return betainc(1.5, u, x); });
  check("beta_density, a", [&](const Tensor& u) { return beta_density(u, 1.5, x); });
  check("beta_density, b", [&](const Tensor& u) { return beta_density(1.5, u, x); });
  check("zeta", [&](const Tensor& u) { return zeta(u, x); });
  const Tensor s = tensor(2.25, float64), q = tensor({1., 0.5, 4.5, 0., -1., nan, 0.}, float64);
  const Tensor eighth =
      tensor({5411.658573140389, 5411.9124787838579, 5411.2334170520691, nan, nan, nan, nan}, float64);
  EXPECT_THAT(zeta_derivative(8, s, q), IsNear(eighth, 1e-12 * 5411));
  for (const int order : {9, 10, 60}) EXPECT_TRUE(bool(all(isnan(zeta_derivative(order, s, q))))) << order;
}

// Compares the derivatives of orders 0 to 3 at x with mpmath's numbers.
void check_orders(Tensor (*f)(const Tensor&), double x, const std::vector<double>& expected) {
  const auto d0 = [f](const Tensor& t) { return f(t); };
  const auto d1 = grad(d0);
  const auto d2 = grad(d1);
  const auto d3 = grad(d2);
  const Tensor at = tensor(x, float64);
  EXPECT_THAT(d0(at), IsNear(tensor(expected[0], float64), 1e-12)) << x;
  EXPECT_THAT(d1(at), IsNear(tensor(expected[1], float64), 1e-12)) << x;
  EXPECT_THAT(d2(at), IsNear(tensor(expected[2], float64), 1e-12)) << x;
  EXPECT_THAT(d3(at), IsNear(tensor(expected[3], float64), 1e-12)) << x;
  const auto forward = [&](const Tensor& t) { return jvp(d2, t, tensor(1., float64)).second; };
  EXPECT_THAT(forward(at), IsNear(tensor(expected[3], float64), 1e-12)) << x;
}
TEST(SpecialFunctions, HigherDerivativesEqualMpmath) {
  // lgamma
  check_orders([](const Tensor& x) { return lgamma(x); }, 0.3,
               {1.0957979948180756, -3.502524222200133, 12.245364546107732, -75.27253658872604});
  check_orders([](const Tensor& x) { return lgamma(x); }, 1.5,
               {-0.12078223763524522, 0.03648997397857652, 0.9348022005446793, -0.82879664423432});
  check_orders([](const Tensor& x) { return lgamma(x); }, 12.25,
               {18.115669505710894, 2.464154655185369, 0.0850551429881632, -0.007230035788993344});
  check_orders([](const Tensor& x) { return lgamma(x); }, -1.75,
               {1.0160888092144358, -2.322691628614361, 19.301637544529786, -124.21382135423057});
  // digamma
  check_orders([](const Tensor& x) { return digamma(x); }, 0.3,
               {-3.502524222200133, 12.245364546107732, -75.27253658872604, 743.1417646550498});
  check_orders([](const Tensor& x) { return digamma(x); }, 1.4616321449683622,
               {-9.241265521729427e-17, 0.9676722454476212, -0.8855263379671844, 1.5509985657339065});
  check_orders([](const Tensor& x) { return digamma(x); }, 12.25,
               {2.464154655185369, 0.0850551429881632, -0.007230035788993344, 0.0012284305869150693});
  check_orders([](const Tensor& x) { return digamma(x); }, -1.75,
               {-2.322691628614361, 19.301637544529786, -124.21382135423057, 1558.3848404165494});
  // gelu
  check_orders([](const Tensor& x) { return gelu(x); }, -6.5,
               {-2.6104003795084267e-10, -1.6950517937572625e-09, -1.0744965374420479e-08, -6.63718513345414e-08});
  check_orders([](const Tensor& x) { return gelu(x); }, -1.25,
               {-0.13206221708356908, -0.12266158306942213, 0.07990897485769709, 0.5565089320446761});
  check_orders([](const Tensor& x) { return gelu(x); }, 0.0, {0.0, 0.5, 0.7978845608028654, 0.0});
  check_orders([](const Tensor& x) { return gelu(x); }, 0.75,
               {0.5800294857173488, 0.9992257217392351, 0.43288505872253136, -0.776369942274105});
  check_orders([](const Tensor& x) { return gelu(x); }, 5.0,
               {4.999998566742141, 1.000007146946002, -3.4194548838888845e-05, 0.00015610554904710126});
  // gelu_tanh
  check_orders([](const Tensor& x) { return gelu_tanh(x); }, -3.5,
               {-0.0006161976553736633, -0.002422643760116431, -0.008549459160865447, -0.026172152632028444});
  check_orders([](const Tensor& x) { return gelu_tanh(x); }, 0.0, {0.0, 0.5, 0.7978845608028654, 0.0});
  check_orders([](const Tensor& x) { return gelu_tanh(x); }, 0.75,
               {0.5799605551656203, 0.9989382561374143, 0.4323074902714741, -0.7747955136258102});
  check_orders([](const Tensor& x) { return gelu_tanh(x); }, 5.0,
               {4.999999770820381, 1.0000015463619876, -9.934132224996203e-06, 6.037967578425878e-05});
  // silu
  check_orders([](const Tensor& x) { return silu(x); }, -20.0,
               {-4.122307236380407e-08, -3.9161918660646786e-08, -3.710076488101912e-08, -3.503961095269906e-08});
  check_orders([](const Tensor& x) { return silu(x); }, -1.25,
               {-0.27837517353163604, 0.0063191550846875815, 0.22620474048075928, 0.2963701212674254});
  check_orders([](const Tensor& x) { return silu(x); }, 0.0, {0.0, 0.5, 0.5, 0.0});
  check_orders([](const Tensor& x) { return silu(x); }, 0.75,
               {0.5093840243815447, 0.8425999444967535, 0.37722677521501974, -0.2844836312921471});
  // mish
  check_orders([](const Tensor& x) { return mish(x); }, -3.0,
               {-0.14564746127562458, -0.09339311453232084, -0.03992871324212925, 0.014673239016312805});
  check_orders([](const Tensor& x) { return mish(x); }, 0.0, {0.0, 0.6, 0.64, -0.096});
  check_orders([](const Tensor& x) { return mish(x); }, 0.75,
               {0.6100183352182934, 0.985758355716688, 0.32457122066277644, -0.5871889146804425});
  // hypot
  check_orders([](const Tensor& x) { return hypot(x, 2); }, -3.0,
               {3.605551275463989, -0.8320502943378437, 0.08533849172695833, 0.05908049427250961});
  check_orders([](const Tensor& x) { return hypot(x, 2); }, 0.0, {2.0, 0.0, 0.5, 0.0});
  check_orders([](const Tensor& x) { return hypot(x, 2); }, 0.75,
               {2.1360009363293826, 0.3511234415883917, 0.4104456668795812, -0.20241156174883454});
  // erfc
  check_orders([](const Tensor& x) { return erfc(x); }, -0.5,
               {1.5204998778130465, -0.8787825789354448, -0.8787825789354448, 0.8787825789354448});
  check_orders([](const Tensor& x) { return erfc(x); }, 2.0,
               {0.004677734981047266, -0.020666985354092053, 0.08266794141636821, -0.28933779495728873});
  // logit
  check_orders([](const Tensor& x) { return logit(x); }, 0.1,
               {-2.197224577336219, 11.11111111111111, -98.76543209876542, 2002.7434842249654});
  check_orders([](const Tensor& x) { return logit(x); }, 0.5, {0.0, 4.0, 0.0, 32.0});
  check_orders([](const Tensor& x) { return logit(x); }, 0.7,
               {0.8472978603872034, 4.761904761904762, 9.070294784580495, 79.90497786416151});
  // entr
  check_orders([](const Tensor& x) { return entr(x); }, 0.1,
               {0.23025850929940458, 1.3025850929940457, -10.0, 99.99999999999999});
  check_orders([](const Tensor& x) { return entr(x); }, 2.0, {-1.3862943611198906, -1.6931471805599454, -0.5, 0.25});
}

TEST(SpecialFunctions, DerivativesOfBinaryFunctionsAtEdgeCases) {
  const auto by_both = [](Tensor (*f)(Operand, Operand), double a, double b) {
    return grad<0, 1>([f](const Tensor& x, const Tensor& y) { return f(x, y); })(tensor(a, float64),
                                                                                 tensor(b, float64));
  };
  const auto check = [&](Tensor (*f)(Operand, Operand), double a, double b, double left, double right) {
    const auto [da, db] = by_both(f, a, b);
    EXPECT_THAT(da, IsNear(tensor(left, float64))) << a << " " << b;
    EXPECT_THAT(db, IsNear(tensor(right, float64))) << a << " " << b;
  };
  check(hypot, 0, 0, 0, 0);
  check(hypot, 3e300, -4e300, 0.6, -0.8);
  check(hypot, inf, 1, 1, 0);
  check(hypot, -inf, inf, -0.5, 0.5);
  check(logaddexp, 2, 2, 0.5, 0.5);
  check(logaddexp, inf, inf, 0.5, 0.5);
  check(logaddexp, -inf, -inf, 0.5, 0.5);
  check(logaddexp, -inf, 1, 0, 1);
  check(logaddexp, 1000, 0, 1, 0);
  check(xlogy, 0, 2, std::log(2.), 0);
  check(xlogy, 0, 0, -inf, 0);
  check(xlog1py, 0, -1, -inf, 0);
  check(copysign, -3, 2, -1, 0);
  check(copysign, 0, 2, 0, 0);
  check(nextafter, 1, 2, 0, 0);
  const auto twice = [](const Tensor& x) { return sum(logaddexp(x, x * 0)); };
  // The derivative is also right where both operands are equal.
  EXPECT_THAT(grad(grad(twice))(tensor(0., float64)), IsNear(tensor(0.25, float64)));
  EXPECT_THAT(zeta(3, tensor(2., float64)), IsNear(tensor(0.2020569031595943, float64)));
  for (const bool backward : {false, true}) {
    const auto by_s = [](const Tensor& s) { return zeta(s, 2.); };
    const Tensor s = tensor(3., float64);
    EXPECT_THAT(backward ? grad(by_s)(s) : jvp(by_s, s, ones_like(s)).second,
                IsNear(tensor(-0.19812624288563685, float64)));
    const auto by_a = [](const Tensor& a) { return hyp1f1(a, 2., 0.5); };
    EXPECT_THAT(
        [&] { backward ? grad(by_a)(s) : jvp(by_a, s, s).second; },
        ThrowsMessage<TransformError>(HasSubstr("the operation hyp1f1 has no derivative with respect to operand "
                                                "0: cut that operand off with stop_gradient")));
  }
}

}  // namespace special_function_test
