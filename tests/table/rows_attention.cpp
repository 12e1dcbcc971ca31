// Rows of attention and its gradient. References are the formulas, summed in long double.

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/attention.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

constexpr Real infinite = std::numeric_limits<Real>::infinity();

enum class Mask { none, boolean, added };

std::vector<Variant> attention_variants(Dtype dtype) {
  const auto of = [&](const Shape& q, const Shape& k, const Shape& v, Mask mask, const Shape& mask_shape, bool causal,
                      const char* refusal = "") -> Variant {
    const Index n = q[q.size() - 2], m = k[k.size() - 2], d = q.back(), e = v.back();
    const auto leading = [](const Shape& s) { return part(s, 0, s.rank() - 2); };
    Variant variant{.name = q.str() + " " + k.str() + " " + v.str() +
                            (mask == Mask::none      ? ""
                             : mask == Mask::boolean ? " bool " + mask_shape.str()
                                                     : " added " + mask_shape.str()) +
                            (causal ? " causal" : ""),
                    .inputs = {{dtype, q}, {dtype, k, {}, true, k.rank() - 1}, {dtype, v}},
                    .refusal = refusal};
    if (mask == Mask::added) variant.inputs.push_back({as_float(dtype), mask_shape});
    if (mask == Mask::boolean) variant.inputs.push_back({bool_, mask_shape});
    variant.call = [=](auto xs) {
      return scaled_dot_product_attention(xs[0], xs[1], xs[2],
                                          {.mask = mask == Mask::none ? Tensor() : xs[3], .causal = causal});
    };
    variant.reference = [=](auto xs) {
      Shape batch = broadcast_shape(broadcast_shape(leading(q), leading(k)), leading(v));
      if (mask != Mask::none && mask_shape.rank() > 2) batch = broadcast_shape(batch, leading(mask_shape));
      const auto at = [&](const Array& x, const Shape& p, Index row, Index column) {
        return x(concatenated(broadcast_position(leading(x.shape), p), Shape(row, column)));
      };
      Array result = make(as_float(dtype), concatenated(batch, Shape(n, e)), [&](const Shape& p) {
        const Shape b = part(p, 0, batch.rank());
        const Index row = p[p.size() - 2];
        Real total = 0, sum = 0;
        for (Index j = 0; j < m; ++j) {
          Real s = 0;
          for (Index c = 0; c < d; ++c) s += at(xs[0], b, row, c) * at(xs[1], b, j, c);
          s /= std::sqrt(static_cast<Real>(d));
          if (mask != Mask::none) {
            const Real entry = xs[3](broadcast_position(mask_shape, concatenated(b, Shape(row, j))));
            s = mask == Mask::added ? s + entry : entry != 0 ? s : -infinite;
          }
          if (causal && j > row) s = -infinite;
          total += std::exp(s);
          sum += std::exp(s) * at(xs[2], b, j, p.back());
        }
        return total == 0 ? 0 : sum / total;
      });
      return Arrays{sized(result, 16)};
    };
    return variant;
  };
  using enum Mask;
  return {
      of({3, 4}, {5, 4}, {5, 2}, none, {}, false),
      of({2, 3, 2}, {2, 4, 2}, {2, 4, 3}, none, {}, true),
      of({2, 1, 3, 2}, {3, 2, 2}, {2, 3}, none, {}, false),
      of({2, 3, 2}, {2, 3, 2}, {2, 3, 2}, boolean, {3, 3}, false),
      of({2, 2}, {3, 2}, {3, 2}, boolean, {2, 1, 3}, false),
      of({2, 3, 2}, {2, 3, 2}, {2, 3, 2}, added, {2, 1, 3}, true),
      of({3, 2}, {4, 2}, {4, 2}, added, {3, 4}, false),
      of({1, 1}, {1, 1}, {1, 1}, none, {}, false),
      of({0, 2}, {3, 2}, {3, 2}, none, {}, false),
      of({2, 2}, {0, 2}, {0, 3}, none, {}, false),
      of({0, 2, 2}, {0, 3, 2}, {0, 3, 1}, none, {}, true),
      of({2, 3}, {2, 2}, {2, 2}, none, {}, false, "differ in their last length"),
      refused(
          "", dtype, {}, [](const Tensor& x) { return scaled_dot_product_attention(x, x, x); }, "must be matrices")};
}

