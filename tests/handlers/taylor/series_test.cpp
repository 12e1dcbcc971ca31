// Taylor coefficients against other libraries (tests/data/taylor.csv: mpmath and JAX), against
// nested jvp, and the number of operations that they take.
#include <fstream>
#include <sstream>

#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/transforms/jvp.h>

#include "handlers/taylor/functions.h"
#include "matchers.h"

namespace {

using namespace stave_test;

struct Line {
  std::string name;
  double at = 0;
  std::vector<double> coefficients;
};
std::vector<Line> lines() {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/taylor.csv");
  std::vector<Line> all;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream fields(text);
    Line line;
    std::getline(fields, line.name, ',');
    std::vector<double> numbers;
    for (std::string field; std::getline(fields, field, ',');) numbers.push_back(std::stod(field));
    line.at = numbers.at(0);
    line.coefficients.assign(numbers.begin() + 1, numbers.end());
    all.push_back(line);
  }
  return all;
}

std::vector<double> numbers(const std::vector<Tensor>& series) {
  std::vector<double> all;
  for (const Tensor& c : series) all.push_back(values(c).at(0));
  return all;
}

// A coefficient counts relative to the largest term of the series at half its radius of
// convergence, or so: where neighbours cancel, the smaller one has their absolute error.
void expect_equal(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                  const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t k = 0; k < got.size(); ++k) {
    double size = std::abs(expected[k]);
    for (std::size_t j = k > 1 ? k - 2 : 0; j < std::min(k + 3, got.size()); ++j)
      size = std::max(size, std::abs(expected[j]));
    EXPECT_NEAR(got[k], expected[k], tolerance * size) << name << ", order " << k;
  }
}

// The Taylor coefficients of f at t by jvp of jvp.
std::vector<double> by_nested_jvp(Curve f, const Tensor& t, int order) {
  std::vector<double> found{values(f(t)).at(0)};
  double factorial = 1;
  for (int k = 1; k <= order; ++k) {
    f = [f](const Tensor& x) { return jvp(f, x, ones_like(x)).second; };
    factorial *= k;
    found.push_back(values(f(t)).at(0) / factorial);
  }
  return found;
}

TEST(Series, AreThoseOfMpmathAndJax) {
  std::size_t count = 0;
  for (const Line& line : lines()) {
    const Tensor at = tensor(line.at, float64);
    const int order = static_cast<int>(line.coefficients.size()) - 1;
    const auto found = taylor(curves().at(line.name), order)(at, ones_like(at));
    expect_equal(numbers(found), line.coefficients, 1e-12, line.name);
    ++count;
  }
  EXPECT_EQ(count, curves().size());
}

TEST(Series, OfFactorizationsAndReductionsAreThoseOfNestedJvp) {
  const Tensor at = tensor(0.1, float64);
  for (const auto& [name, f] : matrix_curves())
    expect_equal(numbers(taylor(f, 4)(at, ones_like(at))), by_nested_jvp(f, at, 4), 1e-10, name);
}

// Identities hold to high order.
TEST(Series, OfFactorsMultiplyToTheSeriesOfTheMatrix) {
  const Tensor at = tensor(0.1, float64);
  const auto product = [](const Tensor& t) {
    const Tensor a = moving(t, 4), s = definite(t, 4);
    const auto [q, r] = qr(a);
    const auto [p, l, u] = lu(a);
    const auto [values, vectors] = eigh(s);
    const Tensor c = cholesky(s);
    return stack({matmul(q, r) - a, matmul(p, matmul(l, u)) - a,
                  matmul(vectors * values, matrix_transpose(vectors)) - s, matmul(c, matrix_transpose(c)) - s});
  };
  const std::vector<Tensor> series = taylor(product, 20)(at, ones_like(at));
  const std::vector<Tensor> factors =
      taylor([](const Tensor& t) { return qr(moving(t, 4)).first; }, 20)(at, ones_like(at));
  for (std::size_t k = 0; k < series.size(); ++k) {
    const double size = 1 + values(max(abs(factors[k]))).at(0);
    EXPECT_LT(values(max(abs(series[k]))).at(0), 1e-9 * size) << k;
  }
}

TEST(Series, OfLeastSquaresAreThoseOfTheNormalEquations) {
  const Tensor at = tensor(0.1, float64);
  const auto halves = [](const Tensor& t) {
    const Tensor a = moving(t, 4);
    return std::pair(a(ellipsis, slice(0, 2)), a(ellipsis, slice(2, 4)));
  };
  const auto by_lstsq = [&](const Tensor& t) {
    const auto both = halves(t);
    return lstsq(both.first, both.second);
  };
  const auto by_solve = [&](const Tensor& t) {
    const auto both = halves(t);
    const Tensor adjoint = matrix_transpose(both.first);
    return solve(matmul(adjoint, both.first), matmul(adjoint, both.second));
  };
  const auto found = taylor(by_lstsq, 12)(at, ones_like(at)), expected = taylor(by_solve, 12)(at, ones_like(at));
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], 1e-10)) << k;
}

TEST(Series, OfTheMatrixExponentialAreThoseOfItsEigenvalues) {
  const Tensor at = tensor(0.1, float64);
  const auto by_expm = [](const Tensor& t) { return expm(definite(t, 3) * 0.05); };
  const auto by_eigh = [](const Tensor& t) {
    const auto [values, vectors] = eigh(definite(t, 3) * 0.05);
    return matmul(vectors * exp(values), matrix_transpose(vectors));
  };
  const auto found = taylor(by_expm, 12)(at, ones_like(at)), expected = taylor(by_eigh, 12)(at, ones_like(at));
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], 1e-11)) << k;
}

