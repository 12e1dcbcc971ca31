// The gradient of log_softmax along a last axis, itself: on a device without a kernel of it, it is composed of others. The reference is the
// formula, summed in long double.

#include <cmath>

#include <stave/core/ops/softmax.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

std::vector<Variant> log_softmax_gradient_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape) -> Variant {
    return {.name = shape.str(),
            .inputs = {{dtype, shape, {-3, 0}}, {dtype, shape, {}, true, 0}},
            .call = [](auto xs) { return apply(op_log_softmax_gradient, Inputs(xs.begin(), xs.end())); },
            .reference =
                [=](auto xs) {
                  const Array &y = xs[0], &ct = xs[1];
                  return Arrays{sized(make(dtype, shape,
                                           [&](const Shape& p) {
                                             Real sum = 0;
                                             Shape at = p;
                                             for (at.back() = 0; at.back() < shape.back(); ++at.back()) sum += ct(at);
                                             return ct(p) - std::exp(y(p)) * sum;
                                           }),
                                      8)};
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
              [](const Tensor& x) {
                return apply(op_log_softmax_gradient, {x, x});
              },
              "are not one shape of rows")};
}

}  // namespace

void add_log_softmax_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "log_softmax_gradient",
                  .dtypes = {float32, float64},
                  .variants = log_softmax_gradient_variants,
                  .bitwise = false});
}

}  // namespace table
