// Softmax and its logarithm: operations of their own, so that a backend reads the input once. Their rules look at the output
// alone. So is the gradient of log_softmax, on the CPU, along a last axis: that of cross entropy.
#include <stave/core/ops/softmax.h>

#include <stave/core/default_dtype.h>
#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>

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

// y = softmax(x): dy = y (dx - sum(y dx)). The Jacobian is symmetric, so cotangents go the same way.
Tensor through_softmax(const Tensor& y, const Tensor& dx, int axis) {
  return scale(dx - sum(scale(dx, y), axis, keepdims), y);
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
    .vjp = [](const VjpContext& c, int) { return through_softmax(c.out(), c.ct(), c.as<AxisAttributes>().axis); },
    .batch = batch_in_front,
};

namespace {

// The kernel's: rows on the CPU.
bool is_of_rows(const Tensor& y, int axis) { return y.device() == cpu && axis + 1 == y.rank(); }

Tensor vjp_log_softmax(const VjpContext& c, int) {
  const int axis = c.as<AxisAttributes>().axis;
  if (is_of_rows(c.out(), axis)) return apply(op_log_softmax_gradient, {c.out(), c.ct()});
  return c.ct() - scale(sum(c.ct(), axis, keepdims), exp(c.out()));
}

}  // namespace

// y = log softmax(x): dy = dx - sum(exp(y) dx); backwards ct - exp(y) sum(ct).
constinit const Op op_log_softmax{
    .id = OpId::log_softmax,
    .name = "log_softmax",
    .infer = infer_softmax,
    .reads = {ValueSet::outputs},
    .jvp = [](const JvpContext& c) -> Outputs {
      const Tensor& dx = c.tangents[0];
      return dx - sum(scale(dx, exp(c.out())), c.as<AxisAttributes>().axis, keepdims);
    },
    .vjp = vjp_log_softmax,
    .batch = batch_in_front,
};

namespace {

// g = ct - exp(y) sum(ct), along the last axis: dg = dct - exp(y) (sum(dct) + dy sum(ct)).
Outputs jvp_log_softmax_gradient(const JvpContext& c) {
  Tensor dg;
  if (c.has(1)) dg = apply(op_log_softmax_gradient, {c.in(0), c.tangents[1]});
  if (c.has(0))
    dg = add_tangents(std::move(dg), -scale(scale(c.tangents[0], exp(c.in(0))), sum(c.in(1), -1, keepdims)));
  return dg;
}

Tensor vjp_log_softmax_gradient(const VjpContext& c, int input) {
  const Tensor weighted = scale(c.ct(), exp(c.in(0)));
  return input == 0 ? -scale(weighted, sum(c.in(1), -1, keepdims)) : c.ct() - sum(weighted, -1, keepdims);
}

}  // namespace

constinit const Op op_log_softmax_gradient{
    .id = OpId::log_softmax_gradient,
    .name = "log_softmax_gradient",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor &y = call.input(0), &ct = call.input(1);
          if (!is_float(y.dtype()) || ct.dtype() != y.dtype())
            fail<DtypeError>("log_softmax_gradient: {} and {} are not one floating dtype", y.dtype(), ct.dtype());
          if (y.rank() < 1 || ct.shape() != y.shape())
            fail<ShapeError>("log_softmax_gradient: {} and {} are not one shape of rows", y.shape(), ct.shape());
          outputs.push_back({y.shape(), y.dtype()});
        },
    .reads = {0b11, 0b01},
    .jvp = jvp_log_softmax_gradient,
    .vjp = vjp_log_softmax_gradient,
    .batch = batch_in_front,
};

namespace {

Tensor along(const Op& op, const Tensor& x, Index axis) {
  const int at = normalize_axis(axis, given(x, op.name).rank(), op.name);
  return apply(op, {floating(x)}, make_intrusive<AxisAttributes>(at));
}

}  // namespace

Tensor softmax(const Tensor& x, Index axis) { return along(op_softmax, x, axis); }
Tensor log_softmax(const Tensor& x, Index axis) { return along(op_log_softmax, x, axis); }

}  // namespace stave
