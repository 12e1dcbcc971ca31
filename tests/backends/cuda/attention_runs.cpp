// Tests the kernels of attention and its gradient, executed on the host (kernels_on_host.h),
// against the formulas in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "cuda/kernels_on_host.h"

namespace {

using namespace stave;

constexpr double infinite = std::numeric_limits<double>::infinity();

class Attention : public testing::Test {
 protected:
  const Device there = cuda(0);
  Tensor sent(const Tensor& x) const { return to(x, there); }

 private:
  stave_test::KernelsOnHost device_{0};
};

enum class Mask { none, boolean, added };
struct Case {
  Shape batch;
  Index n, m, d, e;
  bool causal = false;
  Mask mask = Mask::none;
  double size = 1;  // scale of the queries
  std::string str() const {
    return batch.str() + Shape(n, m, d, e).str() + (causal ? " causal " : " ") + std::to_string(static_cast<int>(mask));
  }
};
const std::vector<Case> cases = {
    {{}, 1, 1, 1, 1},
    {{}, 2, 2, 3, 2, true},
    {{2}, 31, 33, 5, 7},
    {{2}, 33, 31, 5, 7, true},
    {{}, 32, 32, 32, 64, true},
    {{}, 65, 70, 33, 65, true},
    {{}, 64, 100, 64, 130},
    {{}, 5, 70, 97, 3},
    {{3, 2}, 3, 40, 16, 16, false, Mask::boolean},
    {{2}, 40, 33, 8, 4, true, Mask::boolean},
    {{2, 2}, 20, 35, 8, 33, false, Mask::added},
    {{}, 34, 66, 8, 70, true, Mask::added},
    {{2}, 33, 65, 8, 8, false, Mask::none, 1e3},
    {{2}, 0, 5, 3, 2},
    {{2}, 3, 0, 4, 2},
    {{2}, 3, 4, 0, 2},
    {{2}, 3, 4, 2, 0},
    {{0}, 3, 4, 2, 2},
    {{}, 70, 3, 2, 2, true},
};

Shape with(const Shape& batch, Index rows, Index columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}
struct Operands {
  Tensor q, k, v, mask;
  Operands(const Case& c, Dtype dtype)
      : q(normal(Key(1), with(c.batch, c.n, c.d), dtype) * c.size), k(normal(Key(2), with(c.batch, c.m, c.d), dtype)),
        v(normal(Key(3), with(c.batch, c.m, c.e), dtype)) {
    const Shape shape = with(c.batch, c.n, c.m);
    // No key is admitted for query 1.
    if (c.mask == Mask::boolean) mask = logical_and(uniform(Key(4), shape) < 0.6, expand_dims(arange(0, c.n), 1) != 1);
    if (c.mask == Mask::added) mask = where(uniform(Key(5), shape) < 0.3, -infinite, normal(Key(6), shape, dtype));
  }
};

// ---- the formulas ------------------------------------------------------------------------------

Tensor wide(const Tensor& x) { return astype(x, float64); }
Tensor scores_of(const Operands& x, const Case& c, double scale) {
  Tensor s = matmul(wide(x.q), matrix_transpose(wide(x.k))) * scale;
  if (c.mask == Mask::boolean) s = where(x.mask, s, -infinite);
  if (c.mask == Mask::added) s = s + wide(x.mask);
  return c.causal ? where(arange(0, c.m) <= expand_dims(arange(0, c.n), 1), s, -infinite) : s;
}
/// The two outputs of attention: the weighted means of the values, and the logarithm
/// of each query's total weight.
std::pair<Tensor, Tensor> means_of(const Operands& x, const Case& c, double scale) {
  if (c.m == 0)
    return {zeros(with(c.batch, c.n, c.e), float64),
            zeros(x.q.shape()[0] == 0 ? c.batch : sum(x.q, -1).shape(), float64)};
  const Tensor s = scores_of(x, c, scale), largest = max(s, -1, keepdims),
               shift = where(largest == -infinite, 0., largest);
  const Tensor weights = exp(s - shift), total = sum(weights, -1, keepdims), none = total == 0.;
  return {matmul(weights, wide(x.v)) / where(none, 1., total),
          squeeze(where(none, 0., log(where(none, 1., total)) + shift), -1)};
}

double bound_for(Dtype dtype) {
  return dtype == float64 ? 1e-12 : dtype == float32 ? 2e-5 : dtype == float16 ? 2e-3 : 2e-2;
}
void expect_close(const Tensor& got, const Tensor& expected, double bound, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  EXPECT_TRUE(allclose(astype(to(got, cpu), float64), expected, bound, bound)) << what;
}
/// Four layouts of the same matrices: dense, stored by columns, with reversed rows,
/// and with gaps between elements.
std::vector<Tensor> layouts(const Tensor& x) {
  const Tensor dense = contiguous(x), twice = contiguous(repeat(dense, 2, -1));
  return {dense, matrix_transpose(contiguous(matrix_transpose(x))), flip(contiguous(flip(dense, -2)), -2),
          twice(ellipsis, slice(none, none, 2))};
}

Outputs attention_on(Device there, const Operands& x, const AttentionAttributes& attributes, std::size_t layout = 0) {
  Inputs inputs;
  for (const Tensor* operand : {&x.q, &x.k, &x.v, &x.mask})
    if (operand->defined()) inputs.push_back(layouts(to(*operand, there))[layout++ % 4]);
  return perform(
      Call(op_attention, std::move(inputs), make_intrusive<AttentionAttributes>(attributes.scale, attributes.causal)));
}

TEST_F(Attention, OutputsEqualTheFormulas) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const Case& c : cases)
      for (const std::size_t layout : {0, 1, 2, 3}) {
        const Operands x(c, dtype);
        const double scale = 0.3, bound = bound_for(dtype) * (c.size > 1 && dtype == float32 ? 100 : 1);
        if (c.size > 1 && is_half_float(dtype)) continue;
        const Outputs got = attention_on(there, x, AttentionAttributes(scale, c.causal), layout);
        const auto [means, totals] = means_of(x, c, scale);
        expect_close(got[0], means, bound, c.str() + " " + name_of(dtype));
        expect_close(got[1], totals, is_half_float(dtype) ? 1e-4 : bound, "totals " + c.str() + " " + name_of(dtype));
      }
}

