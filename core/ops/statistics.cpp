// Quantiles, masked reductions, covariances, distances, and derivatives of sampled functions.

#include <stave/core/ops/statistics.h>

#include <algorithm>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr double undefined_number = std::numeric_limits<double>::quiet_NaN();

// x with the reduced axes merged into a last one, and the shapes of the result.
struct MergedAxes {
  Tensor x;
  Shape dropped, kept;

  MergedAxes(const Tensor& given, const Axes& axes, const char* function) : kept(given.shape()) {
    const Shape reduced = axes.normalize(given.rank(), function);
    Shape order;
    Index count = 1;
    for (Index axis = 0; axis < given.rank(); ++axis)
      if (std::find(reduced.begin(), reduced.end(), axis) == reduced.end()) {
        order.push_back(axis);
        dropped.push_back(given.shape(axis));
      }
    for (Index axis : reduced) {
      order.push_back(axis);
      count *= given.shape(axis);
      kept[static_cast<std::size_t>(axis)] = 1;
    }
    x = reshape(permute_dims(given, order), joined({dropped, Shape{count}}));
  }
};

// Returns the elements at positions `places` [..., k] of sorted rows, moved to a first axis, where
// places may be fractions. `last` is the position of the last element, a number or one for each
// row.
Tensor between_elements(const Tensor& sorted, const Tensor& places, const Tensor& last, QuantileMethod method) {
  const Tensor bounded = minimum(maximum(places, 0), maximum(last, 0));
  const Tensor below = floor(bounded), share = bounded - below;
  const auto at = [&](const Tensor& position) {
    Tensor index = astype(position, positions_dtype(sorted.shape(-1)));
    if (index.rank() == 1) index = reshape(index, joined({repeated(sorted.rank() - 1, 1), index.shape()}));
    return take_along_axis(sorted, index, -1);
  };
  const Tensor lower = at(below);
  if (method == QuantileMethod::lower) return lower;
  if (method == QuantileMethod::nearest) return at(round(bounded));
  const Tensor higher = at(minimum(below + 1, maximum(last, 0)));
  if (method == QuantileMethod::higher) return where(share == 0, lower, higher);
  const Tensor part = astype(method == QuantileMethod::midpoint ? where(share == 0, 0., 0.5) : share, sorted.dtype());
  // Equal infinities have no difference. `scale` keeps an infinite neighbour out of an element's
  // own position.
  const Tensor rise = where(logical_and(isinf(lower), lower == higher), 0, higher - lower);
  return where(part < 0.5, lower + scale(part, rise), higher - scale(1 - part, rise));
}

Tensor quantiles(const char* function, const Tensor& given, const Tensor& q, const Axes& axes,
                 const QuantileOptions& options, bool without_nan) {
  const MergedAxes merged(given, axes, function);
  const Tensor number = floating(merged.x);
  if (is_complex(number.dtype())) fail<DtypeError>("{}: {} has no order", function, number.dtype());
  const Index count = number.shape(-1);
  if (count == 0) fail<ShapeError>("{}: shape {} has no elements to reduce", function, given.shape());
  const Tensor sorted = sort(astype(number, computed_in(number.dtype())));
  const Tensor fraction = reshape(astype(q, float64), {q.size()});
  Tensor result;
  if (without_nan) {
    // NaN comes last, so the first `valid` elements of each row take part.
    const Tensor valid = sum(astype(logical_not(isnan(sorted)), float64), -1, keepdims), last = valid - 1;
    result =
        where(valid > 0, between_elements(sorted, fraction * maximum(last, 0), last, options.method), undefined_number);
  } else {
    const Tensor last = full({}, static_cast<double>(count - 1), float64, given.device());
    const Tensor end = entries(sorted, sorted.rank() - 1, count - 1, 1);
    result = where(isnan(end), undefined_number, between_elements(sorted, fraction * last, last, options.method));
  }
  result = where(logical_and(fraction >= 0, fraction <= 1), result, undefined_number);
  const Shape& rest = options.keep.value ? merged.kept : merged.dropped;
  return astype(reshape(moveaxis(result, Shape{-1}, Shape{0}), joined({q.shape(), rest})), number.dtype());
}

