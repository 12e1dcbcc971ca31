// Nonlinear regressions with certified results: NIST's Statistical Reference Datasets.

#include <fstream>
#include <map>

#include <stave/handlers/numerics/least_squares.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;

namespace {

/// A problem of tests/data/nist.txt; tests/data/nist.py describes the format.
struct Problem {
  Tensor start[2], certified, deviation;  // [n]
  double sum_of_squares = 0;
  Tensor y, x;  // [m], [predictors, m]
};

std::map<std::string, Problem> read_problems() {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/nist.txt");
  const auto numbers = [&](Index count) {
    std::vector<double> found(static_cast<std::size_t>(count));
    for (double& number : found) file >> number;
    return from(found);
  };
  std::map<std::string, Problem> problems;
  std::string name;
  for (Index n = 0, m = 0; file >> name >> n >> m;) {
    Problem& p = problems[name];
    for (Tensor* row : {&p.start[0], &p.start[1], &p.certified, &p.deviation}) *row = numbers(n);
    file >> p.sum_of_squares;
    const Tensor data = matrix_transpose(reshape(numbers(m * (name == "Nelson" ? 3 : 2)), {m, -1}));
    p.y = data(0);
    p.x = data(slice(1, none));
  }
  return problems;
}

using Model = std::function<Tensor(const Tensor& b, const Tensor& x)>;

Tensor gauss(const Tensor& b, const Tensor& x) {
  return b(0) * exp(-b(1) * x) + b(2) * exp(-square((x - b(3)) / b(4))) + b(5) * exp(-square((x - b(6)) / b(7)));
}
Tensor lanczos(const Tensor& b, const Tensor& x) {
  return b(0) * exp(-b(1) * x) + b(2) * exp(-b(3) * x) + b(4) * exp(-b(5) * x);
}
Tensor chwirut(const Tensor& b, const Tensor& x) { return exp(-b(0) * x) / (b(1) + b(2) * x); }
Tensor cubic_ratio(const Tensor& b, const Tensor& x) {
  return (b(0) + x * (b(1) + x * (b(2) + x * b(3)))) / (1 + x * (b(4) + x * (b(5) + x * b(6))));
}
Tensor saturation(const Tensor& b, const Tensor& x) { return b(0) * (1 - exp(-b(1) * x)); }

constexpr double pi = 3.14159265358979323846;
const std::map<std::string, Model> models{
    {"Bennett5", [](const Tensor& b, const Tensor& x) { return b(0) * pow(b(1) + x, -1 / b(2)); }},
    {"BoxBOD", saturation},
    {"Chwirut1", chwirut},
    {"Chwirut2", chwirut},
    {"DanWood", [](const Tensor& b, const Tensor& x) { return b(0) * pow(x, b(1)); }},
    {"ENSO",
     [](const Tensor& b, const Tensor& x) {
       const auto wave = [&](const Tensor& period, const Tensor& c, const Tensor& s) {
         return c * cos(2 * pi * x / period) + s * sin(2 * pi * x / period);
       };
       return b(0) + wave(tensor(12., float64), b(1), b(2)) + wave(b(3), b(4), b(5)) + wave(b(6), b(7), b(8));
     }},
    {"Eckerle4", [](const Tensor& b, const Tensor& x) { return b(0) / b(1) * exp(-0.5 * square((x - b(2)) / b(1))); }},
    {"Gauss1", gauss},
    {"Gauss2", gauss},
    {"Gauss3", gauss},
    {"Hahn1", cubic_ratio},
    {"Kirby2",
     [](const Tensor& b, const Tensor& x) { return (b(0) + x * (b(1) + x * b(2))) / (1 + x * (b(3) + x * b(4))); }},
    {"Lanczos1", lanczos},
    {"Lanczos2", lanczos},
    {"Lanczos3", lanczos},
    {"MGH09", [](const Tensor& b, const Tensor& x) { return b(0) * x * (x + b(1)) / (x * (x + b(2)) + b(3)); }},
    {"MGH10", [](const Tensor& b, const Tensor& x) { return b(0) * exp(b(1) / (x + b(2))); }},
    {"MGH17", [](const Tensor& b, const Tensor& x) { return b(0) + b(1) * exp(-x * b(3)) + b(2) * exp(-x * b(4)); }},
    {"Misra1a", saturation},
    {"Misra1b", [](const Tensor& b, const Tensor& x) { return b(0) * (1 - 1 / square(1 + b(1) * x / 2)); }},
    {"Misra1c", [](const Tensor& b, const Tensor& x) { return b(0) * (1 - 1 / sqrt(1 + 2 * b(1) * x)); }},
    {"Misra1d", [](const Tensor& b, const Tensor& x) { return b(0) * b(1) * x / (1 + b(1) * x); }},
    // of log(y), and of two predictors
    {"Nelson", [](const Tensor& b, const Tensor& x) { return b(0) - b(1) * x(0) * exp(-b(2) * x(1)); }},
    {"Rat42", [](const Tensor& b, const Tensor& x) { return b(0) / (1 + exp(b(1) - b(2) * x)); }},
    {"Rat43", [](const Tensor& b, const Tensor& x) { return b(0) / pow(1 + exp(b(1) - b(2) * x), 1 / b(3)); }},
    {"Roszman1", [](const Tensor& b, const Tensor& x) { return b(0) - b(1) * x - atan(b(2) / (x - b(3))) / pi; }},
    {"Thurber", cubic_ratio},
};

using Case = std::tuple<std::string, int, LeastSquaresMethod>;

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : models) found.push_back(entry.first);
  return found;
}
std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const bool is_dogleg = std::get<2>(test.param) == LeastSquaresMethod::dogleg;
  return std::get<0>(test.param) + "_start" + std::to_string(std::get<1>(test.param)) +
         (is_dogleg ? "_dogleg" : "_levenberg_marquardt");
}

