// Functions of floats with their exact values and the ranges in which they are tested,
// for docs/accuracy.md and the conformance suite.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave_test {

using Real = long double;

struct FloatFunction {
  const char* name;
  stave::Tensor (*call)(stave::Tensor);
  Real (*exact)(Real);
  // The moderate range, which is tested densely.
  double low, high;
  // True if IEEE arithmetic determines the result up to rounding, on any processor.
  bool rounded = false;
  // True if the function is also tested outside the range, at floats of any exponent.
  bool everywhere = true;
  // For x < up_to, the error of a result smaller than `least` is measured in the spacing of floats
  // at `least`: near its zeros, a function has absolute errors.
  double least = 0, up_to = 0;
  // True if, for x < 0, the result is a product of x and a factor that may be denormal. Its error
  // may then also be measured in the spacing of denormals times |x|.
  bool by_x = false;
};
const std::vector<FloatFunction>& float_functions();

/// A function of two operands. It is tested at all pairs of special values,
/// and at pairs of moderate values.
struct PairFunction {
  const char* name;
  stave::Tensor (*call)(stave::Operand, stave::Operand);
  Real (*exact)(Real, Real);
  // True if IEEE arithmetic determines the result up to rounding.
  bool rounded = false;
  // True if the function is tested only for x in (1, 100) and y in (0, 3000).
  bool of_positive = false;
  // The error of a result smaller than this is measured in the spacing of floats at `least`.
  double least = 0;
};
const std::vector<PairFunction>& pair_functions();

/// |got - exact| divided by the spacing of T at `exact`, or at `least` if that is larger;
/// infinity for a wrong NaN, infinity or sign of zero.
template <class T>
double ulps(T got, Real exact, double least = 0);

/// The error in ulp of the result y of f at x.
template <class T>
double error_of(const FloatFunction& f, T x, T y);

/// The bounds that docs/accuracy.md gives for a function, in ulp, for float32 and float64.
struct Bounds {
  double ulps32, ulps64;
};
const std::map<std::string, Bounds>& documented_bounds();
/// The errors in float64 of special functions, in the same file.
const std::map<std::string, double>& documented_special_bounds();

}  // namespace stave_test
