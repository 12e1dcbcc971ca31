// Indices, and updates of the positions to which they point.
#pragma once

#include <algorithm>

#include "table/reference.h"

namespace table {

inline Index from_end(Real index, Index length) { return static_cast<Index>(index) + (index < 0 ? length : 0); }

/// Indices for an axis of this length; they have both signs if the dtype is signed.
inline Input indices(Dtype dtype, const Shape& shape, Index length) {
  return {dtype, shape, {-static_cast<double>(length), static_cast<double>(length) - 1}};
}

/// A function that combines the value of a position with an update.
using Combine = Real (*)(Real, Real);
inline Real put(Real, Real update) { return update; }
inline Real plus(Real x, Real update) { return x + update; }
inline Real times(Real x, Real update) { return x * update; }
inline Real least(Real x, Real update) { return std::min(x, update); }
inline Real greatest(Real x, Real update) { return std::max(x, update); }

/// An array to whose positions updates are applied. The derivative of a minimum or maximum
/// is that of the mean of the elements that tie for it.
class Met {
 public:
  Met(const Array& at, const Array& x, Combine combine)
      : combine_(combine), best_(mapped(float64, at, [](Real v) { return v; })),
        sum_(mapped(float64, x, [](Real v) { return v; })), count_(mapped(float64, x, [](Real) { return Real(1); })) {}
  /// Applies an update: `at` is its value where the derivative is taken, `value` the value near
  /// there.
  void put(const Shape& to, Real at, Real value) {
    const Real next = combine_(best_(to), at);
    if (at != next) return;
    const bool ties = at == best_(to);
    sum_(to) = ties ? sum_(to) + value : value;
    count_(to) = ties ? count_(to) + 1 : 1;
    best_(to) = next;
  }
  Array mean(Dtype dtype) const {
    return mapped(dtype, sum_, count_, [](Real sum, Real count) { return sum / count; });
  }

 private:
  Combine combine_;
  Array best_, sum_, count_;
};

}  // namespace table
