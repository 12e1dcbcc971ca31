// Softmax, its logarithm and logsumexp are operations of their own, so that a backend reads the
// input once.
// The gradients of both are operations too, on the CPU and along the last axis. The gradient of
// log_softmax also serves cross_entropy.
//
// The dominant element (`winner` in names) is the one with p > 1/2. If almost all of the weight is
// on that element, its 1 - p loses digits by rounding, and so do sums that include it. The
// derivatives consist of these values. Hence two rules, at O(n) cost:
// - Values that are weighted by p are taken relative to the dominant element's value. Its share is
//   then 0 instead of a difference that cancels.
// - If elements must add up to 0, the dominant element is computed as minus the sum of the others.
//
// If no element is dominant, 1 - p is at least 1/2 for every element, and nothing cancels.
#include <stave/core/ops/softmax.h>

#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/series.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

void infer_softmax(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  if (!is_float(x.dtype()))
    fail<DtypeError>("{}: {} is not a floating dtype: convert with astype", call.op().name, x.dtype());
  normalize_axis(call.as<AxisAttributes>().axis, x.rank(), call.op().name);
  outputs.push_back({x.shape(), x.dtype()});
}

// `wide` converts 16-bit floats to float32, in which they are computed, and `narrow` converts back.
Tensor wide(const Tensor& x) { return astype(x, computed_in(x.dtype())); }
Tensor narrow(const Tensor& x, Dtype dtype) { return astype(x, dtype); }

// Returns whether the operations for gradients can be used: they work on the CPU, along the last
// axis.
bool is_of_rows(const Tensor& y, int axis) { return y.device() == cpu && axis + 1 == y.rank(); }

Tensor sum_along(const Tensor& x, int axis) { return sum(x, axis, keepdims); }

// Returns v minus the value of v at the dominant element, along the axis; v itself if no element is
// dominant. `wins` is true at that element.
Tensor relative_to(const Tensor& wins, const Tensor& v, int axis) { return v - sum_along(where(wins, v, 0), axis); }
Tensor relative_to_winner(const Tensor& p, const Tensor& v, int axis) { return relative_to(p > 0.5, v, axis); }

// y = softmax(x): dy = y (dx - sum(y dx)), in which dx may be shifted by any constant.
// The Jacobian is symmetric, so cotangents are mapped in the same way.
Tensor through_softmax(const Tensor& y, const Tensor& dx, int axis) {
  if (is_of_rows(y, axis)) return apply(op_softmax_gradient, {y, dx});
  const Tensor p = wide(y), relative = relative_to_winner(p, wide(dx), axis);
  return narrow(scale(relative - sum_along(scale(relative, p), axis), p), y.dtype());
}

// Returns e - sum(product) for coefficients of series, any of which may be undefined: zero.
Tensor less_mean(const Tensor& e, const Tensor& product, int axis) {
  if (!product.defined()) return e;
  const Tensor mean = sum_along(product, axis);
  return e.defined() ? e - mean : broadcast_to(-mean, product.shape());
}

// The coefficients of p = softmax(x), or if `logarithm` those of log_softmax(x), whose derivative
// is d:
//   d = e - sum(p e)        p' = p d
// Here e is x' minus the value of x' at the element that is dominant in p_0. `p` is p_0.
Outputs series_of_softmax(const SeriesContext& c, bool logarithm, const Tensor& p) {
  const int axis = c.as<AxisAttributes>().axis;
  // `kept` holds a mask of the dominant element, p_0, e_0, d_0, p_1, e_1, d_1, ...
  if (c.kept.empty()) c.kept = {p > 0.5, p};
  const auto place_of = [](int k, std::size_t i) { return 3 * static_cast<std::size_t>(k) + i; };
  const auto p_k = [&](int k) { return c.kept[place_of(k, 1)]; };
  const auto e_k = [&](int k) { return c.kept[place_of(k, 2)]; };
  const auto d_k = [&](int k) { return c.kept[place_of(k, 3)]; };
  const auto next = [&](std::size_t place) {
    const int k = static_cast<int>((place - 1) / 3);
    switch (place % 3) {
      case 1: return over_order(coefficient_of_product(k - 1, p_k, d_k), k);
      case 2: {
        const Tensor slope = times_order(nonzero(c.in(0, k + 1), wide), k + 1);
        return nonzero(slope, [&](const Tensor& x) { return relative_to(c.kept[0], x, axis); });
      }
      default: return less_mean(e_k(k), coefficient_of_product(k, p_k, e_k), axis);
    }
  };
  const Tensor found = logarithm ? over_order(keep_up_to(c, place_of(c.order - 1, 3), next), c.order)
                                 : keep_up_to(c, place_of(c.order, 1), next);
  return nonzero(found, [&](const Tensor& x) { return narrow(x, c.outputs[0].dtype()); });
}

}  // namespace

