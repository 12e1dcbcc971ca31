// Rows of functions of complex numbers. The table's arrays are real: a complex operand is an array
// whose last axis holds the real and the imaginary part, and so is a complex result. So derivatives
// are checked along both parts, against differences of references in std::complex<long double>.

#include <algorithm>
#include <complex>

#include <stave/core/ops/at.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Z = std::complex<Real>;

const std::vector<Dtype> part_dtypes = {float32, float64};

/// The complex tensor with these parts, and its parts.
Tensor joined(const Tensor& parts) { return complex(parts(ellipsis, 0), parts(ellipsis, 1)); }
Tensor parted(const Tensor& z) { return stack({real(z), imag(z)}, -1); }

Shape with_parts(Shape shape) {
  shape.push_back(2);
  return shape;
}

/// The complex number at a position without the axis of parts.
Z at(const Array& parts, const Shape& position) {
  const auto part = [&](Index i) {
    Shape p = position;
    p.push_back(i);
    return parts(p);
  };
  return {part(0), part(1)};
}

/// The array of parts of f(position). Rounding errors are relative to the size of each number, or
/// to `size(position)`.
template <class F, class Size>
Array parts_of(Dtype dtype, const Shape& shape, F f, Size size) {
  const auto place = [](const Shape& p) { return part(p, 0, p.rank() - 1); };
  Array y = make(dtype, with_parts(shape),
                 [&](const Shape& p) { return p.back() ? f(place(p)).imag() : f(place(p)).real(); });
  y.magnitude = make(float64, with_parts(shape), [&](const Shape& p) -> Real { return size(place(p)); }).values;
  return y;
}
template <class F>
Array parts_of(Dtype dtype, const Shape& shape, F f) {
  return parts_of(dtype, shape, f, [&](const Shape& p) { return std::abs(f(p)); });
}

const std::vector<Shape> shapes = {{2, 3}, {5}, {2, 1, 3}, {2, 9}, {0, 3}};

// ---- elementwise functions ----------------------------------------------------------------------

using Call = Tensor (*)(Tensor);
using Formula = Z (*)(Z);

struct Unary {
  const char* name;
  Call call;
  Formula formula;
  Domain domain = {};
  Real accuracy = 8;
};

Row row_of(const Unary& f) {
  return {
      .name = std::string("complex_") + f.name,
      .dtypes = part_dtypes,
      .variants =
          [f](Dtype dtype) {
            std::vector<Variant> variants;
            const auto add = [&](const Shape& shape) {
              variants.push_back(
                  {.name = shape.str(),
                   .inputs = {{dtype, with_parts(shape), f.domain}},
                   .call = [call = f.call](auto xs) -> Outputs { return parted(call(joined(xs[0]))); },
                   .reference =
                       [=, formula = f.formula](auto xs) {
                         return Arrays{parts_of(dtype, shape, [&](const Shape& p) { return formula(at(xs[0], p)); })};
                       }});
            };
            for (const Shape& shape : shapes) add(shape);
            add({});
            return variants;
          },
      .accuracy = f.accuracy};
}