TEST_F(Attention, GradientsEqualTheFormulas) {
  for (const Dtype dtype : {float16, float32, float64})
    for (const Case& c : cases) {
      if (c.size > 1 && dtype != float64) continue;
      const Operands x(c, dtype);
      const double scale = 0.3;
      const Tensor ct = normal(Key(7), with(c.batch, c.n, c.e), dtype);
      const Dtype computed = dtype == float64 ? float64 : float32;
      const Tensor total = astype(means_of(x, c, scale).second, computed),
                   shift = normal(Key(8), total.shape(), computed);
      const Tensor s = scores_of(x, c, scale), p = exp(s - expand_dims(wide(total), -1));
      const Tensor t = p * (matmul(wide(ct), matrix_transpose(wide(x.v))) + expand_dims(wide(shift), -1));
      const Tensor expected[] = {matmul(t, wide(x.k)) * scale, matmul(matrix_transpose(t), wide(x.q)) * scale,
                                 matmul(matrix_transpose(p), wide(ct))};
      for (const std::size_t layout : {0, 1, 2, 3}) {
        Inputs inputs;
        std::size_t i = layout;
        for (const Tensor& operand : {x.q, x.k, x.v}) inputs.push_back(layouts(sent(operand))[i++ % 4]);
        inputs.push_back(flip(sent(flip(total, -1)), -1));
        inputs.push_back(layouts(sent(ct))[i % 4]);
        inputs.push_back(sent(shift));
        if (x.mask.defined()) inputs.push_back(layouts(sent(x.mask))[i % 4]);
        const Outputs got = perform(
            Call(op_attention_gradient, std::move(inputs), make_intrusive<AttentionAttributes>(scale, c.causal)));
        for (std::size_t of = 0; of < 3; ++of)
          expect_close(got[of], expected[of], 30 * bound_for(dtype),
                       std::to_string(of) + " " + c.str() + " " + name_of(dtype));
      }
    }
}

// Keys, values and mask that broadcast along the stack: their strides there are 0.
TEST_F(Attention, AcceptsBroadcastOperands) {
  const Tensor q = normal(Key(1), {4, 3, 20, 8}, float64), k = normal(Key(2), {3, 1, 40, 8}, float64)[0],
               v = normal(Key(3), {40, 5}, float64), mask = normal(Key(4), {3, 1, 40}, float64);
  const auto f = [&](Device device) {
    return [&, device](const Tensor& x, const Tensor& y, const Tensor& z) {
      return scaled_dot_product_attention(x, y, z, {.mask = to(mask, device), .causal = true});
    };
  };
  const Tensor expected = f(cpu)(q, k, v);
  EXPECT_TRUE(allclose(to(f(there)(sent(q), sent(k), sent(v)), cpu), expected, 1e-12, 1e-12));
  const auto loss = [&](Device device) {
    return [g = f(device)](const Tensor& x, const Tensor& y, const Tensor& z) { return sum(sin(g(x, y, z))); };
  };
  EXPECT_TRUE(
      allclose(to(grad<1>(loss(there))(sent(q), sent(k), sent(v)), cpu), grad<1>(loss(cpu))(q, k, v), 1e-11, 1e-11));
}

// The value of a masked key is infinite: multiplied by a weight of 0 it would give NaN.
TEST_F(Attention, MaskedKeysDoNotAffectGradients) {
  const Tensor q = normal(Key(1), {3, 4}, float64), k = normal(Key(2), {5, 4}, float64), ct = ones({3, 2}, float64);
  const Tensor v = where(expand_dims(arange(0, 5) == 4, 1), infinite, normal(Key(3), {5, 2}, float64));
  const Tensor numbers = zeros({3}, float64);
  const Outputs got =
      perform(Call(op_attention_gradient, {sent(q), sent(k), sent(v), sent(numbers), sent(ct), sent(numbers)},
                   make_intrusive<AttentionAttributes>(1., true)));
  for (const std::size_t of : {0, 1}) EXPECT_TRUE(static_cast<bool>(all(isfinite(to(got[of], cpu))))) << of;
}

TEST_F(Attention, NanAffectsOnlyItsQuery) {
  Tensor q = normal(Key(1), {3, 4}, float64);
  const Tensor k = normal(Key(2), {40, 4}, float64), v = normal(Key(3), {40, 2}, float64);
  q = where(expand_dims(arange(0, 3) == 1, 1), NAN, q);
  const Tensor nan = isnan(to(scaled_dot_product_attention(sent(q), sent(k), sent(v)), cpu));
  EXPECT_EQ(sum(astype(nan, int32), -1).to_vector<std::int32_t>(), (std::vector{0, 2, 0}));
}

}  // namespace
