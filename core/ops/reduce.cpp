// Reductions, and functions composed of them.

#include <stave/core/ops/reduce.h>

#include <algorithm>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/unit.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

Shape Axes::normalize(int rank, const char* operation) const {
  Shape axes;
  if (!list_) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    return axes;
  }
  for (Index axis : *list_) axes.push_back(normalize_axis(axis, rank, operation));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail<ShapeError>("{}: an axis is given twice in {}", operation, *list_);
  return axes;
}

namespace {

bool contains(const Shape& axes, Index axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keep) {
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!contains(axes, axis)) result.push_back(shape[static_cast<std::size_t>(axis)]);
    else if (keep) result.push_back(1);
  }
  return result;
}

Index reduced_count(const Shape& shape, const Shape& axes) {
  Index count = 1;
  for (Index axis : axes) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

// ---- rules ----------------------------------------------------------------------------------

enum class Gives { same, index };

template <Gives gives>
void infer_reduction(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& reduce = call.as<ReduceAttributes>();
  const Tensor& x = call.input(0);
  const Dtype dtype = gives == Gives::index ? positions_dtype(reduced_count(x.shape(), reduce.axes)) : x.dtype();
  outputs.push_back({reduced_shape(x.shape(), reduce.axes, reduce.keepdims), dtype});
}

void check_choice(const Op& op, const Shape& shape, const Shape& axes) {
  if (reduced_count(shape, axes) == 0)
    fail<ShapeError>("{}: shape {} has no elements to choose from along the reduced axes", op.name, shape);
}

template <Gives gives>
void infer_choice(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_choice(call.op(), call.input(0).shape(), call.as<ReduceAttributes>().axes);
  infer_reduction<gives>(call, outputs);
}

// Returns a reduced tensor, broadcast over the reduced axes to the shape before the reduction.
Tensor spread(const Tensor& reduced, const Shape& shape, const ReduceAttributes& reduce) {
  return broadcast_to(reshape(reduced, reduced_shape(shape, reduce.axes, true)), shape);
}

// d max(x) / dx: all elements that equal the maximum share the derivative equally. They are counted
// in a dtype that holds the count: float16 ends at 65504, and bfloat16 has no whole number between
// 256 and 258.
template <class Context>
Tensor extreme_shares(const Context& c) {
  const Tensor& x = c.in(0);
  const auto& reduce = c.template as<ReduceAttributes>();
  const Tensor winners = astype(x == spread(c.out(), x.shape(), reduce), computed_in(x.dtype()));
  return winners / sum(winners, reduce.axes, keepdims);
}

// Returns, for each element, the product of all other elements along the last axis; exact even
// where some are 0. Neighbours are multiplied in pairs, and the function calls itself on the n / 2
// products. Each element gets the result of its pair, times its partner. This takes log2(n) steps.
Tensor product_of_others(const Tensor& x) {
  const Index n = x.shape(-1);
  if (n == 1) return ones_like(x);
  Tensor even = x;
  if (n % 2) {
    std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()), {0, 0});
    widths.back().second = 1;
    even = pad(x, widths, 1);
  }
  const Tensor left = even(ellipsis, slice(none, none, 2)), right = even(ellipsis, slice(1, none, 2));
  const Tensor others = product_of_others(left * right);
  Tensor result = reshape(stack({others * right, others * left}, -1), even.shape());
  return n % 2 ? result(ellipsis, slice(n)) : result;
}

// Returns, for each element, the product of all other elements along several axes. These are moved
// to the end and merged.
Tensor product_of_others(const Tensor& x, const Shape& axes) {
  if (reduced_count(x.shape(), axes) == 0) return x;
  Shape order, moved, flat;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!contains(axes, axis)) order.push_back(axis);
  for (Index axis : order) flat.push_back(x.shape(axis));
  flat.push_back(reduced_count(x.shape(), axes));
  order.append(axes.begin(), axes.end());
  Shape inverse = order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    moved.push_back(x.shape(order[i]));
    inverse[static_cast<std::size_t>(order[i])] = static_cast<Index>(i);
  }
  const Tensor others = product_of_others(reshape(permute_dims(x, order), flat));
  return permute_dims(reshape(others, moved), inverse);
}

// d prod(x) / dx.
template <class Context>
Tensor other_factors(const Context& c) {
  return product_of_others(c.in(0), c.template as<ReduceAttributes>().axes);
}

