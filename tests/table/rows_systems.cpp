// Rows of systems of linear equations, inverses and least squares.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/reference.h"

namespace table {

namespace {

/// A row of f of a stack of matrices and right-hand sides. With `turned`, the matrices need
/// pivoting.
Row of_systems(const std::string& name, bool square, const std::function<Tensor(const Tensor&, const Tensor&)>& f,
               const std::function<Matrix(const Matrix&, const Matrix&)>& reference, bool turned) {
  return matrix_row(name, {}, [=](Dtype dtype) {
    std::vector<std::pair<Shape, Shape>> shapes = {
        {{3, 3}, {3, 2}},    {{3, 3}, {3}},    {{2, 3, 3}, {2, 3, 2}}, {{2, 1, 3, 3}, {4, 3, 1}},
        {{3, 3}, {2, 3, 2}}, {{2, 3, 3}, {3}}, {{0, 3, 3}, {3, 2}},    {{3, 3}, {3, 0}}};
    if (!square)
      shapes = {{{4, 3}, {4, 2}}, {{3, 4}, {3}}, {{2, 4, 2}, {4, 1}}, {{3, 3}, {2, 3, 2}}, {{0, 3, 2}, {3, 2}}};
    std::vector<Variant> variants;
    for (const auto& [a, b] : shapes) {
      const bool vector = b.rank() == 1;
      variants.push_back({.name = a.str() + " " + b.str(),
                          .inputs = {{dtype, a, besides(dtype)}, {dtype, b, besides(dtype)}},
                          .call = [=](auto xs) { return f(with_base(xs[0], turned), xs[1]); },
                          .reference =
                              [=](auto xs) {
                                Array sides = xs[1];
                                if (vector) sides.shape.push_back(1);
                                const Array operands[] = {with_base(xs[0], turned), sides};
                                return of_stacks(as_float(dtype), operands, {vector ? 1 : 2},
                                                 [&](auto ms) { return Matrices{reference(ms[0], ms[1])}; });
                              }});
    }
    variants.push_back({.name = "() (3)",
                        .inputs = {{dtype, {}}, {dtype, {3}}},
                        .call = [=](auto xs) { return f(xs[0], xs[1]); },
                        .refusal = "fewer than the 2 axes"});
    variants.push_back({.name = "(3, 3) (2, 1)",
                        .inputs = {{dtype, {3, 3}}, {dtype, {2, 1}}},
                        .call = [=](auto xs) { return f(xs[0], xs[1]); },
                        .refusal = "right sides [2,1] do not fit matrices [3,3]"});
    return variants;
  });
}

Matrix solve_triangle(Matrix a, const Matrix& b, const TriangularOptions& options) {
  for (Index r = 0; r < a.rows; ++r)
    for (Index c = 0; c < a.rows; ++c) {
      if (r == c && options.unit_diagonal) a(r, c) = 1;
      if (options.lower ? r < c : r > c) a(r, c) = 0;
    }
  return solved(options.transpose ? transposed(a) : a, b);
}

}  // namespace

void add_system_rows(std::vector<Row>& rows) {
  rows.push_back(of_systems("solve", true, stave::solve, solved, true));
  rows.push_back(of_squares("inv", {2}, stave::inv,
                            [](auto xs) { return Matrices{solved(xs[0], identity(xs[0].rows, xs[0].rows))}; }));
  Row triangular = of_systems(
      "triangular_solve", true, [](const Tensor& a, const Tensor& b) { return triangular_solve(a, b); },
      [](const Matrix& a, const Matrix& b) { return solve_triangle(a, b, {}); }, false);
  triangular.variants = [upper = triangular.variants](Dtype dtype) {
    std::vector<Variant> variants = upper(dtype);
    for (const int flags : {1, 2, 3, 4, 7}) {
      const TriangularOptions options{
          .lower = (flags & 1) != 0, .transpose = (flags & 2) != 0, .unit_diagonal = (flags & 4) != 0};
      variants.push_back({.name = "flags " + std::to_string(flags),
                          .inputs = {{dtype, {2, 3, 3}, besides(dtype)}, {dtype, {3, 2}, besides(dtype)}},
                          .call = [=](auto xs) { return triangular_solve(with_base(xs[0]), xs[1], options); },
                          .reference =
                              [=](auto xs) {
                                const Array operands[] = {with_base(xs[0]), xs[1]};
                                return of_stacks(as_float(dtype), operands, {2}, [&](auto ms) {
                                  return Matrices{solve_triangle(ms[0], ms[1], options)};
                                });
                              }});
    }
    return variants;
  };
  rows.push_back(triangular);
  rows.push_back(of_systems(
      "lstsq", false, [](const Tensor& a, const Tensor& b) { return lstsq(a, b); },
      [](const Matrix& a, const Matrix& b) { return pseudo_inverse(a) * b; }, true));
  Row inverses = of_rectangles(
      "pinv", {2}, [](const Tensor& x) { return pinv(x); }, [](auto xs) { return Matrices{pseudo_inverse(xs[0])}; });
  inverses.variants = [plain = inverses.variants](Dtype dtype) {
    std::vector<Variant> variants = plain(dtype);
    for (const auto& [shape, of_each] :
         std::vector<std::pair<Shape, Shape>>{{{2, 4, 3}, {2}}, {{3, 4}, {2}}, {{2, 3, 3}, {3, 1}}, {{2, 3}, {}}})
      variants.push_back(by_tolerances(
          dtype, shape, of_each, {2}, [](const Tensor& x, const Tensor& rtol) { return pinv(x, {.rtol = rtol}); },
          [](const Matrix& x, bool none) { return none ? Matrix(x.columns, x.rows) : pseudo_inverse(x); }));
    return variants;
  };
  inverses.no_derivative = {{1, "the rank is held"}};
  rows.push_back(inverses);
}

}  // namespace table