Tensor quantiles_of(const char* function, const Tensor& x, double q, double whole, const Axes& axes,
                    const QuantileOptions& options, bool without_nan) {
  if (!(q >= 0 && q <= whole)) fail<Error>("{}: q is {}, and must be in [0, {}]", function, q, whole);
  return named(
      function,
      [&] { return quantiles(function, x, full({}, q / whole, float64, x.device()), axes, options, without_nan); }, x);
}
Tensor quantiles_of(const char* function, const Tensor& x, const Tensor& q, double whole, const Axes& axes,
                    const QuantileOptions& options, bool without_nan) {
  return named(
      function, [&] { return quantiles(function, x, astype(q, float64) / whole, axes, options, without_nan); }, x, q);
}

Tensor one_entry(const Tensor& x, int axis, KeepDims keep) { return keep.value ? x : squeeze(x, axis); }

}  // namespace

Tensor quantile(const Tensor& x, double q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("quantile", x, q, 1, axes, options, false);
}
Tensor quantile(const Tensor& x, const Tensor& q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("quantile", x, q, 1, axes, options, false);
}
Tensor percentile(const Tensor& x, double q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("percentile", x, q, 100, axes, options, false);
}
Tensor percentile(const Tensor& x, const Tensor& q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("percentile", x, q, 100, axes, options, false);
}
Tensor median(const Tensor& x, const Axes& axes, QuantileOptions options) {
  return quantiles_of("median", x, 0.5, 1, axes, options, false);
}
Tensor nanquantile(const Tensor& x, double q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("nanquantile", x, q, 1, axes, options, true);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("nanquantile", x, q, 1, axes, options, true);
}
Tensor nanpercentile(const Tensor& x, double q, const Axes& axes, QuantileOptions options) {
  return quantiles_of("nanpercentile", x, q, 100, axes, options, true);
}
Tensor nanmedian(const Tensor& x, const Axes& axes, QuantileOptions options) {
  return quantiles_of("nanmedian", x, 0.5, 1, axes, options, true);
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& x, Index k, Index axis, KeepDims keep) {
  const int along = normalize_axis(axis, require_defined(x, "kthvalue").rank(), "kthvalue");
  if (k < 1 || k > x.shape(along))
    fail<ShapeError>("kthvalue: k is {}, for {} entries along axis {}", k, x.shape(along), along);
  return named("kthvalue", [&] {
    const Tensor place = entries(argsort(x, along), along, k - 1, 1);
    return std::pair(one_entry(take_along_axis(x, place, along), along, keep), one_entry(place, along, keep));
  });
}

// A run of equal elements in sorted order has the length i - first + 1 at its element i. The first
// greatest length belongs to the least of the most frequent elements.
std::pair<Tensor, Tensor> mode(const Tensor& x, Index axis, KeepDims keep) {
  const int along = normalize_axis(axis, require_defined(x, "mode").rank(), "mode");
  const Index count = x.shape(along);
  if (count == 0) fail<ShapeError>("mode: axis {} of shape {} has no entries", along, x.shape());
  return named("mode", [&] {
    const Tensor order = argsort(x, along), sorted = take_along_axis(stop_gradient(x), order, along);
    const Tensor rest = entries(sorted, along, 1, count - 1), before = entries(sorted, along, 0, count - 1);
    const Tensor differs = logical_and(rest != before, logical_not(logical_and(isnan(rest), isnan(before))));
    const Tensor begins = concat({ones_like(entries(differs, along, 0, 0)), differs}, along);
    Shape line = repeated(x.rank(), 1);
    line[static_cast<std::size_t>(along)] = count - 1;
    const Tensor position = reshape(arange(1, count, 1, order.dtype(), x.device()), line);
    const Tensor start = where(begins, position, 0);
    Shape first = x.shape();
    first[static_cast<std::size_t>(along)] = 1;
    const Tensor zero = zeros(first, order.dtype(), x.device());
    const Tensor starts = cummax(concat({zero, start}, along), along);
    const Tensor lengths = concat({zero, broadcast_to(position, rest.shape())}, along) - starts;
    const Tensor place = take_along_axis(order, argmax(lengths, along, keepdims), along);
    return std::pair(one_entry(take_along_axis(x, place, along), along, keep), one_entry(place, along, keep));
  });
}

// ---- reductions that leave elements out -----------------------------------------------------

