// Helpers of several tests: comparing tensors with a tolerance,
// texts of exceptions, counting operations.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/tensor.h>

namespace stave_test {

using namespace stave;

/// All elements as doubles, read without any handler. Those of a complex tensor are all real parts,
/// followed by all imaginary parts.
inline std::vector<double> values(const Tensor& x) {
  stave_detail::UnderFrame past_all_handlers(nullptr);
  if (is_complex(x.dtype())) return values(concat({reshape(real(x), {-1}), reshape(imag(x), {-1})}));
  return astype(x, float64).to_vector<double>();
}

inline bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

/// Matches a tensor of the same shape and dtype whose elements differ by at most
/// tolerance * (1 + |expected|). NaN matches NaN, and infinity matches infinity.
MATCHER_P2(IsNear, expected, tolerance, "") {
  const Tensor want = expected;
  if (arg.shape() != want.shape() || arg.dtype() != want.dtype()) {
    *result_listener << "which is " << name_of(arg.dtype()) << " " << arg.shape().str() << ", not "
                     << name_of(want.dtype()) << " " << want.shape().str();
    return false;
  }
  const std::vector<double> got = values(arg), wanted = values(want);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!near(got[i], wanted[i], tolerance)) {
      *result_listener << "whose element " << i << " is " << got[i] << ", not " << wanted[i];
      return false;
    }
  return true;
}
/// As above, with a tolerance for the expected dtype: 2e-6 for float32, 1e-12 for float64.
inline auto IsNear(const Tensor& expected) {
  return IsNear(expected, real_of(expected.dtype()) == float64 ? 1e-12 : 2e-6);
}
/// Matches a single number of any dtype.
MATCHER_P2(IsNumber, expected, tolerance, "") {
  const std::vector<double> got = values(arg);
  if (got.size() == 1 && arg.rank() == 0 && near(got[0], expected, tolerance)) return true;
  *result_listener << "which has shape " << arg.shape().str() << ", and begins with " << (got.empty() ? 0 : got[0]);
  return false;
}
inline auto IsNumber(double expected) { return IsNumber(expected, 2e-6); }
/// Matches a tensor of equal shape, dtype and elements.
MATCHER_P(Equals, expected, "") {
  const Tensor want = expected;
  return arg.shape() == want.shape() && arg.dtype() == want.dtype() && values(arg) == values(want);
}

/// Returns `value`, or a reference to it as a FunctionRef<void()> if it is a function
/// without arguments, such as a lambda that should throw. EXPECT_THAT compiles about ten
/// classes for each type of value, and every lambda has its own type, so lambdas would
/// dominate the compile time of a file.
template <class T>
decltype(auto) matched(T&& value) {
  using Value = std::remove_cvref_t<T>;
  if constexpr (std::invocable<T&> && !std::is_same_v<Value, Tensor>) return FunctionRef<void()>(value);
  else return std::forward<T>(value);
}
#undef EXPECT_THAT
#define EXPECT_THAT(value, matcher) \
  EXPECT_PRED_FORMAT1(testing::internal::MakePredicateFormatterFromMatcher(matcher), stave_test::matched(value))

/// Returns the message of the exception E that `body` throws, or "nothing was thrown".
template <class E, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

struct CountOps : Handler {
  int n = 0;
  Outputs handle(Call& call) override {
    ++n;
    return perform(std::move(call));
  }
  std::string describe() const override { return "count"; }
};

/// d f(x) / dx in float64, by central differences, for a function that returns one number.
template <class F>
Tensor differences(F&& f, const Tensor& x, double step = 1e-5) {
  std::vector<double> at = values(x), result;
  for (double& element : at) {
    const double here = element;
    element = here + step;
    const double above = f(from(at, x.shape())).template item<double>();
    element = here - step;
    const double below = f(from(at, x.shape())).template item<double>();
    element = here;
    result.push_back((above - below) / (2 * step));
  }
  return from(result, x.shape());
}

}  // namespace stave_test
