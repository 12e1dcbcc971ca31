// Random numbers, compared bit by bit with jax.random 0.10.
// The expected numbers come from this program:
//
//   import jax, numpy as np, jax.numpy as jnp
//   r = jax.random; k = r.key(42); f = lambda a: [float(v).hex() for v in np.asarray(a).ravel()]
//   r.key_data(r.split(r.key(0), 3)), r.key_data(r.fold_in(k, 7))
//   r.bits(r.key(0), (5,)), r.bits(k, (2, 3))
//   b = np.asarray(r.bits(k, (1000000,))).astype("u8")
//   b.sum(), (b * np.arange(1, 1000001, dtype="u8")).sum()
//   f(r.uniform(k, (4,))), f(r.uniform(k, (6,), minval=-1.3, maxval=2.9)), r.normal(k, (6,))
//   r.bernoulli(k, 0.3, (16,)), r.bernoulli(k, jnp.linspace(0, 1, 8))
//   r.permutation(k, 8), r.permutation(k, 5000)
//   g = lambda a: [float(v) for v in a]; l = jnp.broadcast_to(jnp.log(jnp.arange(1., 7.)), (20, 6))
//   g(r.gumbel(k, (6,)))
//   r.categorical(k, l), r.categorical(k, l.T, axis=0)
//   r.categorical(k, jnp.zeros((4, 5, 3)), axis=1), r.categorical(k, jnp.array([0., 3., 1.]))
//   # and, with 64 bits:
//   jax.config.update('jax_enable_x64', True)
//   g(r.gumbel(k, (4,), jnp.float64)), r.categorical(k, l)
//   f(r.uniform(k, (4,), dtype=jnp.float64)), r.key_data(r.key(2**40 + 5))

#include <functional>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/transforms/vmap.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;
using testing::ThrowsMessage;

