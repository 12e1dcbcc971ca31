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

/// Returns the Taylor coefficients of the solution of an ODE whose state is one tensor: see
/// series_of_solution (jet.h).
std::vector<Tensor> series_of_solution_flat(FunctionRef<Tensor(const Tensor& y, const Tensor& t)> f,
                                            const Tensor& start, const Tensor& time, int order);

}  // namespace stave
