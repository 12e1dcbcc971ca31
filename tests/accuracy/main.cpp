// accuracy: measures the errors of functions of floats, in units in the last place.
//
//   accuracy --markdown   docs/accuracy.md: the worst error over all instruction sets that run
//                         here, rounded up to half a unit
//   accuracy --check      checks that no error exceeds that file's bound, with the instruction set
//                         that STAVE_CPU_ISA names; exits with 77 if it is not available. It tests
//                         part of the values of --markdown, so that the file's bounds hold.

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <stave/backends/cpu/dispatch.h>
#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "accuracy/float_values.h"
#include "accuracy/functions.h"
#include "special_values.h"

namespace {

using namespace stave;
using namespace stave_test;

/// The worst error of f, over `count` floats of each kind, in ulp.
template <class T>
double worst(const FloatFunction& f, int count) {
  std::mt19937_64 random(7);
  const std::vector<T> x = sampled<T>(random, f.low, f.high, count, f.everywhere);
  const std::vector<T> y = f.call(from(x)).template to_vector<T>();
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) error = std::max(error, error_of(f, x[i], y[i]));
  return error;
}

template <class T>
struct Pairs {
  std::vector<T> x, y;
  void add(double a, double b) { x.push_back(static_cast<T>(a)), y.push_back(static_cast<T>(b)); }
};

template <class T>
Pairs<T> pairs_for(const PairFunction& f, int count) {
  std::mt19937_64 random(7);
  Pairs<T> pairs;
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int i = 0; f.of_positive && i < count; ++i) {
    const double s = i % 2 ? draw(1.01, 12) : draw(1.01, 100);
    pairs.add(s, i % 4 < 2 ? draw(0.01, 30) : std::exp(draw(-4, 8)));
  }
  if (f.of_positive) return pairs;
  for (T a : special_values<T>())
    for (T b : special_values<T>()) pairs.add(a, b);
  for (int i = 0; i < count; ++i) {
    const double a = draw(0, 10), b = draw(-20, 20), c = draw(-20, 20), d = draw(-20, 20);
    pairs.add(a, b);
    pairs.add(std::exp(c), d);
    pairs.add(d, static_cast<int>(b));
  }
  return pairs;
}

template <class T>
double worst(const PairFunction& f, int count) {
  const Pairs<T> pairs = pairs_for<T>(f, count);
  const std::vector<T> z = f.call(from(pairs.x), from(pairs.y)).template to_vector<T>();
  double error = 0;
  for (std::size_t i = 0; i < z.size(); ++i)
    error = std::max(error, ulps(z[i], f.exact(pairs.x[i], pairs.y[i]), f.least));
  return error;
}

/// The error of the reference in ulp: long double has eleven bits more than double.
constexpr double reference = 0.002;

/// Calls f(name, `rounded`, worst error in float32, worst error in float64) for each function.
template <class F>
void for_each_function(int count, F f) {
  for (const FloatFunction& function : float_functions())
    f(function.name, function.rounded, worst<float>(function, count), worst<double>(function, count));
  for (const PairFunction& function : pair_functions())
    f(function.name, function.rounded, worst<float>(function, count), worst<double>(function, count));
}

/// Calls f(name, worst error in float64) for each special function, at mpmath's values.
template <class F>
void for_each_special_function(F f) {
  for (const SpecialFunction& function : special_functions()) {
    double error = 0;
    for_each_value_of(function, [&](const std::vector<double>& v, long double value) {
      const double got = function.call(tensors_of(v, float64)).template item<double>();
      error = std::max(error, special_error(function, v, got, value));
    });
    f(function.name, error);
  }
}

// ---- the file ----------------------------------------------------------------------------------

const char* const head = R"(# Accuracy

How far functions of floats are at most from what they are exactly, in units in the last place: half of one is what rounding alone
errs. Measured against long double and mpmath at zeros, infinities, limits and where formulas meet, at 400,000 random floats of a
moderate range and as many of any exponent, and rounded up to half a unit; where instruction sets differ the worst comes first. Tests
hold the functions to these bounds with each instruction set. Written by `accuracy --markdown > docs/accuracy.md`.

- Where results are small, errors are absolute: of `logaddexp`, and of `lgamma` for x < 0, relative to 1, of `digamma` for x < 2
  to 32, of `gelu_tanh` for x < 0 to 1/4.
- `gelu` of negative x loses what a denormal factor loses; so do, there, the derivatives of `silu` and `mish`.
- First and second derivatives are held to mpmath over the whole range of each dtype, by tests: most are off by few units in the last
  place. Those of `gelu_tanh` grow worse with |x|, as e^u does, whose u is rounded.
