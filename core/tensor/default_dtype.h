// The floating dtype that is used where a program names none: float32, unless a handler
// answers otherwise.
//
//   with(DefaultDtype(float64), [&] { ... });  // tensor({1.}), zeros(shape) are float64 inside
//
// It applies to all functions that make tensors without a given dtype (also from floating-point
// literals and numbers alone: tensor({0.5}), full(shape, 0.5), arange(0., 1., 0.1), Tensor(0.5)),
// and to operations that turn integers into floats (sin of an int32, integers / integers, mean,
// int32 * 0.1, read_csv). Tensors that are floats already keep their dtype.
#pragma once

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/dtype.h>

namespace stave {

/// The effect with which the library gets the default dtype.
struct WhichFloat {
  using Result = Dtype;
  Dtype unhandled() const noexcept { return float32; }
};

/// The handler that sets the default dtype, which must be floating: else the constructor
/// throws DtypeError.
class DefaultDtype : public Handles<WhichFloat> {
 public:
  explicit DefaultDtype(Dtype dtype);
  Dtype handle(WhichFloat&) override { return dtype_; }
  std::string describe() const override { return std::string("default dtype ") + name_of(dtype_); }

 private:
  Dtype dtype_;
};

inline Dtype default_dtype() { return perform(WhichFloat{}); }

}  // namespace stave
