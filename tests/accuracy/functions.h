// Functions of floats, what they are exactly, and where they are looked at: of docs/accuracy.md, and of the conformance suite.
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
  double low, high;        // of the moderate range that is tested densely
  bool rounded = false;    // by IEEE's arithmetic alone: nothing but rounding errs, on any processor
  bool everywhere = true;  // and beyond it, at floats of any exponent
  double least = 0,
         up_to = 0;  // for x < up_to, errors of results smaller than least are as of it: near zeros they are absolute
  bool by_x =
      false;  // a product of x and what may be denormal, for x < 0: errors are also allowed in its spacing, times |x|
};
const std::vector<FloatFunction>& float_functions();

/// Of two operands: all pairs where there are cases, and pairs of moderate ones.
struct PairFunction {
  const char* name;
  stave::Tensor (*call)(stave::Operand, stave::Operand);
  Real (*exact)(Real, Real);
  bool rounded = false;      // by IEEE's arithmetic alone
  bool of_positive = false;  // looked at for x in (1, 100) and y in (0, 3000) alone
  double least = 0;          // errors of results smaller than this are as of it
};
const std::vector<PairFunction>& pair_functions();

/// |got - exact| in spacings of T at `exact`, or at `least` if that is more; infinite for a wrong NaN, infinity or sign of zero.
template <class T>
double ulps(T got, Real exact, double least = 0);

/// The error of f at x, which gave y.
template <class T>
double error_of(const FloatFunction& f, T x, T y);

/// By function, the bounds that docs/accuracy.md gives, for float32 and float64.
struct Bounds {
  double ulps32, ulps64;
};
const std::map<std::string, Bounds>& documented_bounds();

}  // namespace stave_test
