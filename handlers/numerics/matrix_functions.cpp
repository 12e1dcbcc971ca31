#include <stave/handlers/numerics/matrix_functions.h>

#include <cmath>

#include <stave/core/ops/linalg_rules.h>

namespace stave_detail {

Tensor from_eigenvalues(const Tensor& v, const Tensor& values) { return matmul(times_diagonal(v, values), adjoint(v)); }

Tensor tangent_of_function(const Tensor& w, const Tensor& v, const Tensor& values, const Tensor& slopes,
                           const Tensor& da) {
  const auto as_row = [](const Tensor& x) { return expand_dims(x, -2); };
  const auto as_column = [](const Tensor& x) { return expand_dims(x, -1); };
  const Tensor gaps = as_row(w) - as_column(w);
  const Tensor least = as_column(max(abs(stop_gradient(w)), -1, keepdims)) * std::cbrt(epsilon_of(w.dtype()));
  const Tensor is_close = abs(gaps) <= least;
  const Tensor differences = (as_row(values) - as_column(values)) / where(is_close, 1, gaps);
  const Tensor divided = where(is_close, (as_row(slopes) + as_column(slopes)) * 0.5, differences);
  return matmul(v, divided * matmul(adjoint(v), hermitian_part(da), v), adjoint(v));
}

}  // namespace stave_detail
