// Rows of elementwise_op and fused: recorded functions of one and of several operands,
// and with several results.

#include <cmath>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/program/fused.h>
#include <stave/handlers/compile/elementwise_op.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

const auto bump = elementwise_op("bump", [](const Tensor& x) { return where(x > 0, x * exp(-x), tanh(x) / 2); });
Real bump_of(Real x) { return x > 0 ? x * std::exp(-x) : std::tanh(x) / 2; }

const auto blend = elementwise_op(
    "blend", [](const Tensor& x, const Tensor& y) { return maximum(x, y) + 0.25 * x * astype(y, x.dtype()); });
Real blend_of(Real x, Real y) { return std::max(x, y) + 0.25L * x * y; }

// Two results: x y and x - y.
Outputs two(const Tensor& x, const Tensor& y) {
  const IntrusivePtr<Region> region(new Region({x.dtype(), y.dtype()}));
  const int product = region->add(op_multiply, {0, 1}), difference = region->add(op_subtract, {0, 1});
  region->set_outputs({product, difference});
  return fused(region, {x, y});
}

// Three results: x y summed over rows, the maximum of |x y| in each row, and x y itself.
Outputs ended(const Tensor& x, const Tensor& y) {
  const IntrusivePtr<Region> region(new Region({x.dtype(), y.dtype()}));
  const int product = region->add(op_multiply, {0, 1});
  const int size = region->add(op_abs, {product});
  region->set_outputs({region->reduce(op_sum, product, {-2}, true), region->reduce(op_max, size, {-1}), product});
  return fused(region, {x, y});
}

// The product of max(x, y) over rows, and the minimum of x - y in each row.
Outputs ended_otherwise(const Tensor& x, const Tensor& y) {
  const IntrusivePtr<Region> region(new Region({x.dtype(), y.dtype()}));
  const int difference = region->add(op_subtract, {0, 1});
  region->set_outputs(
      {region->reduce(op_prod, region->add(op_maximum, {0, 1}), {-2}), region->reduce(op_min, difference, {-1}, true)});
  return fused(region, {x, y});
}

// Whether x < y holds anywhere, and everywhere, in each row.
Outputs ended_in_truth(const Tensor& x, const Tensor& y) {
  const IntrusivePtr<Region> region(new Region({x.dtype(), y.dtype()}));
  const int less = region->add(op_less, {0, 1});
  region->set_outputs({region->reduce(op_any, less, {-1}), region->reduce(op_all, less, {-1})});
  return fused(region, {x, y});
}

enum class Axis { rows, columns };

// The fold f(accumulated value, next element) over the rows or the columns of a matrix.
template <class F>
Array folded(const Array& x, Axis over, bool keep, Dtype dtype, F f) {
  const Index rows = x.shape[0], columns = x.shape[1], kept = over == Axis::rows ? columns : rows;
  Shape shape = keep ? over == Axis::rows ? Shape{1, kept} : Shape{kept, 1} : Shape{kept};
  return make(dtype, shape, [&](const Shape& p) {
    const Index k = over == Axis::rows ? p.back() : p[0];
    Real result = 0;
    for (Index i = 0; i < (over == Axis::rows ? rows : columns); ++i) {
      const Real next = over == Axis::rows ? x(Shape{i, k}) : x(Shape{k, i});
      result = i == 0 ? next : f(result, next);
    }
    return result;
  });
}

Real plus(Real x, Real y) { return x + y; }
Real minus(Real x, Real y) { return x - y; }
Real times(Real x, Real y) { return x * y; }
Real larger(Real x, Real y) { return std::max(x, y); }
Real smaller(Real x, Real y) { return std::min(x, y); }
Real is_less(Real x, Real y) { return x < y; }

Array of_both(Dtype dtype, const Array& x, const Array& y, Real (*f)(Real, Real)) {
  return sized(mapped(dtype, x, y, f), 8);
}

