// Linear algebra against reference values of NumPy 2.4, SciPy 1.17 and JAX 0.10.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include "linalg.h"
#include "matchers.h"

namespace {

using namespace linalg_test;
using namespace stave;
using namespace stave_test;

Tensor hilbert(Index n) {
  const Tensor i = arange(0, n, 1, float64);
  return 1 / (expand_dims(i, 1) + i + 1);
}
const Tensor symmetric_4 = doubles({{4, 1, -2, 2}, {1, 2, 0, 1}, {-2, 0, 3, -2}, {2, 1, -2, -1}});
const Tensor tall = doubles({{1, 2, 0}, {-1, 1, 3}, {2, 0, 1}, {0, 1, -2}});
const Tensor positive_4 =
    doubles({{6, 1.6, -3.6, 2.2}, {1.6, 2.2, -.8, .6}, {-3.6, -.8, 4.4, -1.6}, {2.2, .6, -1.6, 3}});

// The expected values are those of scipy.linalg.invhilbert(6), numpy.linalg.det and eigvalsh.
TEST(Figures, OfTheHilbertMatrixEqualSciPy) {
  const Tensor h = hilbert(6);
  EXPECT_NEAR(det(h).item<double>() / 5.367299887358688e-18, 1, 1e-9);  // 1 / 186313420339200000
  EXPECT_THAT(inv(h)(0), IsNear(doubles({36, -630, 3360, -7560, 7560, -2772}), 1e-6));
  EXPECT_THAT(eigvalsh(h), IsNear(doubles({1.0827994845192786e-07, 1.2570757122630690e-05, 6.1574835418259379e-04,
                                           1.6321521319875708e-02, 2.4236087057520930e-01, 1.6188998589243386e+00}),
                                  1e-15));
}

// The expected values are those of numpy.linalg.norm, matrix_power, lstsq and pinv,
// and of scipy.linalg.expm and lu_factor.
TEST(Figures, EqualNumPyAndSciPy) {
  const std::vector<std::pair<MatrixOrder, double>> norms = {
      {"fro", 5.0990195135927845}, {"nuc", 8.603303031567792}, {infinity, 5}, {-infinity, 3}, {1, 6}, {-1, 4},
      {2, 3.7705424763591124},     {-2, 2.187009244144089}};
  for (const auto& [order, expected] : norms) EXPECT_NEAR(matrix_norm(tall, order).item<double>(), expected, 1e-14);
  EXPECT_EQ(matrix_norm(tall, 2, keepdims).shape(), Shape(1, 1));
  EXPECT_THAT(
      matrix_power(symmetric_4, -3)(0),
      IsNear(doubles({0.32566679170039287, -0.26294592620377855, 0.2756006554399542, -0.05616646595463249}), 1e-14));
  EXPECT_THAT(matrix_power(tensor({{1, 1}, {1, 0}}), 30), Equals(tensor({{1346269, 832040}, {832040, 514229}})));
  EXPECT_THAT(expm(doubles({{0, 6, 0}, {-6, 0, 1}, {1, 2, -3}})),
              IsNear(doubles({{9.4945053397487322e-01, -4.4964409772446196e-01, -1.4993140192923202e-01},
                              {4.2465553073625673e-01, 8.9947339999846232e-01, 2.5018010538968925e-05},
                              {2.9988782186900298e-01, -1.4988136590815399e-01, -1.9006560854660786e-04}}),
                     1e-13));
  EXPECT_THAT(
      expm(doubles({{-49, 24}, {-64, 31}})),
      IsNear(doubles({{-0.7357587581447559, 0.5518190996580998}, {-1.4715175990882672, 1.1036382407155778}}), 1e-10));
  const auto [packed, exchanges, order] = lu_factor(tall(slice(3)));
  EXPECT_THAT(packed, IsNear(doubles({{2, 0, 1}, {0.5, 2, -0.5}, {-0.5, 0.5, 3.75}}), 1e-15));
  EXPECT_THAT(exchanges, Equals(tensor({2, 2, 2})));
  EXPECT_THAT(order, Equals(tensor({2, 0, 1})));
  const auto [q, r] = qr(tall, {.complete = true});
  EXPECT_THAT(q(0, slice(3)), IsNear(doubles({-0.40824829046386313, -0.7590721152765899, 0.05423261445466395}), 1e-14));
  EXPECT_THAT(diagonal(r), IsNear(doubles({-2.449489742783178, -2.41522945769824, -3.687817782917155}), 1e-14));
}

TEST(Figures, OfARankDeficientMatrixEqualNumPy) {
  const Tensor a = doubles({{1, 2, 3}, {2, 4, 6}, {1, 0, 1}, {0, 2, 2}}), b = doubles({1, 2, 4, 3});
  EXPECT_EQ(matrix_rank(a).item<int>(), 2);
  EXPECT_THAT(lstsq(a, b), IsNear(doubles({0.8030303030303038, -0.3333333333333337, 0.4696969696969698}), 1e-14));
  EXPECT_THAT(pinv(a), IsNear(doubles({{1. / 22, 1. / 11, 29. / 66, -13. / 33},
                                       {0, 0, -1. / 3, 1. / 3},
                                       {1. / 22, 1. / 11, 7. / 66, -2. / 33}}),
                              1e-14));
  EXPECT_EQ(matrix_rank(doubles({{1, 0, 0}, {0, 1e-3, 0}, {0, 0, 1e-9}}), {.rtol = 1e-6}).item<int>(), 2);
  EXPECT_EQ(matrix_rank(zeros({3, 3})).item<int>(), 0);
}

// The expected values are those of jax.grad and jax.hessian in float64.
TEST(Figures, DerivativesEqualJax) {
  const auto of_eigh = [](const Tensor& a) {
    const auto [w, v] = eigh(a);
    return sum(square(v(slice(), 0)) * arange(1, 5, 1, float64)) + sum(sin(w));
  };
  EXPECT_THAT(grad(of_eigh)(symmetric_4),
              IsNear(doubles({{0.605539091796025, -0.12961004065961063, -0.2465049294302063, 0.21621289641507982},
                              {-0.12961004065961063, -0.2196629934058487, -0.5181607954269888, 0.14789237300264468},
                              {-0.2465049294302063, -0.5181607954269888, 0.1307972120979668, -0.359454342772211},
                              {0.21621289641507982, 0.14789237300264468, -0.359454342772211, -0.4316826552936849}}),
                     1e-13));
  const auto of_svd = [](const Tensor& a) {
    const auto [u, s, vh] = svd(a, {.full_matrices = false});
    return sum(square(u(slice(), 0)) * arange(1, 5, 1, float64)) + sum(log(s)) +
           sum(matmul(u, vh) * reshape(arange(0, 12, 1, float64), {4, 3}) / 7);
  };
  EXPECT_THAT(grad(of_svd)(tall), IsNear(doubles({{-0.11744866373935958, 0.012931260303664538, -0.19253594551757314},
                                                  {0.054295796189887446, -0.07212366791579147, 0.08727838855852163},
                                                  {0.5572040351259431, 0.012815613228908757, 0.49610401747478555},
                                                  {0.3996936763505609, 0.7738192372468213, -0.2859195582943255}}),
                                         1e-13));
  const auto of_qr = [](const Tensor& a) {
    const auto [q, r] = qr(a);
    return sum(q * reshape(arange(0, 12, 1, float64), {4, 3})) + sum(r * r * r);
  };
  EXPECT_THAT(grad(of_qr)(tall), IsNear(doubles({{-3.335735185114668, -12.163080684330694, 3.043809423555063},
                                                 {2.481524683101846, -2.137109152258195, -29.89590974542802},
                                                 {-19.136777750940347, 4.400613330340452, -17.082232020187334},
                                                 {2.316563546285717, -16.007369134031542, 21.913506132697187}}),
                                        1e-12));
  const auto of_cholesky = [](const Tensor& a) {
    return sum(cholesky(a) * reshape(arange(0, 16, 1, float64), {4, 4}));
  };
  EXPECT_THAT(grad(of_cholesky)(positive_4),
              IsNear(doubles({{-0.33606774368048353, 0.5826362574157826, 1.29798497826823, 2.6167883509014898},
                              {0.5826362574157826, 1.576059671023864, 2.975851452184466, 4.361150770589798},
                              {1.29798497826823, 2.975851452184466, 4.025963463566233, 5.337343294030287},
                              {2.6167883509014898, 4.361150770589798, 5.337343294030287, 5.105819534934313}}),
                     1e-13));
  const auto log_det = [](const Tensor& a) { return slogdet(a).second; };
  EXPECT_THAT(
      hessian(log_det)(positive_4)(0, 1),
      IsNear(doubles({{0.0726646670177671, -0.029987731985690453, 0.04565944002161187, -0.022938174737698123},
                      {-0.23822973110888201, 0.09831420992776997, -0.14969360715946167, 0.07520237034257994},
                      {0.017476312320728785, -0.007212239338330611, 0.010981384308995252, -0.005516776202737521},
                      {0.003679223646469216, -0.0015183661764906545, 0.0023118703808411045, -0.0011614265689973726}}),
             1e-14));
}

TEST(Expm, IsAccurateForFarFromNormalMatrices) {
  for (const double far : {1e3, 1e6, 1e10}) {  // The result is [e, far sinh(1); 0, 1 / e].
    const Tensor x = expm(doubles({{1, far}, {0, -1}}));
    EXPECT_NEAR(x(0, 0).item<double>(), std::exp(1.), 1e-14);
    EXPECT_NEAR(x(0, 1).item<double>() / far, std::sinh(1.), 1e-14);
    EXPECT_NEAR(x(1, 1).item<double>(), std::exp(-1.), 1e-14);
    EXPECT_NEAR(expm(tensor({{1., far}, {0., -1.}}))(0, 0).item<float>(), std::exp(1.f), 2e-6);
  }
  EXPECT_THAT(expm(doubles({{0, 1e200}, {0, 0}})), Equals(doubles({{1, 1e200}, {0, 1}})));
  EXPECT_THAT(expm(doubles({{-1e80, 0}, {0, -1e80}})), Equals(zeros({2, 2}, float64)));
  EXPECT_THAT(expm(tensor({{-1e30, 1.}, {0., -1e30}})), Equals(zeros({2, 2})));
  // The result is a rotation. The error may grow with the norm of the argument.
  for (const double turns : {1., 100., 1e4}) {
    const double angle = 2 * M_PI * turns + 0.5;
    const Tensor x = expm(doubles({{0, -angle}, {angle, 0}}));
    EXPECT_NEAR(x(1, 0).item<double>(), std::sin(0.5), 1e-14 * std::max(1., angle));
  }
}

}  // namespace