// Levenberg and Marquardt's method does not solve two problems from the far start: on BoxBOD the
// first step leads to where the model is constant, and MGH10 needs more than 5000 steps.
bool is_solved(const Case& test) {
  const auto& [name, start, method] = test;
  return method == LeastSquaresMethod::dogleg || start == 2 || (name != "BoxBOD" && name != "MGH10");
}

class Nist : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Nist,
                         testing::Combine(testing::ValuesIn(names()), testing::Values(1, 2),
                                          testing::Values(LeastSquaresMethod::levenberg_marquardt,
                                                          LeastSquaresMethod::dogleg)),
                         name_of_case);

TEST_P(Nist, FindsTheCertifiedMinimum) {
  const auto [name, start, method] = GetParam();
  if (!is_solved(GetParam())) GTEST_SKIP() << "a known limit of the method";
  const Problem p = read_problems().at(name);
  const Tensor y = name == "Nelson" ? log(p.y) : p.y, x = name == "Nelson" ? p.x : p.x(0);
  const Model& model = models.at(name);
  const auto residual = [&](const Tensor& b) { return model(b, x) - y; };
  const auto found = least_squares(residual, p.start[start - 1],
                                   {.method = method, .ftol = 0, .xtol = 1e-12, .gtol = 0, .steps = 5000});
  const Tensor error = max(abs(found.x / p.certified - 1));
  EXPECT_TRUE(found.converged());
  EXPECT_LT(error.item<double>(), 1e-6) << found.x << "\n" << p.certified;
  EXPECT_NEAR(2 * found.cost.item<double>(), p.sum_of_squares, 1e-8 * p.sum_of_squares + 1e-20);
  const Tensor deviation = sqrt(diagonal(parameter_covariance(residual, found.x)));
  // The residuals of Lanczos1 are rounding errors.
  EXPECT_LT(max(abs(deviation / p.deviation - 1)).item<double>(), name == "Lanczos1" ? 1e-2 : 1e-5) << deviation << "\n"
                                                                                                    << p.deviation;
  RecordProperty("steps", std::to_string(found.steps.item<int>()));
}

}  // namespace
