// Elementwise kernels of complex numbers. The semantics are those of backends/cpu/complex.cpp: both
// use core/ops/complex_functions.h.
#pragma once

#include <algorithm>

#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/complex_functions.cuh>
#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

using stave::ComplexElement, stave::OpId;

/// Returns a function of z that is computed in double.
template <OpId op>
STAVE_BOTH ComplexDouble complex_function(ComplexDouble z) {
  if constexpr (op == OpId::sqrt) return sqrt(z);
  else if constexpr (op == OpId::rsqrt) return 1. / sqrt(z);
  else if constexpr (op == OpId::exp) return exp(z);
  else if constexpr (op == OpId::exp2) return stave_detail::complex_exp2(z);
  else if constexpr (op == OpId::expm1) return stave_detail::complex_expm1(z);
  else if constexpr (op == OpId::log) return log(z);
  else if constexpr (op == OpId::log2) return stave_detail::complex_log2(z);
  else if constexpr (op == OpId::log10) return stave_detail::complex_log10(z);
  else if constexpr (op == OpId::log1p) return stave_detail::complex_log1p(z);
  else if constexpr (op == OpId::sin) return sin(z);
  else if constexpr (op == OpId::cos) return cos(z);
  else if constexpr (op == OpId::tan) return tan(z);
  else if constexpr (op == OpId::asin) return asin(z);
  else if constexpr (op == OpId::acos) return acos(z);
  else if constexpr (op == OpId::atan) return atan(z);
  else if constexpr (op == OpId::sinh) return sinh(z);
  else if constexpr (op == OpId::cosh) return cosh(z);
  else if constexpr (op == OpId::tanh) return tanh(z);
  else if constexpr (op == OpId::asinh) return asinh(z);
  else if constexpr (op == OpId::acosh) return acosh(z);
  else if constexpr (op == OpId::atanh) return atanh(z);
  else if constexpr (op == OpId::sech_squared) return stave_detail::complex_sech_squared(z);
  else if constexpr (op == OpId::sigmoid) return stave_detail::complex_sigmoid(z);
  else if constexpr (op == OpId::logistic_density) return stave_detail::complex_logistic_density(z);
  else static_assert(op == OpId::count, "an operation on complex numbers without a kernel");
}

/// An operation on elements as they are in memory.
template <OpId op>
struct ComplexApply {
  template <class T>
  static STAVE_BOTH auto apply(ComplexElement<T> z) {
    using C = ComplexElement<T>;
    if constexpr (op == OpId::negative) return -z;
    else if constexpr (op == OpId::square) return z * z;
    else if constexpr (op == OpId::reciprocal) return stave_detail::divided(C(1, 0), z);
    else if constexpr (op == OpId::conj) return C(z.re, -z.im);
    else if constexpr (op == OpId::real) return z.re;
    else if constexpr (op == OpId::imag) return z.im;
    else return C(complex_function<op>(ComplexDouble(z)));
  }
  template <class T>
  static STAVE_BOTH auto apply(ComplexElement<T> a, ComplexElement<T> b) {
    using C = ComplexElement<T>;
    if constexpr (op == OpId::add) return a + b;
    else if constexpr (op == OpId::subtract) return a - b;
    else if constexpr (op == OpId::multiply) return a * b;
    else if constexpr (op == OpId::scale) return stave_detail::scaled(a, b);
    else if constexpr (op == OpId::divide) return stave_detail::divided(a, b);
    else if constexpr (op == OpId::scale_by_inverse) return stave_detail::scaled_by_inverse(a, b);
    else if constexpr (op == OpId::equal) return static_cast<std::uint8_t>(a == b);
    else if constexpr (op == OpId::not_equal) return static_cast<std::uint8_t>(!(a == b));
    else if constexpr (op == OpId::pow) return C(stave_detail::complex_pow(ComplexDouble(a), ComplexDouble(b)));
    else if constexpr (op == OpId::power_rule)
      return C(stave_detail::complex_power_rule(ComplexDouble(a), ComplexDouble(b)));
    else static_assert(op == OpId::count, "an operation on complex numbers without a kernel");
  }
  /// The operation `complex` on two real numbers.
  template <class T>
    requires std::is_floating_point_v<T>
  static STAVE_BOTH ComplexElement<T> apply(T re, T im) {
    static_assert(op == OpId::complex);
    return {re, im};
  }
};

/// Converts an element to a complex one, or tells whether a complex element is not zero.
template <class To>
struct ConvertComplex {
  template <class From>
  static STAVE_BOTH Element<To> apply(From x) {
    if constexpr (std::is_same_v<To, bool>) return !stave_detail::is_zero(x);
    else if constexpr (stave::ComplexNumber<From>) return To(x);
    else return {static_cast<typename To::Real>(computed(x)), 0};
  }
};

template <class F, class Out, class... In>
using BodyOf = ElementwiseBody<lanes_of(std::max({sizeof(Out), sizeof(In)...})), F, Out, In...>;
template <OpId op, class... In>
using ComplexBody = BodyOf<ComplexApply<op>, decltype(ComplexApply<op>::apply(In()...)), In...>;
/// The body of astype between two dtypes of which at least one is complex.
template <class From, class To>
using ComplexConversion = BodyOf<ConvertComplex<To>, Element<To>, Element<From>>;

}  // namespace stave_cuda
