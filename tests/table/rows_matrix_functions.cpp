// Rows of general matrices and of matrices of a special structure.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/matrix_functions.h"
#include "table/reference.h"

namespace table {

namespace {

/// The sums of the first, second and third powers of the eigenvalues, which determine these up to
/// their order. The sums are real.
Outputs power_sums(const Tensor& x) {
  const Tensor w = eigvals(x);
  const auto sum_of = [&](const Tensor& powers) { return astype(real(sum(powers, -1)), as_float(x.dtype())); };
  return {sum_of(w), sum_of(w * w), sum_of(w * w * w)};
}
/// Adds 4 to the diagonal of square matrices, so that all eigenvalues are positive.
Tensor with_positive_eigenvalues(const Tensor& x) {
  if (x.rank() < 2 || x.shape(-1) != x.shape(-2)) return x;
  return x + 4 * eye(x.shape(-1), as_number(x.dtype()));
}
Matrices traces(const Matrix& a) {
  Matrix power = a;
  Matrices found;
  for (int i = 0; i < 3; ++i, power = power * a) {
    Real trace = 0;
    for (Index k = 0; k < a.rows; ++k) trace += power(k, k);
    found.push_back(number(trace));
  }
  return found;
}

Row of_pairs(const std::string& name, std::vector<std::vector<Shape>> shapes, std::vector<int> kept,
             const std::function<Outputs(std::span<const Tensor>)>& f, const OfMatrices& reference,
             std::function<std::vector<Variant>(Dtype)> refusals = {}) {
  return matrix_row(name, {}, [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const std::vector<Shape>& all : shapes) {
      Variant variant;
      for (const Shape& shape : all) {
        variant.name += (variant.name.empty() ? "" : " ") + shape.str();
        variant.inputs.push_back({dtype, shape, besides(dtype)});
      }
      variant.call = f;
      variant.reference = [=](auto xs) { return of_stacks(as_float(dtype), xs, kept, reference); };
      variants.push_back(variant);
    }
    if (refusals)
      for (Variant& variant : refusals(dtype)) variants.push_back(variant);
    return variants;
  });
}

Variant refused_call(Dtype dtype, std::vector<Shape> shapes, const std::function<Tensor(std::span<const Tensor>)>& f,
                     const std::string& words) {
  Variant variant;
  variant.name = "refused";
  for (const Shape& shape : shapes) {
    variant.name += " " + shape.str();
    variant.inputs.push_back({dtype, shape});
  }
  variant.call = [f](auto xs) { return Outputs{f(xs)}; };
  variant.refusal = words;
  return variant;
}

Matrix plus(Matrix a, Real diagonal) {
  for (Index i = 0; i < std::min(a.rows, a.columns); ++i) a(i, i) += diagonal;
  return a;
}
Matrix based(const Matrix& x) {
  Matrix a = x;
  for (Index i = 0; i < std::min(a.rows, a.columns); ++i) a(i, i) += 3 * static_cast<Real>(i + 1);
  return a;
}

/// The matrix with the given bands, of which row `upper` has 4 added.
Matrix from_bands(const Matrix& bands, Index lower, Index upper) {
  Matrix a(bands.columns, bands.columns);
  for (Index j = 0; j < a.columns; ++j)
    for (Index i = std::max<Index>(0, j - upper); i <= std::min(a.rows - 1, j + lower); ++i)
      a(i, j) = bands(upper + i - j, j) + (i == j ? 4 : 0);
  return a;
}

std::vector<Variant> banded_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [lower, upper, bands, b] :
       std::vector<std::tuple<Index, Index, Shape, Shape>>{{1, 1, {3, 5}, {5, 2}},
                                                           {2, 0, {2, 3, 4}, {4, 1}},
                                                           {0, 1, {2, 3}, {2, 3, 2}},
                                                           {1, 2, {4, 2}, {2, 1}},
                                                           {1, 1, {0, 3, 4}, {4, 1}}}) {
    const auto f = [=, lower = lower, upper = upper](auto xs) {
      const Tensor middle = zeros({lower + upper + 1, 1}, as_number(dtype));
      const Tensor base = where(arange(lower + upper + 1) == upper, 4, 0);
      return Outputs{solve_banded(xs[0] + astype(expand_dims(base, -1), as_number(dtype)) + middle, xs[1],
                                  {.lower = lower, .upper = upper})};
    };
    const auto reference = [=, lower = lower, upper = upper](std::span<const Matrix> ms) {
      return Matrices{solved(from_bands(ms[0], lower, upper), ms[1])};
    };
    variants.push_back({.name = bands.str() + " " + b.str() + " lower " + std::to_string(lower),
                        .inputs = {{dtype, bands, besides(dtype)}, {dtype, b, besides(dtype)}},
                        .call = f,
                        .reference = [=](auto xs) { return of_stacks(as_float(dtype), xs, {2}, reference); }});
  }
  const auto refuse = [](auto xs) { return solve_banded(xs[0], xs[1], {.lower = 1, .upper = 1}); };
  variants.push_back(refused_call(dtype, {{2, 4}, {4}}, refuse, "do not have 1 + 1 + 1 rows"));
  variants.push_back(refused_call(dtype, {{3, 4}, {3, 1}}, refuse, "do not fit bands"));
  variants.push_back(refused_call(dtype, {{}, {3, 1}}, refuse, "fewer than the 2 axes"));
  return variants;
}

