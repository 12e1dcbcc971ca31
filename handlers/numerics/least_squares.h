// Nonlinear least squares: minima of sums of squares, or of robust losses, within bounds.
//
//   const auto misfit = [&](const Line& p) { return p.slope * x + p.offset - y; };
//   const auto found = least_squares(misfit, Line{...});
//   found.x, found.cost, found.converged()
//   const Tensor c = parameter_covariance(misfit, found.x);            // [2, 2]
//   // with bounds and a loss that outliers disturb less
//   least_squares(misfit, start, Bounds{lower, upper}, {.loss = RobustLoss::huber});
//
// Unknowns and residuals are trees of tensors. The methods are trust region methods: Levenberg and
// Marquardt's, with the scaling of MINPACK and the damping of Nielsen (1999), and Powell's dogleg
// (Nocedal and Wright, "Numerical Optimization", 2006, chapters 4.1 and 10.3). Bounds are kept by
// projection: an unknown at a bound that would leave it does not move, and steps end at the bounds
// (Kanzow, Yamashita, Fukushima 2004).
//
// Each step solves a linear least squares problem (LeastSquaresSolver): by QR of the Jacobian, by
// products with it alone, or by a sparse Cholesky factor, if the residuals come with_jacobian.
//
// The result has derivatives with respect to the bounds and to all values that `residual` captures,
// of any order and in both modes, wherever a transform around the call may ask for them. Those of a
// function that is compiled reach to the third order, and beyond that order reverse mode throws
// TransformError: compile the derivative instead. They follow from the implicit function theorem
// with the exact Hessian of the cost, a dense matrix. They are those of the exact minimum, so
// choose small tolerances. The derivative with respect to the start is 0. Under vmap, lanes take
// their steps together, and those that are finished leave the batch. With the solver cg, the batch
// is split where lanes differ in a decision; with a sparse Jacobian, lanes are solved one after the
// other.
#pragma once

#include <functional>
#include <utility>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>

