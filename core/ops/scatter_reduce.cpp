// Selecting and combining entries at computed positions along one axis.

#include <stave/core/ops/scatter_reduce.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

Tensor take(const Tensor& x, const Tensor& indices, Index axis, TakeMode mode) {
  return named(
      "take",
      [&] {
        const Index length = x.shape(normalize_axis(axis, x.rank(), "take"));
        if (length == 0) fail<IndexError>("take: axis {} of shape {} has no entries", axis, x.shape());
        const Tensor wide = as_indices(indices, "take");
        return take(x, mode == TakeMode::clip ? clip(wide, 0, length - 1) : remainder(wide, length), axis);
      },
      x, indices);
}

namespace {

// The value that changes no element in a reduction.
Scalar neutral_element(Dtype dtype, ScatterReduction reduction) {
  if (reduction == ScatterReduction::sum || reduction == ScatterReduction::mean) return 0;
  if (reduction == ScatterReduction::prod) return 1;
  return reduction == ScatterReduction::min ? greatest_of(dtype) : least_of(dtype);
}

// Combines updates with the elements of x that `indices` [batch..., k, 1] select after the batch
// axes.
Tensor combined(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes,
                ScatterReduction reduction, bool include_self) {
  const Dtype dtype = multiplied_in(promote(x.dtype(), updates.dtype()));
  const Tensor values = astype(updates, dtype), before = astype(x, dtype);
  // The number of updates for each element.
  const auto counts = [&](Dtype counted) {
    return scatter_add(zeros(x.shape(), counted, x.device()), indices, ones(values.shape(), counted, x.device()),
                       batch_axes);
  };
  Tensor start = before, count;
  if (!include_self || reduction == ScatterReduction::mean) {
    count = counts(reduction == ScatterReduction::mean ? real_of(dtype) : int32);
    if (!include_self)
      start = where(count > 0, constant(neutral_element(dtype, reduction), dtype, {}, x.device()), before);
  }
  switch (reduction) {
    case ScatterReduction::prod: return scatter_multiply(start, indices, values, batch_axes);
    case ScatterReduction::max: return scatter_max(start, indices, values, batch_axes);
    case ScatterReduction::min: return scatter_min(start, indices, values, batch_axes);
    case ScatterReduction::sum: return scatter_add(start, indices, values, batch_axes);
    case ScatterReduction::mean: break;
  }
  const Tensor total = scatter_add(start, indices, values, batch_axes);
  const Tensor number = include_self ? count + 1 : maximum(count, 1);
  return is_inexact(dtype) ? total / number : floor_divide(total, number);
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, Index axis, const Tensor& indices, const Tensor& source,
                      ScatterReduction reduction, ScatterReduceOptions options) {
  return named(
      "scatter_reduce",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "scatter_reduce");
        Shape expected = x.shape();
        if (indices.rank() == x.rank()) expected[static_cast<std::size_t>(along)] = indices.shape(along);
        if (indices.shape() != expected || source.shape() != expected)
          fail<ShapeError>("scatter_reduce: indices {} and source {} must have the shape of x {} except along axis {}",
                           indices.shape(), source.shape(), x.shape(), along);
        const auto last = [&](const Tensor& t) { return moveaxis(t, Shape{along}, Shape{-1}); };
        const Tensor places = expand_dims(last(as_indices(indices, "scatter_reduce")), Shape{-1});
        const Tensor result = combined(last(x), places, last(source), x.rank() - 1, reduction, options.include_self);
        return moveaxis(result, Shape{-1}, Shape{along});
      },
      x, indices, source);
}

Tensor index_reduce(const Tensor& x, Index axis, const Tensor& indices, const Tensor& source,
                    ScatterReduction reduction, ScatterReduceOptions options) {
  return named(
      "index_reduce",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "index_reduce");
        Shape expected = x.shape();
        expected[static_cast<std::size_t>(along)] = indices.size();
        if (indices.rank() != 1 || source.shape() != expected)
          fail<ShapeError>("index_reduce: source {} must have the shape {}, for x {} and indices {} along axis {}",
                           source.shape(), expected, x.shape(), indices.shape(), along);
        const auto first = [&](const Tensor& t) { return moveaxis(t, Shape{along}, Shape{0}); };
        const Tensor places = expand_dims(as_indices(indices, "index_reduce"), Shape{-1});
        const Tensor result = combined(first(x), places, first(source), 0, reduction, options.include_self);
        return moveaxis(result, Shape{0}, Shape{along});
      },
      x, indices, source);
}

Tensor segment_mean(const Tensor& data, const Tensor& ids, Index count) {
  return named(
      "segment_mean",
      [&] {
        return in_inexact(
            [&](const Tensor& values) {
              const Tensor sums = segment_sum(values, ids, count);
              const Tensor numbers = segment_sum(ones(ids.shape(), real_of(values.dtype()), ids.device()), ids, count);
              Shape column = sums.shape();
              for (std::size_t axis = 1; axis < column.size(); ++axis) column[axis] = 1;
              return sums / reshape(maximum(numbers, 1), column);
            },
            data);
      },
      data, ids);
}

}  // namespace stave
