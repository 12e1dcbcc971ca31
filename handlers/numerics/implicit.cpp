#include <stave/handlers/numerics/implicit.h>

#include <algorithm>
#include <set>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/transforms/jacobian.h>

namespace stave_detail {

int possible_derivatives(const Tensor& value) {
  std::set<InstallationId> transforms;
  bool recorded = false;
  for (const Tensor* x = &value; x; x = lanes_of(*x))
    for (const Note* note = x->node().notes; note; note = note->next) {
      if (!note->live() || !note->owner->thread || note->has_physical()) continue;  // labels; lanes
      if (note->owner->differentiates) transforms.insert(note->owner->id);
      else recorded = true;
    }
  return std::max(static_cast<int>(transforms.size()), recorded ? 3 : 0);
}

Tensor with_derivatives_of_root(const std::function<Tensor(const Tensor&)>& gradient, const Tensor& x,
                                const Tensor& free, int derivatives) {
  const Tensor both = reshape(free, {-1, 1}) && free, identity = eye(x.size(), x.dtype(), x.device());
  Tensor y = x;
  for (int right = 0; right < derivatives; right = 2 * right + 1) {
    Tensor slopes = where(both, jacfwd(gradient)(y), identity);
    if (derivatives == 1) slopes = stop_gradient(slopes);  // the step from a constant needs no more
    y = y - solve(slopes, where(free, gradient(y), 0));
  }
  return stop_gradient(x) + (y - stop_gradient(y));
}

}  // namespace stave_detail
