// Reductions, and functions composed of them.

#include <stave/core/ops/reduce.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>

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

// ---- rules -----------------------------------------------------------------------------------------------

enum class Gives { same, index };

template <Gives gives>
void infer_reduction(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& reduce = call.as<ReduceAttributes>();
  const Tensor& x = call.input(0);
  outputs.push_back(
      {reduced_shape(x.shape(), reduce.axes, reduce.keepdims), gives == Gives::index ? int32 : x.dtype()});
}

Outputs batch_reduction(const BatchContext& c) {
  const auto& reduce = c.as<ReduceAttributes>();
  Shape axes = reduce.axes;
  for (Index& axis : axes) ++axis;
  return apply(c.call.op(), {c.in(0)}, make_intrusive<ReduceAttributes>(std::move(axes), reduce.keepdims));
}

// A reduced value, broadcast back over the axes that were reduced.
Tensor spread(const Tensor& reduced, const Shape& shape, const ReduceAttributes& reduce) {
  return broadcast_to(reshape(reduced, reduced_shape(shape, reduce.axes, true)), shape);
}

Tensor reduce_again(const Tensor& x, const Op& op, const Attributes* attributes) {
  return apply(op, {x}, AttributesPtr(attributes));
}

// d max(x) / dx: equal shares for all the elements that are the largest.
Tensor extreme_shares(const Tensor& x, const Tensor& y, const ReduceAttributes& reduce) {
  const Tensor winners = astype(x == spread(y, x.shape(), reduce), x.dtype());
  return winners / sum(winners, reduce.axes, keepdims);
}

// The product of all other elements along the last axis, exact where some are 0: pairs are multiplied, the same is done for
// the half as many products, and each element gets the others of its pair's product times its partner. log2(n) steps.
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

// The same over several axes: they go last and become one.
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

Tensor prod_partials(const Tensor& x, const ReduceAttributes& reduce) { return product_of_others(x, reduce.axes); }

template <class Partials>
Outputs jvp_weighted(const JvpContext& c, Partials partials) {
  const auto& reduce = c.call.as<ReduceAttributes>();
  return reduce_again(scale(c.tangents[0], partials(reduce)), op_sum, &reduce);
}

template <class Partials>
Tensor vjp_weighted(const VjpContext& c, Partials partials) {
  const auto& reduce = c.as<ReduceAttributes>();
  return scale(spread(c.ct(), c.in(0).shape(), reduce), partials(reduce));
}

constexpr Op extreme_op(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer =
          [](const Call& call, SmallVector<Abstract, 1>& outputs) {
            const Tensor& x = call.input(0);
            if (reduced_count(x.shape(), call.as<ReduceAttributes>().axes) == 0)
              fail<ShapeError>("{}: shape {} has no elements to choose from along the reduced axes", call.op().name,
                               x.shape());
            infer_reduction<Gives::same>(call, outputs);
          },
      .saves = {.inputs = ~0u, .outputs = true},
      .jvp =
          [](const JvpContext& c) {
            return jvp_weighted(c, [&](const auto& reduce) { return extreme_shares(c.in(0), c.out(), reduce); });
          },
      .vjp =
          [](const VjpContext& c, int) {
            return vjp_weighted(c, [&](const auto& reduce) { return extreme_shares(c.in(0), c.out(), reduce); });
          },
      .batch = batch_reduction,
  };
}

// Along one axis the batch only shifts it; over all axes each lane is flattened first.
Outputs batch_arg_reduction(const BatchContext& c) {
  const auto& reduce = c.as<ReduceAttributes>();
  if (reduce.axes.size() == 1) return batch_reduction(c);
  const Tensor flat = reshape(c.in(0), {c.size, c.call.input(0).size()});  // not -1: there may be no lanes
  const Tensor positions = apply(c.call.op(), {flat}, make_intrusive<ReduceAttributes>(Shape(1), false));
  Shape shape(c.size);
  if (reduce.keepdims) shape.resize(c.in(0).shape().size(), 1);
  return reshape(positions, shape);
}

constexpr Op arg_op(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer =
          [](const Call& call, SmallVector<Abstract, 1>& outputs) {
            const Tensor& x = call.input(0);
            if (reduced_count(x.shape(), call.as<ReduceAttributes>().axes) == 0)
              fail<ShapeError>("{}: shape {} has no elements to choose from", call.op().name, x.shape());
            infer_reduction<Gives::index>(call, outputs);
          },
      .derivative = Derivative::zero,
      .batch = batch_arg_reduction,
  };
}

constexpr Op logical_op(OpId id, const char* name) {
  return Op{.id = id,
            .name = name,
            .infer = infer_reduction<Gives::same>,
            .derivative = Derivative::zero,
            .batch = batch_reduction};
}

}  // namespace

constinit const Op op_sum{
    .id = OpId::sum,
    .name = "sum",
    .infer = infer_reduction<Gives::same>,
    .derivative = Derivative::linear,
    .saves = {.inputs = 0},
    .vjp = [](const VjpContext& c, int) { return spread(c.ct(), c.shape(0), c.as<ReduceAttributes>()); },
    .batch = batch_reduction,
};