constinit const Op op_softmax{
    .id = OpId::softmax,
    .name = "softmax",
    .infer = infer_softmax,
    .reads = {ValueSet::outputs},
    .jvp = [](const JvpContext& c) -> Outputs {
      return through_softmax(c.out(), c.tangents[0], c.as<AxisAttributes>().axis);
    },
    .series = [](const SeriesContext& c) { return series_of_softmax(c, false, wide(c.outputs[0])); },
    .vjp = [](const VjpContext& c, int) { return through_softmax(c.out(), c.ct(), c.as<AxisAttributes>().axis); },
    .batch = batch_in_front,
};

namespace {

void infer_gradient(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &ct = call.input(1);
  const char* const name = call.op().name;
  if (!is_float(x.dtype()) || ct.dtype() != x.dtype())
    fail<DtypeError>("{}: {} and {} are not one floating dtype", name, x.dtype(), ct.dtype());
  if (x.rank() < 1 || ct.shape() != x.shape())
    fail<ShapeError>("{}: {} and {} are not one shape of rows", name, x.shape(), ct.shape());
  outputs.push_back({x.shape(), x.dtype()});
}

// softmax_gradient is g = y (e - sum(y e)) along the last axis, where e is ct minus the value of ct
// at the dominant element (y > 1/2). g is linear in ct, and its derivative in the direction dy
// is dg = dy (e - sum(y e)) - y sum(dy e).
Outputs jvp_softmax_gradient(const JvpContext& c) {
  Tensor dg;
  if (c.has(1)) dg = apply(op_softmax_gradient, {c.in(0), c.tangents[1]});
  if (c.has(0)) {
    const Tensor y = wide(c.in(0)), dy = wide(c.tangents[0]), e = relative_to_winner(y, wide(c.in(1)), -1);
    const Tensor by_y = scale(dy, e - sum_along(scale(y, e), -1)) - scale(y, sum_along(scale(dy, e), -1));
    dg = add_tangents(std::move(dg), narrow(by_y, c.in(0).dtype()));
  }
  return dg;
}

Tensor vjp_softmax_gradient(const VjpContext& c, int input) {
  if (input == 1) return apply(op_softmax_gradient, {c.in(0), c.ct()});
  const Tensor y = wide(c.in(0)), ct = wide(c.ct()), e = relative_to_winner(y, wide(c.in(1)), -1);
  const Tensor by_y = scale(ct, e - sum_along(scale(y, e), -1)) - scale(e, sum_along(scale(y, ct), -1));
  return narrow(by_y, c.in(0).dtype());
}

// g = y d with d = e - sum(y e) is made of products, and so are its coefficients. (The JVP rule
// performs the operation again, on other cotangents.)
Outputs series_softmax_gradient(const SeriesContext& c) {
  // `kept` holds a mask of the dominant element, e_0, d_0, e_1, d_1, ...
  const auto place_of = [](int k, std::size_t i) { return 2 * static_cast<std::size_t>(k) + i; };
  const auto y = [&](int k) { return nonzero(c.in(0, k), wide); };
  const auto e = [&](int k) { return c.kept[place_of(k, 1)]; };
  const auto d = [&](int k) { return c.kept[place_of(k, 2)]; };
  keep_up_to(c, place_of(c.order, 2), [&](std::size_t place) {
    if (place == 0) return y(0) > 0.5;
    const int k = static_cast<int>((place - 1) / 2);
    if (place % 2 == 0) return less_mean(e(k), coefficient_of_product(k, y, e), -1);
    return nonzero(c.in(1, k), [&](const Tensor& ct) { return relative_to(c.kept[0], wide(ct), -1); });
  });
  return nonzero(coefficient_of_product(c.order, y, d),
                 [&](const Tensor& g) { return narrow(g, c.call.input(0).dtype()); });
}

Outputs depends_along_last_axis(const DependsContext& c) { return depends_along(c, Shape(c.call.input(0).rank() - 1)); }

}  // namespace

constinit const Op op_softmax_gradient{
    .id = OpId::softmax_gradient,
    .name = "softmax_gradient",
    .infer = infer_gradient,
    .reads = {0b11, 0b01},
    .jvp = jvp_softmax_gradient,
    .series = series_softmax_gradient,
    .vjp = vjp_softmax_gradient,
    .batch = batch_in_front,
    .depends = depends_along_last_axis,
};

namespace {

// Returns dx - sum(p dx), the derivative of log_softmax in the direction dx, where p is the
// softmax.
Tensor through_log_softmax(const Tensor& p, const Tensor& dx, int axis) {
  const Tensor relative = relative_to_winner(p, dx, axis);
  return relative - sum_along(scale(relative, p), axis);
}

// Returns ct - p sum(ct), the cotangent of log_softmax's input. Its elements add up to 0.
Tensor back_through_log_softmax(const Tensor& p, const Tensor& ct, int axis) {
  const Tensor is_winner = p > 0.5, others = where(is_winner, 0, ct - scale(sum_along(ct, axis), p));
  return where(is_winner, -sum_along(others, axis), others);
}

Tensor vjp_log_softmax(const VjpContext& c, int) {
  const int axis = c.as<AxisAttributes>().axis;
  if (is_of_rows(c.in(0), axis)) return apply(op_log_softmax_gradient, {c.in(0), c.ct()});
  return narrow(back_through_log_softmax(softmax(wide(c.in(0)), axis), wide(c.ct()), axis), c.in(0).dtype());
}

}  // namespace