// Returns the tangent of a reduction: the sum of the input's tangents times the weights, which may
// be of a wider dtype. The sum is rounded once.
Outputs jvp_weighted(const JvpContext& c, const Tensor& weights) {
  const Tensor& tangent = c.tangents[0];
  const Tensor parts = scale(astype(tangent, weights.dtype()), weights);
  return astype(apply(op_sum, {parts}, c.call.attributes_ptr()), tangent.dtype());
}

// Returns the cotangent of each element: its weight times the cotangent of the result.
Tensor vjp_weighted(const VjpContext& c, const Tensor& weights) {
  const Tensor ct = astype(spread(c.ct(), c.shape(0), c.as<ReduceAttributes>()), weights.dtype());
  return astype(scale(ct, weights), c.dtype(0));
}

std::uint64_t flops_per_input(const Attributes*, std::span<const Shape> inputs, const Shape&) {
  return static_cast<std::uint64_t>(inputs[0].elements());
}

constexpr Op extreme_op(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer = infer_choice<Gives::same>,
      .reads = {0b1 | ValueSet::outputs},
      .jvp = [](const JvpContext& c) { return jvp_weighted(c, extreme_shares(c)); },
      .vjp = [](const VjpContext& c, int) { return vjp_weighted(c, extreme_shares(c)); },
      .batch = batch_in_front,
      .flops = flops_per_input,
  };
}

// If one axis is reduced, the axis of lanes in front only shifts its position. If all axes are
// reduced, each lane is flattened first.
Outputs batch_arg_reduction(const BatchContext& c) {
  const auto& reduce = c.as<ReduceAttributes>();
  if (reduce.axes.size() == 1) return batch_in_front(c);
  // The length is not given as -1: it could not be inferred if there are no lanes.
  const Tensor flat = reshape(c.in(0), {c.size, c.call.input(0).size()});
  const Tensor positions = apply(c.call.op(), {flat}, make_intrusive<ReduceAttributes>(Shape(1), false));
  Shape shape(c.size);
  if (reduce.keepdims) shape.resize(c.in(0).shape().size(), 1);
  return reshape(positions, shape);
}

constexpr Op arg_op(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer = infer_choice<Gives::index>,
      .derivative = Derivative::zero,
      .batch = batch_arg_reduction,
  };
}

constexpr Op logical_op(OpId id, const char* name) {
  return Op{.id = id,
            .name = name,
            .infer = infer_reduction<Gives::same>,
            .derivative = Derivative::zero,
            .batch = batch_in_front};
}

}  // namespace

constinit const Op op_sum{
    .id = OpId::sum,
    .name = "sum",
    .takes_complex = true,
    .infer = infer_reduction<Gives::same>,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return spread(c.ct(), c.shape(0), c.as<ReduceAttributes>()); },
    .batch = batch_in_front,
    .depends = [](const DependsContext& c) -> Outputs {
      return reshape(c.sets.unite_over(c.set(0), c.as<ReduceAttributes>().axes), c.output().shape);
    },
    .flops = flops_per_input,
};

constinit const Op op_prod{
    .id = OpId::prod,
    .name = "prod",
    .takes_complex = true,
    .infer = infer_reduction<Gives::same>,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) { return jvp_weighted(c, other_factors(c)); },
    .vjp = [](const VjpContext& c, int) { return vjp_weighted(c, other_factors(c)); },
    .batch = batch_in_front,
    .flops = flops_per_input,
};

constinit const Op op_max = extreme_op(OpId::max, "max");
constinit const Op op_min = extreme_op(OpId::min, "min");
constinit const Op op_argmax = arg_op(OpId::argmax, "argmax");
constinit const Op op_argmin = arg_op(OpId::argmin, "argmin");
constinit const Op op_all = logical_op(OpId::all, "all");
constinit const Op op_any = logical_op(OpId::any, "any");

// ---- functions ------------------------------------------------------------------------------

namespace {

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, KeepDims keep) {
  return apply(
      op, {x},
      make_intrusive<ReduceAttributes>(axes.normalize(require_defined(x, op.name).rank(), op.name), keep.value));
}