namespace stave {

enum class LeastSquaresMethod { levenberg_marquardt, dogleg };
/// How the linear problem of a step is solved. A residual with_jacobian has a solver of its own.
enum class LeastSquaresSolver {
  qr,  ///< by QR decompositions of the Jacobian, a dense matrix
  /// By conjugate gradients with J v and J^T v, preconditioned by an estimate of the diagonal of
  /// J^T J; no matrix is formed. Steps are solved to two digits.
  cg,
};
/// The loss rho of a squared residual z. (scipy.optimize.least_squares)
enum class RobustLoss {
  linear,   ///< z
  soft_l1,  ///< 2 (sqrt(1 + z) - 1)
  huber,    ///< z for z <= 1, else 2 sqrt(z) - 1
  cauchy,   ///< log(1 + z)
  arctan,   ///< atan(z)
};
struct LeastSquaresOptions {
  [[no_unique_address]] ByName by_name{};
  LeastSquaresMethod method = LeastSquaresMethod::levenberg_marquardt;
  LeastSquaresSolver solver = LeastSquaresSolver::qr;
  RobustLoss loss = RobustLoss::linear;
  /// Residuals that are larger than this count as outliers; it must be positive.
  double f_scale = 1;
  /// The search ends when a step lowers the cost by at most `ftol` times the cost, or is at most
  /// `xtol` times x, or when no element of the gradient exceeds `gtol`. Lengths of steps are in
  /// units in which all columns of the Jacobian have length 1. 0 switches a criterion off.
  double ftol = 1e-8, xtol = 1e-8, gtol = 1e-8;
  /// The maximal number of steps, rejected ones included; 0 means 100 per unknown.
  Index steps = 0;
};

/// Bounds of the unknowns: two trees with the structure of the unknowns. They are infinite where
/// there is no bound.
template <class X>
struct Bounds {
  X lower, upper;
};
template <class X>
Bounds(X, X) -> Bounds<X>;

/// A matrix in compressed sparse rows: row r has the elements values[k] in the columns
/// column_indices[k], for k from row_offsets[r] up to row_offsets[r + 1]. The offsets [rows + 1]
/// and the indices [elements] are integers. An element that appears twice counts as the sum.
struct CsrMatrix {
  Tensor row_offsets, column_indices, values;
};
/// A residual, and a function of the same argument that returns its Jacobian as a CsrMatrix, whose
/// rows and columns are the elements of the result and of the argument in the order of ravel.
template <class Residual, class Jacobian>
struct WithJacobian {
  Residual residual;
  Jacobian jacobian;
  template <class X>
  auto operator()(const X& x) const {
    return residual(x);
  }
};
/// Gives a residual a sparse Jacobian, for least_squares. The steps then solve the normal equations
/// by a sparse Cholesky factor in float64, on the CPU.
template <class Residual, class Jacobian>
WithJacobian<Residual, Jacobian> with_jacobian(Residual residual, Jacobian jacobian) {
  return {std::move(residual), std::move(jacobian)};
}

/// Why least_squares ended.
enum class LeastSquaresStatus : int { steps_used_up = 0, small_gradient = 1, small_decrease = 2, small_step = 3 };
/// The result of least_squares.
template <class X>
struct LeastSquaresResult {
  X x;
  Tensor cost;        ///< f_scale^2 / 2 times the sum of rho((residual / f_scale)^2)
  X grad;             ///< the gradient of the cost
  Tensor optimality;  ///< the largest absolute element of the gradient, except unknowns held by a
                      ///< bound
  Tensor steps;       ///< the number of steps, rejected ones included; int32
  Tensor status;      ///< a LeastSquaresStatus; int32
  /// Returns true if one of the tolerances was satisfied.
  bool converged() const { return bool(status > 0); }
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// A problem whose unknowns and residuals are vectors [n] and [m].
struct LeastSquaresProblem {
  std::function<Tensor(const Tensor&)> residual;
  std::function<CsrMatrix(const Tensor&)> jacobian;  // may be empty
  Tensor lower, upper;                               // [n], or both undefined
};
LeastSquaresResult<Tensor> least_squares_flat(const LeastSquaresProblem& problem, const Tensor& start,
                                              const LeastSquaresOptions& options);
Tensor parameter_covariance_flat(const std::function<Tensor(const Tensor&)>& residual, const Tensor& x);

template <class F, class X>
LeastSquaresResult<X> least_squares_of_tree(const F& residual, const X& start, const Bounds<X>* bounds,
                                            const LeastSquaresOptions& options) {
  const auto flat = ravel(start);
  const auto& unravel = flat.second;
  LeastSquaresProblem problem;
  problem.residual = [&](const Tensor& x) { return ravel(residual(unravel(x))).first; };
  if constexpr (requires { residual.jacobian(start); })
    problem.jacobian = [&](const Tensor& x) { return residual.jacobian(unravel(x)); };
  if (bounds) {
    problem.lower = ravel(bounds->lower).first;
    problem.upper = ravel(bounds->upper).first;
  }
  const LeastSquaresResult<Tensor> found = least_squares_flat(problem, flat.first, options);
  return {unravel(found.x), found.cost, unravel(found.grad), found.optimality, found.steps, found.status};
}

}  // namespace stave_detail

namespace stave {

/// Returns a local minimum of the cost of residual(x), half of the sum of squares of a tree of
/// floats, or of their losses; x is a tree as `start`. There may be fewer residuals than unknowns.
/// A step to residuals that are not finite is rejected. Computes in the promoted dtype of x and the
/// residuals. Throws Error if a residual or its gradient at `start` is not finite, if `start` is
/// not within the bounds, or if an option is invalid; DtypeError if an unknown or a residual is not
/// a float; and ShapeError if the bounds or the Jacobian do not fit. (scipy.optimize.least_squares)
template <class F, class X>
LeastSquaresResult<X> least_squares(const F& residual, const X& start, LeastSquaresOptions options = {}) {
  static_assert(is_tree<X>, "stave: least_squares: the start is not a tree of tensors");
  return stave_detail::least_squares_of_tree(residual, start, static_cast<const Bounds<X>*>(nullptr), options);
}
template <class F, class X>
LeastSquaresResult<X> least_squares(const F& residual, const X& start, const Bounds<X>& bounds,
                                    LeastSquaresOptions options = {}) {
  static_assert(is_tree<X>, "stave: least_squares: the start is not a tree of tensors");
  return stave_detail::least_squares_of_tree(residual, start, &bounds, options);
}

/// Returns the covariance [n, n] of the unknowns at a minimum x of squared residuals, in the order
/// of ravel: (J^T J)^-1 s^2 with the Jacobian J of the m residuals and s^2 = sum(residual^2) / (m -
/// n), which is the estimated variance of one of them. Throws Error if m <= n, and LinalgError if J
/// has dependent columns. Its derivatives with respect to captured values include those of x.
template <class F, class X>
Tensor parameter_covariance(const F& residual, const X& x) {
  const auto flat = ravel(x);
  return stave_detail::parameter_covariance_flat([&](const Tensor& v) { return ravel(residual(flat.second(v))).first; },
                                                 flat.first);
}

}  // namespace stave
