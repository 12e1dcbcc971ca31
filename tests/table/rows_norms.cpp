// Rows of functions that map a matrix to a number: determinants, rank, norms.

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/reference.h"

namespace table {

namespace {

Real norm_of(const Matrix& x, const MatrixOrder& order) {
  const std::vector<Real> s = Singular(x).values;
  Real sum = 0, squares = 0;
  for (Real value : s) sum += value, squares += value * value;
  if (order.kind() == MatrixOrder::Kind::frobenius) return std::sqrt(squares);
  if (order.kind() == MatrixOrder::Kind::nuclear) return sum;
  if (order.number() == 2) return s.front();
  if (order.number() == -2) return s.back();
  const Matrix y = std::isinf(order.number()) ? x : transposed(x);
  std::vector<Real> sums(static_cast<std::size_t>(y.rows));
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) sums[static_cast<std::size_t>(r)] += std::abs(y(r, c));
  return order.number() > 0 ? *std::max_element(sums.begin(), sums.end()) : *std::min_element(sums.begin(), sums.end());
}

const double infinity = std::numeric_limits<double>::infinity();

std::vector<Variant> matrix_norm_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const std::vector<std::pair<std::string, MatrixOrder>> orders = {{"fro", "fro"},    {"nuc", "nuc"},     {"1", 1},
                                                                   {"-1", -1},        {"2", 2},           {"-2", -2},
                                                                   {"inf", infinity}, {"-inf", -infinity}};
  for (const auto& [name, order] : orders)
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{2, 3}, Shape{0, 2, 2}})
      variants.push_back(of_matrix(
          name + " ", dtype, shape, {0}, [order = order](const Tensor& x) { return matrix_norm(x, order); },
          [order = order](auto xs) { return Matrices{number(norm_of(xs[0], order))}; }));
  variants.push_back(refuse_number(dtype, [](const Tensor& x) { return matrix_norm(x); }));
  return variants;
}

// x with its sign flipped, to which norms are invariant.
Tensor signed_of(const Tensor& x) { return is_float(x.dtype()) ? -x : x; }

/// A vector norm. Elements that tie at `at` share the derivative of the infinite norms.
Array vector_norm_of(Dtype dtype, const Array& at, const Array& x, double order, std::optional<Index> axis) {
  const auto over = [&](const Shape& p) {
    std::vector<Real> sizes, there;
    const auto take = [&](const Shape& q) {
      sizes.push_back(std::abs(x(q)));
      there.push_back(std::abs(at(q)));
    };
    if (axis)
      for (Index i = 0; i < x.shape[static_cast<std::size_t>(*axis)]; ++i) take(with_axis(p, *axis, i));
    else for_each_position(x.shape, take);
    if (sizes.empty()) return Real(0);
    Real sum = 0, count = 0;
    const Real extreme =
        order > 0 ? *std::max_element(there.begin(), there.end()) : *std::min_element(there.begin(), there.end());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (std::isinf(order) && there[i] != extreme) continue;
      sum += std::isinf(order) ? sizes[i] : std::pow(sizes[i], static_cast<Real>(order));
      // Norms of order 0 count all elements, because none is 0.
      count += 1;
    }
    if (std::isinf(order)) return sum / count;
    return order == 0 ? count : std::pow(sum, 1 / static_cast<Real>(order));
  };
  return make(as_float(dtype), axis ? without_axis(x.shape, *axis) : Shape(), over);
}

Variant vector_norm_of(Dtype dtype, const Shape& shape, double order, std::optional<Index> axis) {
  return {.name = std::to_string(order) + shape.str() + (axis ? " along " + std::to_string(*axis) : ""),
          .inputs = {{dtype, shape, {0.3, 3}}},
          .call =
              [=](auto xs) {
                const Tensor x = signed_of(xs[0]);
                return axis ? vector_norm(x, order, *axis) : vector_norm(x, order);
              },
          .reference = [=](auto xs) { return Arrays{vector_norm_of(dtype, xs[0], xs[0], order, axis)}; },
          .smooth = [=](auto at, auto xs) { return Arrays{vector_norm_of(dtype, at[0], xs[0], order, axis)}; },
          .differentiable = order != 0};
}

std::vector<Variant> vector_norm_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const double order : {2., 1., 3., 2.5, 0.5, -1., -2., 0., infinity, -infinity})
    for (const auto& [shape, axis] :
         std::vector<std::pair<Shape, std::optional<Index>>>{{{5}, {}}, {{2, 3}, {}}, {{2, 3, 2}, 1}, {{0, 3}, 1}})
      if (!(shape.elements() == 0 && std::isinf(order) && !axis))
        variants.push_back(vector_norm_of(dtype, shape, order, axis));
  variants.push_back(vector_norm_of(dtype, {}, 2, {}));
  variants.push_back(vector_norm_of(dtype, {}, 3, {}));
  return variants;
}

}  // namespace

void add_norm_rows(std::vector<Row>& rows) {
  rows.push_back(
      of_squares("det", {0}, stave::det, [](auto xs) { return Matrices{number(Elimination(xs[0]).determinant())}; }));
  rows.push_back(of_squares(
      "slogdet", {0, 0},
      [](const Tensor& x) -> Outputs {
        const auto [sign, logarithm] = slogdet(x);
        return {sign, logarithm};
      },
      [](auto xs) {
        const Real value = Elimination(xs[0]).determinant();
        return Matrices{number(value < 0 ? -1 : 1), number(std::log(std::abs(value)))};
      }));
  Row ranks = of_rectangles(
      "matrix_rank", {0}, [](const Tensor& x) { return matrix_rank(x); },
      [](auto xs) { return Matrices{number(std::min(xs[0].rows, xs[0].columns))}; });
  ranks.variants = [of_floats = ranks.variants](Dtype dtype) {
    std::vector<Variant> variants = of_floats(dtype);
    for (Variant& variant : variants) {
      variant.differentiable = false;
      if (variant.reference)
        variant.reference = [reference = variant.reference](auto xs) {
          Arrays found = reference(xs);
          found[0].dtype = int32;
          return found;
        };
    }
    for (const auto& [shape, of_each] : std::vector<std::pair<Shape, Shape>>{{{2, 4, 3}, {2}}, {{3, 4}, {2}}}) {
      Variant variant = by_tolerances(
          dtype, shape, of_each, {0},
          [](const Tensor& x, const Tensor& rtol) { return matrix_rank(x, {.rtol = rtol}); },
          [](const Matrix& x, bool none) { return number(none ? 0 : std::min(x.rows, x.columns)); });
      variant.differentiable = false;
      variant.reference = [reference = variant.reference](auto xs) {
        Arrays found = reference(xs);
        found[0].dtype = int32;
        return found;
      };
      variants.push_back(variant);
    }
    return variants;
  };
  rows.push_back(ranks);
  rows.push_back(matrix_row("matrix_norm", {}, matrix_norm_variants));
  rows.push_back(matrix_row("vector_norm", {}, vector_norm_variants));
}

}  // namespace table
