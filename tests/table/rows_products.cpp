// Rows of powers and exponentials of matrices, and of products of vectors.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/reference.h"

namespace table {

namespace {

Matrix power_of(Matrix x, Index n) {
  if (n < 0) x = solved(x, identity(x.rows, x.rows));
  Matrix y = identity(x.rows, x.rows);
  for (Index i = 0; i < std::abs(n); ++i) y = y * x;
  return y;
}

std::vector<Variant> matrix_power_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Index n : {-2, -1, 0, 1, 3, 6})
    for (const Shape& shape : {Shape{2, 2}, Shape{2, 3, 3}, Shape{0, 2, 2}}) {
      if (is_half_float(dtype) && n > 3) continue;  // the results exceed the range of float16
      Variant variant = of_matrix(
          std::to_string(n) + " ", dtype, shape, {2}, [=](const Tensor& x) { return matrix_power(x, n); },
          [=](auto xs) { return Matrices{power_of(xs[0], n)}; });
      const Dtype given = dtype == bool_ ? int32 : dtype;
      if (n >= 0 && !is_float(given))
        variant.reference = [=](auto xs) {
          const Array x = with_base(xs[0]);
          Arrays y = of_stacks(given, std::span(&x, 1), {2}, [=](auto ms) { return Matrices{power_of(ms[0], n)}; });
          for (Real& value : y[0].values) value = rounded(value, given);
          return y;
        };
      variants.push_back(variant);
    }
  const auto square = [](const Tensor& x) { return matrix_power(x, 2); };
  variants.push_back(refuse_number(dtype, square));
  variants.push_back(refuse_rectangle(dtype, square));
  return variants;
}

Variant pair_of(Dtype dtype, const Shape& a, const Shape& b, const std::string& name,
                const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                const std::function<Array(const Array&, const Array&)>& reference) {
  return {.name = name + a.str() + " " + b.str(),
          .inputs = {{dtype, a, {-3, 3}}, {dtype, b, {-3, 3}}},
          .call = [=](auto xs) { return f(xs[0], xs[1]); },
          .reference = [=](auto xs) { return Arrays{reference(xs[0], xs[1])}; }};
}
Variant refuse_pair(Dtype dtype, const Shape& a, const Shape& b,
                    const std::function<Tensor(const Tensor&, const Tensor&)>& f, const std::string& words) {
  return {.name = a.str() + " " + b.str(),
          .inputs = {{dtype, a}, {dtype, b}},
          .call = [=](auto xs) { return f(xs[0], xs[1]); },
          .refusal = words};
}

