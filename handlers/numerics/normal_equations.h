// Sparse normal equations, solved by a Cholesky factor: the one place that uses Eigen.
#pragma once

#include <memory>

#include <stave/handlers/numerics/least_squares.h>

namespace stave_detail {

/// Throws ShapeError, DtypeError or IndexError unless j is a matrix of this shape with float
/// values. Reads the structure.
void check_csr(const CsrMatrix& j, Index rows, Index columns);

class NormalEquations {
 public:
  NormalEquations();
  ~NormalEquations();
  /// Returns the solution x [n] of (J^T J + diag(damping)) x = b, by L D L^T in float64, with the
  /// dtype of b. Reads all arguments. The order of elimination is that of approximate minimum
  /// degree, and is computed again only if the structure of J^T J changes. Throws LinalgError if a
  /// pivot is 0.
  Tensor solve(const CsrMatrix& j, const Tensor& damping, const Tensor& b);

 private:
  struct Factor;
  std::unique_ptr<Factor> factor_;
};

}  // namespace stave_detail
