// C++ numbers as operands and attributes.
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

/// std::complex of a floating type, and what looks like it.
template <class T>
concept ComplexNumber = requires(const T& z) {
  { z.real() } -> std::floating_point;
  { z.imag() } -> std::floating_point;
};

/// A C++ number as an operand. Weak: it takes the dtype of the tensor that it meets, within its kind (bool < integer <
/// float): float32 + 1.0 stays float32, int32 * 0.1 becomes float32 (default_dtype.h). It can hold a complex number, though no
/// dtype does: with(), alone() and all that would store one throw DtypeError.
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, floating, complex };
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  Scalar(T value)
      : kind(kind_of<T>()), beyond_int64(is_beyond(value)), floating(static_cast<double>(value)),
        integer(kind == Kind::floating ? 0 : static_cast<std::int64_t>(value)) {}
  explicit Scalar(const ComplexNumber auto& value)
      : kind(Kind::complex), beyond_int64(false), floating(static_cast<double>(value.real())),
        imaginary(static_cast<double>(value.imag())) {}

  Kind kind;
  bool beyond_int64;  // an integer of 2^63 or more: `integer` has a uint64's bits
  double floating;    // the value; of a complex number its real part
  union {
    std::int64_t integer;  // the value, if it is a boolean or an integer; of a floating number 0
    double imaginary;      // of a complex number
  };

  /// The dtype of the result when this meets a tensor of dtype `other`.
  Dtype with(Dtype other) const;
  /// The dtype that this has alone: bool, int32 (int64 or uint64 if it does not fit) or default_dtype().
  Dtype alone() const;
  /// In decimal: "18446744073709551615", "0.5", "1+2j".
  std::string str() const;
  /// The same number of the same kind; -0 is not 0, NaN is NaN.
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

/// The dtype that numbers have together, where they meet no tensor: the widest kind's, wide enough for all integers.
Dtype common_dtype(std::initializer_list<Scalar> numbers);

}  // namespace stave