std::vector<Variant> cross_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b, axis] : std::vector<std::tuple<Shape, Shape, Index>>{
           {{3}, {3}, -1}, {{2, 3}, {3}, -1}, {{3, 2}, {3, 2}, 0}, {{2, 3, 1}, {3, 4}, -2}, {{0, 3}, {3}, -1}})
    variants.push_back(pair_of(
        dtype, a, b, "", [axis = axis](const Tensor& x, const Tensor& y) { return cross(x, y, axis); },
        [=, axis = axis](const Array& x, const Array& y) {
          const Shape shape = broadcast_shape(x.shape, y.shape);
          const auto at = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
          const auto term = [&](const Shape& p, Index i, Index j) {
            Shape left = p, right = p;
            left[at] = (p[at] + i) % 3;
            right[at] = (p[at] + j) % 3;
            return x(broadcast_position(x.shape, left)) * y(broadcast_position(y.shape, right));
          };
          Array z = make(as_number(dtype), shape, [&](const Shape& p) { return term(p, 1, 2) - term(p, 2, 1); });
          z.magnitude = make(float64, shape, [&](const Shape& p) {
                          return std::abs(term(p, 1, 2)) + std::abs(term(p, 2, 1));
                        }).values;
          return z;
        }));
  const auto of_last = [](const Tensor& x, const Tensor& y) { return cross(x, y); };
  variants.push_back(refuse_pair(dtype, {2}, {3}, of_last, "shape [2] does not have 3 components along axis -1"));
  variants.push_back(refuse_pair(dtype, {}, {3}, of_last, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> vecdot_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b, axis] : std::vector<std::tuple<Shape, Shape, Index>>{{{4}, {4}, -1},
                                                                               {{2, 3}, {3}, -1},
                                                                               {{3, 2}, {3, 2}, 0},
                                                                               {{2, 3, 1}, {3, 4}, -2},
                                                                               {{0, 3}, {3}, -1},
                                                                               {{2, 0}, {0}, -1}})
    variants.push_back(pair_of(
        dtype, a, b, "", [axis = axis](const Tensor& x, const Tensor& y) { return vecdot(x, y, axis); },
        [=, axis = axis](const Array& x, const Array& y) {
          const Shape shape = broadcast_shape(x.shape, y.shape);
          const Index at = axis < 0 ? axis + shape.rank() : axis;
          const auto sum = [&](const Shape& p, bool absolute) {
            Real total = 0;
            for (Index i = 0; i < shape[static_cast<std::size_t>(at)]; ++i) {
              const Shape q = with_axis(p, at, i);
              const Real term = x(broadcast_position(x.shape, q)) * y(broadcast_position(y.shape, q));
              total += absolute ? std::abs(term) : term;
            }
            return total;
          };
          const Shape result = without_axis(shape, at);
          Array z = make(as_number(dtype), result, [&](const Shape& p) { return sum(p, false); });
          z.magnitude = make(float64, result, [&](const Shape& p) { return sum(p, true); }).values;
          return z;
        }));
  const auto of_last = [](const Tensor& x, const Tensor& y) { return vecdot(x, y); };
  variants.push_back(refuse_pair(dtype, {2}, {3}, of_last, "shapes [2] and [3] differ in length along axis -1"));
  variants.push_back(refuse_pair(dtype, {}, {3}, of_last, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> vdot_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b] :
       std::vector<std::pair<Shape, Shape>>{{{4}, {4}}, {{2, 3}, {3, 2}}, {{}, {1}}, {{0}, {0, 2}}})
    variants.push_back(pair_of(dtype, a, b, "", stave::vdot, [=](const Array& x, const Array& y) {
      Real total = 0, size = 0;
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        total += x.values[i] * y.values[i];
        size += std::abs(x.values[i] * y.values[i]);
      }
      return sized(make(as_number(dtype), {}, [&](const Shape&) { return total; }), size);
    }));
  variants.push_back(refuse_pair(dtype, {2}, {3}, stave::vdot, "shapes [2] and [3] differ in size"));
  return variants;
}

std::vector<Variant> kron_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{2, 3}, {3, 2}}, {{2}, {3}}, {{2, 2}, {3}}, {{2}, {2, 1, 3}}, {{}, {2}}, {{0, 2}, {2, 2}}})
    variants.push_back(pair_of(dtype, a, b, "", stave::kron, [](const Array& x, const Array& y) {
      const int rank = std::max(x.shape.rank(), y.shape.rank());
      const auto padded = [&](Shape shape) {
        while (shape.rank() < rank) shape = with_axis(shape, 0, 1);
        return shape;
      };
      const Array left{x.dtype, padded(x.shape), x.values}, right{y.dtype, padded(y.shape), y.values};
      Shape shape = left.shape;
      for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= right.shape[i];
      return make(x.dtype, shape, [&](const Shape& p) {
        Shape i = p, j = p;
        for (std::size_t k = 0; k < p.size(); ++k) {
          i[k] = p[k] / right.shape[k];
          j[k] = p[k] % right.shape[k];
        }
        return left(i) * right(j);
      });
    }));
  return variants;
}

}  // namespace

void add_product_rows(std::vector<Row>& rows) {
  rows.push_back(matrix_row("matrix_power", {}, matrix_power_variants));
  rows.push_back(of_squares(
      "expm", {2}, [](const Tensor& x) { return expm(x * 0.25); },
      [](auto xs) {
        Matrix x = xs[0];
        for (Real& value : x.values) value /= 4;
        return Matrices{exponential(x)};
      }));
  rows.push_back({.name = "cross", .dtypes = number_dtypes, .variants = cross_variants});
  rows.push_back({.name = "vdot", .dtypes = all_dtypes, .variants = vdot_variants, .bitwise = false});
  rows.push_back({.name = "vecdot", .dtypes = all_dtypes, .variants = vecdot_variants, .bitwise = false});
  rows.push_back({.name = "kron", .dtypes = number_dtypes, .variants = kron_variants});
}

}  // namespace table
