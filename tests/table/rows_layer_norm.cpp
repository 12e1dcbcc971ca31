// Rows of the operation that computes the gradient of layer_norm.
// On a device that has no kernel for it, the gradient is composed of other operations.
// References are the formulas, summed in long double.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/normalize.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

std::vector<Variant> layer_norm_gradient_variants(Dtype dtype) {
  const auto of = [&](Index batch, Index rows, Index n, double epsilon) -> Variant {
    const Shape shape(batch, rows, n);
    Variant variant{.name = shape.str() + (epsilon == 0 ? " without epsilon" : ""),
                    .inputs = {{dtype, shape, {}, true, 1}, {dtype, {n}}, {dtype, shape, {}, true, 0}}};
    variant.call = [=](auto xs) {
      return perform(
          Call(op_layer_norm_gradient, Inputs(xs.begin(), xs.end()), make_intrusive<NormAttributes>(epsilon)));
    };
    variant.reference = [=](auto xs) {
      const Array &x = xs[0], &weight = xs[1], &ct = xs[2];
      const auto mean = [&](auto term) {
        Real sum = 0;
        for (Index i = 0; i < n; ++i) sum += term(i);
        return sum / static_cast<Real>(n);
      };
      const auto centre = [&](Index b, Index r) { return mean([&](Index i) { return x({b, r, i}); }); };
      const auto inverse = [&](Index b, Index r) {
        const Real middle = centre(b, r);
        return 1 / std::sqrt(mean([&](Index i) {
                               return std::pow(x({b, r, i}) - middle, 2);
                             }) +
                             static_cast<Real>(epsilon));
      };
      const auto h = [&](Index b, Index r, Index i) { return (x({b, r, i}) - centre(b, r)) * inverse(b, r); };
      const auto u = [&](Index b, Index r, Index i) { return weight({i}) * ct({b, r, i}); };
      const auto over_rows = [&](auto term) {
        return sized(make(dtype, {n},
                          [&](const Shape& p) {
                            Real sum = 0;
                            for (Index b = 0; b < batch; ++b)
                              for (Index r = 0; r < rows; ++r) sum += term(b, r, p[0]);
                            return sum;
                          }),
                     8);
      };
      const Array dx = make(dtype, shape, [&](const Shape& p) {
        const Index b = p[0], r = p[1];
        const Real u_mean = mean([&](Index i) { return u(b, r, i); }),
                   uh_mean = mean([&](Index i) { return u(b, r, i) * h(b, r, i); });
        return inverse(b, r) * (u(b, r, p[2]) - u_mean - h(b, r, p[2]) * uh_mean);
      });
      return Arrays{sized(dx, 32), over_rows([&](Index b, Index r, Index i) {
                      return ct({b, r, i}) * h(b, r, i);
                    }),
                    over_rows([&](Index b, Index r, Index i) {
                      return ct({b, r, i});
                    })};
    };
    return variant;
  };
  std::vector<Variant> variants;
  if (place() != cpu) return variants;
  return {of(2, 3, 4, 1e-5), of(1, 3, 5, 0), of(2, 0, 3, 1e-5), of(2, 3, 0, 1e-5),
          refused(
              "", dtype, {},
              [](const Tensor& x) {
                return perform(Call(op_layer_norm_gradient, {x, x, x}, make_intrusive<NormAttributes>(1e-5)))[0];
              },
              "do not fit")};
}

}  // namespace

void add_layer_norm_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "layer_norm_gradient",
                  .dtypes = {float32, float64},
                  .variants = layer_norm_gradient_variants,
                  .bitwise = false});
}

}  // namespace table
