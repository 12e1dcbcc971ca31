// Bijectors of vectors and matrices.
#include <cmath>
#include <numbers>
#include <vector>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/bijectors.h>
#include <stave/handlers/inference/events.h>

namespace stave {

namespace {

using T = const Tensor&;
using stave_detail::fail, stave_detail::log_sech_squared, stave_detail::without_last;

// ---- simplex -----------------------------------------------------------------------------

// Returns log(n), ..., log(1) for u of shape [..., n]. Stick breaking divides a stick into n + 1
// parts by n breaks, and n, ..., 1 parts follow them. Subtracting these logarithms from u makes u =
// 0 give equal parts.
Tensor log_parts_left(T u) {
  const Index n = u.shape(-1);
  return log(arange(n, 0, -1, u.dtype(), u.device()));
}

// The map onto the simplex is x_k = z_k (1 - x_0 - ... - x_{k-1}), where
// z_k = sigmoid(u_k - log(number of parts after break k)): Stan Reference Manual, 10.7.
struct StickBreaking {
  int input_rank() const { return 1; }
  int output_rank() const { return 1; }
  Tensor forward(T u) const {
    const Tensor v = u - log_parts_left(u), left = cumulative_sum(log_sigmoid(-v), -1, {.include_initial = true});
    Shape one = u.shape();
    one[one.rank() - 1] = 1;
    return exp(concat({log_sigmoid(v), zeros(one, u.dtype(), u.device())}, -1) + left);
  }
  Tensor inverse(T x) const {
    const Tensor from_behind = cumulative_sum(x, -1, {.reverse = true});
    const Tensor first = x(ellipsis, slice(none, -1)), left = from_behind(ellipsis, slice(1, none));
    return log(first) - log(left) + log_parts_left(first);
  }
  // d x_k / d u_k = x_k (1 - z_k), and the Jacobian is triangular.
  Tensor log_det(T u) const {
    const Tensor v = u - log_parts_left(u), left = cumulative_sum(log_sigmoid(-v), -1, {.include_initial = true});
    return sum(log_sigmoid(v) + log_sigmoid(-v) + left(ellipsis, slice(none, -1)), -1);
  }
};

struct LowerTriangularAffine {
  NumberOrTensor location;
  Tensor scale_tril;
  int input_rank() const { return 1; }
  int output_rank() const { return 1; }
  Tensor forward(T x) const {
    return location.like(x) + squeeze(matmul(tril(astype(scale_tril, x.dtype())), expand_dims(x, -1)), -1);
  }
  Tensor inverse(T y) const {
    const Tensor off = expand_dims(y - location.like(y), -1);
    return squeeze(triangular_solve(astype(scale_tril, y.dtype()), off, {.lower = true}), -1);
  }
  Tensor log_det(T x) const {
    const Tensor one = sum(log(abs(diagonal(astype(scale_tril, x.dtype())))), -1);
    return one + sum(zeros_like(x), -1);
  }
};

// ---- triangular matrices -----------------------------------------------------------------

// Returns the n of n (n + 1) / 2 = length. Throws ShapeError if there is none.
Index rows_of_triangle(Index length) {
  const Index n = static_cast<Index>(std::lround((std::sqrt(8. * static_cast<double>(length) + 1) - 1) / 2));
  if (n * (n + 1) / 2 != length)
    fail<ShapeError>("Bijector: a vector of length {} is not the triangle of a matrix: its length is n (n + 1) / 2",
                     length);
  return n;
}

// Returns the matrices [..., n, n] whose elements below the diagonal are those of v
// [..., n (n - 1) / 2], row by row. All other elements are 0.
Tensor strictly_lower(T v, Index n) {
  const Index count = n * (n - 1) / 2;
  std::vector<std::int32_t> at;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) at.push_back(static_cast<std::int32_t>(j < i ? i * (i - 1) / 2 + j : count));
  Shape one = v.shape(), matrices = without_last(v.shape(), 1);
  one[one.rank() - 1] = 1;
  matrices.push_back(n);
  matrices.push_back(n);
  const Tensor with_zero = concat({v, zeros(one, v.dtype(), v.device())}, -1);
  return reshape(take(with_zero, from(at, v.device()), -1), matrices);
}

// Returns the elements below the diagonal of matrices, row by row.
Tensor below_diagonal(T matrices) {
  const Index n = matrices.shape(-1);
  std::vector<std::int32_t> at;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j) at.push_back(static_cast<std::int32_t>(i * n + j));
  Shape flat = without_last(matrices.shape(), 2);
  flat.push_back(n * n);
  return take(reshape(matrices, flat), from(at, matrices.device()), -1);
}