double count_over(const Tensor& x, const Axes& axes) {
  return static_cast<double>(reduced_count(x.shape(), axes.normalize(x.rank(), "mean")));
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, KeepDims keep) {
  return reduce(op_sum, widened(require_defined(x, "sum")), axes, keep);
}
Tensor prod(const Tensor& x, const Axes& axes, KeepDims keep) {
  return reduce(op_prod, widened(require_defined(x, "prod")), axes, keep);
}
Tensor max(const Tensor& x, const Axes& axes, KeepDims keep) {
  if (require_defined(x, "max").dtype() != bool_) return reduce(op_max, x, axes, keep);
  return named("max", [&] { return any(x, axes, keep); });
}
Tensor min(const Tensor& x, const Axes& axes, KeepDims keep) {
  if (require_defined(x, "min").dtype() != bool_) return reduce(op_min, x, axes, keep);
  return named("min", [&] { return all(x, axes, keep); });
}
Tensor all(const Tensor& x, const Axes& axes, KeepDims keep) {
  return reduce(op_all, astype(require_defined(x, "all"), bool_), axes, keep);
}
Tensor any(const Tensor& x, const Axes& axes, KeepDims keep) {
  return reduce(op_any, astype(require_defined(x, "any"), bool_), axes, keep);
}
Tensor mean(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "mean", [&] { return in_inexact([&](const Tensor& y) { return sum(y, axes, keep) / count_over(x, axes); }, x); },
      x);
}

namespace {

// Returns x with its reduced axes merged into one at the end; a single reduced axis stays where it
// is. Stores the position of the reduced axis in `axis`.
Tensor with_one_axis(const Tensor& x, const Shape& reduced, int& axis) {
  if (reduced.size() == 1) {
    axis = static_cast<int>(reduced[0]);
    return x;
  }
  Shape shape, order;
  for (int i = 0; i < x.rank(); ++i)
    if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) {
      order.push_back(i);
      shape.push_back(x.shape(i));
    }
  axis = static_cast<int>(order.size());
  shape.push_back(reduced_count(x.shape(), reduced));
  for (const Index i : reduced) order.push_back(i);
  return reshape(permute_dims(x, order), shape);
}

}  // namespace

Tensor logsumexp(const Tensor& x, const Axes& axes, KeepDims keep) {
  const auto compute = [&] {
    const Shape reduced = axes.normalize(x.rank(), "logsumexp");
    const Tensor values = floating(x);
    if (reduced_count(x.shape(), reduced) == 0) return log(sum(values, reduced, keep));
    int axis = 0;
    const Tensor terms = with_one_axis(values, reduced, axis);
    const Tensor result = apply(op_logsumexp, {terms}, make_intrusive<AxisAttributes>(axis));
    return reshape(result, reduced_shape(x.shape(), reduced, keep.value));
  };
  return named("logsumexp", compute, x);
}

namespace {

Tensor deviations(const Tensor& x, const Axes& axes) { return x - mean(x, axes, keepdims); }

// The deviations from the mean, divided by `divisor` (`parts`). `divisor` is a power of two near
// sqrt(n). The parts are squared and summed, so the sum overflows only if the mean of the squares
// does. The variance is the sum divided by the square of `rest`. It is NaN unless more elements
// than `correction` are reduced.
struct Spread {
  Tensor parts;
  double divisor = 1, rest;

  Spread(const Tensor& x, const Axes& axes, double correction) : rest(std::sqrt(count_over(x, axes) - correction)) {
    if (!(rest > 0)) rest = std::numeric_limits<double>::quiet_NaN();
    while (divisor < rest) divisor *= 2;
    rest /= divisor;
    parts = deviations(x, axes);
    if (divisor > 1) parts = parts / divisor;
  }
};

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  const auto of_floats = [&](const Tensor& y) {
    const Spread spread(y, axes, correction);
    return sum(square(spread.parts), axes, keep) / (spread.rest * spread.rest);
  };
  return named(
      "var",
      [&] {
        if (is_complex(require_defined(x, "var").dtype()))
          return var(real(x), axes, keep, correction) + var(imag(x), axes, keep, correction);
        return in_floats(of_floats, x);
      },
      x);
}
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  const auto of_floats = [&](const Tensor& y) {
    const Spread spread(y, axes, correction);
    return norm(spread.parts, axes, keep) / spread.rest;
  };
  return named(
      "std",
      [&] {
        if (is_complex(require_defined(x, "std").dtype()))
          return hypot(stave::std(real(x), axes, keep, correction), stave::std(imag(x), axes, keep, correction));
        return in_floats(of_floats, x);
      },
      x);
}