namespace {

std::vector<std::uint32_t> words(const Tensor& x) { return x.to_vector<std::uint32_t>(); }
const Key key(42);

TEST(Key, FromASeedEqualsJax) {
  EXPECT_THAT(words(Key(0).data()), ElementsAre(0, 0));
  EXPECT_THAT(words(Key(42).data()), ElementsAre(0, 42));
  // The expected words are JAX's with 64-bit integers enabled.
  // Without them JAX truncates seeds to 32 bits.
  EXPECT_THAT(words(Key((1ull << 40) + 5).data()), ElementsAre(256, 5));
  EXPECT_THAT(words(Key(static_cast<std::uint64_t>(-1)).data()), ElementsAre(0xffffffffu, 0xffffffffu));
}

TEST(Key, FromATensorHoldsItsWords) {
  EXPECT_THAT(words(Key(split(key, 2)[1]).data()), ElementsAre(64467757u, 2916123636u));
  EXPECT_THAT([] { split(Key(split(key, 2)), 2); },
              ThrowsMessage<ShapeError>("split: an array of keys [2,2]: vmap over it"));
  EXPECT_THAT(
      [] {
        Key(tensor({1, 2}));
      },
      ThrowsMessage<ShapeError>(
          "Key: a key is a uint32 tensor of shape [2], not int32 [2]: give one row of split(key, n)"));
}

TEST(Split, EqualsJax) {
  EXPECT_THAT(words(split(Key(0), 3)),
              ElementsAre(1797259609u, 2579123966u, 928981903u, 3453687069u, 4146024105u, 2718843009u));
  const auto [a, b] = split(key);
  EXPECT_THAT(words(a.data()), ElementsAre(1832780943u, 270669613u));
  EXPECT_THAT(words(b.data()), ElementsAre(64467757u, 2916123636u));
  EXPECT_EQ(split(key, 0).shape(), Shape(0, 2));
  EXPECT_THAT([] { split(key, -1); }, ThrowsMessage<ShapeError>("split: -1 keys"));
}

TEST(FoldIn, EqualsJax) {
  EXPECT_THAT(words(fold_in(key, 7).data()), ElementsAre(2547012911u, 1371500959u));
  EXPECT_THAT(words(fold_in(key, 0xffffffffu).data()), ElementsAre(2398536845u, 3890976714u));
  EXPECT_THAT(words(fold_in(fold_in(key, 1), 2).data()), ElementsAre(257214496u, 567757975u));
  EXPECT_EQ(words(fold_in(key, tensor(7)).data()), words(fold_in(key, 7).data()));
  EXPECT_EQ(words(fold_in(key, tensor(-1)).data()), words(fold_in(key, 0xffffffffu).data()));
  EXPECT_EQ(words(fold_in(key, 3).data()), words(split(key, 9)[3]));
  EXPECT_THAT(
      [] {
        fold_in(key, tensor({1, 2}));
      },
      ThrowsMessage<ShapeError>("fold_in: data has shape [2], not []: vmap over it"));
  EXPECT_THAT([] { fold_in(key, tensor(1.)); }, ThrowsMessage<DtypeError>("fold_in: data is float32, not an integer"));
}

TEST(RandomBits, EqualJax) {
  EXPECT_THAT(words(random_bits(Key(0), {5})),
              ElementsAre(0xf29a4fa7u, 0xfa843692u, 0x55110e28u, 0x77faa835u, 0x91e43bb7u));
  EXPECT_THAT(words(random_bits(key, {2, 3})),
              ElementsAre(0x7d1c13a2u, 0xae0730d9u, 0x9dc3f9f9u, 0x8f9ec1d7u, 0x735d7315u, 0x95fb4ed8u));
  EXPECT_THAT(words(random_bits(Key(0xffffffffu), {3})), ElementsAre(0x84b8c06fu, 0x8c00439du, 0x775a4fabu));
  EXPECT_THAT(words(random_bits(key, {})), ElementsAre(words(random_bits(key, {1}))[0]));
  EXPECT_THAT(words(random_bits(key, {0, 3})), IsEmpty());
  std::uint64_t sum = 0, weighted = 0, position = 0;
  for (std::uint64_t word : words(random_bits(key, {1000000}))) {
    sum += word;
    weighted += word * ++position;
  }
  EXPECT_EQ(sum, 2147687549585402u);
  EXPECT_EQ(weighted, 4140335491482266358u);
  EXPECT_THAT([] { random_bits(key, {-1}); },
              ThrowsMessage<ShapeError>("random_bits: shape [-1] has a negative length"));
}

// The first numbers drawn from a key do not depend on how many are drawn.
TEST(RandomBits, DoNotDependOnHowManyAreDrawn) {
  const std::vector<std::uint32_t> all = words(random_bits(key, {100}));
  for (Index n = 0; n < 100; ++n)
    EXPECT_EQ(words(random_bits(key, {n})), std::vector(all.begin(), all.begin() + n)) << n;
}

TEST(Uniform, EqualsJax) {
  EXPECT_THAT(uniform(key, {4}).to_vector<float>(),
              ElementsAre(0x1.f470480000000p-2f, 0x1.5c0e600000000p-1f, 0x1.3b87f00000000p-1f, 0x1.1f3d800000000p-1f));
  EXPECT_THAT(uniform(key, {6}, -1.3, 2.9).to_vector<float>(),
              ElementsAre(0x1.8152300000000p-1f, 0x1.8e1e2e0000000p+0f, 0x1.49d0aa0000000p+0f, 0x1.0e678c0000000p+0f,
                          0x1.2f77560000000p-1f, 0x1.291f7a0000000p+0f));
  EXPECT_THAT(uniform(key, {4}, 0, 1, float64).to_vector<double>(),
              ElementsAre(0x1.b4f8123c40884p-2, 0x1.ebd996d6e8400p-7, 0x1.25f641d41e71ap-1, 0x1.75aad28c6a974p-1));
  EXPECT_THAT(uniform(key, {4}, -1.3, 2.9, float64).to_vector<double>(),
              ElementsAre(0x1.f811e630423c5p-2, -0x1.3ca942a68c612p+0, 0x1.1c8523d70cbb7p+0, 0x1.c3e6ba26dfd74p+0));
  EXPECT_EQ(uniform(key).shape(), Shape());
  EXPECT_THAT([] { uniform(key, {2}, 0, 1, int32); },
              ThrowsMessage<DtypeError>("uniform: int32 is not a floating dtype: draw floats and convert with astype"));
}

TEST(Uniform, TakesADtypeWithoutBounds) {
  EXPECT_THAT(uniform(Key(3), {4}, float64), Equals(uniform(Key(3), {4}, 0, 1, float64)));
  EXPECT_THAT(uniform(Key(3), {4}, float32), Equals(uniform(Key(3), {4})));
}

TEST(Uniform, StaysWithinItsBounds) {
  const Tensor x = uniform(key, {100000}, 2, 3);
  EXPECT_GE(min(x).item<float>(), 2);
  EXPECT_LE(max(x).item<float>(), 3);
  EXPECT_NEAR(mean(x).item<double>(), 2.5, 0.005);
}

TEST(Normal, EqualsJaxButForRounding) {
  EXPECT_THAT(
      normal(key, {6}).to_vector<float>(),
      ElementsAre(FloatNear(-0.028304616f, 2e-8f), FloatNear(0.46713185f, 2e-7f), FloatNear(0.29570296f, 2e-7f),
                  FloatNear(0.15354592f, 2e-7f), FloatNear(-0.12403282f, 1e-7f), FloatNear(0.21692315f, 2e-7f)));
  const std::vector<double> x = normal(key, {3}, float64).to_vector<double>();
  EXPECT_NEAR(x[0], -0.18471174528191162, 1e-14);
  EXPECT_NEAR(x[1], -2.169824560397754, 1e-13);
  EXPECT_NEAR(x[2], 0.18693555179382582, 1e-14);
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
  const Tensor x = normal(key, {1000000});
  EXPECT_NEAR(mean(x).item<double>(), 0, 0.005);
  EXPECT_NEAR(var(x).item<double>(), 1, 0.005);
  EXPECT_TRUE(all(isfinite(x)).item<bool>());
}

TEST(Gumbel, EqualsJaxButForRounding) {
  EXPECT_THAT(gumbel(key, {6}), IsNear(tensor({0.3340933918952942, 0.952019453048706, 0.7255305647850037,
                                               0.5481715202331543, 0.2268049567937851, 0.6261159181594849}),
                                       1e-6));
  EXPECT_THAT(
      gumbel(key, {4}, float64),
      IsNear(tensor({0.16062720630382138, -1.4348544993307841, 0.5890136500161952, 1.1553132453508888}, float64),
             1e-15));
}

TEST(Gumbel, IsFinite) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    EXPECT_TRUE(all(isfinite(gumbel(key, {100000}, dtype))).item<bool>()) << dtype;
}

