// Tests the bodies of kernels of complex numbers, executed on the host, against the CPU backend:
// bit for bit for arithmetic, and within a few ulp for functions. A grid holds the special values
// and both sides of the branch cuts.
#include <gtest/gtest.h>

#include <complex>
#include <sstream>
#include <tuple>

#include <stave/backends/cuda/kernels/complex.cuh>
#include <stave/backends/cuda/kernels/select.cuh>

#include "cuda/elementwise_on_host.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::ComplexNumber, stave::Dtype;

/// The largest difference from the CPU's result: some ulp of the part or, for a function whose
/// parts are differences of terms, of the number's length.
struct Allowed {
  double ulps = 0;
  bool of_length = false;
};
constexpr Allowed allowed_for(OpId op) {
  switch (op) {
    case OpId::rsqrt:
    case OpId::log2:
    case OpId::log10:
    case OpId::log1p:
    case OpId::sigmoid:
    case OpId::logistic_density:
    case OpId::sech_squared: return {32, true};
    case OpId::pow:
    case OpId::power_rule: return {16, true};
    case OpId::negative:
    case OpId::square:
    case OpId::reciprocal:
    case OpId::conj:
    case OpId::real:
    case OpId::imag:
    case OpId::complex:
    case OpId::add:
    case OpId::subtract:
    case OpId::multiply:
    case OpId::scale:
    case OpId::divide:
    case OpId::scale_by_inverse:
    case OpId::equal:
    case OpId::not_equal: return {};
    default: return {8, false};
  }
}

template <class T>
bool is_close(T got, T expected, Allowed allowed) {
  if constexpr (ComplexNumber<T>) {
    const double length =
        allowed.of_length ? std::abs(std::complex<double>(static_cast<double>(expected.re), expected.im)) : 0;
    const auto is_near = [&](auto x, auto y) {
      // The sign of a zero part that is a difference of terms is that of a rounding error.
      return close(x, y, allowed.ulps, length) || (allowed.of_length && x == y);
    };
    return is_near(got.re, expected.re) && is_near(got.im, expected.im);
  } else {
    return close(got, expected, allowed.ulps, 0);
  }
}
template <class T>
std::string text(T x) {
  std::ostringstream out;
  out.precision(17);
  if constexpr (ComplexNumber<T>) out << "(" << x.re << ", " << x.im << ")";
  else out << +x;
  return out.str();
}

/// The length of b log(a).
template <class C>
double size_of_exponent(C a, C b) {
  return std::abs(std::complex<double>(b)) * std::abs(std::log(std::complex<double>(a)));
}

template <class T>
void fill_numbers(Buffer& buffer, std::mt19937_64& random) {
  if constexpr (ComplexNumber<T>) {
    auto* const parts = buffer.data<typename T::Real>();
    for (std::size_t i = 0; i < 2 * buffer.elements(); ++i) parts[i] = any_value<typename T::Real>(random());
  } else {
    fill_with_values<T>(buffer, random);
  }
}

/// Executes Body on operands of the types In in all layouts, and compares with the CPU.
template <class Body, class Out, class... In>
void check(OpId op, Allowed allowed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(op));
  for_each_layout(sizeof...(In), [&](const std::vector<Layout>& layouts) {
    if (testing::Test::HasFailure()) return;
    std::vector<Buffer> in;
    std::string what = record_of(op).name;
    const auto add = [&]<class T>(T) {
      const Layout& layout = layouts[in.size()];
      in.emplace_back(stave::dtype_of<T>(), layout.shape, layout.strides, layout.misaligned_by);
      fill_numbers<T>(in.back(), random);
      what += std::string(" ") + name_of(in.back().dtype()) + " " + layout.name;
    };
    (add(In()), ...);
    const stave::Shape& shape = layouts[0].shape;
    const Buffer got(stave::dtype_of<Out>(), shape), expected(stave::dtype_of<Out>(), shape);
    execute<Body>(in, got);
    run_on_cpu(op, in, expected);
    using Held = Element<Out>;
    using First = std::tuple_element_t<0, std::tuple<In...>>;
    for (Index i = 0; i < shape.elements(); ++i) {
      Allowed here = allowed;
      if constexpr (std::is_same_v<std::tuple<In...>, std::tuple<First, First>> && ComplexNumber<First>)
        if (op == OpId::pow || op == OpId::power_rule) {
          // Errors of a logarithm times the exponent are relative errors of a power.
          const double magnified = size_of_exponent(in[0].at<First>(i), in[1].at<First>(i));
          if (std::isfinite(magnified) && magnified > 50) continue;
          here.ulps = 16 * (1 + magnified);
        }
      ASSERT_TRUE(is_close(got.at<Held>(i), expected.at<Held>(i), here))
          << what << ": element " << i << " of " << text(in[0].at<First>(i)) << " is " << text(got.at<Held>(i))
          << ", expected " << text(expected.at<Held>(i));
    }
    ASSERT_TRUE(got.guards_are_whole()) << what << ": wrote outside the output";
  });
}
template <OpId op, class... In>
void check_op() {
  using Result = decltype(ComplexApply<op>::apply(In()...));
  using Out = std::conditional_t<std::is_same_v<Result, std::uint8_t>, bool, Result>;
  check<ComplexBody<op, In...>, Out, In...>(op, allowed_for(op));
}

