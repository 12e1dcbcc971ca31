// Helpers that the references of several families share: formulas applied to elements,
// rows and broadcast operands.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "table/row.h"

namespace table {

/// Floats at which functions have special cases: zeros, infinities, NaN, halves,
/// and values that integers cannot hold.
inline const std::vector<Real> special_values = {0,
                                                 -0.0L,
                                                 0.5,
                                                 -0.5,
                                                 1,
                                                 -1.5,
                                                 2.5,
                                                 1e30L,
                                                 -1e30L,
                                                 std::numeric_limits<Real>::infinity(),
                                                 -std::numeric_limits<Real>::infinity(),
                                                 std::numeric_limits<Real>::quiet_NaN()};

/// The sum of some elements, and the sum of their sizes, to which its rounding errors are relative.
inline Real sum_of(const std::vector<Real>& elements) {
  return std::accumulate(elements.begin(), elements.end(), Real(0));
}
inline Real size_of_sum(const std::vector<Real>& elements) {
  return std::accumulate(elements.begin(), elements.end(), Real(0), [](Real sum, Real x) { return sum + std::abs(x); });
}

/// f of each element.
template <class F>
Array mapped(Dtype dtype, const Array& x, F f) {
  return make(dtype, x.shape, [&](const Shape& p) -> Real { return f(x(p)); });
}

/// f of corresponding elements of two operands, which broadcast.
template <class F>
Array mapped(Dtype dtype, const Array& x, const Array& y, F f) {
  return make(dtype, broadcast_shape(x.shape, y.shape), [&](const Shape& p) -> Real {
    return f(x(broadcast_position(x.shape, p)), y(broadcast_position(y.shape, p)));
  });
}

/// x with `size` as the magnitude to which rounding errors are relative.
inline Array sized(Array x, Real size) {
  x.magnitude.assign(x.values.size(), size);
  return x;
}

Real erfinv_reference(Real x);

/// The error text with which bitwise operations refuse floats.
inline const std::string no_bits = "has no bits to work on";

/// Maps a position of the result to the position of the input whose element it shows.
using Source = std::function<Shape(const Shape&)>;

/// A variant of one input, each element of whose result is an element of the input.
inline Variant view_of(const std::string& name, Dtype dtype, const Shape& shape,
                       std::function<Tensor(const Tensor&)> call, const Shape& result, Source source) {
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape}},
          .call = [call](auto xs) { return call(xs[0]); },
          .reference =
              [=](auto xs) { return Arrays{make(dtype, result, [&](const Shape& p) { return xs[0](source(p)); })}; }};
}

inline Variant refused(const std::string& name, Dtype dtype, const Shape& shape,
                       std::function<Tensor(const Tensor&)> call, const std::string& words) {
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape}},
          .call = [call](auto xs) { return call(xs[0]); },
          .refusal = words};
}

}  // namespace table
