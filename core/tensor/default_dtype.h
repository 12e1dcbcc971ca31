// Which floating dtype is meant where a program names none: float32, unless a handler answers otherwise.
//
//   with(DefaultDtype(float64), [&] { ... });     // tensor({1., 2.}), zeros(shape), uniform(key, shape) are float64 inside
//
// Asked by all that make tensors without being given a dtype (floating literals and numbers alone included: tensor({0.5}),
// full(shape, 0.5), arange(0., 1., 0.1), Tensor(0.5)), and by what turns integers into floats (sin of an int32, integers /
// integers, mean, int32 * 0.1, read_csv). Tensors that are floats already keep their dtype.
#pragma once

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/dtype.h>

namespace stave {

/// The effect by which the library asks.
struct WhichFloat {
  using Result = Dtype;
  Dtype unhandled() const noexcept { return float32; }
};

/// The handler that answers: a floating dtype, else it throws DtypeError.
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
