// Taylor mode over flat lists of tensors: the core of jet, taylor (jet.h) and the Taylor method of
// odeint.
//
// While the function runs, the `jet` handler passes each operation on to the outer handlers. The
// Taylor coefficients of a value are a note on the value. Those of a result follow from the
// operation's JVP rule: if y = op(x), then y'(t) is the rule performed on series, and
// y_k = (y')_(k-1) / k (tower.h). Values stay concrete, so the function can read them.
#pragma once

#include <span>
#include <vector>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

struct FlatJet {
  Outputs outputs;
  /// coefficients[k - 1] holds coefficient k of each output, with the output's shape and dtype;
  /// zeros for an output that does not depend on t or is not floating.
  std::vector<Outputs> coefficients;
};

/// Returns f at `primals`, and the Taylor coefficients in t of f(x + x_1 t + x_2 t^2 + ...). Their
/// order goes up to coefficients.size(), and coefficients[k - 1] holds x_k for each primal
/// (undefined: zero).
/// Throws ShapeError, DtypeError or DeviceError if a coefficient does not match its primal,
/// DtypeError if an input with coefficients is not floating, and TransformError if the numbers of
/// primals and coefficients differ, if a rule that the function uses needs too many operations
/// (tower.h), or if the derivative is lost (core/op/lost_derivatives.h).
FlatJet jet_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const std::vector<Tensor>> coefficients,
                 InputNames names = numbered_inputs);

/// Returns the Taylor coefficients y_0, ..., y_order of the solution of y' = f(y, t) that is
/// `start` at t = `time`, as a function of the distance from `time`; `time` is a floating tensor of
/// rank 0. f runs once: y is a value whose derivative is f. Throws ShapeError or DtypeError if f
/// returns other than the derivative of y, and the errors of jet_flat.
std::vector<Tensor> series_of_solution(FunctionRef<Tensor(const Tensor& y, const Tensor& t)> f, const Tensor& start,
                                       const Tensor& time, int order);

}  // namespace stave
