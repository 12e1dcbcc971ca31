// Attention against PyTorch's values (2.15, float64) and against the full score matrix, the memory
// it keeps, and its errors. tests/table covers every layout, dtype and transform.

#include <cmath>
#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace attention_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;
const double inf = std::numeric_limits<double>::infinity();

Tensor doubles(const std::vector<double>& values) { return from(values); }
Tensor counted(const Shape& shape) { return reshape(arange(0, shape.elements(), 1, float64), shape); }
bool all_finite(T x) { return static_cast<bool>(all(isfinite(x))); }

// Attention by the softmax of a full score matrix, from operations that have tests of their own.
Tensor dense(T q, T k, T v, T mask = Tensor(), bool causal = false) {
  Tensor scores = matmul(q, matrix_transpose(k)) / std::sqrt(static_cast<double>(q.shape(-1)));
  if (mask.defined()) scores = mask.dtype() == bool_ ? where(mask, scores, -inf) : scores + mask;
  if (causal) scores = where(tril(ones({q.shape(-2), k.shape(-2)})) == 1, scores, -inf);
  return matmul(softmax(scores), v);
}

TEST(Attention, EqualsPyTorch) {
  const Tensor q = sin(counted({1, 2, 3, 2})), k = cos(counted({1, 2, 4, 2})), v = sin(2 * counted({1, 2, 4, 3}));
  const Tensor ct = cos(counted({1, 2, 3, 3}));
  const auto expect = [&](bool causal, const std::vector<std::vector<double>>& figures) {
    const auto f = [&](T a, T b, T c) { return scaled_dot_product_attention(a, b, c, {.causal = causal}); };
    EXPECT_THAT(reshape(f(q, k, v)(0, 1), {9}), IsNear(doubles(figures[0])));
    const auto [dq, dk, dv] = grad<0, 1, 2>([&](T a, T b, T c) { return sum(ct * f(a, b, c)); })(q, k, v);
    EXPECT_THAT(reshape(dq(0, 1), {6}), IsNear(doubles(figures[1])));
    EXPECT_THAT(reshape(dk(0, 1), {8}), IsNear(doubles(figures[2])));
    EXPECT_THAT(reshape(dv(0, 1), {12}), IsNear(doubles(figures[3])));
  };
  expect(false, {{-0.9620208588841683, 0.40738645374034266, 0.6229556909317635, -0.9631858721909612, 0.3452596634936215,
                  0.6758284386905583, -0.9359914429630376, 0.4516502521706987, 0.5600857956299268},
                 {0.053455065982146596, 0.03830014150049578, -0.03946590527543855, -0.03284576816124224,
                  0.031282511563011206, 0.014754169502803546},
                 {0.08706083527034583, 0.051757432842278815, 0.023304741509029336, -0.00014024764360077885,
                  -0.033498935252253684, 0.0028898317718697593, -0.0768666415271215, -0.05450701697054783},
                 {-0.31354017581354254, -0.3649501483231938, -0.08082663751833981, -0.37034084834413084,
                  -0.39071256010302724, -0.051864945966488676, 0.08215821069138625, 0.12581971175065992,
                  0.05380315007370624, -0.22524140254471886, -0.2594412312740797, -0.05511198844459025}});
  expect(true,
         {{-0.9055783620066239, 0.7625584504796027, 0.27090578830786904, -0.9423207264922253, 0.6684750846606045,
           0.3859531429080378, -0.9443727963288298, 0.6384552792534438, 0.4129905068525437},
          {0.0, 0.0, 0.027365294157795476, -0.036123829094453525, 0.004075388240886673, 0.055303253226205606},
          {0.06147593832004325, 0.057508743034491515, -0.050910422268231295, -0.038087782399905484,
           -0.010565516051811955, -0.019420960634586027, 0.0, 0.0},
          {-0.8490462836430346, -0.8474658750211983, -0.06672924919399377, 0.09872846405783114, 0.05480178137588604,
           -0.039509406371685346, -0.07664639642580275, -0.09662013430432857, -0.027761766290033418, 0.0, 0.0, 0.0}});
  const Tensor mask = tensor({{true, false, true, true}, {false, true, false, false}, {true, true, true, false}});
  EXPECT_THAT(reshape(scaled_dot_product_attention(q, k, v, {.mask = mask, .scale = 0.5})(0, 1), {9}),
              IsNear(doubles({-0.946626508826805, 0.34775366816020564, 0.6571933310217364, -0.9880316240928618,
                              0.5514266812416906, 0.5290826861200238, -0.948790932505105, 0.6154435241822448,
                              0.4365611811813732})));
}