- `polygamma`, `mish`, `elu`, `selu`, `entr` and `zeta` are measured at moderate numbers alone.
- float16 and bfloat16 are computed in float32 and rounded once.
- On a GPU the functions are CUDA's, whose errors its [programming
  guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#standard-functions) gives.

| function | float32 | float64 |
|---|---|---|
)";

const char* const special_head = R"(
## Special functions

In float64, at mpmath's values in `tests/data/special_functions.csv`, over the whole range and at ordinary arguments; the limit is what
tests hold each function to. In float32 all are within 0.51. Where a function has zeros, errors are relative to its size around them.

| function | largest error | limit |
|---|---|---|
)";

// A bound below one ulp is given only where IEEE arithmetic determines the result,
// because the instructions of other processors round differently.
double bound_of(double error, bool rounded) {
  return std::max(std::ceil((error - reference) * 2) / 2, rounded ? 0. : 1.);
}

/// The text for bounds by instruction set, such as "1.5, avx2 1": the greatest bound,
/// then the sets with smaller ones.
std::string cell(const std::map<std::string, double>& by_isa, bool rounded) {
  double greatest = 0;
  for (const auto& [isa, error] : by_isa) greatest = std::max(greatest, bound_of(error, rounded));
  char text[40];
  std::snprintf(text, sizeof text, "%g", greatest);
  std::string words = text;
  for (const auto& [isa, error] : by_isa)
    if (bound_of(error, rounded) < greatest) {
      std::snprintf(text, sizeof text, ", %s %g", isa.c_str(), bound_of(error, rounded));
      words += text;
    }
  return words;
}

int markdown() {
  struct Errors {
    bool rounded;
    std::map<std::string, double> of32, of64;
  };
  std::map<std::string, Errors> errors;
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, double>> special_errors;
  for (const std::string& isa : stave_cpu::built_isas()) {
    const stave_cpu::Kernels* kernels = stave_cpu::kernels_for(isa);
    if (!kernels) continue;
    stave_cpu::use_kernels(kernels);
    // This takes minutes.
    for_each_function(400000, [&](const char* name, bool rounded, double of32, double of64) {
      if (!errors.contains(name)) order.emplace_back(name);
      errors[name].rounded = rounded;
      errors[name].of32[isa] = of32;
      errors[name].of64[isa] = of64;
    });
    for_each_special_function([&](const char* name, double error) { special_errors[name][isa] = error; });
  }
  std::fputs(head, stdout);
  for (const std::string& name : order) {
    const auto& [rounded, of32, of64] = errors[name];
    std::printf("| `%s` | %s | %s |\n", name.c_str(), cell(of32, rounded).c_str(), cell(of64, rounded).c_str());
  }
  std::fputs(special_head, stdout);
  for (const SpecialFunction& f : special_functions())
    std::printf("| `%s` | %s | %g |\n", f.name, cell(special_errors[f.name], false).c_str(), f.ulps);
  return 0;
}

int check() {
  try {
    static_cast<void>(Tensor(1) + Tensor(1));
  } catch (const Error& error) {
    if (!std::string_view(error.what()).starts_with("STAVE_CPU_ISA=")) throw;
    return std::puts(error.what()), 77;
  }
  int failures = 0;
  std::size_t seen = 0;
  // Sanitizers look at the kernels, which are the same for all values.
  const int count = STAVE_ASAN || STAVE_TSAN ? 1000 : 10000;
  for_each_function(count, [&](const char* name, bool, double of32, double of64) {
    const auto found = documented_bounds().find(name);
    if (found == documented_bounds().end()) {
      std::printf("FAIL docs/accuracy.md does not say how exact %s is\n", name);
      ++failures;
      return;
    }
    ++seen;
    const auto hold = [&](const char* dtype, double error, double bound) {
      if (error <= bound + reference) return;
      std::printf("FAIL %s %s errs by %.3f units in the last place; docs/accuracy.md says %g\n", name, dtype, error,
                  bound);
      ++failures;
    };
    hold("float32", of32, found->second.ulps32);
    hold("float64", of64, found->second.ulps64);
  });
  for_each_special_function([&](const char* name, double error) {
    const auto found = documented_special_bounds().find(name);
    if (found != documented_special_bounds().end() && error <= found->second + reference) return;
    std::printf("FAIL %s errs by %.3f units in the last place; docs/accuracy.md says less, or nothing\n", name, error);
    ++failures;
  });
  if (seen != documented_bounds().size()) std::printf("FAIL docs/accuracy.md has functions that nobody measures\n");
  return failures || seen != documented_bounds().size();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view option = argc == 2 ? argv[1] : "";
  if (option == "--markdown") return markdown();
  if (option == "--check") return check();
  std::fprintf(stderr, "usage: accuracy --markdown | --check\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "accuracy: %s\n", error.what());
  return 2;
}
