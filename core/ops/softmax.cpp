// Softmax and its logarithm: operations of their own, so that a backend reads the input once. Their rules look at the output
// alone.
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
    .vjp = [](const VjpContext& c,
              int) { return c.ct() - scale(sum(c.ct(), c.as<AxisAttributes>().axis, keepdims), exp(c.out())); },
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
