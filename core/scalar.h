// C++ numbers as operands and attributes.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <stave/core/dtype.h>

namespace stave {

/// A C++ number as an operand. Weak: it takes the dtype of the tensor that it meets, within its kind (bool < integer <
/// float): float32 + 1.0 stays float32, int32 * 0.1 becomes float32 (default_dtype.h).
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, floating };
  template <class T>
    requires std::is_arithmetic_v<T>
  Scalar(T value) : kind(kind_of<T>()), floating(static_cast<double>(value)), integer(to_integer(value)) {}

  Kind kind;
  double floating;       // the value
  std::int64_t integer;  // the value, if it is not floating

  /// The dtype of the result when this meets a tensor of dtype `other`.
  Dtype with(Dtype other) const;
  /// The dtype that this has alone: bool, int32 (int64 if it does not fit) or default_dtype().
  Dtype alone() const;

 private:
  template <class T>
  static constexpr Kind kind_of() {
    if (std::is_same_v<T, bool>) return Kind::boolean;
    return std::is_floating_point_v<T> ? Kind::floating : Kind::integer;
  }
  template <class T>
  static std::int64_t to_integer(T value) {
    if constexpr (std::is_floating_point_v<T>) return 0;
    else {
      if constexpr (std::is_unsigned_v<T> && sizeof(T) >= 8)
        if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max())) throw_too_large(value);
      return static_cast<std::int64_t>(value);
    }
  }
  [[noreturn]] static void throw_too_large(std::uint64_t value);
};

}  // namespace stave
