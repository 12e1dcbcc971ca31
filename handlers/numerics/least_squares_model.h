// The linear problem in each step of least_squares.
#pragma once

#include <functional>
#include <memory>

#include <stave/handlers/numerics/least_squares.h>

namespace stave_detail {

class NormalEquations;

/// The residuals r [m] near a point, r + J p, weighted such that J^T r is the gradient of the cost
/// and J^T J a model of its Hessian.
struct LinearModel {
  Tensor gradient;  // J^T r
  Tensor diagonal;  // the diagonal of J^T J, or an estimate
  /// Returns a vector whose norm is that of J p.
  std::function<Tensor(const Tensor& p)> times;
  /// Returns the p that minimises |r + J p|^2 + sum(damping p^2), where `damping` is positive and p
  /// is 0 wherever `free` is false.
  std::function<Tensor(const Tensor& damping, const Tensor& free)> solve;
};

/// Returns C^2 / 2 times the sum of rho((r / C)^2) for the loss and the f_scale C of the options.
Tensor robust_cost(const Tensor& r, const LeastSquaresOptions& options);

/// Makes the linear models of a problem, of which r has m elements of the dtype of x.
class LinearModels {
 public:
  LinearModels(const LeastSquaresProblem& problem, const LeastSquaresOptions& options);
  /// Returns the model at x, where the residuals are r. Neither carries derivatives.
  LinearModel at(const Tensor& x, const Tensor& r) const;
  /// Returns true if models are computed by operations alone, so that the batch need not be split.
  bool is_lockstep() const { return !problem_.jacobian && options_.solver == LeastSquaresSolver::qr; }

 private:
  struct Weights;
  LinearModel dense(const Tensor& x, const Weights& weights) const;
  LinearModel matrix_free(const Tensor& x, const Weights& weights) const;
  LinearModel sparse(const Tensor& x, const Weights& weights) const;

  const LeastSquaresProblem& problem_;
  const LeastSquaresOptions& options_;
  std::shared_ptr<NormalEquations> normal_equations_;  // keeps the order of elimination
};

}  // namespace stave_detail