constinit const Op op_prod{
    .id = OpId::prod,
    .name = "prod",
    .infer = infer_reduction<Gives::same>,
    .jvp =
        [](const JvpContext& c) {
          return jvp_weighted(c, [&](const auto& reduce) { return prod_partials(c.in(0), reduce); });
        },
    .vjp = [](const VjpContext& c,
              int) { return vjp_weighted(c, [&](const auto& reduce) { return prod_partials(c.in(0), reduce); }); },
    .batch = batch_reduction,
};

constinit const Op op_max = extreme_op(OpId::max, "max");
constinit const Op op_min = extreme_op(OpId::min, "min");
constinit const Op op_argmax = arg_op(OpId::argmax, "argmax");
constinit const Op op_argmin = arg_op(OpId::argmin, "argmin");
constinit const Op op_all = logical_op(OpId::all, "all");
constinit const Op op_any = logical_op(OpId::any, "any");

// ---- functions -------------------------------------------------------------------------------------------

namespace {

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, KeepDims keep) {
  return apply(op, {x}, make_intrusive<ReduceAttributes>(axes.normalize(x.rank(), op.name), keep.value));
}

// Sums and products of small integers are kept in 32 bits: uint8 in uint32, bool in int32.
Tensor widen(const Tensor& x) {
  if (x.dtype() == uint8) return astype(x, uint32);
  return x.dtype() == bool_ ? astype(x, int32) : x;
}

Tensor floating(const Tensor& x) { return is_float(x.dtype()) ? x : astype(x, float32); }

double count_over(const Tensor& x, const Axes& axes, const char* operation) {
  return static_cast<double>(reduced_count(x.shape(), axes.normalize(x.rank(), operation)));
}

// The largest value along axes, as a constant: subtracted, it keeps exp from overflowing and leaves no derivative.
Tensor finite_max(const Tensor& x, const Axes& axes) {
  if (x.size() == 0) return constant(0, x.dtype(), {}, x.device());  // max has nothing to choose from
  const Tensor largest = stop_gradient(max(x, axes, keepdims));
  return where(isfinite(largest), largest, 0);
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, KeepDims keep) { return reduce(op_sum, widen(x), axes, keep); }
Tensor prod(const Tensor& x, const Axes& axes, KeepDims keep) { return reduce(op_prod, widen(x), axes, keep); }
Tensor max(const Tensor& x, const Axes& axes, KeepDims keep) {
  return x.dtype() == bool_ ? any(x, axes, keep) : reduce(op_max, x, axes, keep);
}
Tensor min(const Tensor& x, const Axes& axes, KeepDims keep) {
  return x.dtype() == bool_ ? all(x, axes, keep) : reduce(op_min, x, axes, keep);
}
Tensor all(const Tensor& x, const Axes& axes, KeepDims keep) { return reduce(op_all, astype(x, bool_), axes, keep); }
Tensor any(const Tensor& x, const Axes& axes, KeepDims keep) { return reduce(op_any, astype(x, bool_), axes, keep); }
Tensor mean(const Tensor& x, const Axes& axes, KeepDims keep) {
  return sum(floating(x), axes, keep) / count_over(x, axes, "mean");
}

Tensor logsumexp(const Tensor& x, const Axes& axes, KeepDims keep) {
  const Tensor values = floating(x);
  const Shape reduced = axes.normalize(x.rank(), "logsumexp");
  if (reduced_count(x.shape(), reduced) == 0) return log(sum(values, reduced, keep));
  const Tensor largest = finite_max(values, reduced);
  const Tensor result = log(sum(exp(values - largest), reduced, keepdims)) + largest;
  return keep.value ? result : squeeze(result, reduced);
}

Tensor var(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  const Tensor values = floating(x);
  const Tensor deviations = values - mean(values, axes, keepdims);
  return sum(square(deviations), axes, keep) / std::max(count_over(x, axes, "var") - correction, 0.0);
}
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep, double correction) {
  return sqrt(var(x, axes, keep, correction));
}
Tensor norm(const Tensor& x, const Axes& axes, KeepDims keep) { return sqrt(sum(square(floating(x)), axes, keep)); }

#define STAVE_OVER_ALL_AXES(name) \
  Tensor name(const Tensor& x) { return name(x, all_axes); }
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

Tensor softmax(const Tensor& x, Index axis) {
  axis = normalize_axis(axis, x.rank(), "softmax");
  const Tensor values = floating(x);
  const Tensor weights = exp(values - finite_max(values, axis));
  return weights / sum(weights, axis, keepdims);
}

Tensor log_softmax(const Tensor& x, Index axis) {
  axis = normalize_axis(axis, x.rank(), "log_softmax");
  const Tensor shifted = floating(x) - finite_max(floating(x), axis);
  return shifted - log(sum(exp(shifted), axis, keepdims));
}

}  // namespace stave
