// NumberOrTensor: a parameter of a distribution or of a bijector.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A tensor, or a number that takes the dtype of the other operands.
class NumberOrTensor {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T>)
  NumberOrTensor(T number) : number_(static_cast<double>(number)) {}
  NumberOrTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  bool is_number() const noexcept { return number_.has_value(); }
  /// Returns the number; there is none if this is a tensor.
  const std::optional<double>& number() const noexcept { return number_; }
  /// Returns the tensor; it is undefined if this is a number.
  const Tensor& tensor() const noexcept { return tensor_; }
  Tensor& tensor() noexcept { return tensor_; }
  Tensor in(Dtype dtype, Device device) const;
  /// Returns the parameter in the dtype and on the device of x.
  Tensor like(const Tensor& x) const { return in(x.dtype(), x.device()); }
  Shape shape() const { return is_number() ? Shape() : tensor_.shape(); }

 private:
  Tensor tensor_;
  std::optional<double> number_;
};

template <>
struct TreeTraits<NumberOrTensor> {
  template <class P, class F>
  static void visit(P& parameter, F&& f) {
    if (!parameter.is_number()) f(parameter.tensor());
  }
  static bool same(const NumberOrTensor& a, const NumberOrTensor& b) { return a.number() == b.number(); }
};

}  // namespace stave