/// The operands are matrices of one row, so that stacks broadcast as for matrices.
Tensor first_row(const Tensor& x) { return squeeze(x, -2); }
Tensor raised(const Tensor& x, int by) { return x + astype(Tensor(by), as_number(x.dtype())); }

Matrix tridiagonal(const Matrix& lower, const Matrix& diagonal, const Matrix& upper) {
  Matrix a(diagonal.columns, diagonal.columns);
  for (Index i = 0; i < a.rows; ++i) {
    a(i, i) = diagonal(0, i) + 4;
    if (i > 0) a(i, i - 1) = lower(0, i);
    if (i + 1 < a.rows) a(i, i + 1) = upper(0, i);
  }
  return a;
}

std::vector<Variant> toeplitz_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [column, row] :
       std::vector<std::pair<Shape, Shape>>{{{3}, {4}}, {{2, 4}, {2}}, {{2, 1, 2}, {3, 3}}, {{1}, {1}}, {{0}, {2}}}) {
    variants.push_back({.name = column.str() + " " + row.str(),
                        .inputs = {{dtype, column}, {dtype, row}},
                        .call = [](auto xs) { return Outputs{toeplitz(xs[0], xs[1])}; },
                        .reference =
                            [=](auto xs) {
                              const auto at = [](const Array& x, Shape p, Index i) {
                                p.back() = i;
                                return x(broadcast_position(x.shape, p));
                              };
                              const Index m = xs[0].shape.back(), n = xs[1].shape.back();
                              const Shape stack = broadcast_shape(part(xs[0].shape, 0, xs[0].shape.rank() - 1),
                                                                  part(xs[1].shape, 0, xs[1].shape.rank() - 1));
                              return Arrays{make(dtype, concatenated(stack, Shape(m, n)), [&](const Shape& p) {
                                const Shape place = part(p, 0, p.rank() - 1);
                                const Index down = p[p.size() - 2] - p.back();
                                return down >= 0 ? at(xs[0], place, down) : at(xs[1], place, -down);
                              })};
                            }});
  }
  variants.push_back(
      {.name = "symmetric",
       .inputs = {{dtype, {3}}},
       .call = [](auto xs) { return Outputs{toeplitz(xs[0])}; },
       .reference =
           [=](auto xs) {
             return Arrays{make(dtype, {3, 3}, [&](const Shape& p) { return xs[0]({std::abs(p[0] - p[1])}); })};
           }});
  variants.push_back(refused_call(
      dtype, {{}, {2}}, [](auto xs) { return toeplitz(xs[0], xs[1]); }, "is a number"));
  return variants;
}

std::vector<Variant> block_diag_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{2, 3}, {1, 2}}, {{2, 2, 2}, {3, 1}}, {{2, 1, 1, 2}, {3, 2, 1}}, {{0, 2}, {2, 0}}})
    variants.push_back({.name = a.str() + " " + b.str(),
                        .inputs = {{dtype, a}, {dtype, b}},
                        .call =
                            [](auto xs) {
                              return Outputs{block_diag({xs[0], xs[1]})};
                            },
                        .reference =
                            [=](auto xs) {
                              const Index m = xs[0].shape[xs[0].shape.size() - 2], n = xs[0].shape.back(),
                                          k = xs[1].shape[xs[1].shape.size() - 2], l = xs[1].shape.back();
                              const Shape stack = broadcast_shape(part(xs[0].shape, 0, xs[0].shape.rank() - 2),
                                                                  part(xs[1].shape, 0, xs[1].shape.rank() - 2));
                              return Arrays{
                                  make(dtype, concatenated(stack, Shape(m + k, n + l)), [&](const Shape& p) -> Real {
                                    Shape q = p;
                                    const Index r = p[p.size() - 2], c = p.back();
                                    if (r < m && c < n) return xs[0](broadcast_position(xs[0].shape, q));
                                    if (r < m || c < n) return 0;
                                    q[q.size() - 2] = r - m;
                                    q.back() = c - n;
                                    return xs[1](broadcast_position(xs[1].shape, q));
                                  })};
                            }});
  const auto both = [](auto xs) { return block_diag({xs[0], xs[1]}); };
  variants.push_back(refused_call(dtype, {{}, {2, 2}}, both, "fewer than the 2 axes"));
  return variants;
}

}  // namespace

