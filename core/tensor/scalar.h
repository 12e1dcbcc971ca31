// C++ numbers as operands and as attributes of operations.
#pragma once

#include <stave/core/effects/settings.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include <stave/core/tensor/dtype.h>

namespace stave {

/// A C++ number as an operand. It is weak: it takes the dtype of the tensor that it is combined
/// with, within its kind (bool < integer < float < complex). float32 + 1.0 stays float32; int32 *
/// 0.1 becomes float32 (default_dtype.h); float32 * std::complex(0., 1.) becomes complex64.
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, floating, complex };
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  Scalar(T value)
      : kind(kind_of<T>()), beyond_int64(is_beyond(value)), floating(static_cast<double>(value)),
        integer(kind == Kind::floating ? 0 : static_cast<std::int64_t>(value)) {}
  Scalar(const ComplexNumber auto& value)
      : kind(Kind::complex), beyond_int64(false), floating(static_cast<double>(value.real())),
        imaginary(static_cast<double>(value.imag())) {}

  Kind kind;
  bool beyond_int64;  // an integer of 2^63 or more: `integer` holds the bits of a uint64
  double floating;    // the value; the real part of a complex number
  union {
    std::int64_t integer;  // the value of a boolean or an integer; 0 for a floating-point number
    double imaginary;      // for a complex number
  };

  /// The dtype of the result when this number is combined with a tensor of dtype `other`.
  Dtype with(Dtype other) const;
  /// The dtype of this number without a tensor: bool, int32 (int64 or uint64 if it does not fit),
  /// default_dtype() or complex_of(default_dtype()).
  Dtype alone() const;
  /// The number in decimal: "18446744073709551615", "0.5", "1+2j".
  std::string str() const;
  /// The number as a complex one.
  ComplexElement<double> complex() const { return {floating, kind == Kind::complex ? imaginary : 0}; }
  /// Returns true for the same number of the same kind. -0 differs from 0, and a NaN equals a NaN
  /// of the same bits.
  friend bool operator==(const Scalar& a, const Scalar& b) noexcept {
    const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
    if (a.kind != b.kind || bits(a.floating) != bits(b.floating)) return false;
    return a.kind == Kind::complex ? bits(a.imaginary) == bits(b.imaginary) : a.integer == b.integer;
  }

 private:
  template <class T>
  static constexpr Kind kind_of() {
    if (std::is_same_v<T, bool>) return Kind::boolean;
    return std::is_integral_v<T> ? Kind::integer : Kind::floating;
  }
  template <class T>
  static constexpr bool is_beyond(T value) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) return value >> 63;
    else return false;
  }
};

/// The common dtype of numbers that are combined with no tensor: their alone(), promoted. In place
/// of an error, uint64 with a signed integer gives uint64.
Dtype common_dtype(std::initializer_list<Scalar> numbers);

}  // namespace stave
