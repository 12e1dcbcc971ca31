// Helpers of the public functions of linear algebra: dtypes, stacks and right sides. For the .cpp
// files of core/ops.
#pragma once

#include <concepts>
#include <tuple>
#include <utility>

#include <stave/core/ops/linalg_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

// Results are rounded to `dtype`, and real results of complex functions to the dtype of its parts.
inline Tensor rounded(const Tensor& x, Dtype dtype) {
  if (is_complex(x.dtype())) return x;
  return is_float(x.dtype()) ? astype(x, real_of(dtype)) : x;
}
template <class A, class B>
std::pair<A, B> rounded(const std::pair<A, B>& xs, Dtype dtype) {
  return {rounded(xs.first, dtype), rounded(xs.second, dtype)};
}
inline std::tuple<Tensor, Tensor, Tensor> rounded(const std::tuple<Tensor, Tensor, Tensor>& xs, Dtype dtype) {
  const auto& [x, y, z] = xs;
  return {rounded(x, dtype), rounded(y, dtype), rounded(z, dtype)};
}

// Calls f with x as floats; errors name the function. Unlike in_inexact, this function supports an
// f that returns several tensors, or integers.
template <class F>
auto with_floats(const char* function, const Tensor& x, F f) -> decltype(f(x)) {
  return named(
      function,
      [&] {
        const Tensor floats = floating(x);
        return rounded(f(astype(floats, computed_in(floats.dtype()))), floats.dtype());
      },
      x);
}
template <class F, std::same_as<Tensor>... T>
Tensor with_common_floats(const char* function, F f, const T&... xs) {
  return named(
      function, [&] { return in_inexact(f, xs...); }, xs...);
}

inline void check_matrices(const Tensor& x, const char* function) {
  if (x.rank() < 2) fail<ShapeError>("{}: shape {} has fewer than the 2 axes of a matrix", function, x.shape());
}
inline void check_square(const Tensor& x, const char* function) {
  check_matrices(x, function);
  if (x.shape(-1) != x.shape(-2)) fail<ShapeError>("{}: shape {} is not of square matrices", function, x.shape());
}

// Returns x with its leading axes broadcast to the shape `stack`; the last `kept` axes stay.
inline Tensor over_stack(const Tensor& x, const Shape& stack, std::size_t kept = 2) {
  Shape shape = stack;
  shape.append(x.shape().end() - static_cast<std::ptrdiff_t>(kept), x.shape().end());
  return x.shape() == shape ? x : broadcast_to(x, shape);
}

// Returns the solution x of a x = b by solved(a, b), for every form of b: a vector b becomes a
// matrix of one column. If a is a single matrix and b is a stack, the matrices of the stack become
// columns of one right side.
template <class F>
Tensor for_right_sides(const char* function, const Tensor& a, const Tensor& b, F solved) {
  check_matrices(a, function);
  if (b.rank() == 0) fail<ShapeError>("{}: the right side is a number, for matrices {}", function, a.shape());
  if (a.shape(-2) != b.shape(b.rank() == 1 ? 0 : -2))
    fail<ShapeError>("{}: right sides {} do not fit matrices {}: they need {} rows", function, b.shape(), a.shape(),
                     a.shape(-2));
  if (b.rank() == 1) return squeeze(solved(a, expand_dims(b, -1)), -1);
  if (a.rank() > 2 || b.rank() == 2 || b.size() == 0) return solved(a, b);
  const Shape stack = stack_of(b.shape());
  const Tensor lanes = reshape(b, {stack.elements(), b.shape(-2), b.shape(-1)});
  const Tensor x = columns_as_lanes(solved(a, lanes_as_columns(lanes)), stack.elements());
  return reshape(x, stacked(stack, {x.shape(-2), x.shape(-1)}));
}

inline Shape common_stack(const Tensor& a, const Tensor& b, const char* function) {
  return broadcast_shapes(stack_of(a.shape()), stack_of(b.shape()), function);
}

inline Tensor identity_like(const Tensor& a, Index n) { return eye(n, a.dtype(), a.device()); }

}  // namespace stave_detail
