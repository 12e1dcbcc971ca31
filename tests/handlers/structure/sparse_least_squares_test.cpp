// Tests least_squares with the Jacobian that sparse_jacobian finds.
#include <gtest/gtest.h>

#include <stave/handlers/numerics/least_squares.h>
#include <stave/handlers/structure/sparse_jacobian.h>
#include <stave/stave.h>

namespace {

using namespace stave;

// A chain of Rosenbrock's functions. Its minimum is 0, where all unknowns are 1.
Tensor residual(const Tensor& x) {
  const Tensor a = x(slice(none, -1)), b = x(slice(1, none));
  return concat({10 * (b - square(a)), 1 - a});
}

TEST(SparseLeastSquares, TakesTheJacobianOfAPattern) {
  const Tensor start = full({200}, 0.5, float64);
  const auto sparse = sparse_jacobian(residual, start);
  const SparsityPattern& pattern = sparse.pattern();
  const auto jacobian = [&](const Tensor& x) {
    return CsrMatrix{pattern.row_offsets, pattern.column_indices, sparse.values(x)};
  };
  const auto found = least_squares(with_jacobian(residual, jacobian), start);
  EXPECT_EQ(pattern.entries(), 3 * 199);
  EXPECT_TRUE(found.converged());
  EXPECT_LT(max(abs(found.x - 1)).item<double>(), 1e-6);
  EXPECT_EQ(found.steps.item<Index>(), least_squares(residual, start).steps.item<Index>());
}

}  // namespace