struct LowerCholesky {
  int input_rank() const { return 1; }
  int output_rank() const { return 2; }
  static Tensor logarithms(T u) {
    const Index length = u.shape(-1), n = rows_of_triangle(length);
    return u(ellipsis, slice(length - n, none));
  }
  Tensor forward(T u) const {
    const Index length = u.shape(-1), n = rows_of_triangle(length);
    const Tensor on_diagonal = expand_dims(exp(logarithms(u)), -1) * eye(n, u.dtype(), u.device());
    return strictly_lower(u(ellipsis, slice(none, length - n)), n) + on_diagonal;
  }
  Tensor inverse(T l) const { return concat({below_diagonal(l), log(diagonal(l))}, -1); }
  Tensor log_det(T u) const { return sum(logarithms(u), -1); }
};

struct CholeskyProduct {
  int input_rank() const { return 2; }
  int output_rank() const { return 2; }
  Tensor forward(T l) const { return matmul(l, matrix_transpose(l)); }
  Tensor inverse(T x) const { return cholesky(x); }
  // The determinant is 2^n l_00^n l_11^(n-1) ... (Muirhead, Aspects of Multivariate Statistical
  // Theory, theorem 2.1.9).
  Tensor log_det(T l) const {
    const Index n = l.shape(-1);
    const Tensor powers = arange(n, 0, -1, l.dtype(), l.device());
    return sum(powers * log(diagonal(l)), -1) + static_cast<double>(n) * std::numbers::ln2;
  }
};

// Row i of the factor is w_ij = z_ij (1 - w_i0^2 - ... - w_i,j-1^2)^(1/2) with z = tanh(u), and the
// rest of the unit vector on the diagonal. The rest is the product of the 1 - z_ik^2 for k < j.
struct CorrelationCholesky {
  int input_rank() const { return 1; }
  int output_rank() const { return 2; }
  // The square triangles of u, and the logarithms of the rest in front of each element.
  struct Rows {
    Tensor u, log_left;
    explicit Rows(T vector) {
      const Index length = vector.shape(-1), n = rows_of_triangle(length) + 1;
      u = strictly_lower(vector, n);
      const Tensor sums = cumulative_sum(log_sech_squared(u), -1, {.include_initial = true});
      log_left = sums(ellipsis, slice(none, n));
    }
  };
  Tensor forward(T vector) const {
    const Rows rows(vector);
    const Index n = rows.u.shape(-1);
    return (tanh(rows.u) + eye(n, vector.dtype(), vector.device())) * exp(rows.log_left / 2);
  }
  Tensor inverse(T l) const {
    const Tensor left = cumulative_sum(square(tril(l)), -1, {.reverse = true});
    return atanh(below_diagonal(l) / sqrt(below_diagonal(left)));
  }
  Tensor log_det(T vector) const {
    const Rows rows(vector);
    return sum(below_diagonal(log_sech_squared(rows.u) + rows.log_left / 2), -1);
  }
};

}  // namespace

Bijector Bijector::stick_breaking() { return StickBreaking{}; }
Bijector Bijector::lower_triangular_affine(NumberOrTensor location, Tensor scale_tril) {
  return LowerTriangularAffine{std::move(location), std::move(scale_tril)};
}
Bijector Bijector::lower_cholesky() { return LowerCholesky{}; }
Bijector Bijector::cholesky_product() { return CholeskyProduct{}; }
Bijector Bijector::correlation_cholesky() { return CorrelationCholesky{}; }

}  // namespace stave