namespace {

// x and the mask, broadcast to one shape.
struct MaskedElements {
  Tensor x, mask;
  MaskedElements(const Tensor& given, const Tensor& condition, const char* function) {
    const Shape shape = broadcast_shapes(given.shape(), condition.shape(), function);
    x = broadcast_to(given, shape);
    mask = broadcast_to(astype(condition, bool_), shape);
  }
};

Tensor masked_extreme(const char* function, const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep,
                      bool greatest) {
  return named(
      function,
      [&] {
        const MaskedElements m(x, mask, function);
        const Tensor neutral =
            constant(greatest ? least_of(x.dtype()) : greatest_of(x.dtype()), x.dtype(), {}, x.device());
        const Tensor filled = where(m.mask, m.x, neutral);
        if (m.x.size() == 0) {
          // `max` refuses axes of no elements. The product of a constant is the constant there.
          const Tensor shape = sum(zeros(m.x.shape(), int32, x.device()), axes, keep);
          if (shape.size() > 0) return broadcast_to(neutral, shape.shape());
        }
        return greatest ? (max)(filled, axes, keep) : (min)(filled, axes, keep);
      },
      x, mask);
}

// Calls the reduction with floats or complex numbers, in float32 for 16-bit floats.
template <class F>
Tensor reduced_in_inexact(const char* function, const Tensor& x, const Tensor& mask, F reduction) {
  return named(
      function,
      [&] {
        const MaskedElements m(x, mask, function);
        return in_inexact([&](const Tensor& t) { return reduction(t, m.mask); }, m.x);
      },
      x, mask);
}

Tensor number_of(const Tensor& mask, Dtype dtype, const Axes& axes, KeepDims keep) {
  return sum(astype(mask, real_of(dtype)), axes, keep);
}

Tensor mean_where(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return sum(where(mask, x, 0), axes, keep) / number_of(mask, x.dtype(), axes, keep);
}

Tensor variance_where(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep, double correction) {
  const Tensor deviation = where(mask, x - mean_where(x, mask, axes, keepdims), 0);
  const Tensor squares = is_complex(x.dtype()) ? square(real(deviation)) + square(imag(deviation)) : square(deviation);
  const Tensor freedom = number_of(mask, x.dtype(), axes, keep) - correction;
  return where(freedom > 0, sum(squares, axes, keep) / where(freedom > 0, freedom, 1), undefined_number);
}

Tensor is_number(const Tensor& x) { return logical_not(isnan(require_defined(x, "isnan"))); }

// Returns NaN where all elements are.
Tensor or_nan(const Tensor& reduced, const Tensor& x, const Axes& axes, KeepDims keep) {
  return is_inexact(x.dtype()) ? where(all(isnan(x), axes, keep), undefined_number, reduced) : reduced;
}

}  // namespace

Tensor masked_sum(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return named(
      "masked_sum",
      [&] {
        const MaskedElements m(x, mask, "masked_sum");
        return sum(where(m.mask, m.x, zeros({}, x.dtype(), x.device())), axes, keep);
      },
      x, mask);
}
Tensor masked_prod(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return named(
      "masked_prod",
      [&] {
        const MaskedElements m(x, mask, "masked_prod");
        return prod(where(m.mask, m.x, ones({}, x.dtype(), x.device())), axes, keep);
      },
      x, mask);
}
Tensor masked_mean(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return reduced_in_inexact("masked_mean", x, mask,
                            [&](const Tensor& t, const Tensor& m) { return mean_where(t, m, axes, keep); });
}
Tensor masked_max(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return masked_extreme("masked_max", x, mask, axes, keep, true);
}
Tensor masked_min(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep) {
  return masked_extreme("masked_min", x, mask, axes, keep, false);
}
Tensor masked_var(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep, double correction) {
  return real(reduced_in_inexact("masked_var", x, mask, [&](const Tensor& t, const Tensor& m) {
    return variance_where(t, m, axes, keep, correction);
  }));
}
Tensor masked_std(const Tensor& x, const Tensor& mask, const Axes& axes, KeepDims keep, double correction) {
  return real(reduced_in_inexact("masked_std", x, mask, [&](const Tensor& t, const Tensor& m) {
    return sqrt(variance_where(t, m, axes, keep, correction));
  }));
}