std::vector<Unary> functions() {
  using namespace stave;
#define CALL(f) .name = #f, .call = [](Tensor z) { return stave::f(z); }
#define FORMULA(...) .formula = [](Z z) -> Z { return __VA_ARGS__; }
  return {
      {CALL(negative), FORMULA(-z)},
      {CALL(sign), FORMULA(z / std::abs(z)), .domain = {0.3, 2}},
      {CALL(sqrt), FORMULA(std::sqrt(z))},
      {CALL(rsqrt), FORMULA(Real(1) / std::sqrt(z))},
      {CALL(square), FORMULA(z * z)},
      {CALL(reciprocal), FORMULA(Real(1) / z), .domain = {0.3, 2}},
      {CALL(exp), FORMULA(std::exp(z))},
      {CALL(exp2), FORMULA(std::pow(Z(2), z))},
      {CALL(expm1), FORMULA(std::exp(z) - Real(1)), .domain = {0.3, 2}},
      {CALL(log), FORMULA(std::log(z)), .domain = {0.3, 4}},
      {CALL(log2), FORMULA(std::log(z) / std::log(Real(2))), .domain = {0.3, 4}},
      {CALL(log10), FORMULA(std::log10(z)), .domain = {0.3, 4}},
      {CALL(log1p), FORMULA(std::log(Real(1) + z)), .domain = {0.2, 3}},
      {CALL(sin), FORMULA(std::sin(z))},
      {CALL(cos), FORMULA(std::cos(z))},
      {CALL(tan), FORMULA(std::tan(z)), .domain = {0.3, 1.2}},
      {CALL(asin), FORMULA(std::asin(z)), .domain = {0.3, 2}},
      {CALL(acos), FORMULA(std::acos(z)), .domain = {0.3, 2}},
      {CALL(atan), FORMULA(std::atan(z)), .domain = {0.3, 2}},
      {CALL(sinh), FORMULA(std::sinh(z))},
      {CALL(cosh), FORMULA(std::cosh(z))},
      {CALL(tanh), FORMULA(std::tanh(z)), .domain = {0.3, 1.2}},
      {CALL(asinh), FORMULA(std::asinh(z)), .domain = {0.3, 2}},
      {CALL(acosh), FORMULA(std::acosh(z)), .domain = {0.3, 2}},
      {CALL(atanh), FORMULA(std::atanh(z)), .domain = {0.3, 2}},
      {CALL(sigmoid), FORMULA(Real(1) / (Real(1) + std::exp(-z))), .domain = {-1.5, 1.5}},
      {CALL(sech_squared), FORMULA(Real(1) / (std::cosh(z) * std::cosh(z))), .domain = {-1, 1}},
      {CALL(logistic_density), FORMULA(std::exp(-z) / ((Real(1) + std::exp(-z)) * (Real(1) + std::exp(-z)))),
       .domain = {-1.5, 1.5}},
  };
#undef CALL
#undef FORMULA
}

struct Binary {
  const char* name;
  Tensor (*call)(Operand, Operand);
  Z (*formula)(Z, Z);
  Domain domain = {};
};

Row row_of(const Binary& f) {
  return {
      .name = std::string("complex_") + f.name,
      .dtypes = part_dtypes,
      .variants =
          [f](Dtype dtype) {
            std::vector<Variant> variants;
            const auto add = [&](const Shape& a, const Shape& b) {
              variants.push_back(
                  {.name = a.str() + " " + b.str(),
                   .inputs = {{dtype, with_parts(a), f.domain}, {dtype, with_parts(b), f.domain}},
                   .call = [call = f.call](auto xs) -> Outputs { return parted(call(joined(xs[0]), joined(xs[1]))); },
                   .reference =
                       [=, formula = f.formula](auto xs) {
                         return Arrays{parts_of(dtype, broadcast_shape(a, b), [&](const Shape& p) {
                           return formula(at(xs[0], broadcast_position(a, p)), at(xs[1], broadcast_position(b, p)));
                         })};
                       }});
            };
            for (const Shape& shape : shapes) add(shape, shape);
            add({2, 3}, {3});
            add({2, 1}, {1, 3});
            add({}, {});
            return variants;
          },
      .accuracy = 8};
}

std::vector<Binary> operators() {
  using namespace stave;
  return {{"add", stave::add, [](Z a, Z b) { return a + b; }},
          {"subtract", stave::subtract, [](Z a, Z b) { return a - b; }},
          {"multiply", stave::multiply, [](Z a, Z b) { return a * b; }},
          {"scale", stave::scale, [](Z a, Z b) { return a * b; }},
          {"divide", stave::divide, [](Z a, Z b) { return a / b; }, {0.3, 2}},
          {"scale_by_inverse", stave::scale_by_inverse, [](Z a, Z b) { return a / b; }, {0.3, 2}},
          {"pow", stave::pow, [](Z a, Z b) { return std::pow(a, b); }, {0.3, 2}},
          {"power_rule", stave::power_rule, [](Z a, Z b) { return b * std::pow(a, b - Real(1)); }, {0.3, 2}}};
}

// ---- the parts ----------------------------------------------------------------------------------

/// A row of a function whose results, or whose operands, are real.
template <class Make>
Row row_of_parts(const char* name, Make variant, const Domain& domain = {}) {
  return {.name = name,
          .dtypes = part_dtypes,
          .variants =
              [=](Dtype dtype) {
                std::vector<Variant> variants;
                for (const Shape& shape : shapes) variants.push_back(variant(dtype, shape, domain));
                variants.push_back(variant(dtype, Shape(), domain));
                return variants;
              },
          .accuracy = 4};
}