// Lengths that exceed the blocks of queries and keys, and are not multiples of them.
TEST(Attention, EqualsTheSoftmaxOfTheFullScoreMatrix) {
  for (const Dtype dtype : {float64, float32, float16}) {
    const double tolerance = dtype == float64 ? 1e-12 : dtype == float32 ? 2e-5 : 4e-3;
    const Tensor q = normal(Key(1), {2, 300, 16}, dtype), k = normal(Key(2), {2, 530, 16}, dtype),
                 v = normal(Key(3), {2, 530, 8}, dtype), ct = normal(Key(4), {2, 300, 8}, dtype);
    const Tensor added = normal(Key(5), {300, 530}, dtype), takes_part = uniform(Key(6), {2, 1, 530}) < 0.7;
    for (const bool causal : {false, true})
      for (const Tensor& mask : {Tensor(), added, takes_part}) {
        const auto f = [&](T a, T b, T c) {
          return scaled_dot_product_attention(a, b, c, {.mask = mask, .causal = causal});
        };
        const auto g = [&](T a, T b, T c) {
          const auto wide = [](T x) { return x.defined() && x.dtype() == float16 ? astype(x, float32) : x; };
          return astype(dense(wide(a), wide(b), wide(c), wide(mask), causal), a.dtype());
        };
        EXPECT_THAT(f(q, k, v), IsNear(g(q, k, v), tolerance)) << dtype << " causal " << causal;
        const auto pulled = vjp(f, q, k, v).second(ct), expected = vjp(g, q, k, v).second(ct);
        EXPECT_THAT(std::get<0>(pulled), IsNear(std::get<0>(expected), tolerance)) << dtype << " causal " << causal;
        EXPECT_THAT(std::get<1>(pulled), IsNear(std::get<1>(expected), 4 * tolerance)) << dtype << " causal " << causal;
        EXPECT_THAT(std::get<2>(pulled), IsNear(std::get<2>(expected), 4 * tolerance)) << dtype << " causal " << causal;
      }
  }
}

// Masks that exclude whole blocks of keys, like that of a cache that is not full. The excluded keys
// and values are NaN.
TEST(Attention, MasksMayExcludeBlocksOfKeys) {
  const Index keys = 700;
  const Tensor q = sin(counted({2, 3, 4})), k = cos(counted({2, keys, 4})), v = sin(2 * counted({2, keys, 3}));
  const Tensor key = arange(keys);
  for (T taken : {key <= 0, key <= 255, key == 256, key <= 511, key > 300, key > 512, logical_or(key<9, key> 690)}) {
    const Tensor mask = broadcast_to(taken, {3, keys}), rows = expand_dims(taken, 1);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THAT(scaled_dot_product_attention(q, where(rows, k, nan), where(rows, v, nan), {.mask = mask}),
                IsNear(dense(q, k, v, mask)));
  }
}

TEST(Attention, BroadcastsLeadingAxes) {
  const Tensor q = normal(Key(1), {3, 1, 5, 4}, float64), k = normal(Key(2), {2, 6, 4}, float64),
               v = normal(Key(3), {6, 3}, float64);
  const Tensor mask = uniform(Key(4), {3, 1, 1, 6}) < 0.8;
  const auto f = [&](T a, T b, T c) { return sum(square(scaled_dot_product_attention(a, b, c, {.mask = mask}))); };
  const auto g = [&](T a, T b, T c) { return sum(square(dense(a, b, c, mask))); };
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, {.mask = mask}).shape(), Shape(3, 2, 5, 3));
  EXPECT_THAT(f(q, k, v), IsNear(g(q, k, v)));
  const auto got = grad<0, 1, 2>(f)(q, k, v), expected = grad<0, 1, 2>(g)(q, k, v);
  EXPECT_THAT(std::get<0>(got), IsNear(std::get<0>(expected)));
  EXPECT_THAT(std::get<1>(got), IsNear(std::get<1>(expected)));
  EXPECT_THAT(std::get<2>(got), IsNear(std::get<2>(expected)));
}