TEST(Categorical, EqualsJax) {
  const Tensor logits = broadcast_to(log(arange(1., 7.)), {20, 6});
  EXPECT_THAT(values(categorical(key, logits)),
              ElementsAre(5, 5, 3, 5, 5, 3, 5, 5, 5, 5, 2, 0, 3, 3, 4, 5, 5, 3, 5, 4));
  EXPECT_THAT(values(categorical(key, transpose(logits), 0)),
              ElementsAre(5, 4, 4, 4, 5, 5, 3, 4, 4, 1, 4, 5, 0, 5, 5, 3, 5, 5, 5, 2));
  EXPECT_THAT(values(categorical(key, astype(logits, float64))),
              ElementsAre(5, 1, 5, 1, 1, 3, 2, 5, 5, 3, 4, 5, 5, 4, 4, 3, 1, 4, 5, 2));
  EXPECT_THAT(values(categorical(key, zeros({4, 5, 3}), 1)), ElementsAre(4, 4, 3, 0, 3, 4, 0, 2, 4, 1, 0, 2));
  EXPECT_THAT(categorical(key, tensor({0, 3, 1})), Equals(tensor(1)));
}

TEST(Categorical, FrequenciesEqualTheProbabilities) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor drawn = categorical(key, broadcast_to(tensor({0., -infinity, std::log(3.)}), {100000, 3}));
  EXPECT_NEAR(mean(astype(drawn == 0, float64)).item<double>(), 0.25, 0.005);
  EXPECT_FALSE(any(drawn == 1).item<bool>());
  EXPECT_THAT([] { categorical(key, zeros({3}), 1); }, ThrowsMessage<IndexError>(testing::HasSubstr("categorical")));
}

