// Rows of softmax and log_softmax.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/softmax.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Along = Tensor (*)(const Tensor&, Index);

/// x - log(sum(exp(x))) along an axis.
Array log_weights(const Array& x, std::size_t axis) {
  return make(float64, x.shape, [&](const Shape& p) {
    Real sum = 0;
    Shape at = p;
    for (at[axis] = 0; at[axis] < x.shape[axis]; ++at[axis]) sum += std::exp(x(at));
    return x(p) - std::log(sum);
  });
}

Variant along(Dtype dtype, Along softmax, bool logarithm, const Shape& shape, Index axis) {
  const auto counted = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
  return {.name = shape.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape, {-3, 3}}},
          .call = [=](auto xs) { return softmax(xs[0], axis); },
          .reference =
              [=](auto xs) {
                const Array logs = log_weights(xs[0], counted);
                const auto weight = [](Real log) { return std::exp(log); };
                Array y = logarithm ? mapped(as_float(dtype), logs, [](Real log) { return log; })
                                    : mapped(as_float(dtype), logs, weight);
                y.magnitude = mapped(float64, logs, [=](Real log) { return logarithm ? 6 : 3 * weight(log); }).values;
                return Arrays{y};
              }};
}

// Lengths beyond those of short rows, of SIMD vectors and of groups of rows, with the axis first,
// in the middle and last.
std::vector<Variant> variants_of(Dtype dtype, Along softmax, bool logarithm) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index axis) {
    variants.push_back(along(dtype, softmax, logarithm, shape, axis));
  };
  add({2, 3}, -1);
  add({2, 3}, 0);
  add({4}, 0);
  add({2, 3, 2}, 1);
  add({2, 37}, 1);
  add({6, 19}, 0);
  add({1, 4}, 0);
  add({0, 3}, -1);
  add({0, 3}, 0);
  add({2, 0}, 1);
  const auto refuse = [&](const Shape& shape, Index axis, const char* words) {
    variants.push_back(refused(
        "", dtype, shape, [=](const Tensor& x) { return softmax(x, axis); }, words));
  };
  refuse({}, -1, "axis -1 is out of range for rank 0");
  refuse({2, 3}, 2, "axis 2 is out of range for rank 2");
  return variants;
}

}  // namespace

void add_softmax_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "softmax",
                  .dtypes = all_dtypes,
                  .variants = [](Dtype dtype) { return variants_of(dtype, stave::softmax, false); },
                  .bitwise = false});
  rows.push_back({.name = "log_softmax",
                  .dtypes = all_dtypes,
                  .variants = [](Dtype dtype) { return variants_of(dtype, stave::log_softmax, true); },
                  .bitwise = false});
}

}  // namespace table
