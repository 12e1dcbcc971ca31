// Functions of matrices of a special structure, composed of operations.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/index.h>
#include <stave/core/ops/linalg_frontend.h>
#include <stave/core/ops/scan.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

Tensor at_corner(const Tensor& x, Index above, Index left, Index below, Index right) {
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()), {0, 0});
  widths[widths.size() - 2] = {above, below};
  widths.back() = {left, right};
  return pad(x, widths);
}

Tensor along_last_axis(const Tensor& x, Index by) { return roll(x, {by}, {-1}); }

}  // namespace

// d[r, c] is on row r; row j of the bands holds a[j + r - upper, j].
Tensor tridiagonal_solve(const Tensor& lower, const Tensor& diagonal, const Tensor& upper, const Tensor& b) {
  const auto solved = [](const Tensor& below, const Tensor& main, const Tensor& above, const Tensor& sides) {
    for (const Tensor* x : {&below, &main, &above})
      if (x->rank() == 0 || x->shape(-1) != main.shape(-1))
        fail<ShapeError>("tridiagonal_solve: diagonals {}, {} and {} differ in length", below.shape(), main.shape(),
                         above.shape());
    const Tensor all = main + zeros_like(below) + zeros_like(above);
    const Tensor bands = stack({broadcast_to(along_last_axis(above, 1), all.shape()), broadcast_to(main, all.shape()),
                                broadcast_to(along_last_axis(below, -1), all.shape())},
                               -2);
    return solve_banded(bands, sides, {.lower = 1, .upper = 1});
  };
  return with_common_floats("tridiagonal_solve", solved, lower, diagonal, upper, b);
}

std::pair<Tensor, Tensor> eigh_tridiagonal(const Tensor& diagonal, const Tensor& off_diagonal) {
  return named(
      "eigh_tridiagonal",
      [&]() -> std::pair<Tensor, Tensor> {
        if (diagonal.rank() == 0 || off_diagonal.rank() == 0 ||
            off_diagonal.shape(-1) != std::max<Index>(0, diagonal.shape(-1) - 1))
          fail<ShapeError>("eigh_tridiagonal: an off-diagonal {} does not fit a diagonal {}: it has one element less",
                           off_diagonal.shape(), diagonal.shape());
        const Dtype dtype = common_inexact(diagonal, off_diagonal);
        if (diagonal.shape(-1) < 2) return eigh(astype(as_diagonal(diagonal), dtype));
        const Tensor below = at_corner(as_diagonal(astype(off_diagonal, dtype)), 1, 0, 0, 1);
        return eigh(as_diagonal(astype(diagonal, dtype)) + below + adjoint(below));
      },
      diagonal, off_diagonal);
}

// Returns u, the polar factor by the svd, and p = u^H a or a u^H. The derivative of this product is
// that of p also where singular values are equal; the derivative of v diag(s) v^H is not.
std::pair<Tensor, Tensor> polar(const Tensor& a, PolarOptions options) {
  return with_floats("polar", a, [&](const Tensor& x) -> std::pair<Tensor, Tensor> {
    check_matrices(x, "polar");
    const auto [left, s, right] = svd(x, {.full_matrices = false});
    const Tensor u = matmul(left, right);
    return {u, hermitian_part(options.left ? matmul(x, adjoint(u)) : matmul(adjoint(u), x))};
  });
}

// With p = l^-1 x, the new factor is l m, where m m^H = 1 + p p^H. For the sums
// s_j = 1 + |p_1|^2 + ... + |p_j|^2,
//   m_jj = sqrt(s_j / s_(j-1)), m_ij = p_i conj(p_j) / sqrt(s_j s_(j-1)) for i > j.
Tensor cholesky_update(const Tensor& l, const Tensor& x) {
  const auto updated = [](const Tensor& factor, const Tensor& vector) {
    check_square(factor, "cholesky_update");
    if (vector.rank() == 0 || vector.shape(-1) != factor.shape(-1))
      fail<ShapeError>("cholesky_update: a vector {} does not fit factors {}", vector.shape(), factor.shape());
    const Tensor triangle = tril(factor),
                 p = squeeze(triangular_solve(triangle, expand_dims(vector, -1), {.lower = true}), -1);
    if (p.shape(-1) == 0) return triangle + 0 * expand_dims(p, -1);
    const Tensor size = square(abs(p)), sums = 1 + cumulative_sum(size, -1), before = sums - size;
    const Tensor tails = cumulative_sum(triangle * expand_dims(p, -2), -1, {.reverse = true});
    const Tensor beyond = at_corner(columns(tails, 1, tails.shape(-1) - 1), 0, 0, 0, 1);
    return times_diagonal(triangle, sqrt(sums / before)) + times_diagonal(beyond, conj(p) / sqrt(sums * before));
  };
  return with_common_floats("cholesky_update", updated, l, x);
}

Tensor toeplitz(const Tensor& column, const Tensor& row) {
  return named(
      "toeplitz",
      [&] {
        const Tensor& c = require_defined(column, "toeplitz");
        const Tensor r = row.defined() ? row : conj(c);
        if (c.rank() == 0 || r.rank() == 0)
          fail<ShapeError>("toeplitz: a column {} or row {} is a number", c.shape(), r.shape());
        const Index m = c.shape(-1), n = r.shape(-1);
        const Dtype dtype = promote(c.dtype(), r.dtype());
        const Shape before_c = without_last(c.shape());
        const Shape before_r = without_last(r.shape());
        const Shape stack = broadcast_shapes(before_c, before_r, "toeplitz");
        if (m == 0 || n == 0) return zeros(stacked(stack, {m, n}), dtype, c.device());
        // The elements of a, from the upper right corner along the first row to the left, and down.
        const Tensor rest = flip(entries(r, r.rank() - 1, 1, n - 1), {-1});
        const Tensor all =
            concat({over_stack(astype(rest, dtype), stack, 1), over_stack(astype(c, dtype), stack, 1)}, -1);
        const Tensor down = expand_dims(arange(0, m, 1, int32, c.device()), -1);
        const Tensor across = arange(0, n, 1, int32, c.device());
        return take(all, down - across + (n - 1), -1);
      },
      column, row.defined() ? row : column);
}

Tensor block_diag(const std::vector<Tensor>& blocks) {
  check_defined(blocks, "block_diag");
  if (blocks.empty()) fail<Error>("block_diag: there is no block");
  return naming("block_diag", [&] {
    Index n = 0, left = 0;
    Shape stack;
    Dtype dtype = blocks[0].dtype();
    for (const Tensor& x : blocks) {
      check_matrices(x, "block_diag");
      n += x.shape(-1);
      stack = broadcast_shapes(stack, stack_of(x.shape()), "block_diag");
      dtype = promote(dtype, x.dtype());
    }
    std::vector<Tensor> bands;
    for (const Tensor& x : blocks) {
      bands.push_back(at_corner(over_stack(astype(x, dtype), stack), 0, left, 0, n - left - x.shape(-1)));
      left += x.shape(-1);
    }
    return concat(bands, -2);
  });
}

Tensor cond(const Tensor& a, MatrixOrder order) {
  return with_floats("cond", a, [&](const Tensor& x) {
    check_matrices(x, "cond");
    if (order.kind() == MatrixOrder::Kind::number && std::abs(order.number()) == 2) {
      const Tensor s = svdvals(x);
      const Tensor ratio = max(s, -1) / min(s, -1);
      return order.number() > 0 ? ratio : 1 / ratio;
    }
    check_square(x, "cond");
    return matrix_norm(x, order) * matrix_norm(inv(x), order);
  });
}

}  // namespace stave
