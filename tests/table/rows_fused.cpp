// elementwise_op, fused: recorded functions of one and of several operands, and several results.

#include <cmath>

#include <stave/core/ops/fused.h>
#include <stave/handlers/elementwise_op.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

const auto bump = elementwise_op("bump", [](const Tensor& x) { return where(x > 0, x * exp(-x), tanh(x) / 2); });
Real bump_of(Real x) { return x > 0 ? x * std::exp(-x) : std::tanh(x) / 2; }

const auto blend = elementwise_op(
    "blend", [](const Tensor& x, const Tensor& y) { return maximum(x, y) + 0.25 * x * astype(y, x.dtype()); });
Real blend_of(Real x, Real y) { return std::max(x, y) + 0.25L * x * y; }

// x y and x - y.
Outputs two(const Tensor& x, const Tensor& y) {
  const IntrusivePtr<Region> region(new Region({x.dtype(), y.dtype()}));
  const int product = region->add(op_multiply, {0, 1}), difference = region->add(op_subtract, {0, 1});
  region->set_outputs({product, difference});
  return fused(region, {x, y});
}

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
      "sum is no elementwise operation"));
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
               const auto times = [](Real x, Real y) { return x * y; };
               const auto minus = [](Real x, Real y) { return x - y; };
               return Arrays{mapped(xs[0].dtype, xs[0], xs[1], times), of_both(xs[0].dtype, xs[0], xs[1], minus)};
             }});
  return variants;
}

}  // namespace

void add_fused_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "elementwise_op", .dtypes = float_dtypes, .variants = recorded});
  rows.push_back({.name = "fused", .dtypes = number_dtypes, .variants = of_regions});
}

}  // namespace table
