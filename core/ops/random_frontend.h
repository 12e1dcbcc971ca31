// Helpers of random_samplers.cpp and random_choices.cpp, which find the shape and dtype of a draw
// from keys and operands as users write them.
#pragma once

#include <concepts>
#include <span>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/random.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

/// The numbers to draw: numbers of `dtype`, computed in `computed`.
struct Drawing {
  Shape shape;
  Dtype dtype, computed;
  Device device;
};

/// Throws ShapeError unless the key is a single one, with the shape [2].
void require_one_key(const Key& key, const char* function);
/// Returns the shape to which the parameters broadcast together.
Shape together(std::span<const Operand> parameters, const char* function);
/// Returns `shape`, or that of the parameters if `shape` is empty. Throws ShapeError if the shape
/// of the parameters does not broadcast to it.
Shape drawn_shape(const Shape& of_parameters, const Shape& shape, const char* function);
/// Returns the promoted dtype of the parameters; default_dtype() if all are integers.
Dtype drawn_dtype(std::span<const Operand> parameters);
/// Returns what to draw for these parameters, and keeps those that are tensors.
Drawing drawing_of(const char* function, const Key& key, const Shape& shape, std::span<Operand> parameters);
/// Throws DtypeError unless the dtype is a floating one.
void require_float(Dtype dtype, const char* function);

/// Draws from a distribution with parameters: returns draw(drawing, parameters...), rounded to the
/// dtype of the drawing. Parameters become tensors of the drawing's shape and computed dtype.
template <class F, std::same_as<Operand>... P>
Tensor drawn(const char* function, const Key& key, const Shape& shape, F draw, P... parameters) {
  return named(function, [&] {
    Operand all[] = {std::move(parameters)...};
    const Drawing d = drawing_of(function, key, shape, all);
    const auto in = [&](Operand& x) { return as_tensor(std::move(x), d.computed, &d.shape, d.device); };
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return astype(draw(d, in(all[i])...), d.dtype);
    }(std::index_sequence_for<P...>());
  });
}

/// Draws from a distribution without parameters: returns draw(computed dtype), rounded to `dtype`.
template <class F>
Tensor drawn_in(const char* function, const Key& key, Dtype dtype, F draw) {
  return named(function, [&] {
    require_one_key(key, function);
    require_float(dtype, function);
    return astype(draw(computed_in(dtype)), dtype);
  });
}

}  // namespace stave_detail