Tensor nansum(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "nansum", [&] { return masked_sum(x, is_number(x), axes, keep); }, x);
}
Tensor nanprod(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "nanprod", [&] { return masked_prod(x, is_number(x), axes, keep); }, x);
}
Tensor nanmean(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "nanmean", [&] { return masked_mean(x, is_number(x), axes, keep); }, x);
}
Tensor nanmax(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "nanmax", [&] { return or_nan(masked_max(x, is_number(x), axes, keep), x, axes, keep); }, x);
}
Tensor nanmin(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "nanmin", [&] { return or_nan(masked_min(x, is_number(x), axes, keep), x, axes, keep); }, x);
}
Tensor nanvar(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  return named(
      "nanvar", [&] { return masked_var(x, is_number(x), axes, keep, correction); }, x);
}
Tensor nanstd(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  return named(
      "nanstd", [&] { return masked_std(x, is_number(x), axes, keep, correction); }, x);
}

// ---- several variables ----------------------------------------------------------------------

namespace {

// With the frequencies f and weights w of the observations, their number is N = sum(f w), the means
// are sum(f w x) / N, and sums of products are divided by N - correction sum(f w^2) / N.
Tensor covariances(const Tensor& x, const CovOptions& options) {
  const Index observations = x.shape(-1);
  for (const Tensor& weights : {options.frequencies, options.weights})
    if (weights.defined() && weights.shape() != Shape(observations))
      fail<ShapeError>("cov: weights have shape {}, for {} observations", weights.shape(), observations);
  const Dtype dtype = real_of(x.dtype());
  Tensor weights, heavy;
  if (options.weights.defined()) weights = astype(options.weights, dtype);
  if (options.frequencies.defined()) {
    const Tensor f = astype(options.frequencies, dtype);
    heavy = weights.defined() ? f * square(weights) : f;
    weights = weights.defined() ? f * weights : f;
  } else if (weights.defined()) {
    heavy = square(weights);
  }
  Tensor deviations, factor;
  if (!weights.defined()) {
    deviations = x - mean(x, -1, keepdims);
    return matmul(deviations, matrix_transpose(conj(deviations))) /
           std::max(static_cast<double>(observations) - options.correction, 0.);
  }
  const Tensor total = sum(weights);
  deviations = x - sum(x * weights, -1, keepdims) / total;
  factor = total - (options.correction == 0 ? zeros_like(total) : options.correction * sum(heavy) / total);
  return matmul(deviations * weights, matrix_transpose(conj(deviations))) / maximum(factor, 0);
}

}  // namespace

Tensor cov(const Tensor& x, CovOptions options) {
  return named(
      "cov",
      [&] {
        if (x.rank() == 0) fail<ShapeError>("cov: a tensor of rank 0 has no observations");
        const auto of_matrix = [&](const Tensor& t) { return covariances(t, options); };
        if (x.rank() == 1) return squeeze(in_inexact(of_matrix, expand_dims(x, Shape{0})));
        return in_inexact(of_matrix, x);
      },
      x);
}

Tensor corrcoef(const Tensor& x) {
  return named(
      "corrcoef",
      [&] {
        if (x.rank() == 0) fail<ShapeError>("corrcoef: a tensor of rank 0 has no observations");
        return in_inexact(
            [](const Tensor& variables) {
              const Tensor c = cov(variables);
              if (c.rank() == 0) return c / c;
              // Each factor is divided by its own deviation, so that no product of both overflows.
              const Tensor deviation = sqrt(real(diagonal(c)));
              const Tensor r = c / expand_dims(deviation, Shape{-1}) / expand_dims(deviation, Shape{-2});
              // Clipping removes rounding errors beyond [-1, 1]. It does not affect derivatives.
              const Tensor t = stop_gradient(r);
              const Tensor limited =
                  is_complex(t.dtype()) ? complex(clip(real(t), -1, 1), clip(imag(t), -1, 1)) : clip(t, -1, 1);
              return r + (limited - t);
            },
            x);
      },
      x);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  if (!(p >= 0)) fail<Error>("cdist: p is {}, and must not be negative", p);
  return named(
      "cdist",
      [&] {
        if (a.rank() < 2 || b.rank() < 2 || a.shape(-1) != b.shape(-1))
          fail<ShapeError>("cdist: points {} and {} must be matrices [points, coordinates] of equally many coordinates",
                           a.shape(), b.shape());
        return real(in_inexact(
            [&](const Tensor& x, const Tensor& y) {
              return vector_norm(expand_dims(x, Shape{-2}) - expand_dims(y, Shape{-3}), p, -1);
            },
            a, b));
      },
      a, b);
}

