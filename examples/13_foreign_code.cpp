// Foreign code. A function on arrays in memory (LAPACK, a simulator, a table look-up) knows nothing
// of tensors, lanes or derivatives. host_call turns it into a function that vmap can call for each
// lane; custom_vjp gives it a derivative.
#include <cmath>
#include <iostream>
#include <span>
#include <utility>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Solves a x = b in place by Gaussian elimination with pivots, as a numerical library might.
void solve_in_place(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t row = k; row < n; ++row)
      if (std::abs(a[row * n + k]) > std::abs(a[pivot * n + k])) pivot = row;
    for (std::size_t column = 0; column < n; ++column) std::swap(a[k * n + column], a[pivot * n + column]);
    std::swap(b[k], b[pivot]);
    for (std::size_t row = k + 1; row < n; ++row) {
      const double factor = a[row * n + k] / a[k * n + k];
      for (std::size_t column = k; column < n; ++column) a[row * n + column] -= factor * a[k * n + column];
      b[row] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t column = k + 1; column < n; ++column) b[k] -= a[k * n + column] * b[column];
    b[k] /= a[k * n + k];
  }
}

// The same solver as a function of tensors. Transforms cannot look into it.
Tensor solve_on_host(const Tensor& a, const Tensor& b) {
  const auto on_arrays = [](const Tensor& matrix, const Tensor& right) {
    std::vector<double> m = matrix.to_vector<double>(), x = right.to_vector<double>();
    solve_in_place(m, x);
    return from(x, right.shape());
  };
  return host_call(on_arrays, {{b.shape(), float64}})(a, b);
}

// For x = a^-1 b and the cotangent g of x, the cotangent of b is u = a^-T g, and that of a is -u
// x^T. The rules call this function themselves, so they can be differentiated, too.
Tensor solution_of(const Tensor& a, const Tensor& b) {
  static const auto with_rules = custom_vjp(
      solve_on_host,
      [](const Tensor& matrix, const Tensor& right) {
        const Tensor x = solution_of(matrix, right);
        return std::pair(x, std::pair(matrix, x));
      },
      [](const std::pair<Tensor, Tensor>& saved, const Tensor& g) {
        const Tensor u = solution_of(transpose(saved.first), g);
        return std::tuple(-expand_dims(u, 1) * saved.second, u);
      });
  return with_rules(a, b);
}

int main() {
  const Tensor a = tensor({{2., 1.}, {1., 3.}}, float64), b = tensor({3., 5.}, float64);
  std::cout << "solution " << solution_of(a, b) << "\n";
  check(allclose(matmul(a, solution_of(a, b)), b), "a x = b");

  const auto energy = [](const Tensor& matrix, const Tensor& right) { return sum(square(solution_of(matrix, right))); };
  // Compares both modes with finite differences.
  check_grads(energy, std::tuple(a, b), {.order = 2});
  const auto [da, db] = grad<0, 1>(energy)(a, b);
  std::cout << "d/da " << da << "\nd/db " << db << "\n";

  const Tensor bs = stack({b, 2 * b, 3 * b});
  const Tensor each = vmap(grad<1>(energy), {.in_axes = {unmapped, 0}})(a, bs);
  check(allclose(each, stack({db, 2 * db, 3 * db})), "the gradient is linear in b");
}