// The rules read the input and not the result: a large result is rounded too coarsely
// for its exponential to be accurate.
constinit const Op op_log_softmax{
    .id = OpId::log_softmax,
    .name = "log_softmax",
    .infer = infer_softmax,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const int axis = c.as<AxisAttributes>().axis;
      return narrow(through_log_softmax(softmax(wide(c.in(0)), axis), wide(c.tangents[0]), axis), c.in(0).dtype());
    },
    .series =
        [](const SeriesContext& c) {
          const auto p = [&] { return softmax(wide(c.call.input(0)), c.as<AxisAttributes>().axis); };
          return series_of_softmax(c, true, c.kept.empty() ? p() : c.kept[1]);
        },
    .vjp = vjp_log_softmax,
    .batch = batch_in_front,
};

namespace {

void infer_logsumexp(const Call& call, SmallVector<Abstract, 1>& outputs) {
  infer_softmax(call, outputs);
  Index& length = outputs[0].shape[static_cast<std::size_t>(call.as<AxisAttributes>().axis)];
  if (length == 0) fail<ShapeError>("logsumexp: the axis has no elements");
  length = 1;
}

// Returns the derivatives of logsumexp by the elements of x, which are softmax(x). If the largest
// element is infinite, they are those of the maximum: equal largest elements share the weight.
Tensor weights_of(const Tensor& x, int axis) {
  const Tensor largest = max(stop_gradient(x), axis, keepdims), infinite = isinf(largest);
  const Tensor smaller = logical_and(infinite, x != largest);
  return softmax(wide(where(smaller, -std::numeric_limits<double>::infinity(), where(infinite, 0, x))), axis);
}

}  // namespace

constinit const Op op_logsumexp{
    .id = OpId::logsumexp,
    .name = "logsumexp",
    .infer = infer_logsumexp,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const int axis = c.as<AxisAttributes>().axis;
      const Tensor weights = weights_of(c.in(0), axis);
      return narrow(sum_along(scale(weights, wide(c.tangents[0])), axis), c.in(0).dtype());
    },
    .vjp =
        [](const VjpContext& c, int) {
          const Tensor weights = weights_of(c.in(0), c.as<AxisAttributes>().axis);
          return narrow(scale(wide(c.ct()), weights), c.in(0).dtype());
        },
    .batch = batch_in_front,
    .depends = [](const DependsContext& c) { return depends_along(c, Shape(c.as<AxisAttributes>().axis)); },
    .flops = [](const Attributes*, std::span<const Shape> inputs,
                const Shape&) { return static_cast<std::uint64_t>(inputs[0].elements()); },
};

namespace {

// log_softmax_gradient is g = ct - p sum(ct) along the last axis, with p = softmax(x). g is linear
// in ct. Returns the derivative of g with respect to x in a direction: -sum(ct) dp, where dp is
// that of p.
Tensor by_input(const Tensor& x, const Tensor& ct, const Tensor& direction) {
  const Tensor dp = through_softmax(softmax(wide(x)), wide(direction), x.rank() - 1);
  return narrow(-scale(sum_along(wide(ct), -1), dp), x.dtype());
}

Outputs jvp_log_softmax_gradient(const JvpContext& c) {
  Tensor dg;
  if (c.has(1)) dg = apply(op_log_softmax_gradient, {c.in(0), c.tangents[1]});
  if (c.has(0)) dg = add_tangents(std::move(dg), by_input(c.in(0), c.in(1), c.tangents[0]));
  return dg;
}

Tensor vjp_log_softmax_gradient(const VjpContext& c, int input) {
  if (input == 0) return by_input(c.in(0), c.in(1), c.ct());
  return narrow(through_log_softmax(softmax(wide(c.in(0))), wide(c.ct()), -1), c.in(0).dtype());
}

}  // namespace

constinit const Op op_log_softmax_gradient{
    .id = OpId::log_softmax_gradient,
    .name = "log_softmax_gradient",
    .infer = infer_gradient,
    .reads = {0b11, 0b01},
    .jvp = jvp_log_softmax_gradient,
    .vjp = vjp_log_softmax_gradient,
    .batch = batch_in_front,
    .depends = depends_along_last_axis,
};

namespace {

Tensor apply_along(const Op& op, const Tensor& x, Index axis) {
  const int at = normalize_axis(axis, require_defined(x, op.name).rank(), op.name);
  return apply(op, {floating(x)}, make_intrusive<AxisAttributes>(at));
}

}  // namespace

Tensor softmax(const Tensor& x, Index axis) { return apply_along(op_softmax, x, axis); }
Tensor log_softmax(const Tensor& x, Index axis) { return apply_along(op_log_softmax, x, axis); }

}  // namespace stave
