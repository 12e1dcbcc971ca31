// Special functions, and mpmath's values of them in tests/data/special_functions.csv, for the tests
// of their values and for docs/accuracy.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/special.h>

namespace stave_test {

struct SpecialFunction {
  const char* name;
  stave::Tensor (*call)(const std::vector<stave::Tensor>&);
  double ulps;  // the largest error of float64, in units in the last place
  // The error is relative to at least this size of the function, where it has zeros.
  double (*size)(const std::vector<double>&) = nullptr;
  // The name in the file, if it is another one, and the first argument of its lines, which `call`
  // does not take.
  const char* line = nullptr;
  double order = -1;
};

inline double bessel_amplitude(const std::vector<double>& v) {
  return std::abs(v.back()) > v[0] || v.size() == 1 ? std::sqrt(2 / (3.14159 * std::abs(v.back()))) : 0;
}
inline double cosine_integral_size(const std::vector<double>& v) { return std::min(0.1, 0.1 / v[0]); }

/// The first argument of a line, for functions whose order is an int.
inline int order_of(const std::vector<stave::Tensor>& v) { return static_cast<int>(v[0].item<double>()); }

inline const std::vector<SpecialFunction>& special_functions() {
  using Numbers = std::vector<stave::Tensor>;
#define STAVE_ONE(f) #f, [](const Numbers& v) { return stave::f(v[0]); }
#define STAVE_TWO(f) #f, [](const Numbers& v) { return stave::f(v[0], v[1]); }
#define STAVE_THREE(f) #f, [](const Numbers& v) { return stave::f(v[0], v[1], v[2]); }
  static const std::vector<SpecialFunction> functions = {
      {STAVE_TWO(gammainc), 60},
      {STAVE_TWO(gammaincc), 8},
      {STAVE_TWO(gamma_density), 8},
      {STAVE_THREE(betainc), 10},
      {STAVE_THREE(beta_density), 8},
      {STAVE_TWO(betaln), 4},
      {STAVE_TWO(poch), 4},
      {STAVE_ONE(ndtri), 4},
      {STAVE_ONE(log_ndtr), 4},
      {STAVE_ONE(erfcx), 4, nullptr, nullptr, 0},
      {STAVE_ONE(erfcinv), 4},
      {STAVE_ONE(dawsn), 4, nullptr, nullptr, 0},
      {"fresnel, S", [](const Numbers& v) { return stave::fresnel(v[0]).first; }, 4, nullptr, "fresnel_s"},
      {"fresnel, C", [](const Numbers& v) { return stave::fresnel(v[0]).second; }, 4, nullptr, "fresnel_c"},
      {STAVE_ONE(bessel_j0), 4, bessel_amplitude, "bessel_j", 0},
      {STAVE_ONE(bessel_j1), 4, bessel_amplitude, "bessel_j", 1},
      {STAVE_ONE(bessel_y0), 4, bessel_amplitude, "bessel_y", 0},
      {STAVE_ONE(bessel_y1), 4, bessel_amplitude, "bessel_y", 1},
      {STAVE_ONE(bessel_i0), 4, nullptr, "bessel_i", 0},
      {STAVE_ONE(bessel_i0e), 4, nullptr, "bessel_ie", 0},
      {STAVE_ONE(bessel_i1), 4, nullptr, "bessel_i", 1},
      {STAVE_ONE(bessel_i1e), 4, nullptr, "bessel_ie", 1},
      {STAVE_ONE(bessel_k0), 4, nullptr, "bessel_k", 0},
      {STAVE_ONE(bessel_k0e), 4, nullptr, "bessel_ke", 0},
      {STAVE_ONE(bessel_k1), 4, nullptr, "bessel_k", 1},
      {STAVE_ONE(bessel_k1e), 4, nullptr, "bessel_ke", 1},
      {"bessel_jn", [](const Numbers& v) { return stave::bessel_jn(order_of(v), v[1]); }, 12, bessel_amplitude,
       "bessel_j"},
      {STAVE_ONE(expi), 4},
      {"expn", [](const Numbers& v) { return stave::expn(order_of(v), v[1]); }, 4},
      {STAVE_ONE(spence), 4, nullptr, nullptr, 0},
      {"sici, Si", [](const Numbers& v) { return stave::sici(v[0]).first; }, 4, nullptr, "sine_integral"},
      {"sici, Ci", [](const Numbers& v) { return stave::sici(v[0]).second; }, 4, cosine_integral_size,
       "cosine_integral"},
      {STAVE_THREE(hyp1f1), 4},
      {"hyp2f1", [](const Numbers& v) { return stave::hyp2f1(v[0], v[1], v[2], v[3]); }, 4},
      {STAVE_TWO(rel_entr), 4},
      {STAVE_TWO(kl_div), 4},
      {STAVE_ONE(sinc), 4, nullptr, nullptr, 0},
      {"lambertw", [](const Numbers& v) { return stave::lambertw(v[1], order_of(v)); }, 4},
  };
#undef STAVE_ONE
#undef STAVE_TWO
#undef STAVE_THREE
  return functions;
}

/// Calls f(the arguments, the value) for each line of the file that begins with `name`.
template <class F>
int for_each_special_value(const std::string& name, F f) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/special_functions.csv");
  int count = 0;
  for (std::string line, word; std::getline(file, line);) {
    if (!line.starts_with(name + ",")) continue;
    std::istringstream words(line.substr(name.size() + 1));
    std::vector<long double> numbers;
    while (std::getline(words, word, ',')) numbers.push_back(std::strtold(word.c_str(), nullptr));
    const long double value = numbers.back();
    f(std::vector<double>(numbers.begin(), numbers.end() - 1), value);
    ++count;
  }
  return count;
}

/// Calls f(the arguments, the value) for each value of a function.
template <class F>
int for_each_value_of(const SpecialFunction& function, F f) {
  int count = 0;
  for_each_special_value(function.line ? function.line : function.name, [&](std::vector<double> v, long double value) {
    if (function.order >= 0 && v[0] != function.order) return;
    if (function.order >= 0) v.erase(v.begin());
    f(v, value);
    ++count;
  });
  return count;
}

inline std::vector<stave::Tensor> tensors_of(const std::vector<double>& numbers, stave::Dtype dtype) {
  std::vector<stave::Tensor> all;
  for (const double x : numbers) all.push_back(stave::tensor(x, dtype));
  return all;
}

/// The error of a result in float64, in units in the last place of the value, or of the size of the
/// function.
inline double special_error(const SpecialFunction& f, const std::vector<double>& v, double got, long double value) {
  const double size = std::max(std::abs(static_cast<double>(value)), f.size ? f.size(v) : 0);
  return std::abs(static_cast<double>(got - value)) / std::ldexp(1., std::ilogb(size) - 52);
}

}  // namespace stave_test
