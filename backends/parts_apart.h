// Complex arrays as arrays of their parts, for kernels of floats that also compute operations on
// complex numbers, such as sums.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_detail {

/// A complex array as an array of floats: a last axis of length 2 holds the real and the imaginary
/// part.
struct PartsApart {
  stave::Shape shape;
  stave::Strides strides;
  stave::View view;

  explicit PartsApart(const stave::View& z) : shape(z.shape), strides(z.strides) {
    for (stave::Index& stride : strides) stride *= 2;
    shape.push_back(2);
    strides.push_back(1);
    view = {z.data, stave::real_of(z.dtype), shape, strides, z.is_host_constant};
  }
  PartsApart(const PartsApart&) = delete;
};

}  // namespace stave_detail
