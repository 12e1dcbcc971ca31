// The cotangents of slices of one value, in a backward pass (vjp.cpp).
//
// The transpose of a slice pads its cotangent with zeros. If a function reads x(0), x(1) and x(2),
// adding three padded tensors would take three passes over the cotangent of x. Cotangents of slices
// that do not overlap are collected instead, and one concatenation joins them.
#pragma once

#include <cstddef>
#include <map>

#include <stave/core/op/attributes.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

class SliceCotangents {
 public:
  /// Adds the cotangent of a slice of a value. Returns false, and does nothing, unless the slice
  /// has steps of 1, is shorter than the value along one axis only, has elements, and is one of the
  /// slices that were added before or apart from all of them.
  bool add(const SliceAttributes& slice, const Shape& whole, const Tensor& cotangent);
  bool empty() const noexcept { return parts_.empty(); }
  /// Removes all slices, of which there must be some, and returns the cotangent of the value: zero
  /// outside of the slices.
  Tensor take();

 private:
  Shape whole_;
  std::size_t axis_ = 0;           // along which the slices lie
  std::map<Index, Tensor> parts_;  // the start of each slice, and the sum of its cotangents
};

}  // namespace stave_detail
