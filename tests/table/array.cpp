#include "table/array.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>

namespace table {

namespace {

std::size_t flat(const Shape& shape, const Shape& position) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + position[axis];
  return static_cast<std::size_t>(index);
}

std::size_t axis_at(Index axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<Index>(rank) : axis);
}

Shape reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

}  // namespace

Real& Array::operator()(const Shape& position) { return values[flat(shape, position)]; }
Real Array::operator()(const Shape& position) const { return values[flat(shape, position)]; }

Real rounded(Real value, Dtype dtype) {
  if (dtype == bool_) return value != 0;
  if (is_float(dtype)) return stave_test::nearest(value, float_shape(dtype));
  const Real range = std::ldexp(Real(1), 8 * static_cast<int>(size_of(dtype)));
  const Real low = is_signed(dtype) ? -range / 2 : 0;
  const Real whole = std::trunc(value);
  return whole - range * std::floor((whole - low) / range);
}

void for_each_position(const Shape& shape, const std::function<void(const Shape&)>& f) {
  Shape position = shape;
  std::fill(position.begin(), position.end(), 0);
  for (Index left = shape.elements(); left > 0; --left) {
    f(position);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
}

Array make(Dtype dtype, const Shape& shape, const std::function<Real(const Shape&)>& f) {
  Array result{dtype, shape};
  result.values.reserve(static_cast<std::size_t>(shape.elements()));
  for_each_position(shape, [&](const Shape& position) {
    const Real value = f(position);
    result.values.push_back(is_float(dtype) ? value : rounded(value, dtype));
  });
  return result;
}

Shape with_axis(Shape shape, Index axis, Index length) {
  shape.insert(shape.begin() + axis_at(axis, shape.size() + 1), length);
  return shape;
}

Shape without_axis(Shape shape, Index axis) {
  shape.erase(shape.begin() + axis_at(axis, shape.size()));
  return shape;
}

Shape concatenated(const Shape& a, const Shape& b) {
  Shape result = a;
  result.append(b.begin(), b.end());
  return result;
}

Shape part(const Shape& shape, Index first, Index last) {
  return Shape(std::span<const Index>(shape.begin() + first, shape.begin() + last));
}

Shape broadcast_position(const Shape& from, const Shape& position) {
  Shape result = part(position, position.rank() - from.rank(), position.rank());
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] == 1) result[axis] = 0;
  return result;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  if (a.size() < b.size()) return broadcast_shape(b, a);
  Shape result = a;
  const std::size_t extra = a.size() - b.size();
  for (std::size_t axis = 0; axis < b.size(); ++axis)
    if (b[axis] != 1) result[axis + extra] = b[axis];
  return result;
}

Array lane(const Array& x, Index axis, Index index) {
  const auto along = static_cast<Index>(axis_at(axis, x.shape.size()));
  if (along < 0 || along >= x.shape.rank() || index >= x.shape[static_cast<std::size_t>(along)])
    throw std::out_of_range("there is no lane " + std::to_string(index) + " along axis " + std::to_string(axis) +
                            " of " + x.shape.str());
  return make(x.dtype, without_axis(x.shape, along), [&](const Shape& position) {
    Shape in = position;
    in.insert(in.begin() + along, index);
    return x(in);
  });
}

std::optional<Dtype> common(Dtype a, Dtype b) {
  constexpr Dtype B = bool_, u8 = uint8, u16 = uint16, u32 = uint32, u64 = uint64, i8 = int8, i16 = int16, i32 = int32,
                  // `__` marks pairs that have no common dtype.
      i64 = int64, h = float16, bf = bfloat16, f = float32, d = float64, __ = bool_;
  // clang-format off
  constexpr Dtype dtypes[real_dtype_count][real_dtype_count] = {
      //  B   u8   u16  u32  u64  i8   i16  i32  i64  h   bf  f  d
      {   B,  u8,  u16, u32, u64, i8,  i16, i32, i64, h,  bf, f, d},  // bool
      {  u8,  u8,  u16, u32, u64, i16, i16, i32, i64, h,  bf, f, d},  // uint8
      { u16,  u16, u16, u32, u64, i32, i32, i32, i64, h,  bf, f, d},  // uint16
      { u32,  u32, u32, u32, u64, i64, i64, i64, i64, h,  bf, f, d},  // uint32
      { u64,  u64, u64, u64, u64, __,  __,  __,  __,  h,  bf, f, d},  // uint64
      {  i8,  i16, i32, i64, __,  i8,  i16, i32, i64, h,  bf, f, d},  // int8
      { i16,  i16, i32, i64, __,  i16, i16, i32, i64, h,  bf, f, d},  // int16
      { i32,  i32, i32, i64, __,  i32, i32, i32, i64, h,  bf, f, d},  // int32
      { i64,  i64, i64, i64, __,  i64, i64, i64, i64, h,  bf, f, d},  // int64
      {   h,  h,   h,   h,   h,   h,   h,   h,   h,   h,  f,  f, d},  // float16
      {  bf,  bf,  bf,  bf,  bf,  bf,  bf,  bf,  bf,  f,  bf, f, d},  // bfloat16
      {   f,  f,   f,   f,   f,   f,   f,   f,   f,   f,  f,  f, d},  // float32
      {   d,  d,   d,   d,   d,   d,   d,   d,   d,   d,  d,  d, d}}; // float64
  // clang-format on
  const Dtype found = dtypes[static_cast<int>(a)][static_cast<int>(b)];
  return found == bool_ && a != b ? std::nullopt : std::optional(found);
}