// ---- sampled functions ----------------------------------------------------------------------

namespace {

// With the distances h before and k after a sample y1 between y0 and y2, the derivative is
//   (h^2 y2 - k^2 y0 + (k^2 - h^2) y1) / (h k (h + k)) = (h d1 / k + k d0 / h) / (h + k),
// where d0 = y1 - y0 and d1 = y2 - y1. At an end, differences of first order are d / h. Those of
// second order are s0 + (s0 - s1) h / (h + k), for the slopes s0 = d0 / h at the end and s1 = d1 /
// k.
Tensor sampled_slope(const Tensor& y, const Tensor& widths, int axis, int edge_order) {
  const Index count = y.shape(axis);
  const auto part = [&](const Tensor& t, Index first, Index n) { return entries(t, axis, first, n); };
  const Tensor slopes = diff(y, 1, axis) / widths;
  const auto part_of_widths = [&](Index first, Index n) { return part(widths, first, n); };
  const auto at_end = [&](Index end, Index next) {
    const Tensor slope = part(slopes, end, 1);
    if (edge_order == 1) return slope;
    const Tensor h = part_of_widths(end, 1), k = part_of_widths(next, 1);
    return slope + (slope - part(slopes, next, 1)) * (h / (h + k));
  };
  const Tensor first = at_end(0, 1), last = at_end(count - 2, count - 3);
  if (count == 2) return concat({first, last}, axis);
  const Tensor h = part_of_widths(0, count - 2), k = part_of_widths(1, count - 2);
  const Tensor inner = (h * part(slopes, 1, count - 2) + k * part(slopes, 0, count - 2)) / (h + k);
  return concat({first, inner, last}, axis);
}

Tensor sampled_gradient(const Tensor& y, const Tensor* x, double dx, Index given_axis, int edge_order) {
  const int axis = normalize_axis(given_axis, y.rank(), "gradient");
  if (edge_order != 1 && edge_order != 2) fail<Error>("gradient: edge_order is {}, and must be 1 or 2", edge_order);
  const Index count = y.shape(axis);
  if (count < edge_order + 1)
    fail<ShapeError>("gradient: {} samples along axis {}: at least {} are needed", count, axis, edge_order + 1);
  if (x && x->shape() != Shape(count))
    fail<ShapeError>("gradient: positions have shape {}, for {} samples", x->shape(), count);
  Shape line = repeated(y.rank(), 1);
  line[static_cast<std::size_t>(axis)] = count - 1;
  const auto slope = [&](const Tensor& values, const Tensor& positions) {
    const Tensor widths = positions.defined() ? reshape(diff(positions), line)
                                              : broadcast_to(full({}, dx, real_of(values.dtype()), y.device()), line);
    return sampled_slope(values, widths, axis, edge_order);
  };
  return in_inexact(slope, y, x ? *x : Tensor());
}

}  // namespace

Tensor gradient(const Tensor& y, double dx, Index axis, GradientOptions options) {
  return named(
      "gradient", [&] { return sampled_gradient(y, nullptr, dx, axis, options.edge_order); }, y);
}
Tensor gradient(const Tensor& y, const Tensor& x, Index axis, GradientOptions options) {
  return named(
      "gradient", [&] { return sampled_gradient(y, &x, 1, axis, options.edge_order); }, y, x);
}

std::vector<Tensor> gradients(const Tensor& y, const std::vector<Operand>& spacing, const std::vector<Index>& axes,
                              GradientOptions options) {
  const int rank = require_defined(y, "gradients").rank();
  const Shape along = axes.empty() ? all_axes_of(rank) : Shape(axes);
  if (spacing.size() != 1 && spacing.size() != along.size())
    fail<ShapeError>("gradients: {} distances for {} axes: give one for each axis, or one for all", spacing.size(),
                     along.size());
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < along.size(); ++i) {
    const Operand& step = spacing[spacing.size() == 1 ? 0 : i];
    results.push_back(step.is_scalar() ? gradient(y, step.scalar().floating, along[i], options)
                                       : gradient(y, step.tensor(), along[i], options));
  }
  return results;
}

}  // namespace stave
