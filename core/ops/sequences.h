// Sequences of numbers beyond arange and linspace (create.h), and matrices of powers.
#pragma once

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct SequenceOptions {
  [[no_unique_address]] ByName by_name{};
  bool endpoint = true;  ///< whether the last number is `stop`
  Device device = cpu;
};
/// `count` evenly spaced complex numbers from start to stop, one of which may be real. The dtype is
/// complex; by default it is the counterpart of default_dtype().
Tensor linspace(Scalar start, Scalar stop, Index count, SequenceOptions options = {});
Tensor linspace(Scalar start, Scalar stop, Index count, Dtype dtype, SequenceOptions options = {});
/// base^x for the numbers x of linspace(start, stop, count), as NumPy's logspace.
Tensor logspace(double start, double stop, Index count, double base = 10, Dtype dtype = default_dtype(),
                SequenceOptions options = {});
/// `count` numbers from start to stop with a constant ratio, as NumPy's geomspace. Throws Error for
/// numbers that are 0 or differ in sign.
Tensor geomspace(double start, double stop, Index count, Dtype dtype = default_dtype(), SequenceOptions options = {});

struct VanderOptions {
  [[no_unique_address]] ByName by_name{};
  Index columns = -1;       ///< -1 means as many as x has elements
  bool increasing = false;  ///< whether the powers increase from left to right
};
/// The powers of x [..., n] in columns [..., n, columns]: x^(columns - 1), ..., x, 1, or in
/// increasing order. Derivatives are exact where x is 0. This is vander of NumPy and PyTorch;
/// torch.linalg.vander has increasing powers.
Tensor vander(const Tensor& x, VanderOptions options = {});

}  // namespace stave