Dtype promoted(Dtype a, Dtype b) { return common(a, b).value(); }

// ---- between arrays and tensors ----------------------------------------------------------------

const char* name_of(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "broadcast", "stepped", "mixed", "zero-size", "rank 0"};
  return names[static_cast<int>(layout)];
}

Device& place() {
  static Device device = stave::cpu;
  return device;
}

Tensor to_tensor(const Array& x) {
  return visit_real_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    std::vector<Stored> values;
    // An integer that a reference leaves undefined is 0.
    for (Real value : x.values)
      values.push_back(std::is_integral_v<Stored> && std::isnan(value) ? Stored(0) : static_cast<Stored>(value));
    return from_bytes(values.data(), values.size(), x.dtype, x.shape, place());
  });
}

namespace {

Tensor transposed(const Array& x) {
  if (x.shape.rank() == 1)
    return flip(to_tensor(make(x.dtype, x.shape, [&](const Shape& p) { return x({x.shape[0] - 1 - p[0]}); })));
  return transpose(to_tensor(make(x.dtype, reversed(x.shape), [&](const Shape& p) { return x(reversed(p)); })));
}

Tensor repeated(const Array& x, Index axis) {
  Shape once = x.shape;
  once[static_cast<std::size_t>(axis)] = std::min<Index>(1, x.shape[static_cast<std::size_t>(axis)]);
  return broadcast_to(to_tensor(make(x.dtype, once, x)), x.shape);
}

// A view of every second element of the last axis. The array behind it has other elements between
// them; if there are several axes, the first is reversed.
Tensor stepped(const Array& x) {
  Shape wide = x.shape;
  wide.back() = 2 * wide.back() + 1;
  const Tensor all = to_tensor(make(x.dtype, wide, [&](const Shape& p) -> Real {
    if (p.back() % 2 == 0) return 1;  // never read
    Shape in = p;
    in.back() /= 2;
    if (in.rank() > 1) in[0] = x.shape[0] - 1 - in[0];
    return x(in);
  }));
  const Tensor view = all(ellipsis, slice(1, none, 2));
  return x.shape.rank() > 1 ? flip(view, 0) : view;
}

}  // namespace

Tensor to_tensor(const Array& x, Layout layout, Index axis) {
  if (x.shape.rank() == 0) {  // A rank-0 operand is an element in the middle of a vector.
    return layout == Layout::contiguous ? to_tensor(x) : to_tensor(Array{x.dtype, {3}, {1, x.values[0], 1}})(1);
  }
  const Tensor result = layout == Layout::transposed  ? transposed(x)
                        : layout == Layout::broadcast ? repeated(x, axis)
                        : layout == Layout::stepped   ? stepped(x)
                                                      : to_tensor(x);
  const bool expected = layout == Layout::contiguous;
  const auto long_axes = std::count_if(x.shape.begin(), x.shape.end(), [](Index length) { return length > 1; });
  const bool possible =
      x.shape.elements() > 1 && (layout != Layout::transposed || long_axes > 1 || x.shape.rank() == 1);
  if (possible && result.is_contiguous() != expected)
    throw std::logic_error("table: a layout is not what it is meant to be");
  return result;
}

Array to_array(const Tensor& x) {
  Array result{x.dtype(), x.shape()};
  visit_real_dtype(x.dtype(), [&](auto zero) {
    const auto values = x.to_vector<decltype(zero)>();
    result.values.assign(values.begin(), values.end());
  });
  return result;
}

}  // namespace table