void add_matrix_function_rows(std::vector<Row>& rows) {
  rows.push_back(of_squares(
      "eig", {2},
      [](const Tensor& x) {
        const auto [w, v] = eig(x);
        return Outputs{astype(real(matmul(v * exp(expand_dims(w, -2) / 8), inv(v))), as_float(x.dtype()))};
      },
      [](auto xs) {
        Matrix x = xs[0];
        for (Real& value : x.values) value /= 8;
        return Matrices{exponential(x)};
      }));
  rows.push_back(of_squares(
      "eigvals", {0, 0, 0}, [](const Tensor& x) { return power_sums(x); }, [](auto xs) { return traces(xs[0]); }));
  Row schurs = of_squares(
      "schur", {2},
      [](const Tensor& x) {
        const auto [t, z] = schur(x);
        return Outputs{matmul(z, t, matrix_transpose(z))};
      },
      [](auto xs) { return Matrices{xs[0]}; });
  schurs.variants = [all = schurs.variants](Dtype dtype) {
    std::vector<Variant> variants = all(dtype);
    for (Variant& variant : variants)
      for (Input& input : variant.inputs) input.differentiable = false;
    return variants;
  };
  schurs.no_derivative = {{0, "the form is not unique: an error"}};
  rows.push_back(schurs);
  rows.push_back(of_squares(
      "ldl", {2, 2},
      [](const Tensor& x) {
        const auto [l, d, order] = ldl(x);
        return Outputs{l, d};
      },
      [](auto xs) {
        Matrix l = cholesky_of(xs[0]), d(l.rows, l.rows);
        for (Index c = 0; c < l.columns; ++c) {
          const Real root = l(c, c);
          d(c, c) = root * root;
          for (Index r = c; r < l.rows; ++r) l(r, c) /= root;
        }
        return Matrices{l, d};
      }));
  rows.push_back(of_squares(
      "sqrtm", {2}, [](const Tensor& x) { return sqrtm(with_positive_eigenvalues(x)); },
      [](auto xs) { return Matrices{square_root(plus(xs[0], 4))}; }));
  rows.push_back(of_squares(
      "logm", {2}, [](const Tensor& x) { return logm(with_positive_eigenvalues(x)); },
      [](auto xs) { return Matrices{logarithm(plus(xs[0], 4))}; }));
  rows.push_back(of_pairs(
      "solve_sylvester",
      {{{3, 3}, {2, 2}, {3, 2}},
       {{2, 3, 3}, {1, 1}, {3, 1}},
       {{2, 2}, {2, 3, 3}, {4, 1, 2, 3}},
       {{0, 2, 2}, {2, 2}, {2, 2}},
       {{1, 1}, {1, 1}, {1, 1}}},
      {2}, [](auto xs) { return Outputs{solve_sylvester(with_base(xs[0]), with_base(xs[1]), xs[2])}; },
      [](auto ms) { return Matrices{sylvester(based(ms[0]), based(ms[1]), ms[2])}; },
      [](Dtype dtype) {
        const auto f = [](auto xs) { return solve_sylvester(xs[0], xs[1], xs[2]); };
        return std::vector{refused_call(dtype, {{2, 2}, {2, 2}, {3, 2}}, f, "do not fit right sides"),
                           refused_call(dtype, {{2, 3}, {2, 2}, {2, 2}}, f, "is not of square matrices"),
                           refused_call(dtype, {{}, {2, 2}, {2, 2}}, f, "fewer than the 2 axes")};
      }));
  rows.push_back(matrix_row("solve_banded", {}, banded_variants));
  rows.push_back(of_pairs(
      "tridiagonal_solve",
      {{{1, 4}, {1, 4}, {1, 4}, {4, 2}},
       {{2, 1, 3}, {1, 3}, {2, 1, 3}, {3, 1}},
       {{1, 1}, {1, 1}, {1, 1}, {1, 2}},
       {{0, 1, 3}, {1, 3}, {1, 3}, {3, 1}}},
      {2},
      [](auto xs) {
        return Outputs{tridiagonal_solve(first_row(xs[0]), raised(first_row(xs[1]), 4), first_row(xs[2]), xs[3])};
      },
      [](auto ms) { return Matrices{solved(tridiagonal(ms[0], ms[1], ms[2]), ms[3])}; },
      [](Dtype dtype) {
        const auto f = [](auto xs) { return tridiagonal_solve(xs[0], xs[1], xs[2], xs[3]); };
        return std::vector{refused_call(dtype, {{}, {2}, {2}, {2}}, f, "differ in length")};
      }));
  rows.push_back(of_pairs(
      "eigh_tridiagonal", {{{1, 4}, {1, 3}}, {{2, 1, 2}, {1, 1}}, {{0, 1, 3}, {1, 2}}}, {1, 2},
      [](auto xs) {
        const Tensor diagonal = first_row(xs[0]);
        const auto [w, v] = eigh_tridiagonal(
            diagonal + astype(3 * arange(diagonal.shape(-1)), as_number(xs[0].dtype())), first_row(xs[1]));
        return Outputs{w, square(v)};
      },
      [](auto ms) {
        Matrix a(ms[0].columns, ms[0].columns);
        for (Index i = 0; i < a.rows; ++i) {
          a(i, i) = ms[0](0, i) + 3 * static_cast<Real>(i);
          if (i > 0) a(i, i - 1) = a(i - 1, i) = ms[1](0, i - 1);
        }
        const auto [w, v] = eigen(a);
        return Matrices{column(w), squares(v)};
      },
      [](Dtype dtype) {
        const auto f = [](auto xs) { return eigh_tridiagonal(xs[0], xs[1]).first; };
        return std::vector{refused_call(dtype, {{}, {2}}, f, "does not fit a diagonal")};
      }));
  rows.push_back(of_rectangles(
      "polar", {2, 2, 2},
      [](const Tensor& x) {
        const auto [u, p] = polar(x);
        return Outputs{u, p, polar(x, {.left = true}).second};
      },
      [](auto xs) {
        const Singular found(xs[0]);
        Matrix u = found.u, v = found.v;
        for (Index r = 0; r < v.rows; ++r)
          for (Index c = 0; c < v.columns; ++c) v(r, c) *= found.values[static_cast<std::size_t>(c)];
        for (Index r = 0; r < u.rows; ++r)
          for (Index c = 0; c < u.columns; ++c) u(r, c) *= found.values[static_cast<std::size_t>(c)];
        return Matrices{found.u * transposed(found.v), v * transposed(found.v), u * transposed(found.u)};
      }));
  rows.push_back(of_pairs(
      "cholesky_update", {{{3, 3}, {3, 1}}, {{2, 4, 4}, {4, 1}}, {{1, 1}, {2, 1, 1}}, {{0, 2, 2}, {2, 1}}}, {2},
      [](auto xs) { return Outputs{cholesky_update(with_base(xs[0]), squeeze(xs[1], -1))}; },
      [](auto ms) {
        Matrix l = based(ms[0]);
        for (Index r = 0; r < l.rows; ++r)
          for (Index c = r + 1; c < l.columns; ++c) l(r, c) = 0;
        Matrix a = l * transposed(l), x = ms[1] * transposed(ms[1]);
        for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += x.values[i];
        return Matrices{cholesky_of(a)};
      },
      [](Dtype dtype) {
        const auto f = [](auto xs) { return cholesky_update(xs[0], xs[1]); };
        return std::vector{refused_call(dtype, {{3, 3}, {2}}, f, "does not fit factors"),
                           refused_call(dtype, {{}, {2}}, f, "fewer than the 2 axes")};
      }));
  rows.push_back({.name = "toeplitz", .dtypes = all_dtypes, .variants = toeplitz_variants});
  rows.push_back({.name = "block_diag", .dtypes = all_dtypes, .variants = block_diag_variants});
  rows.push_back(of_rectangles(
      "cond", {0}, [](const Tensor& x) { return cond(x); },
      [](auto xs) {
        const Singular found(xs[0]);
        return Matrices{number(found.values.front() / found.values.back())};
      }));
  Row adjoints = {.name = "conj_transpose", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    std::vector<Variant> variants;
                    for (const Shape& shape : {Shape{2, 3}, Shape{2, 1, 3}, Shape{0, 2}}) {
                      Shape turned = shape;
                      std::swap(turned.back(), turned[turned.size() - 2]);
                      variants.push_back(view_of("", dtype, shape, conj_transpose, turned, [](Shape p) {
                        std::swap(p.back(), p[p.size() - 2]);
                        return p;
                      }));
                    }
                    variants.push_back(refused_call(
                        dtype, {{}}, [](auto xs) { return conj_transpose(xs[0]); }, "matrix_transpose"));
                    return variants;
                  }};
  rows.push_back(adjoints);
}

}  // namespace table