// The norm is sqrt(sum (x/a) (x/b)) sqrt(ab). ab is a power of 4 that is at least the square
// of the norm or, for a norm above 1, at least the norm; in the second case a is 1. So the squares
// neither overflow nor underflow, and the derivative sum (x/norm) dx is not computed in units
// in which it would be smaller. The norm does not depend on the units, so they have no derivative.
Tensor norm(const Tensor& x, const Axes& axes, KeepDims keep) {
  const auto of_floats = [&](const Tensor& values) {
    const Shape reduced = axes.normalize(x.rank(), "norm");
    const Index count = reduced_count(x.shape(), reduced);
    if (count == 0) return sum(values, reduced, keep);
    const Tensor largest = max(abs(values), reduced, keepdims);
    const Tensor is_infinite = isinf(largest), is_zero = largest == 0;
    const bool is_double = values.dtype() == float64;
    const double least = is_double ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
    const double most = is_double ? 511 : 63;  // 4 to this power has a normal reciprocal
    const double log4_of_count = std::log2(std::sqrt(static_cast<double>(count)));
    // The exponent of 4.
    const Tensor power = ceil((log2(stop_gradient(maximum(largest, least))) + log4_of_count) / 2);
    const Tensor finite_power = where(is_infinite, 0, power);
    const Tensor root_a = exp2(maximum(finite_power - most, minimum(finite_power, 0)));
    const Tensor root_b = exp2(minimum(finite_power, most));
    const Tensor squares = sum((values / square(root_a)) * (values / square(root_b)), reduced, keepdims);
    // At 0 the value and the derivative are 0. The second derivative does not exist: the rules of
    // this power compute it as 0 times infinity, which `scale` makes 0, and trap_nan stops there.
    const Tensor at_zero = pow(squares, 1.5);
    Tensor result = where(is_zero, at_zero, sqrt(where(is_zero, 1, squares)) * (root_a * root_b));
    result = where(is_infinite, largest, result);
    return keep.value ? result : squeeze(result, reduced);
  };
  return named(
      "norm",
      [&] {
        if (is_complex(require_defined(x, "norm").dtype()))
          return hypot(norm(real(x), axes, keep), norm(imag(x), axes, keep));
        return in_floats(of_floats, x);
      },
      x);
}

#define STAVE_OVER_ALL_AXES(name)                            \
  Tensor name(const Tensor& x) { return name(x, all_axes); } \
  Tensor name(const Tensor& x, KeepDims keep) { return name(x, all_axes, keep); }
STAVE_OVER_ALL_AXES(sum)
STAVE_OVER_ALL_AXES(prod)
STAVE_OVER_ALL_AXES(max)
STAVE_OVER_ALL_AXES(min)
STAVE_OVER_ALL_AXES(all)
STAVE_OVER_ALL_AXES(any)
STAVE_OVER_ALL_AXES(mean)
STAVE_OVER_ALL_AXES(logsumexp)
STAVE_OVER_ALL_AXES(var)
STAVE_OVER_ALL_AXES(std)
STAVE_OVER_ALL_AXES(norm)
#undef STAVE_OVER_ALL_AXES

Tensor argmax(const Tensor& x) { return reduce(op_argmax, x, all_axes, drop_dims); }
Tensor argmax(const Tensor& x, Index axis, KeepDims keep) { return reduce(op_argmax, x, axis, keep); }
Tensor argmin(const Tensor& x) { return reduce(op_argmin, x, all_axes, drop_dims); }
Tensor argmin(const Tensor& x, Index axis, KeepDims keep) { return reduce(op_argmin, x, axis, keep); }

}  // namespace stave

namespace stave_detail {

Tensor unit_of(const Tensor& x, const Shape& axes, double least) {
  if (reduced_count(x.shape(), axes) == 0) return ones(reduced_shape(x.shape(), axes, true), x.dtype(), x.device());
  using Double = std::numeric_limits<double>;
  using Float = std::numeric_limits<float>;
  const bool wide = x.dtype() == float64;
  const double least_of_dtype = wide ? Double::min() : Float::min();
  const Tensor values = stop_gradient(x);
  const Tensor largest = maximum(max(values, axes, keepdims), -min(values, axes, keepdims));
  const Tensor exponent = floor(log2(maximum(largest, std::max(least, least_of_dtype))));
  const Tensor unit = exp2(minimum(exponent, (wide ? Double::max_exponent : Float::max_exponent) - 1));
  const Tensor usable = least > 0 ? isfinite(largest) : logical_and(isfinite(largest), largest != 0);
  return where(usable, unit, 1);
}

Shape infer_reduced(const Op& op, const Shape& shape, const ReduceAttributes& reduce) {
  if (op.id == OpId::max || op.id == OpId::min) check_choice(op, shape, reduce.axes);
  return reduced_shape(shape, reduce.axes, reduce.keepdims);
}

}  // namespace stave_detail