template <class T>
void check_all() {
  using C = ComplexElement<T>;
#define X(name, Struct) \
  if constexpr (stave::takes_complex(OpId::name)) check_op<OpId::name, C>();
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct) \
  if constexpr (stave::takes_complex(OpId::name)) check_op<OpId::name, C, C>();
  STAVE_BINARY_OPS(X)
#undef X
  check_op<OpId::conj, C>();
  check_op<OpId::real, C>();
  check_op<OpId::imag, C>();
  check_op<OpId::complex, T, T>();
}
TEST(ComplexKernels, OfComplex64EqualTheCpu) { check_all<float>(); }
TEST(ComplexKernels, OfComplex128EqualTheCpu) { check_all<double>(); }

TEST(ComplexKernels, ConversionsEqualTheCpu) {
  const auto check_to = [&]<class T>(T) {
    using C = ComplexElement<T>;
#define X(name, From) check<ComplexConversion<From, C>, C, From>(OpId::astype, {});
    STAVE_REALS(X)
#undef X
    using Other = ComplexElement<std::conditional_t<std::is_same_v<T, float>, double, float>>;
    check<ComplexConversion<Other, C>, C, Other>(OpId::astype, {});
    check<ComplexConversion<C, bool>, bool, C>(OpId::astype, {});
  };
  check_to(float());
  check_to(double());
}

TEST(ComplexKernels, WhereEqualsTheCpu) {
  check<WhereBody<std::uint64_t>, ComplexElement<float>, bool, ComplexElement<float>, ComplexElement<float>>(
      OpId::where, {});
  check<WhereBody<stave::Bytes16>, ComplexElement<double>, bool, ComplexElement<double>, ComplexElement<double>>(
      OpId::where, {});
}

// ---- special values and branch cuts -------------------------------------------------------------

std::vector<double> special_parts() {
  std::vector<double> parts = {0,        1e-310,
                               2.3e-308, 1e-200,
                               1e-160,   1e-20,
                               1e-9,     1e-3,
                               0.3,      0.5,
                               0.7,      0.99999999,
                               1,        1.0000001,
                               1.5,      1.5707963267948966,
                               2,        3.141592653589793,
                               10,       22,
                               50,       700,
                               709.5,    720,
                               800,      1420,
                               1450,     1e10,
                               1e15,     1e17,
                               1e100,    1e155,
                               1e300,    1.7e308,
                               HUGE_VAL};
  const std::size_t count = parts.size();
  for (std::size_t i = 0; i < count; ++i) parts.push_back(-parts[i]);
  parts.push_back(NAN);
  return parts;
}

template <OpId op, class T>
void check_special() {
  using C = ComplexElement<T>;
  const std::vector<double> parts = special_parts();
  const auto n = static_cast<Index>(parts.size());
  Buffer in(stave::dtype_of<C>(), {n * n}), got(stave::dtype_of<C>(), {n * n}), expected(stave::dtype_of<C>(), {n * n});
  for (Index i = 0; i < n * n; ++i)
    in.data<C>()[i] = C(static_cast<T>(parts[static_cast<std::size_t>(i / n)]),
                        static_cast<T>(parts[static_cast<std::size_t>(i % n)]));
  execute<ComplexBody<op, C>>({in}, got);
  run_on_cpu(op, {in}, expected);
  for (Index i = 0; i < n * n; ++i)
    EXPECT_TRUE(is_close(got.at<C>(i), expected.at<C>(i), {16, allowed_for(op).of_length}))
        << record_of(op).name << text(in.at<C>(i)) << " is " << text(got.at<C>(i)) << ", expected "
        << text(expected.at<C>(i));
}
template <class T>
void check_all_special() {
#define X(name, Struct) \
  if constexpr (stave::takes_complex(OpId::name)) check_special<OpId::name, T>();
  STAVE_UNARY_OPS(X)
#undef X
}
TEST(ComplexKernels, SpecialValuesOfComplex64EqualTheCpu) { check_all_special<float>(); }
TEST(ComplexKernels, SpecialValuesOfComplex128EqualTheCpu) { check_all_special<double>(); }

}  // namespace
}  // namespace stave_cuda
