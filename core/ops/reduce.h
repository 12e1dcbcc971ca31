// Reductions over all axes, over one (sum(x, 0), sum(x, -1)) or over several (sum(x, {0, 2})).
//
// The result loses the reduced axes, or keeps them with length 1: sum(x, 0, keepdims),
// sum(x, keepdims). Sums of floats accumulate pairwise or in a wider type. Sums and products
// of integers have the dtype of their input, except that bool, int8 and int16 become int32,
// and uint8 and uint16 become uint32 (the default integers of the array API standard); they wrap.
// max and min keep the dtype, all and any return bool, and the other reductions return floats:
// default_dtype() for integers.
#pragma once

#include <concepts>
#include <optional>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// The axes of a reduction: an int, {0, 1}, a vector of ints, or all_axes. Negative axes count
/// from the end.
class Axes {
 public:
  template <std::integral... Integer>
    requires(sizeof...(Integer) > 0 && (!std::same_as<Integer, bool> && ...))
  Axes(Integer... axes) : list_(Shape(axes...)) {}
  template <std::integral Integer>
  Axes(const std::vector<Integer>& axes) : list_(Shape(axes)) {}
  Axes(Shape axes) : list_(std::move(axes)) {}
  Axes(bool) = delete;  // sum(x, true): write sum(x, axes, keepdims)
  /// Makes an empty list: sum(x, {}) sums over no axes, as NumPy's axis=().
  Axes() : list_(Shape()) {}
  static Axes all() {
    Axes axes;
    axes.list_.reset();
    return axes;
  }

  /// The axes in ascending order, counted from the front. Throws IndexError for an axis out
  /// of range and ShapeError for one that is given twice.
  Shape normalize(int rank, const char* operation) const;

 private:
  std::optional<Shape> list_;  // empty: all axes
};
inline const Axes all_axes = Axes::all();

struct KeepDims {
  bool value;
  /// Accepts no type but bool: otherwise {0} would convert to KeepDims, and sum(x, {0}) would be
  /// ambiguous.
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
STAVE_REDUCTION(prod)  ///< derivatives are exact even where factors are 0
STAVE_REDUCTION(mean)
/// The largest (smallest) element; NaN if any element is NaN. Ties share the derivative equally.
/// Throws ShapeError if there are no elements.
STAVE_REDUCTION(max)
STAVE_REDUCTION(min)
STAVE_REDUCTION(all)
STAVE_REDUCTION(any)
/// log(sum(exp(x))) without overflow; infinities share the derivative as in max.
STAVE_REDUCTION(logsumexp)
#undef STAVE_REDUCTION

/// The variance, divided by n - correction: 0 gives the variance of a population, 1 the unbiased
/// estimate. NaN if n - correction is not positive. Nothing overflows unless the result does.
Tensor var(const Tensor& x);
Tensor var(const Tensor& x, KeepDims keep);
Tensor var(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims, double correction = 0);
/// The standard deviation sqrt(var(x)). With `using namespace stave` write stave::std,
/// because `std` alone is the standard library's namespace.
Tensor std(const Tensor& x);
Tensor std(const Tensor& x, KeepDims keep);
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims, double correction = 0);

/// The position of the first largest element in the flattened tensor, or along one axis: int32,
/// or int64 if int32 does not hold all positions.
Tensor argmax(const Tensor& x);
Tensor argmax(const Tensor& x, Index axis, KeepDims keep = drop_dims);
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, Index axis, KeepDims keep = drop_dims);

/// The Euclidean norm sqrt(sum(x^2)), which is the Frobenius norm for matrices, without overflow.
/// The derivative at 0 is 0, and infinities share the derivative as in max. The second derivative
/// at 0 does not exist and is given as 0. Hence the second derivative of square(norm(x)), which is
/// 2, is lost there: write sum(square(x)) instead. trap_nan (debug.h) stops at such a point.
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, KeepDims keep);
Tensor norm(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims);

// max(a, b) of two operands is not a reduction, so it is deleted. The overloads are templates, so
// that `max` in grad(max) still means the function of one tensor.
template <class A, class B>
concept TwoNumbers =
    (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) || (std::same_as<A, Tensor> && std::same_as<B, Tensor>);
template <class A, class B>
  requires TwoNumbers<A, B>
void(max)(const A&, const B&) = delete;  // two tensors: maximum(a, b); two numbers: std::max
template <class A, class B>
  requires TwoNumbers<A, B>
void(min)(const A&, const B&) = delete;  // two tensors: minimum(a, b); two numbers: std::min

}  // namespace stave
