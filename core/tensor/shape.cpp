// The functions of shape.h that are not inline: contiguity, broadcasting and axes.
#include <stave/core/tensor/shape.h>

#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ",")); }

void Shape::throw_too_large() const { fail<ShapeError>("shape {} has more elements than any memory holds", *this); }

bool is_contiguous(const Shape& shape, const Strides& strides) {
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != step) {
      // An array without elements is contiguous whatever its strides: look for an empty axis
      // further out.
      for (std::size_t outer = 0; outer < axis; ++outer)
        if (shape[outer] == 0) return true;
      return false;
    }
    step *= shape[axis];
  }
  return true;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* operation) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const std::size_t extra = longer.size() - shorter.size();
  Shape result = longer;
  for (std::size_t axis = 0; axis < shorter.size(); ++axis) {
    Index& length = result[axis + extra];
    if (length == 1) length = shorter[axis];
    else if (shorter[axis] != 1 && shorter[axis] != length)
      fail<ShapeError>("{}: shapes {} and {} do not broadcast: lengths {} and {} at axis {} differ and neither is 1",
                       operation, a, b, a[a.size() - shorter.size() + axis], b[b.size() - shorter.size() + axis],
                       static_cast<Index>(axis) - static_cast<Index>(shorter.size()));
  }
  return result;
}

int normalize_axis(Index axis, int rank, const char* operation) {
  if (axis < -rank || axis >= rank) fail<IndexError>("{}: axis {} is out of range for rank {}", operation, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace stave

stave::Shape stave_detail::joined(std::initializer_list<std::span<const stave::Index>> parts) {
  stave::Shape shape;
  for (std::span<const stave::Index> part : parts) shape.append(part.begin(), part.end());
  return shape;
}
