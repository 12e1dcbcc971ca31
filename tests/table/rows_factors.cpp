// Rows of factorisations, eigenvalues and singular values.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/reference.h"

namespace table {

namespace {

/// Eigenvectors are determined up to their signs only. Their squares are compared instead;
/// these are differentiable wherever the eigenvectors are.
Outputs eigh_without_signs(const Tensor& a) {
  const auto [w, v] = eigh(a);
  return {w, square(v)};
}
Outputs svd_without_signs(const Tensor& a, bool full) {
  const auto [u, s, vh] = svd(a, {.full_matrices = full});
  return {square(u), s, square(vh)};
}
/// For full matrices: the first k columns, and the projections onto the span of the other columns.
Outputs full_svd_without_signs(const Tensor& a) {
  const auto [u, s, vh] = svd(a);
  const Index k = s.shape(-1);
  const Tensor u1 = u(ellipsis, slice(k)), v1 = vh(ellipsis, slice(k), slice());
  const Tensor u2 = u(ellipsis, slice(k, none)), v2 = vh(ellipsis, slice(k, none), slice());
  return {square(u1), s, square(v1), matmul(u2, matrix_transpose(u2)), matmul(matrix_transpose(v2), v2)};
}

std::vector<Variant> qr_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto reduced = [](const Tensor& a) -> Outputs {
    const auto [q, r] = qr(a);
    return {q, r};
  };
  for (const Shape& shape : rectangles)
    variants.push_back(of_matrix("", dtype, shape, {2, 2}, reduced, [](auto xs) {
      const auto [q, r] = qr_of(xs[0]);
      const Index k = std::min(q.rows, r.columns);
      return Matrices{columns_of(q, k), transposed(columns_of(transposed(r), k))};
    }));
  // The columns of q beyond n are compared through the projection onto their span.
  const auto complete = [](const Tensor& a) -> Outputs {
    const auto [q, r] = qr(a, {.complete = true});
    const Index k = std::min(a.shape(-1), a.shape(-2));
    const Tensor beyond = q(ellipsis, slice(k, none));
    return {q(ellipsis, slice(k)), matmul(beyond, matrix_transpose(beyond)), r};
  };
  for (const Shape& shape : {Shape{4, 2}, Shape{2, 3, 3}, Shape{3, 2}})
    variants.push_back(of_matrix("complete ", dtype, shape, {2, 2, 2}, complete, [](auto xs) {
      const auto [q, r] = qr_of(xs[0]);
      const Matrix first = columns_of(q, std::min(q.rows, r.columns));
      return Matrices{first, outside(first), r};
    }));
  variants.push_back(refuse_number(dtype, reduced));
  return variants;
}

Matrices lu_of(const Matrix& a, bool packed) {
  const Elimination lu(a);
  const Index m = a.rows, n = a.columns, k = std::min(m, n);
  std::vector<Real> order(lu.order.begin(), lu.order.end()), exchanges(lu.exchanges.begin(), lu.exchanges.end());
  if (packed) return {lu.packed, column(exchanges), column(order)};
  Matrix p(m, m), l(m, k), u(k, n);
  for (Index i = 0; i < m; ++i) p(lu.order[static_cast<std::size_t>(i)], i) = 1;
  for (Index r = 0; r < m; ++r)
    for (Index c = 0; c < k; ++c) l(r, c) = r == c ? 1 : r > c ? lu.packed(r, c) : 0;
  for (Index r = 0; r < k; ++r)
    for (Index c = r; c < n; ++c) u(r, c) = lu.packed(r, c);
  return {p, l, u};
}

std::vector<Variant> lu_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto three = [](const Tensor& a) -> Outputs {
    const auto [p, l, u] = lu(a);
    return {p, l, u};
  };
  const auto packed = [](const Tensor& a) -> Outputs { return std::get<0>(lu_factor(a)); };
  const auto places = [](const Tensor& a) -> Outputs {
    const auto [both, exchanges, order] = lu_factor(a);
    return {exchanges, order};
  };
  for (const Shape& shape : rectangles) {
    variants.push_back(of_matrix(
        "", dtype, shape, {2, 2, 2}, three, [](auto xs) { return lu_of(xs[0], false); }, true));
    variants.push_back(of_matrix(
        "packed ", dtype, shape, {2}, packed, [](auto xs) { return Matrices{lu_of(xs[0], true)[0]}; }, true));
    Variant variant = of_matrix(
        "places ", dtype, shape, {1, 1}, places,
        [](auto xs) {
          const Matrices found = lu_of(xs[0], true);
          return Matrices{found[1], found[2]};
        },
        true);
    variant.reference = [reference = variant.reference](auto xs) {
      Arrays found = reference(xs);
      found[0].dtype = found[1].dtype = int32;
      return found;
    };
    variant.differentiable = false;
    variants.push_back(variant);
  }
  variants.push_back(refuse_number(dtype, three));
  return variants;
}

}  // namespace

void add_factor_rows(std::vector<Row>& rows) {
  rows.push_back(of_squares(
      "cholesky", {2, 2},
      [](const Tensor& x) -> Outputs {
        return {cholesky(x), cholesky(x, {.upper = true})};
      },
      [](auto xs) {
        return Matrices{cholesky_of(xs[0]), transposed(cholesky_of(xs[0]))};
      }));
  rows.push_back(matrix_row("lu", {"lu_factor"}, lu_variants));
  rows.push_back(matrix_row("qr", {}, qr_variants));
  rows.push_back(of_squares("eigh", {1, 2}, eigh_without_signs, [](auto xs) {
    const auto [w, v] = eigen(symmetric(xs[0]));
    return Matrices{column(w), squares(v)};
  }));
  rows.push_back(of_squares("eigvalsh", {1}, stave::eigvalsh,
                            [](auto xs) { return Matrices{column(eigen(symmetric(xs[0])).first)}; }));
  Row svds = of_rectangles(
      "svd", {2, 1, 2}, [](const Tensor& x) { return svd_without_signs(x, false); },
      [](auto xs) {
        const Singular found(xs[0]);
        return Matrices{squares(found.u), column(found.values), squares(transposed(found.v))};
      });
  svds.variants = [reduced = svds.variants](Dtype dtype) {
    std::vector<Variant> variants = reduced(dtype);
    for (const Shape& shape : {Shape{4, 2}, Shape{2, 3, 3}, Shape{2, 4}})
      variants.push_back(of_matrix("full ", dtype, shape, {2, 1, 2, 2, 2}, full_svd_without_signs, [](auto xs) {
        const Singular found(xs[0]);
        return Matrices{squares(found.u), column(found.values), squares(transposed(found.v)), outside(found.u),
                        outside(found.v)};
      }));
    return variants;
  };
  rows.push_back(svds);
  rows.push_back(
      of_rectangles("svdvals", {1}, stave::svdvals, [](auto xs) { return Matrices{column(Singular(xs[0]).values)}; }));
}

}  // namespace table
