// Rows of the operations that compute the gradients of softmax and log_softmax along a last axis.
// On a device that has no kernels for them, the gradients are composed of other operations.
// References are the formulas, summed in long double. The gradient of softmax gets the result
// of softmax, whose rows add up to 1.

#include <cmath>

#include <stave/core/ops/softmax.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

// The sum of f(position) over the row that contains a position.
template <class F>
Real sum_over_row(const Shape& row, Index length, F f) {
  Real sum = 0;
  Shape at = row;
  for (at.back() = 0; at.back() < length; ++at.back()) sum += f(at);
  return sum;
}

std::vector<Variant> gradient_variants(const Op& op, Dtype dtype, const Domain& domain,
                                       Real (*formula)(const Array& x, const Array& ct, const Shape& at,
                                                       Index length)) {
  const auto of = [&](const Shape& shape) -> Variant {
    return {.name = shape.str(),
            .inputs = {{dtype, shape, domain}, {dtype, shape, {}, true, 0}},
            .call = [&op](auto xs) { return apply(op, Inputs(xs.begin(), xs.end())); },
            .reference =
                [=](auto xs) {
                  return Arrays{sized(
                      make(dtype, shape, [&](const Shape& p) { return formula(xs[0], xs[1], p, shape.back()); }), 8)};
                }};
  };
  std::vector<Variant> variants;
  if (place() != cpu) return variants;
  return {of({3, 4}),
          of({2, 3, 2}),
          of({5}),
          of({0, 3}),
          of({3, 0}),
          refused(
              "", dtype, {},
              [&op](const Tensor& x) {
                return apply(op, {x, x});
              },
              "are not one shape of rows")};
}

Real log_softmax_gradient(const Array& x, const Array& ct, const Shape& at, Index length) {
  const Real weights = sum_over_row(at, length, [&](const Shape& p) { return std::exp(x(p)); });
  const Real total = sum_over_row(at, length, [&](const Shape& p) { return ct(p); });
  return ct(at) - std::exp(x(at)) / weights * total;
}

// The gradient of softmax, also for rows y that do not add up to 1.
// It subtracts the cotangent of the element that is more than 1/2, if there is one.
Real softmax_gradient(const Array& y, const Array& ct, const Shape& at, Index length) {
  const Real winner = sum_over_row(at, length, [&](const Shape& p) { return y(p) > 0.5L ? ct(p) : 0; });
  const Real mean = sum_over_row(at, length, [&](const Shape& p) { return y(p) * (ct(p) - winner); });
  return y(at) * (ct(at) - winner - mean);
}

}  // namespace

void add_log_softmax_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "softmax_gradient",
                  .dtypes = {float32, float64},
                  .variants =
                      [](Dtype dtype) {
                        return gradient_variants(op_softmax_gradient, dtype, {0.05, 0.45}, softmax_gradient);
                      },
                  .bitwise = false});
  rows.push_back({.name = "log_softmax_gradient",
                  .dtypes = {float32, float64},
                  .variants =
                      [](Dtype dtype) {
                        return gradient_variants(op_log_softmax_gradient, dtype, {-3, 0}, log_softmax_gradient);
                      },
                  .bitwise = false});
}

}  // namespace table
