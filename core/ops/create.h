// Functions that make tensors from host data, or by a formula, such as full, arange and eye.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The argument of tensor(): nested braces of numbers, as in tensor({{1, 2}, {3, 4}}). The dtype
/// is int32 for int literals (int64 for 64-bit integers), default_dtype() (float32) for floating
/// literals and bool for bools, unless a `dtype` is given. Throws ShapeError for ragged lists.
class NestedList {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T> || ComplexNumber<T>)
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
/// A tensor of rank 0 that holds `value`.
Tensor tensor(Scalar value);
Tensor tensor(Scalar value, Dtype dtype, Device device = cpu);

/// A tensor with a copy of host data in row-major order. Every byte of a bool other than 0 counts
/// as true. Throws ShapeError if `shape` does not hold values.size() elements.
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
/// A tensor of rank 1 with the elements of a vector.
template <class T>
  requires(has_dtype<T> && !std::is_same_v<T, bool>)
Tensor from(const std::vector<T>& values, Device device = cpu) {
  return from(std::span<const T>(values), Shape(values.size()), device);
}
Tensor from(const std::vector<bool>& values, Device device = cpu);

Tensor zeros(const Shape& shape, Dtype dtype = default_dtype(), Device device = cpu);
Tensor ones(const Shape& shape, Dtype dtype = default_dtype(), Device device = cpu);
/// A tensor whose elements are all `value`. Without a dtype, the result has the dtype of the C++
/// number: default_dtype() for floats, int32 for integers (int64 or uint64 if int32 is too small),
/// bool for bools.
Tensor full(const Shape& shape, Scalar value);
Tensor full(const Shape& shape, Scalar value, Dtype dtype, Device device = cpu);
/// Tensors of the shape of x, on its device, of x's dtype or the given one.
Tensor zeros_like(const Tensor& x);
Tensor zeros_like(const Tensor& x, Dtype dtype);
Tensor ones_like(const Tensor& x);
Tensor ones_like(const Tensor& x, Dtype dtype);
Tensor full_like(const Tensor& x, Scalar value);
Tensor full_like(const Tensor& x, Scalar value, Dtype dtype);

/// The numbers start, start + step, ... before stop. The dtype is int32 (int64 where int32 is too
/// small) if all arguments are integers, else default_dtype().
Tensor arange(Scalar stop);
Tensor arange(Scalar start, Scalar stop, Scalar step = 1);
Tensor arange(Scalar start, Scalar stop, Scalar step, Dtype dtype, Device device = cpu);
/// `count` evenly spaced numbers from start to stop; stop is included if `endpoint`.
Tensor linspace(double start, double stop, Index count, Dtype dtype = default_dtype(), Device device = cpu,
                bool endpoint = true);
/// A matrix [rows, columns] that is 1 where column - row = k, else 0.
Tensor eye(Index rows, Dtype dtype = default_dtype(), Device device = cpu);
Tensor eye(Index rows, Index columns, Index k = 0, Dtype dtype = default_dtype(), Device device = cpu);
/// The lower triangle of the last two axes: elements with column - row <= k, zeros elsewhere.
Tensor tril(const Tensor& x, Index k = 0);
Tensor triu(const Tensor& x, Index k = 0);

}  // namespace stave
