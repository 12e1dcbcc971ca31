#include "table/linalg.h"

#include <algorithm>
#include <cmath>

#include <stave/core/ops/elementwise.h>

#include "table/reference.h"

namespace table {

namespace {

Shape stack_of(const Array& x) { return part(x.shape, 0, x.shape.rank() - 2); }

Matrix matrix_at(const Array& x, const Shape& at) {
  Matrix y(x.shape[x.shape.size() - 2], x.shape.back());
  const Shape place = broadcast_position(stack_of(x), at);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) y(r, c) = x(concatenated(place, Shape(r, c)));
  return y;
}

/// The well-conditioned matrix that is added to random numbers in [-1, 1].
Array base(Dtype dtype, Index m, Index n, bool turned) {
  const Index k = std::min(m, n);
  return make(dtype, {m, n},
              [&](const Shape& p) { return p[0] == (turned ? k - 1 - p[1] : p[1]) ? 3 * (p[0] + 1) : 0; });
}

const std::vector<Shape> squares_of = {{3, 3}, {2, 4, 4}, {1, 1}, {0, 3, 3}, {0, 0}};

}  // namespace

Arrays of_stacks(Dtype dtype, std::span<const Array> xs, std::vector<int> kept, const OfMatrices& f) {
  Shape stack;
  // One matrix of each stack. For an empty stack it is zero; it gives the shapes.
  Matrices sample;
  for (const Array& x : xs) {
    stack = broadcast_shape(stack, stack_of(x));
    sample.push_back(identity(x.shape[x.shape.size() - 2], x.shape.back()));
  }
  sample = f(sample);
  std::vector<std::vector<Real>> values(kept.size());
  for_each_position(stack, [&](const Shape& at) {
    Matrices operands;
    for (const Array& x : xs) operands.push_back(matrix_at(x, at));
    const Matrices found = f(operands);
    for (std::size_t k = 0; k < kept.size(); ++k)
      values[k].insert(values[k].end(), found[k].values.begin(), found[k].values.end());
  });
  Arrays results;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const Shape of_matrix = kept[k] == 2   ? Shape(sample[k].rows, sample[k].columns)
                            : kept[k] == 1 ? Shape(static_cast<Index>(sample[k].values.size()))
                                           : Shape();
    Array result{dtype, concatenated(stack, of_matrix), values[k]};
    Real largest = 0.1L;
    for (Real value : result.values) largest = std::max(largest, std::abs(value));
    result.magnitude.assign(result.values.size(), largest);
    results.push_back(result);
  }
  return results;
}

Domain besides(Dtype dtype) {
  if (!is_half_float(dtype)) return {-1, 1};
  // Multiples of 1/8, which half floats add exactly.
  Domain eighths;
  for (int i = 1; i <= 8; ++i) eighths.choices.insert(eighths.choices.end(), {i / 8.0L, -i / 8.0L});
  return eighths;
}

Tensor with_base(const Tensor& x, bool turned) {
  return x + to_tensor(base(as_number(x.dtype()), x.shape(-2), x.shape(-1), turned));
}
Array with_base(const Array& x, bool turned) {
  const Array b = base(as_number(x.dtype), x.shape[x.shape.size() - 2], x.shape.back(), turned);
  return mapped(as_number(x.dtype), x, b, [](Real p, Real q) { return p + q; });
}

Variant of_matrix(const std::string& name, Dtype dtype, const Shape& shape, std::vector<int> kept, const OfTensor& f,
                  const OfMatrices& reference, bool turned) {
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape, besides(dtype)}},
          .call = [=](auto xs) { return f(with_base(xs[0], turned)); },
          .reference =
              [=](auto xs) {
                const Array x = with_base(xs[0], turned);
                return of_stacks(as_float(dtype), std::span(&x, 1), kept, reference);
              }};
}

Variant by_tolerances(Dtype dtype, const Shape& shape, const Shape& tolerances, std::vector<int> kept,
                      const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                      const std::function<Matrix(const Matrix&, bool none)>& reference) {
  return {
      .name = shape.str() + " by " + tolerances.str(),
      .inputs = {{dtype, shape, besides(dtype)}, {float64, tolerances, {.choices = {1e-4L, 2}}, false}},
      .call = [=](auto xs) { return f(with_base(xs[0]), xs[1]); },
      .reference =
          [=](auto xs) {
            const Array operands[] = {with_base(xs[0]), {float64, concatenated(tolerances, Shape(1, 1)), xs[1].values}};
            return of_stacks(as_float(dtype), operands, kept,
                             [&](auto ms) { return Matrices{reference(ms[0], ms[1].values[0] > 1)}; });
          }};
}

Variant refuse_number(Dtype dtype, const OfTensor& f) {
  return {.name = "()",
          .inputs = {{dtype, {}}},
          .call = [=](auto xs) { return f(xs[0]); },
          .refusal = "fewer than the 2 axes"};
}
Variant refuse_rectangle(Dtype dtype, const OfTensor& f) {
  return {.name = "(2, 3)",
          .inputs = {{dtype, {2, 3}}},
          .call = [=](auto xs) { return f(xs[0]); },
          .refusal = "is not of square matrices"};
}

Row matrix_row(const std::string& name, std::vector<std::string> also,
               std::function<std::vector<Variant>(Dtype)> variants) {
  return {.name = name,
          .dtypes = all_dtypes,
          .variants = std::move(variants),
          .also = std::move(also),
          .accuracy = 32,
          .bitwise = false};
}

Row of_squares(const std::string& name, std::vector<int> kept, const OfTensor& f, const OfMatrices& reference) {
  return matrix_row(name, {}, [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const Shape& shape : squares_of) variants.push_back(of_matrix("", dtype, shape, kept, f, reference));
    variants.push_back(refuse_number(dtype, f));
    variants.push_back(refuse_rectangle(dtype, f));
    return variants;
  });
}
Row of_rectangles(const std::string& name, std::vector<int> kept, const OfTensor& f, const OfMatrices& reference) {
  return matrix_row(name, {}, [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const Shape& shape : rectangles) variants.push_back(of_matrix("", dtype, shape, kept, f, reference));
    variants.push_back(refuse_number(dtype, f));
    return variants;
  });
}

}  // namespace table