// The coefficients of c e^(a t), relative to which those found are compared.
void expect_exponential(const char* name, const Tensor& at, const Curve& f, double c, double a) {
  const std::vector<Tensor> found = taylor(f, 10)(at, ones_like(at));
  double expected = c;
  for (int k = 1; k <= 10; ++k) {
    expected *= a / k;
    EXPECT_NEAR(values(found[static_cast<std::size_t>(k)]).at(0) / expected, 1, 1e-14 * k) << name << ", order " << k;
  }
}

// Far out, where the results are 1 or nearly 0, the coefficients keep their digits. There
// tanh(x) = 1 - 2 e^-2x + ..., and the terms left out are 10^-13 of this one or less.
TEST(Series, KeepTheirDigitsWhereResultsAreFlat) {
  const double tiny = std::exp(-40.);
  const auto at = [](double x) { return tensor(x, float64); };
  expect_exponential(
      "tanh", at(20), [](const Tensor& x) { return tanh(x); }, -2 * tiny, -2);
  expect_exponential(
      "tanh", at(-20), [](const Tensor& x) { return tanh(x); }, 2 * tiny, 2);
  expect_exponential(
      "sech_squared", at(20), [](const Tensor& x) { return sech_squared(x); }, 4 * tiny, -2);
  expect_exponential(
      "sech_squared", at(-20), [](const Tensor& x) { return sech_squared(x); }, 4 * tiny, 2);
  expect_exponential(
      "sigmoid", at(40), [](const Tensor& x) { return sigmoid(x); }, -tiny, -1);
  expect_exponential(
      "sigmoid", at(-40), [](const Tensor& x) { return sigmoid(x); }, tiny, 1);
  expect_exponential(
      "logistic_density", at(40), [](const Tensor& x) { return logistic_density(x); }, tiny, -1);
  expect_exponential(
      "logistic_density", at(-40), [](const Tensor& x) { return logistic_density(x); }, tiny, 1);
  // Two elements, of which the first is dominant, and the second or the first one moves.
  const auto second_moves = [](const Tensor& x) { return stack({zeros_like(x), x}); };
  const auto first_moves = [](const Tensor& x) { return stack({x, zeros_like(x)}); };
  for (const Index i : {0, 1}) {
    const double sign = i == 0 ? -1 : 1;
    expect_exponential(
        "softmax", at(-40), [&](const Tensor& x) { return softmax(second_moves(x))[i]; }, sign * tiny, 1);
    expect_exponential(
        "softmax", at(40), [&](const Tensor& x) { return softmax(first_moves(x))[i]; }, sign * tiny, -1);
  }
  expect_exponential(
      "log_softmax", at(-40), [&](const Tensor& x) { return log_softmax(second_moves(x))[0]; }, -tiny, 1);
  expect_exponential(
      "log_softmax", at(40), [&](const Tensor& x) { return log_softmax(first_moves(x))[0]; }, -tiny, -1);
}

// The second derivative of the sigmoid at x near 0 is -x / 8 + x^3 / 24 - ...
TEST(Series, KeepTheirDigitsNearARootOfADerivative) {
  const Tensor at = tensor(1e-8, float64);
  const auto found = taylor([](const Tensor& x) { return sigmoid(x); }, 2)(at, ones_like(at));
  EXPECT_NEAR(values(found[2]).at(0) / -6.25e-10, 1, 1e-14);
  const auto density = taylor([](const Tensor& x) { return logistic_density(x); }, 1)(at, ones_like(at));
  EXPECT_NEAR(values(density[1]).at(0) / -1.25e-9, 1, 1e-14);
}

// A product of a value with itself is its square.
TEST(Series, OfAProductWithItselfTakesHalfTheProducts) {
  const Tensor at = tensor(0.3, float64);
  const auto product = [](const Tensor& t) {
    const Tensor y = exp(t);
    return y * y;
  };
  const auto found = taylor(product, 20)(at, ones_like(at));
  double expected = std::exp(0.6);
  for (std::size_t k = 1; k <= 20; ++k) {
    expected *= 2. / static_cast<double>(k);
    EXPECT_NEAR(values(found[k]).at(0) / expected, 1, 1e-13) << k;
  }
  CountOps ops;
  with(ops, [&] { return taylor(product, 20)(at, ones_like(at)); });
  // exp; products; their sums; doubling; middle terms and their sums
  EXPECT_LE(ops.n, 42 + 110 + 90 + 20 + 20);
}

// Limits on the number of operations at order 20.
TEST(Series, TakeFewOperations) {
  const auto count = [](const Curve& f, double x) {
    const Tensor at = tensor(x, float64), v = ones_like(at);
    CountOps ops;
    with(ops, [&] { return taylor(f, 20)(at, v); });
    return ops.n;
  };
  EXPECT_LE(count(curves().at("exp"), 0.3), 40);
  EXPECT_LE(count(curves().at("sin"), 0.7), 97);
  EXPECT_LE(count(curves().at("tanh"), 0.3), 279);
  EXPECT_LE(count(curves().at("pow_2.5"), 1.3), 651);
  EXPECT_LE(count(curves().at("composed"), 0.3), 4024);
  EXPECT_LE(count(matrix_curves().at("matmul chain"), 0.1), 175);
  EXPECT_LE(count(matrix_curves().at("solve"), 0.1), 270);
  EXPECT_LE(count(matrix_curves().at("cholesky"), 0.1), 4145);
  EXPECT_LE(count(matrix_curves().at("logsumexp"), 0.3), 1758);
}

}  // namespace