std::vector<Variant> recorded(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{3, 0}, Shape{2, 67}})
    variants.push_back({.name = shape.str(),
                        .inputs = {{dtype, shape}},
                        .call = [](auto xs) { return bump(xs[0]); },
                        .reference = [](auto xs) { return Arrays{sized(mapped(xs[0].dtype, xs[0], bump_of), 1)}; }});
  for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{2, 1}, Shape{}})
    variants.push_back({.name = "(2, 3) with " + shape.str(),
                        .inputs = {{dtype, {2, 3}}, {dtype, shape}},
                        .call = [](auto xs) { return blend(xs[0], xs[1]); },
                        .reference = [](auto xs) { return Arrays{of_both(xs[0].dtype, xs[0], xs[1], blend_of)}; }});
  variants.push_back(refused(
      "sum", dtype, {2}, [](const Tensor& x) { return elementwise_op("total", [](auto t) { return sum(t); })(x); },
      "sum is not an elementwise operation"));
  return variants;
}

std::vector<Variant> of_regions(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [shape, other] :
       {std::pair<Shape, Shape>{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 3}, {}}, {{}, {}}, {{0, 3}, {3}}})
    variants.push_back(
        {.name = shape.str() + " with " + other.str(),
         .inputs = {{dtype, shape}, {dtype, other}},
         .call = [](auto xs) { return two(xs[0], xs[1]); },
         .reference =
             [](auto xs) {
               return Arrays{mapped(xs[0].dtype, xs[0], xs[1], times), of_both(xs[0].dtype, xs[0], xs[1], minus)};
             }});
  return variants;
}

Variant of_two(const char* name, Dtype dtype, const Shape& shape, const Shape& other,
               Outputs (*call)(const Tensor&, const Tensor&), Arrays (*reference)(const Array&, const Array&)) {
  return {.name = name + shape.str() + " with " + other.str(),
          .inputs = {{dtype, shape}, {dtype, other}},
          .call = [call](auto xs) { return call(xs[0], xs[1]); },
          .reference = [reference](auto xs) { return reference(xs[0], xs[1]); }};
}

std::vector<Variant> ending_in_reductions(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [shape, other] :
       {std::pair<Shape, Shape>{{2, 3}, {2, 3}}, {{4, 3}, {3}}, {{2, 35}, {}}, {{5, 2}, {5, 1}}}) {
    variants.push_back(of_two("sum, max ", dtype, shape, other, ended, [](const Array& x, const Array& y) {
      const Array product = mapped(x.dtype, x, y, times);
      const Array size = mapped(x.dtype, product, [](Real v) { return std::abs(v); });
      return Arrays{sized(folded(product, Axis::rows, true, x.dtype, plus), 16),
                    folded(size, Axis::columns, false, x.dtype, larger), product};
    }));
    variants.push_back(of_two("prod, min ", dtype, shape, other, ended_otherwise, [](const Array& x, const Array& y) {
      const Array larger_ones = mapped(x.dtype, x, y, larger), difference = mapped(x.dtype, x, y, minus);
      return Arrays{sized(folded(larger_ones, Axis::rows, false, x.dtype, times), 32),
                    sized(folded(difference, Axis::columns, true, x.dtype, smaller), 4)};
    }));
    variants.push_back(of_two("any, all ", dtype, shape, other, ended_in_truth, [](const Array& x, const Array& y) {
      const Array less = mapped(bool_, x, y, is_less);
      return Arrays{folded(less, Axis::columns, false, bool_, larger),
                    folded(less, Axis::columns, false, bool_, smaller)};
    }));
    variants.back().differentiable = false;
  }
  variants.push_back({.name = "max of nothing",
                      .inputs = {{dtype, {2, 0}}, {dtype, {}}},
                      .call = [](auto xs) { return ended(xs[0], xs[1]); },
                      .refusal = "no elements to choose from"});
  return variants;
}

std::vector<Variant> fused_variants(Dtype dtype) {
  std::vector<Variant> variants = of_regions(dtype);
  for (Variant& variant : ending_in_reductions(dtype)) variants.push_back(std::move(variant));
  return variants;
}

}  // namespace

void add_fused_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "elementwise_op", .dtypes = float_dtypes, .variants = recorded});
  rows.push_back({.name = "fused", .dtypes = number_dtypes, .variants = fused_variants});
}

}  // namespace table