/// A variant of a function with real results.
Variant real_valued(Dtype dtype, const Shape& shape, const Domain& domain, Tensor (*call)(const Tensor&),
                    Real (*formula)(Z)) {
  return {.name = shape.str(),
          .inputs = {{dtype, with_parts(shape), domain}},
          .call = [=](auto xs) -> Outputs { return call(joined(xs[0])); },
          .reference =
              [=](auto xs) {
                Array y = make(dtype, shape, [&](const Shape& p) { return formula(at(xs[0], p)); });
                y.magnitude =
                    make(float64, shape, [&](const Shape& p) -> Real { return 1 + std::abs(at(xs[0], p)); }).values;
                return Arrays{y};
              }};
}

// ---- sums, products and recurrences -------------------------------------------------------------

Z product_of(const std::vector<Z>& values) {
  Z product = 1;
  for (const Z z : values) product *= z;
  return product;
}
Z sum_of(const std::vector<Z>& values) {
  Z sum = 0;
  for (const Z z : values) sum += z;
  return sum;
}
Real size_of(const std::vector<Z>& values) {
  Real size = 0;
  for (const Z z : values) size += std::abs(z);
  return size;
}

/// The elements along axis 0 of a matrix of complex numbers, up to `count` of them.
std::vector<Z> column(const Array& parts, Index j, Index count) {
  std::vector<Z> found;
  for (Index i = 0; i < count; ++i) found.push_back(at(parts, Shape(i, j)));
  return found;
}

// A sum or product along axis 0 of [rows, columns], or the partial ones if `is_scan`.
Row folded_row(const char* name, Tensor (*call)(const Tensor&), bool is_product, bool is_scan) {
  return {
      .name = name,
      .dtypes = part_dtypes,
      .variants =
          [=](Dtype dtype) {
            std::vector<Variant> variants;
            std::vector<Shape> shapes{Shape(3, 2), is_scan ? Shape(4, 9) : Shape(5, 9), Shape(0, 3)};
            if (!is_scan) shapes.push_back(Shape(1, 1));
            for (const Shape& shape : shapes)
              variants.push_back(
                  {.name = shape.str(),
                   .inputs = {{dtype, with_parts(shape), {0.5, 1.5}, true, 1}},
                   .call = [=](auto xs) -> Outputs { return parted(call(joined(xs[0]))); },
                   .reference =
                       [=](auto xs) {
                         const auto of = [&](const Shape& p) {
                           return is_scan ? column(xs[0], p[1], p[0] + 1) : column(xs[0], p[0], shape[0]);
                         };
                         return Arrays{parts_of(
                             dtype, is_scan ? shape : Shape(shape[1]),
                             [&](const Shape& p) { return is_product ? product_of(of(p)) : sum_of(of(p)); },
                             [&](const Shape& p) {
                               return is_product ? std::abs(product_of(of(p))) : size_of(of(p));
                             })};
                       }});
            variants.push_back({.name = "one number",
                                .inputs = {{dtype, {2}, {0.5, 1.5}}},
                                .call = [=](auto xs) -> Outputs {
                                  const Tensor y = parted(call(reshape(joined(xs[0]), {1, 1})));
                                  return reshape(y, {2});
                                },
                                .reference =
                                    [=](auto xs) {
                                      return Arrays{parts_of(dtype, {}, [&](const Shape&) { return at(xs[0], {}); })};
                                    }});
            return variants;
          },
      .accuracy = 8};
}

// ---- products, and movements of elements --------------------------------------------------------

Variant matmul_of(Dtype dtype, Index m, Index k, Index n) {
  return {.name = Shape(m, k, n).str(),
          .inputs = {{dtype, {m, k, 2}, {-2, 2}}, {dtype, {k, n, 2}, {-2, 2}}},
          .call = [](auto xs) -> Outputs { return parted(matmul(joined(xs[0]), joined(xs[1]))); },
          .reference =
              [=](auto xs) {
                const auto terms = [&](const Shape& p) {
                  std::vector<Z> found;
                  for (Index i = 0; i < k; ++i) found.push_back(at(xs[0], {p[0], i}) * at(xs[1], {i, p[1]}));
                  return found;
                };
                return Arrays{parts_of(
                    dtype, Shape(m, n), [&](const Shape& p) { return sum_of(terms(p)); },
                    [&](const Shape& p) { return size_of(terms(p)); })};
              }};
}

