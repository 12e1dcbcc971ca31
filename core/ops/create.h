// Making tensors: from data at hand, and from a rule.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A tensor of nested braces: tensor({{1, 2}, {3, 4}}). int32 from int literals (int64 from 64-bit ones), default_dtype()
/// (float32) from floating ones, bool from bools. Throws ShapeError for ragged lists. `dtype` converts.
class NestedList {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  NestedList(T value) : scalar_(value), wide_(sizeof(T) == 8) {}
  NestedList(std::initializer_list<NestedList> entries) : entries_(entries), is_list_(true) {}

  bool is_list() const noexcept { return is_list_; }
  const std::vector<NestedList>& entries() const noexcept { return entries_; }
  Scalar scalar() const noexcept { return scalar_; }
  bool wide() const noexcept { return wide_; }

 private:
  std::vector<NestedList> entries_;
  Scalar scalar_ = false;
  bool wide_ = false;
  bool is_list_ = false;
};
Tensor tensor(std::initializer_list<NestedList> entries);
Tensor tensor(std::initializer_list<NestedList> entries, Dtype dtype, Device device = cpu);
/// A rank-0 tensor of a number.
Tensor tensor(Scalar value);
Tensor tensor(Scalar value, Dtype dtype, Device device = cpu);

/// A tensor of host data, copied, row-major. Every byte of a bool other than 0 is true. Throws
/// ShapeError if `shape` does not hold values.size() elements.
template <class T>
  requires has_dtype<T>
Tensor from(std::span<const T> values, const Shape& shape, Device device = cpu);
Tensor from_bytes(const void* data, std::size_t count, Dtype dtype, const Shape& shape, Device device = cpu);

template <class T>
  requires has_dtype<T>
Tensor from(std::span<const T> values, const Shape& shape, Device device) {
  return from_bytes(values.data(), values.size(), dtype_of<T>(), shape, device);
}
template <class T>
  requires(has_dtype<T> && !std::is_same_v<T, bool>)
Tensor from(const std::vector<T>& values, const Shape& shape, Device device = cpu) {
  return from(std::span<const T>(values), shape, device);
}
/// A vector becomes a tensor of rank 1.
template <class T>
  requires(has_dtype<T> && !std::is_same_v<T, bool>)
Tensor from(const std::vector<T>& values, Device device = cpu) {
  return from(std::span<const T>(values), Shape(values.size()), device);
}
Tensor from(const std::vector<bool>& values, Device device = cpu);

Tensor zeros(const Shape& shape, Dtype dtype = default_dtype(), Device device = cpu);
Tensor ones(const Shape& shape, Dtype dtype = default_dtype(), Device device = cpu);
/// Every element is `value`; without a dtype: the one that the number has alone (default_dtype(), int32 or bool).
Tensor full(const Shape& shape, Scalar value);
Tensor full(const Shape& shape, Scalar value, Dtype dtype, Device device = cpu);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);

/// start, start + step, ... below (above, for a negative step) stop; int32 unless an argument is floating (then default_dtype()).
Tensor arange(Scalar stop);
Tensor arange(Scalar start, Scalar stop, Scalar step = 1);
Tensor arange(Scalar start, Scalar stop, Scalar step, Dtype dtype, Device device = cpu);
/// `count` numbers evenly spaced from start to stop, both included (`endpoint`).
Tensor linspace(double start, double stop, Index count, Dtype dtype = default_dtype(), Device device = cpu,
                bool endpoint = true);
/// [rows, columns], 1 where column - row = k, else 0.
Tensor eye(Index rows, Dtype dtype = default_dtype(), Device device = cpu);
Tensor eye(Index rows, Index columns, Index k = 0, Dtype dtype = default_dtype(), Device device = cpu);
/// The lower (upper) triangle of the last two axes: elements with column - row <= k (>= k), zeros elsewhere.
Tensor tril(const Tensor& x, Index k = 0);
Tensor triu(const Tensor& x, Index k = 0);

}  // namespace stave