TEST(Attention, FullyMaskedQueriesGiveZeros) {
  const Tensor q = normal(Key(1), {3, 4}), k = normal(Key(2), {5, 4}), v = normal(Key(3), {5, 2});
  const Tensor rows = tensor({{true}, {false}, {true}}), mask = broadcast_to(rows, {3, 5});
  for (const Tensor& given : {mask, where(mask, 0., -inf)}) {
    const auto f = [&](T a, T b, T c) { return scaled_dot_product_attention(a, b, c, {.mask = given}); };
    EXPECT_THAT(f(q, k, v)(1), Equals(zeros({2})));
    EXPECT_THAT(f(q, k, v)(0), IsNear(scaled_dot_product_attention(q, k, v)(0)));
    const auto [dq, dk, dv] = grad<0, 1, 2>([&](T a, T b, T c) { return sum(f(a, b, c)); })(q, k, v);
    EXPECT_THAT(dq(1), Equals(zeros({4})));
    EXPECT_TRUE(all_finite(dk) && all_finite(dv));
    EXPECT_TRUE(all_finite(hessian([&](T a) { return sum(square(f(a, k, v))); })(q)));
    EXPECT_TRUE(all_finite(jvp([&](T a) { return f(a, k, v); }, q, q).second));
  }
  EXPECT_THAT(scaled_dot_product_attention(q, k(slice(0)), v(slice(0))), Equals(zeros({3, 2})));
}

TEST(Attention, IsStableForLargeScoresAndKeepsNan) {
  const Tensor q = full({2, 1}, 1e4), k = tensor({{1e4}, {-1e4}, {1e4}}), v = tensor({{1.}, {100.}, {3.}});
  EXPECT_THAT(scaled_dot_product_attention(q, k, v), Equals(tensor({{2.}, {2.}})));
  EXPECT_TRUE(all_finite(grad([&](T x) { return sum(scaled_dot_product_attention(x, k, v)); })(q)));
  const Tensor nan = tensor({{1.}, {std::nan("")}});
  EXPECT_TRUE(std::isnan(scaled_dot_product_attention(nan, k, v)(1, 0).item<float>()));
  EXPECT_THAT(scaled_dot_product_attention(nan, k, v)(0), Equals(tensor({2.})));
}

// No query attends to key 1: results are those of the other keys alone, whatever key 1 and its
// value are.
TEST(Attention, MaskedKeysDoNotAffectResults) {
  const auto others = [](T x) { return take(x, tensor({0, 2, 3}), -2); };
  for (const Dtype dtype : {float64, float32, float16})
    for (const double bad : {std::nan(""), inf, -inf})
      for (const bool added : {false, true}) {
        const double tolerance = dtype == float64 ? 1e-12 : dtype == float32 ? 1e-5 : 4e-3;
        const Tensor takes_part = tensor({{true, false, true, true}});
        const Tensor bias = tensor({{0.5, -inf, -0.25, 1.}}, dtype), mask = added ? bias : takes_part;
        const Tensor q = normal(Key(1), {3, 2}, dtype), clean_k = normal(Key(2), {4, 2}, dtype),
                     clean_v = normal(Key(3), {4, 3}, dtype), ct = normal(Key(4), {3, 3}, dtype);
        const Tensor hidden = tensor({{true}, {false}, {true}, {true}});
        const Tensor k = where(hidden, clean_k, bad), v = where(hidden, clean_v, bad);
        const auto f = [&](T a, T b, T c) { return scaled_dot_product_attention(a, b, c, {.mask = mask}); };
        const Tensor of_others = added ? take(astype(bias, float64), tensor({0, 2, 3}), -1) : Tensor();
        const auto g = [&](T a, T b, T c) { return dense(a, b, c, of_others); };
        const auto doubled = [](T x) { return astype(x, float64); };
        const auto what = [&] { return std::string(name_of(dtype)) + " " + std::to_string(bad); };
        const auto expect = [&](T got, T expected) {
          EXPECT_THAT(doubled(got), IsNear(expected, tolerance)) << what() << (added ? " added" : " boolean");
        };
        const Tensor q64 = doubled(q), k64 = doubled(others(k)), v64 = doubled(others(v)), ct64 = doubled(ct);
        expect(f(q, k, v), g(q64, k64, v64));
        const auto [dq, dk, dv] = vjp(f, q, k, v).second(ct);
        const auto [eq, ek, ev] = vjp(g, q64, k64, v64).second(ct64);
        expect(dq, eq), expect(others(dk), ek), expect(others(dv), ev);
        EXPECT_THAT(dk(1), Equals(zeros({2}, dtype)));
        EXPECT_THAT(dv(1), Equals(zeros({3}, dtype)));
        // Forward mode, and second derivatives.
        expect(jvp([&](T a) { return f(a, k, v); }, q, q).second,
               jvp([&](T a) { return g(a, k64, v64); }, q64, q64).second);
        expect(jvp([&](T b) { return f(q, b, v); }, k, k).second,
               jvp([&](T b) { return g(q64, b, v64); }, k64, k64).second);
        expect(jvp([&](T c) { return f(q, k, c); }, v, v).second,
               jvp([&](T c) { return g(q64, k64, c); }, v64, v64).second);
        if (dtype == float16) continue;
        const auto twice_f = [&](T a) { return sum(square(f(a, k, v))); };
        const auto twice_g = [&](T a) { return sum(square(g(a, k64, v64))); };
        expect(hvp(twice_f, q, q), hvp(twice_g, q64, q64));
        const auto pulled = grad([&](T a) { return sum(std::get<1>(vjp(f, a, k, v).second(ct))(0)); })(q);
        expect(pulled, grad([&](T a) { return sum(std::get<1>(vjp(g, a, k64, v64).second(ct64))(0)); })(q64));
        if (!added) continue;
        const auto by_bias = [&](T m) { return sum(square(scaled_dot_product_attention(q, k, v, {.mask = m}))); };
        const Tensor of_bias = grad(by_bias)(bias);
        expect(take(of_bias, tensor({0, 2, 3}), -1),
               grad([&](T m) { return sum(square(dense(q64, k64, v64, m))); })(of_others));
        EXPECT_EQ(of_bias(0, 1).item<double>(), 0);
      }
}