/// A row of a function of two complex vectors of length n that gives another one.
Row vectors_row(const char* name, Tensor (*call)(const Tensor&, const Tensor&),
                Z (*formula)(const std::vector<Z>&, const std::vector<Z>&, std::size_t)) {
  return {.name = name,
          .dtypes = part_dtypes,
          .variants =
              [=](Dtype dtype) {
                std::vector<Variant> variants;
                for (const Index n : {4, 0})
                  variants.push_back(
                      {.name = std::to_string(n),
                       .inputs = {{dtype, {n, 2}, {-2, 2}}, {dtype, {n, 2}, {-2, 2}}},
                       .call = [=](auto xs) -> Outputs { return parted(call(joined(xs[0]), joined(xs[1]))); },
                       .reference =
                           [=](auto xs) {
                             std::vector<Z> a, b;
                             for (Index i = 0; i < n; ++i) {
                               a.push_back(at(xs[0], {i}));
                               b.push_back(at(xs[1], {i}));
                             }
                             return Arrays{parts_of(
                                 dtype, Shape(n),
                                 [&](const Shape& p) { return formula(a, b, static_cast<std::size_t>(p[0])); },
                                 [&](const Shape&) { return size_of(a) + size_of(b); })};
                           }});
                variants.push_back({.name = "one number",
                                    .inputs = {{dtype, {2}, {-2, 2}}, {dtype, {2}, {-2, 2}}},
                                    .call = [=](auto xs) -> Outputs {
                                      return parted(
                                          call(broadcast_to(joined(xs[0]), {4}), broadcast_to(joined(xs[1]), {4})))(0);
                                    },
                                    .reference =
                                        [=](auto xs) {
                                          const std::vector<Z> a(4, at(xs[0], {})), b(4, at(xs[1], {}));
                                          return Arrays{parts_of(
                                              dtype, {}, [&](const Shape&) { return formula(a, b, 0); },
                                              [&](const Shape&) { return size_of(a) + size_of(b); })};
                                        }});
                return variants;
              },
          .accuracy = 8};
}

// ---- parts as inputs of their own ---------------------------------------------------------------

/// The variant with the real and the imaginary parts of each input as two inputs.
Variant with_parts_apart(const Variant& of_numbers) {
  Variant apart = of_numbers;
  apart.name += " parts apart";
  apart.inputs.clear();
  for (Input input : of_numbers.inputs) {
    input.shape.pop_back();
    apart.inputs.insert(apart.inputs.end(), 2, input);
  }
  apart.call = [call = of_numbers.call](std::span<const Tensor> xs) {
    std::vector<Tensor> numbers;
    for (std::size_t i = 0; i < xs.size(); i += 2) numbers.push_back(stack({xs[i], xs[i + 1]}, -1));
    return call(numbers);
  };
  apart.reference = [reference = of_numbers.reference](std::span<const Array> xs) {
    Arrays numbers;
    for (std::size_t i = 0; i < xs.size(); i += 2)
      numbers.push_back(make(xs[i].dtype, with_parts(xs[i].shape), [&](const Shape& p) {
        return xs[i + static_cast<std::size_t>(p.back())](part(p, 0, p.rank() - 1));
      }));
    return reference(numbers);
  };
  return apart;
}

/// Adds such variants of a row's first one and of that of single numbers, if there is one.
void add_parts_apart(Row& row) {
  row.variants = [variants = row.variants](Dtype dtype) {
    std::vector<Variant> all = variants(dtype);
    const auto of_numbers = std::ranges::find_if(all, [](const Variant& variant) {
      return std::ranges::all_of(variant.inputs, [](const Input& input) { return input.shape == Shape(2); });
    });
    if (of_numbers == all.end()) return all;
    const Variant apart[] = {with_parts_apart(all[0]), with_parts_apart(*of_numbers)};
    all.insert(all.end(), std::begin(apart), std::end(apart));
    return all;
  };
}

}  // namespace

