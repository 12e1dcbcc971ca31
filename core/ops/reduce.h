// Reductions: over all axes, over one (sum(x, 0), sum(x, -1)) or over several (sum(x, {0, 2})).
//
// The result loses the reduced axes, or keeps them with length 1: sum(x, 0, keepdims), sum(x,
// keepdims). Sums of floats accumulate pairwise or wider. Sums and products of integers are of
// their dtype, but of int32 for bool, int8 and int16, and of uint32 for uint8 and uint16 (the array
// API standard's default integers); they wrap. All else keeps the dtype.
#pragma once

#include <concepts>
#include <optional>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// Which axes: an int, {0, 1}, a vector of ints, or all_axes. Negative ones count from the end.
class Axes {
 public:
  template <std::integral... Integer>
    requires(sizeof...(Integer) > 0 && (!std::same_as<Integer, bool> && ...))
  Axes(Integer... axes) : list_(Shape(axes...)) {}
  template <std::integral Integer>
  Axes(const std::vector<Integer>& axes) : list_(Shape(axes)) {}
  Axes(Shape axes) : list_(std::move(axes)) {}
  Axes(bool) = delete;  // sum(x, true): write sum(x, axes, keepdims)
  /// None: sum(x, {}) sums over no axes, as NumPy's axis=().
  Axes() : list_(Shape()) {}
  static Axes all() {
    Axes axes;
    axes.list_.reset();
    return axes;
  }

  /// Sorted, counted from the front. Throws IndexError for one out of range, ShapeError for one given twice.
  Shape normalize(int rank, const char* operation) const;

 private:
  std::optional<Shape> list_;  // empty: all
};
inline const Axes all_axes = Axes::all();

struct KeepDims {
  bool value;
  /// From a bool alone, or {0} would be one, and sum(x, {0}) ambiguous.
  template <std::same_as<bool> Truth>
  explicit constexpr KeepDims(Truth value_) : value(value_) {}
};
inline constexpr KeepDims keepdims{true};
inline constexpr KeepDims drop_dims{false};

#define STAVE_REDUCTION(name)                   \
  Tensor(name)(const Tensor& x);                \
  Tensor(name)(const Tensor& x, KeepDims keep); \
  Tensor(name)(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims);

STAVE_REDUCTION(sum)
STAVE_REDUCTION(prod)  ///< derivatives are exact where factors are 0
STAVE_REDUCTION(mean)
STAVE_REDUCTION(max)  ///< NaN wins; ties share the derivative equally; throws ShapeError for nothing to choose from
STAVE_REDUCTION(min)
STAVE_REDUCTION(all)
STAVE_REDUCTION(any)
STAVE_REDUCTION(logsumexp)  ///< log(sum(exp(x))), without overflow; infinities share the derivative as in max
#undef STAVE_REDUCTION

/// Divided by n - correction: 0 gives the population's variance, 1 the unbiased estimate. It
/// overflows only where the result does.
Tensor var(const Tensor& x);
Tensor var(const Tensor& x, KeepDims keep);
Tensor var(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims, double correction = 0);
/// sqrt(var(x)). With `using namespace stave` write stave::std: the plain word is the standard library's.
Tensor std(const Tensor& x);
Tensor std(const Tensor& x, KeepDims keep);
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims, double correction = 0);

/// Position of the first largest element, in the flattened tensor, or along one axis: int32, int64 where that does not hold
/// all positions.
Tensor argmax(const Tensor& x);
Tensor argmax(const Tensor& x, Index axis, KeepDims keep = drop_dims);
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, Index axis, KeepDims keep = drop_dims);

/// sqrt(sum(x^2)), the Euclidean (for matrices Frobenius) norm, without overflow; derivative 0 at
/// 0, and infinities share it as in max. There is no second derivative at 0: it is given 0 as well,
/// and that of square(norm(x)), which is 2, is lost with it. Write sum(square(x)); trap_nan
/// (debug.h) stops there.
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, KeepDims keep);
Tensor norm(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims);

// Of two operands max is no reduction. Templates, so that in grad(max) the name still means the function of one tensor.
template <class A, class B>
concept TwoNumbers =
    (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) || (std::same_as<A, Tensor> && std::same_as<B, Tensor>);
template <class A, class B>
  requires TwoNumbers<A, B>
void(max)(const A&, const B&) = delete;  // of two tensors: maximum(a, b); of two C++ numbers: std::max
template <class A, class B>
  requires TwoNumbers<A, B>
void(min)(const A&, const B&) = delete;  // of two tensors: minimum(a, b); of two C++ numbers: std::min

}  // namespace stave
