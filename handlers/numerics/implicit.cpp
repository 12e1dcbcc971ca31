#include <stave/handlers/numerics/implicit.h>

#include <algorithm>
#include <map>

#include <stave/core/op/define.h>
#include <stave/core/op/derivative_order.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/transforms/jacobian.h>

namespace stave_detail {

namespace {

// The order of the derivatives that the transform with these notes takes.
int order_of(const NotesState& owner) {
  if (!owner.running || owner.thread != id_of_this_thread()) return 1;
  const auto* const higher = dynamic_cast<const TakesHigherDerivatives*>(owner.differentiates);
  return higher ? higher->highest_derivative() : 1;
}

// ---- an operation that has a limited number of derivatives --------------------------------------

struct LimitAttributes final : ValueAttributes<LimitAttributes> {
  int order;  // the highest order
  int left;   // the number of derivatives that may still be taken
  LimitAttributes(int highest, int remaining) : order(highest), left(remaining) {}
  auto members() const { return std::tie(order, left); }
  std::string str() const override { return fmt::format("order={} left={}", order, left); }
};

// The operation returns its first input, and its second one is the root. Each derivative of the
// result is again a result of the operation on the same root, with one derivative less. So
// derivatives of both modes are counted, also those in which the first input is a constant.
Tensor with_limit(const Tensor& x, const Tensor& root, const LimitAttributes& of);

Tensor derivative_with_limit(const Tensor& x, const Tensor& root, const LimitAttributes& of) {
  if (of.left == 0)
    fail<TransformError>(
        "a minimum that was recorded in a compiled function has derivatives up to order {} here: differentiate inside "
        "of compile, compile(grad(f)) in place of grad(compile(f)), where derivatives of any order are recorded",
        of.order);
  return with_limit(x, root, {of.order, of.left - 1});
}

const Op limit_op = define_op({
    .name = "limited_derivatives",
    .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
    .jvp = [](const JvpContext& c) -> Outputs {
      const Tensor direction = c.has(0) ? c.tangents[0] : zeros_like(c.in(0));
      return derivative_with_limit(direction, c.in(1), c.as<LimitAttributes>());
    },
    .vjp =
        [](const VjpContext& c, int input) {
          return derivative_with_limit(input == 0 ? c.ct() : c.zeros(1), c.in(1), c.as<LimitAttributes>());
        },
    .batch = batch_elementwise,
    .view = [](const Call& call) { return view_of(call.input(0)); },
});

Tensor with_limit(const Tensor& x, const Tensor& root, const LimitAttributes& of) {
  return apply(limit_op, {x, root}, make_intrusive<LimitAttributes>(of));
}

}  // namespace

PossibleDerivatives possible_derivatives(const Tensor& value) {
  std::map<InstallationId, int> orders;
  PossibleDerivatives found;
  for (const Tensor* x = &value; x; x = lanes_of(*x))
    for (const Note* note = x->node().notes; note; note = note->next) {
      if (!note->live() || !note->owner->thread || note->has_physical()) continue;  // labels; lanes
      if (note->owner->differentiates) orders[note->owner->id] = order_of(*note->owner);
      else found.is_recorded = true;
    }
  for (const auto& [id, order] : orders) found.order += order;
  return found;
}

Tensor with_derivatives_of_root(const std::function<Tensor(const Tensor&)>& gradient, const Tensor& x,
                                const Tensor& free, const PossibleDerivatives& derivatives) {
  const int order = std::max(derivatives.order, derivatives.is_recorded ? 3 : 0);
  const Tensor are_both_free = reshape(free, {-1, 1}) && free, identity = eye(x.size(), x.dtype(), x.device());
  Tensor y = x;
  int right = 0;  // the order up to which the derivatives of y are right
  for (; right < order; right = 2 * right + 1) {
    Tensor slopes = where(are_both_free, jacfwd(gradient)(y), identity);
    if (order == 1) slopes = stop_gradient(slopes);  // the step from a constant needs no more
    y = y - solve(slopes, where(free, gradient(y), 0));
  }
  if (derivatives.is_recorded) y = with_limit(y, y, {right, right});
  return stop_gradient(x) + (y - stop_gradient(y));
}

}  // namespace stave_detail