void add_complex_rows(std::vector<Row>& rows) {
  const std::size_t first = rows.size();
  for (const Unary& f : functions()) rows.push_back(row_of(f));
  for (const Binary& f : operators()) rows.push_back(row_of(f));
  // The number is turned first, so that the result depends on both parts.
  rows.push_back(row_of_parts("real", [](Dtype dtype, const Shape& shape, const Domain& domain) {
    return real_valued(
        dtype, shape, domain, [](const Tensor& z) { return real(z * std::complex(0.6, 0.8)); },
        [](Z z) { return (z * Z(0.6, 0.8)).real(); });
  }));
  rows.push_back(row_of_parts("imag", [](Dtype dtype, const Shape& shape, const Domain& domain) {
    return real_valued(
        dtype, shape, domain, [](const Tensor& z) { return imag(z * std::complex(0.6, 0.8)); },
        [](Z z) { return (z * Z(0.6, 0.8)).imag(); });
  }));
  rows.push_back(row_of_parts("angle",
                              [](Dtype dtype, const Shape& shape, const Domain& domain) {
                                return real_valued(dtype, shape, domain, angle, [](Z z) { return std::arg(z); });
                              },
                              {0.3, 2}));
  rows.push_back(row_of_parts("complex_abs",
                              [](Dtype dtype, const Shape& shape, const Domain& domain) {
                                return real_valued(
                                    dtype, shape, domain, [](const Tensor& z) { return abs(z); },
                                    [](Z z) { return std::abs(z); });
                              },
                              {0.3, 2}));
  rows.push_back(row_of_parts("conj", [](Dtype dtype, const Shape& shape, const Domain& domain) {
    return Variant{.name = shape.str(),
                   .inputs = {{dtype, with_parts(shape), domain}},
                   .call = [](auto xs) -> Outputs { return parted(conj(joined(xs[0]))); },
                   .reference =
                       [=](auto xs) {
                         return Arrays{parts_of(dtype, shape, [&](const Shape& p) { return std::conj(at(xs[0], p)); })};
                       }};
  }));
  rows.push_back(row_of_parts("complex", [](Dtype dtype, const Shape& shape, const Domain& domain) {
    return Variant{.name = shape.str(),
                   .inputs = {{dtype, shape, domain}, {dtype, shape, domain}},
                   .call = [](auto xs) -> Outputs { return parted(complex(xs[0], xs[1])); },
                   .reference =
                       [=](auto xs) {
                         return Arrays{parts_of(dtype, shape, [&](const Shape& p) { return Z(xs[0](p), xs[1](p)); })};
                       }};
  }));
  rows.push_back(folded_row(
      "complex_sum", [](const Tensor& z) { return sum(z, 0); }, false, false));
  rows.push_back(folded_row(
      "complex_prod", [](const Tensor& z) { return prod(z, 0); }, true, false));
  rows.push_back(folded_row(
      "complex_cumulative_sum", [](const Tensor& z) { return cumulative_sum(z, 0); }, false, true));
  rows.push_back(folded_row(
      "complex_cumulative_prod", [](const Tensor& z) { return cumulative_prod(z, 0); }, true, true));
  rows.push_back(
      {.name = "complex_matmul",
       .dtypes = part_dtypes,
       .variants =
           [](Dtype dtype) {
             std::vector<Variant> variants{matmul_of(dtype, 2, 3, 2), matmul_of(dtype, 1, 5, 3),
                                           matmul_of(dtype, 3, 1, 2), matmul_of(dtype, 0, 2, 2),
                                           matmul_of(dtype, 2, 4, 1)};
             variants.push_back(
                 {.name = "one number",
                  .inputs = {{dtype, {2}}, {dtype, {2}}},
                  .call = [](auto xs) -> Outputs {
                    return parted(matmul(reshape(joined(xs[0]), {1}), reshape(joined(xs[1]), {1})));
                  },
                  .reference =
                      [=](auto xs) {
                        return Arrays{parts_of(dtype, {}, [&](const Shape&) { return at(xs[0], {}) * at(xs[1], {}); })};
                      }});
             return variants;
           },
       .accuracy = 16,
       .bitwise = false});
  rows.push_back(vectors_row(
      "complex_where", [](const Tensor& a, const Tensor& b) { return where(arange(a.shape(0)) % 2 == 0, a, b); },
      [](const auto& a, const auto& b, std::size_t i) { return i % 2 == 0 ? a[i] : b[i]; }));
  rows.push_back(vectors_row(
      "complex_at_add", [](const Tensor& a, const Tensor& b) { return a.at(zeros({a.shape(0)}, int32)).add(b); },
      [](const auto& a, const auto& b, std::size_t i) { return i == 0 ? a[0] + sum_of(b) : a[i]; }));
  rows.push_back(vectors_row(
      "complex_linear_recurrence", [](const Tensor& a, const Tensor& b) { return linear_recurrence(a, b, 0); },
      [](const auto& a, const auto& b, std::size_t i) {
        Z h = 0;
        for (std::size_t k = 0; k <= i; ++k) h = a[k] * h + b[k];
        return h;
      }));
  for (std::size_t i = first; i < rows.size(); ++i) {
    add_parts_apart(rows[i]);
    rows[i].is_documented = !rows[i].name.starts_with("complex_");
  }
}

}  // namespace table