// Several blocks with causal masking: only the last queries attend to the last keys, and the first
// query attends to the first key only.
TEST(Attention, LaterKeysDoNotAffectCausalResults) {
  const Index n = 300, met = 280;
  const Tensor q = normal(Key(1), {2, n, 4}, float64), ct = normal(Key(4), {2, n, 3}, float64);
  const Tensor late = expand_dims(arange(0, n, 1) >= met, 1);
  const Tensor k = normal(Key(2), {2, n, 4}, float64), v = normal(Key(3), {2, n, 3}, float64);
  const Tensor bad_k = where(late, std::nan(""), k), bad_v = where(late, inf, v);
  const auto first = [&](T x) { return x(ellipsis, slice(0, met), slice()); };
  const auto f = [&](T a, T b, T c) { return scaled_dot_product_attention(a, b, c, {.causal = true}); };
  const auto g = [&](T a, T b, T c) { return dense(a, b, c, Tensor(), true); };
  for (const bool of_keys : {true, false}) {
    const Tensor some_k = of_keys ? bad_k : k, some_v = of_keys ? v : bad_v;
    EXPECT_THAT(first(f(q, some_k, some_v)), IsNear(g(first(q), first(k), first(v))));
    EXPECT_FALSE(static_cast<bool>(any(isfinite(f(q, some_k, some_v)(ellipsis, slice(met, n), slice())))));
    const auto [dq, dk, dv] = vjp(f, q, some_k, some_v).second(ct);
    EXPECT_THAT(first(dq), IsNear(std::get<0>(vjp(g, first(q), first(k), first(v)).second(first(ct)))));
  }
  // Queries that do not attend to a key contribute nothing to its gradients, even if they are NaN.
  const Tensor early = expand_dims(arange(0, n, 1) < 20, 1);
  const auto [dq, dk, dv] = vjp(f, where(early, std::nan(""), q), k, v).second(where(early, inf, ct));
  const auto [eq, ek, ev] = vjp(g, q, k, v).second(where(early, 0, ct));
  const auto later = [&](T x) { return x(ellipsis, slice(20, n), slice()); };
  EXPECT_THAT(later(dk), IsNear(later(ek), 1e-11));
  EXPECT_THAT(later(dv), IsNear(later(ev), 1e-11));
  EXPECT_THAT(later(dq), IsNear(later(eq), 1e-11));
}

