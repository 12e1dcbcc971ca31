// Shapes, strides and axes of arrays.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <stave/core/tensor/small_vector.h>

namespace stave {

/// The type of lengths, strides (in elements) and positions.
using Index = std::int64_t;

/// A list of axes, lengths or strides. It is made from any integers: Shape{2, n}, {2, 3}, 5,
/// or a vector of them.
class Shape : public SmallVector<Index, 4> {
 public:
  Shape() noexcept = default;
  template <std::integral... Integer>
    requires(sizeof...(Integer) > 0)
  Shape(Integer... lengths) {
    (push_back(static_cast<Index>(lengths)), ...);
  }
  template <std::integral Integer>
  Shape(const std::vector<Integer>& lengths) {
    append(lengths.begin(), lengths.end());
  }
  template <std::integral Integer, std::size_t n>
  Shape(std::span<Integer, n> lengths) {
    append(lengths.begin(), lengths.end());
  }

  int rank() const noexcept { return static_cast<int>(size()); }
  /// The number of elements of an array of this shape: the product of the lengths, 1 for rank 0.
  /// Throws ShapeError if the product of the lengths other than 0 exceeds the address space, since
  /// strides are products of these lengths.
  Index elements() const {
    constexpr Index most = (Index{1} << 60) - 1;  // so that the size in bytes fits an Index, too
    Index n = 1;
    bool empty = false, too_many = false;
    for (Index length : *this) {
      if (length == 0) empty = true;
      else too_many |= __builtin_mul_overflow(n, length, &n);
    }
    if (too_many || n > most) throw_too_large();
    return empty ? 0 : n;
  }
  /// The shape as text: "[2,3]".
  std::string str() const;

 private:
  [[noreturn]] void throw_too_large() const;
};

using Strides = Shape;

/// The strides of a contiguous row-major array of this shape.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    // The product wraps if there are too many elements. Code that counts the elements finds this
    // before it computes an address.
    step = static_cast<Index>(static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(shape[axis]));
  }
  return strides;
}

/// Returns true if the elements are row-major without gaps. Axes of length 1, and arrays without
/// elements, do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);

/// Returns the shape to which both shapes broadcast, by NumPy's rules. Throws ShapeError, naming
/// `operation`, if there is none.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* operation);

/// Returns the axis counted from the front, for -rank <= axis < rank. Throws IndexError
/// naming `operation`.
int normalize_axis(Index axis, int rank, const char* operation);

}  // namespace stave

namespace stave_detail {
/// The shape that consists of the lengths of all parts, one part after the other.
stave::Shape joined(std::initializer_list<std::span<const stave::Index>> parts);
}  // namespace stave_detail