std::vector<Variant> attention_gradient_variants(Dtype dtype) {
  const auto of = [&](Index batch, Index n, Index m, bool causal, Mask mask) -> Variant {
    const Index d = 2, e = 3;
    const double factor = 0.7;
    Variant variant{.name = Shape(batch, n, m).str() + (causal ? " causal" : "") +
                            (mask == Mask::none    ? ""
                             : mask == Mask::added ? " added"
                                                   : " bool"),
                    .inputs = {{dtype, {batch, n, d}, {}, true, 1},
                               {dtype, {batch, m, d}, {}, true, 2},
                               {dtype, {batch, m, e}, {}, true, 1},
                               {dtype, {batch, n}},
                               {dtype, {batch, n, e}},
                               {dtype, {batch, n}}}};
    if (mask != Mask::none) variant.inputs.push_back({mask == Mask::added ? dtype : bool_, {batch, n, m}});
    variant.call = [=](auto xs) {
      return perform(Call(op_attention_gradient, Inputs(xs.begin(), xs.end()),
                          make_intrusive<AttentionAttributes>(factor, causal)));
    };
    variant.reference = [=](auto xs) {
      const Array &q = xs[0], &k = xs[1], &v = xs[2], &total = xs[3], &ct = xs[4], &shift = xs[5];
      const auto sum = [](Index length, auto term) {
        Real result = 0;
        for (Index i = 0; i < length; ++i) result += term(i);
        return result;
      };
      const auto p = [&](Index b, Index i, Index j) -> Real {
        Real s = static_cast<Real>(factor) * sum(d, [&](Index c) { return q({b, i, c}) * k({b, j, c}); });
        if (mask == Mask::added) s += xs[6]({b, i, j});
        if ((mask == Mask::boolean && xs[6]({b, i, j}) == 0) || (causal && j > i)) return 0;
        return std::exp(s - total({b, i}));
      };
      const auto t = [&](Index b, Index i, Index j) {
        return p(b, i, j) * (sum(e, [&](Index c) { return ct({b, i, c}) * v({b, j, c}); }) + shift({b, i}));
      };
      const auto result = [&](Index rows, Index columns, auto entry) {
        Array values = make(dtype, {batch, rows, columns}, [&](const Shape& at) { return entry(at[0], at[1], at[2]); });
        Real largest = 1;
        for (Real value : values.values) largest = std::max(largest, std::abs(value));
        return sized(values, 8 * largest);
      };
      const auto scale = static_cast<Real>(factor);
      return Arrays{result(n, d,
                           [&](Index b, Index i, Index c) {
                             return scale * sum(m, [&](Index j) { return t(b, i, j) * k({b, j, c}); });
                           }),
                    result(m, d,
                           [&](Index b, Index j, Index c) {
                             return scale * sum(n, [&](Index i) { return t(b, i, j) * q({b, i, c}); });
                           }),
                    result(m, e, [&](Index b, Index j, Index c) {
                      return sum(n, [&](Index i) { return p(b, i, j) * ct({b, i, c}); });
                    })};
    };
    return variant;
  };
  std::vector<Variant> variants;
  // Stacks of few matrices, and one of so many that each thread computes whole matrices.
  for (const Variant& variant :
       {of(2, 3, 4, false, Mask::none), of(1, 4, 3, true, Mask::added), of(2, 3, 3, false, Mask::boolean),
        of(40, 2, 2, true, Mask::none), of(0, 2, 3, false, Mask::none), of(1, 0, 3, false, Mask::none),
        of(1, 2, 0, true, Mask::none)})
    variants.push_back(variant);
  variants.push_back(refused(
      "", dtype, {},
      [](const Tensor& x) {
        return perform(
            Call(op_attention_gradient, {x, x, x, x, x, x}, make_intrusive<AttentionAttributes>(1., false)))[0];
      },
      "must be matrices"));
  return variants;
}

}  // namespace

void add_attention_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "scaled_dot_product_attention",
                  .dtypes = {float16, bfloat16, float32, float64, int32},
                  .variants = attention_variants,
                  .bitwise = false});
  rows.push_back({.name = "attention_gradient",
                  .dtypes = {float32, float64},
                  .variants = attention_gradient_variants,
                  .bitwise = false});
}

}  // namespace table