TEST(Bernoulli, EqualsJax) {
  EXPECT_THAT(values(bernoulli(key, 0.3, {16})), ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(values(bernoulli(key, linspace(0, 1, 8))), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_EQ(bernoulli(key, 0.5).dtype(), bool_);
  EXPECT_FALSE(any(bernoulli(key, 0, {1000})).item<bool>());
  EXPECT_TRUE(all(bernoulli(key, 1, {1000})).item<bool>());
}

TEST(Permutation, EqualsJax) {
  EXPECT_THAT(values(permutation(key, 8)), ElementsAre(7, 4, 2, 5, 3, 6, 0, 1));
  EXPECT_THAT(values(permutation(key, 1)), ElementsAre(0));
  EXPECT_THAT(values(permutation(key, 0)), IsEmpty());
  const std::vector<double> p = values(permutation(key, 5000));
  std::int64_t weighted = 0;
  for (std::size_t i = 0; i < p.size(); ++i) weighted += static_cast<std::int64_t>(p[i]) * static_cast<std::int64_t>(i);
  EXPECT_EQ(p[0], 3825);
  EXPECT_EQ(p[4999], 418);
  EXPECT_EQ(weighted, 31262781809);
  EXPECT_THAT(values(permutation(key, reshape(arange(6), {3, 2}))), ElementsAre(4, 5, 0, 1, 2, 3));
  EXPECT_THAT([] { permutation(key, tensor(1)); },
              ThrowsMessage<ShapeError>("permutation: a tensor of rank 0 has no entries to permute"));
}

// r.permutation(k, 3000000) takes three rounds of sorting.
TEST(Permutation, OfManyElementsEqualsJax) {
  const std::vector<double> p = values(permutation(key, 3000000));
  EXPECT_THAT(std::vector(p.begin(), p.begin() + 6), ElementsAre(2727, 1589815, 621866, 1520543, 4163, 2943510));
  EXPECT_THAT(std::vector(p.end() - 4, p.end()), ElementsAre(334293, 2390382, 2867352, 2323304));
}

// ---- under vmap ---------------------------------------------------------------------------------

using Draw = std::function<Tensor(const Key&)>;

// Split keys give each lane the numbers that a loop gives. A single key gives all lanes the same
// numbers. Nested vmaps behave likewise.
void expect_lanes(const Draw& draw) {
  const Tensor keys = split(key, 6);
  const auto of = [&](const Tensor& data) { return astype(draw(Key(data)), float64); };
  std::vector<Tensor> lanes;
  for (int lane = 0; lane < 6; ++lane) lanes.push_back(of(keys[lane]));
  EXPECT_TRUE(array_equal(vmap(of)(keys), stack(lanes)));
  const Tensor nested = vmap(vmap(of))(reshape(keys, {2, 3, 2}));
  EXPECT_TRUE(array_equal(reshape(nested, stack(lanes).shape()), stack(lanes)));
  const Tensor same = vmap([&](const Tensor& x) { return x + of(keys[0]); })(zeros({2}, float64));
  EXPECT_TRUE(array_equal(same, stack({lanes[0], lanes[0]})));
}

TEST(RandomVmap, EqualsALoop) {
  expect_lanes([](const Key& k) { return random_bits(k, {5}); });
  expect_lanes([](const Key& k) { return uniform(k); });
  expect_lanes([](const Key& k) { return uniform(k, {2, 3}, -1, 1, float64); });
  expect_lanes([](const Key& k) { return normal(k, {7}); });
  expect_lanes([](const Key& k) { return bernoulli(k, 0.5, {9}); });
  expect_lanes([](const Key& k) { return gumbel(k, {4}); });
  expect_lanes([](const Key& k) { return categorical(k, zeros({3, 5})); });
  expect_lanes([](const Key& k) { return permutation(k, 10); });
  expect_lanes([](const Key& k) { return permutation(k, arange(4) * 5); });
  expect_lanes([](const Key& k) { return split(k, 3); });
  expect_lanes([](const Key& k) { return fold_in(k, 9).data(); });
  expect_lanes([](const Key& k) {
    const auto [a, b] = split(k);
    return uniform(a, {3}) + uniform(b, {3});
  });
}

TEST(RandomVmap, FoldInTakesTheNumberOfALane) {
  const auto folded = vmap([](const Tensor& lane) { return fold_in(key, lane).data(); })(arange(5));
  EXPECT_EQ(words(folded), words(split(key, 5)));
  const auto both = vmap([](const Tensor& data, const Tensor& lane) { return fold_in(Key(data), lane).data(); });
  const Tensor keys = split(key, 3), expected = stack({fold_in(Key(keys[0]), 0).data(), fold_in(Key(keys[1]), 1).data(),
                                                       fold_in(Key(keys[2]), 2).data()});
  EXPECT_EQ(words(both(keys, arange(3))), words(expected));
}

}  // namespace