TEST(Attention, IsLinearInValues) {
  const Tensor q = normal(Key(1), {3, 4}, float64), k = normal(Key(2), {5, 4}, float64),
               v = normal(Key(3), {5, 2}, float64), dv = normal(Key(4), {5, 2}, float64);
  const auto f = [&](T values) { return scaled_dot_product_attention(q, k, values); };
  EXPECT_THAT(jvp(f, v, dv).second, IsNear(f(dv)));
  EXPECT_THAT(linearize(f, v).second(dv), IsNear(f(dv)));
  const auto loss = [&](T values) { return sum(square(f(values))); };
  EXPECT_THAT(grad(checkpoint(loss))(v), Equals(grad(loss)(v)));
  EXPECT_THAT(hvp(loss, v, dv), IsNear(std::get<0>(vjp(f, v).second(2 * f(dv)))));
}

TEST(Attention, PromotesOperands) {
  const Tensor q = ones({2, 3}, float16), k = ones({4, 3}, float32), v = ones({4, 2}, int32);
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).dtype(), float32);
  EXPECT_EQ(scaled_dot_product_attention(v, v, v).dtype(), float32);
  EXPECT_EQ(scaled_dot_product_attention(q, q, q, {.mask = ones({2}, bool_)}).dtype(), float16);
  EXPECT_EQ(scaled_dot_product_attention(q, q, q, {.mask = zeros({2}, float64)}).dtype(), float64);
}

TEST(Attention, DifferentiatesTheMask) {
  const Tensor q = normal(Key(1), {3, 4}, float64), k = normal(Key(2), {5, 4}, float64),
               v = normal(Key(3), {5, 2}, float64);
  const Tensor mask = normal(Key(4), {5}, float64);
  check_grads([&](T m) { return sum(square(scaled_dot_product_attention(q, k, v, {.mask = m}))); }, mask);
}

// Attention allocates the operands and results, and at most a fifth of that in addition.
TEST(Attention, NeverAllocatesTheScoreMatrix) {
  const Shape shape{8, 8, 512, 64};
  const Tensor q = normal(Key(1), shape), k = normal(Key(2), shape), v = normal(Key(3), shape);
  const auto peak_beside = [&](auto f) {
    const std::size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    const auto results = f();
    return memory_stats().peak_bytes - before;
  };
  const auto bytes = static_cast<double>(shape.elements() * 4);
  const auto forward = [&](T a, T b, T c) { return scaled_dot_product_attention(a, b, c); };
  const auto forward_peak = static_cast<double>(peak_beside([&] { return forward(q, k, v); }));
  EXPECT_LT(forward_peak + 3 * bytes, 1.2 * 4 * bytes);
  // The operands of the backward pass are q, k, v, the result and its cotangent; its results are
  // three gradients.
  const auto backward_peak = static_cast<double>(
      peak_beside([&] { return grad<0, 1, 2>([&](T a, T b, T c) { return sum(forward(a, b, c)); })(q, k, v); }));
  EXPECT_LT(backward_peak + 3 * bytes, 1.2 * 8 * bytes);
}

TEST(Attention, RefusesMismatchedShapesAndDtypes) {
  const auto refuses = [](T q, T k, T v, AttentionOptions options = {}) {
    return message_of<Error>([&] { scaled_dot_product_attention(q, k, v, options); });
  };
  const Tensor x = ones({3, 2});
  EXPECT_THAT(refuses(x, ones({3, 4}), x),
              HasSubstr("scaled_dot_product_attention: queries [3,2] and keys [3,4] differ in their last length"));
  EXPECT_THAT(refuses(x, x, ones({4, 2})), HasSubstr("keys [3,2] and values [4,2] differ in number"));
  EXPECT_THAT(refuses(ones({2}), x, x), HasSubstr("must be matrices, or stacks of them"));
  EXPECT_THAT(refuses(ones({2, 3, 2}), ones({3, 3, 2}), x), HasSubstr("scaled_dot_product_attention"));
  EXPECT_THAT(refuses(x, x, x, {.mask = ones({3, 3}, int32)}),
              HasSubstr("the mask is int32: bool says which keys take part"));
  EXPECT_THAT(refuses(x, x, x, {.mask = ones({4, 3})}), HasSubstr("scaled_dot_product_attention"));
  EXPECT_THAT(refuses(x, Tensor(), x), HasSubstr("operand 1 is an empty Tensor"));
}

}  // namespace attention_test
