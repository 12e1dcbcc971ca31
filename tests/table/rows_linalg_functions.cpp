// Rows of solutions from factors, products of reflections, and equations of tensors.

#include <stave/core/ops/linalg_functions.h>

#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/reference.h"

namespace table {

namespace {

std::vector<Variant> lu_solve_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const bool transpose : {false, true})
    for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
             {{3, 3}, {3, 2}}, {{2, 3, 3}, {2, 3, 1}}, {{3, 3}, {3}}, {{0, 3, 3}, {0, 3, 2}}}) {
      const bool is_vector = b.rank() == 1;
      variants.push_back({.name = a.str() + " " + b.str() + (transpose ? " transposed" : ""),
                          .inputs = {{dtype, a, besides(dtype)}, {dtype, b, besides(dtype)}},
                          .call =
                              [=](auto xs) {
                                const auto [lu, pivots, permutation] = lu_factor(with_base(xs[0], true));
                                return lu_solve(lu, permutation, xs[1], {.transpose = transpose});
                              },
                          .reference =
                              [=](auto xs) {
                                Array sides = xs[1];
                                if (is_vector) sides.shape.push_back(1);
                                const Array operands[] = {with_base(xs[0], true), sides};
                                return of_stacks(as_float(dtype), operands, {is_vector ? 1 : 2}, [&](auto ms) {
                                  return Matrices{solved(transpose ? transposed(ms[0]) : ms[0], ms[1])};
                                });
                              }});
    }
  variants.push_back({.name = "()",
                      .inputs = {{dtype, {}}, {int32, {1}, {.choices = {0}}}},
                      .call = [](auto xs) { return lu_solve(xs[0], xs[1], xs[0]); },
                      .refusal = "must be square"});
  return variants;
}

/// The product H_1 ... H_k of reflections.
Matrix reflections(const Matrix& v, const Matrix& tau) {
  Matrix q = identity(v.rows, v.rows);
  for (Index i = 0; i < tau.rows; ++i) {
    Matrix x(v.rows, 1);
    for (Index r = i; r < v.rows; ++r) x(r, 0) = r == i ? 1 : v(r, i);
    Matrix h = identity(v.rows, v.rows);
    const Matrix square = x * transposed(x);
    for (std::size_t e = 0; e < h.values.size(); ++e) h.values[e] -= tau(i, 0) * square.values[e];
    q = q * h;
  }
  return q;
}

/// A variant of f of vectors, factors and another matrix if `more` has a rank of 2 or more.
Variant of_reflections(const std::string& name, Dtype dtype, const Shape& v, const Shape& tau, const Shape& more,
                       const std::function<Tensor(std::span<const Tensor>)>& call,
                       const std::function<Matrix(const Matrix& v, const Matrix& q, const Matrix& c)>& reference) {
  Variant variant{.name = name + v.str() + " " + tau.str(),
                  .inputs = {{dtype, v, {-1, 1}}, {dtype, tau, {0.2, 1.5}}},
                  .call = [=](auto xs) { return call(xs); }};
  if (more.rank() > 1) variant.inputs.push_back({dtype, more, {-2, 2}});
  variant.reference = [=](auto xs) {
    std::vector<Array> operands(xs.begin(), xs.end());
    operands[1].shape.push_back(1);
    Arrays arrays = of_stacks(as_float(dtype), operands, {2}, [&](auto ms) {
      return Matrices{reference(ms[0], reflections(ms[0], ms[1]), ms.size() > 2 ? ms[2] : Matrix())};
    });
    return Arrays{sized(arrays[0], 32)};
  };
  return variant;
}

std::vector<Variant> householder_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [v, tau] : std::vector<std::pair<Shape, Shape>>{
           {{4, 3}, {3}}, {{2, 3, 2}, {2, 2}}, {{4, 3}, {2}}, {{3, 3}, {3}}, {{0, 3, 2}, {0, 2}}})
    variants.push_back(of_reflections(
        "", dtype, v, tau, {}, [](auto xs) { return householder_product(xs[0], xs[1]); },
        [](const Matrix& m, const Matrix& q, const Matrix&) { return columns_of(q, m.columns); }));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return householder_product(x, x); }, "m >= n >= k"));
  return variants;
}

std::vector<Variant> ormqr_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const bool left : {true, false})
    for (const bool transpose : {false, true}) {
      const auto call = [=](auto xs) { return ormqr(xs[0], xs[1], xs[2], {.left = left, .transpose = transpose}); };
      const auto reference = [=](const Matrix&, const Matrix& q, const Matrix& c) {
        const Matrix factor = transpose ? transposed(q) : q;
        return left ? factor * c : c * factor;
      };
      const std::string name = std::string(left ? "left " : "right ") + (transpose ? "transposed " : "");
      variants.push_back(of_reflections(name, dtype, {4, 3}, {3}, left ? Shape(4, 2) : Shape(2, 4), call, reference));
      variants.push_back(
          of_reflections(name, dtype, {2, 3, 2}, {2, 2}, left ? Shape(2, 3, 2) : Shape(2, 2, 3), call, reference));
    }
  variants.push_back(of_reflections(
      "", dtype, {0, 3, 2}, {0, 2}, {0, 3, 2}, [](auto xs) { return ormqr(xs[0], xs[1], xs[2]); },
      [](const Matrix&, const Matrix& q, const Matrix& c) { return q * c; }));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return ormqr(x, x, x); }, "m >= n >= k"));
  return variants;
}

Matrix as_matrix(const Array& x, Index rows) {
  Matrix m(rows, rows);
  m.values = x.values;
  return m;
}

/// The map [2, 3] -> [6], as a well-conditioned matrix and a random one.
std::vector<Variant> tensor_variants(Dtype dtype, bool inverse) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& first, const Shape& others) {
    const Index n = first.elements();
    Variant variant{.name = first.str() + " " + others.str(), .inputs = {{dtype, {n, n}, besides(dtype)}}};
    if (!inverse) variant.inputs.push_back({dtype, first, besides(dtype)});
    variant.call = [=](auto xs) {
      const Tensor a = reshape(with_base(xs[0]), concatenated(first, others));
      return inverse ? tensorinv(a, first.rank()) : tensorsolve(a, xs[1]);
    };
    variant.reference = [=](auto xs) {
      const Matrix a = as_matrix(with_base(xs[0]), n);
      Matrix b = identity(n, n);
      if (!inverse) {
        b = Matrix(n, 1);
        b.values = xs[1].values;
      }
      return Arrays{sized({as_float(dtype), inverse ? concatenated(others, first) : others, solved(a, b).values}, 8)};
    };
    variants.push_back(std::move(variant));
  };
  add({2, 2}, {4});
  add({4}, {2, 2});
  add({0}, {0});
  variants.push_back(
      {.name = "()",
       .inputs = {{dtype, {}}},
       .call = [=](auto xs) { return inverse ? tensorinv(xs[0], 1) : tensorsolve(xs[0], xs[0](newaxis)); },
       .refusal = inverse ? "1 axes of shape" : "must begin with the axes of b"});
  return variants;
}

}  // namespace

void add_linalg_function_rows(std::vector<Row>& rows) {
  rows.push_back(matrix_row("lu_solve", {}, lu_solve_variants));
  rows.push_back(matrix_row("householder_product", {}, householder_variants));
  rows.push_back(matrix_row("ormqr", {}, ormqr_variants));
  rows.push_back(matrix_row("tensorinv", {}, [](Dtype dtype) { return tensor_variants(dtype, true); }));
  rows.push_back(matrix_row("tensorsolve", {}, [](Dtype dtype) { return tensor_variants(dtype, false); }));
}

}  // namespace table
