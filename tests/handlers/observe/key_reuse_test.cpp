// check_keys finds keys that are used twice, and only those. Its meaning is that of
// jax.experimental.key_reuse, except that keys are known by their words.
#include <stave/stave.h>

#include <stave/handlers/observe/key_reuse.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

template <class F>
std::string reused(F f) {
  return message_of<KeyReuseError>([&] { check_keys(f)(); });
}

TEST(KeyReuse, TwoUsesConflict) {
  EXPECT_THAT(
      reused([] { return normal(Key(0), {3}) + normal(Key(0), {3}); }),
      AllOf(HasSubstr("normal: the key [0 0] is used a second time"), HasSubstr("First use: random_uniform shape=[3]"),
            HasSubstr("Second use: random_uniform shape=[3]"), HasSubstr("inside check_keys")));
  const Key key(7);
  EXPECT_THAT(reused([&] { return normal(key, {3}), uniform(key, {5}); }), HasSubstr("the key [0 7]"));
  EXPECT_THAT(reused([&] { return split(key, 2), split(key, 2); }),
              HasSubstr("split: the key [0 7] with the number 0"));
  EXPECT_THAT(reused([&] { return normal(key, {3}), split(key, 2); }),
              HasSubstr("split: the key [0 7] with the number 0"));
  EXPECT_THAT(reused([&] { return split(key, 2), normal(key, {3}); }), HasSubstr("Second use: random_uniform"));
  EXPECT_THAT(reused([&] { return fold_in(key, 5), fold_in(key, 5); }), HasSubstr("with the number 5"));
  EXPECT_THAT(reused([&] { return split(key, 3), fold_in(key, 2); }), HasSubstr("with the number 2"));
  EXPECT_THAT(reused([&] { return random_bits(key, {3}), permutation(key, 4); }), HasSubstr("random_permutation"));
  EXPECT_THAT(reused([&] { return gamma(key, ones({3})), bernoulli(key, 0.5, {2}); }),
              HasSubstr("First use: random_gamma"));
}

TEST(KeyReuse, DistinctKeysDoNot) {
  const auto f = [] {
    const auto [a, b, c] = split<3>(Key(0));
    Tensor x = normal(a, {3}) + uniform(b, {3});
    for (std::uint32_t i = 0; i < 4; ++i) x = x + normal(fold_in(c, i), {3});
    const Key other = Key(1);  // copies and data do not count as uses
    const Key copy = other;
    return x + sum(astype(other.data(), float32)) + normal(copy, {3});
  };
  const Tensor x = check_keys(f)();
  EXPECT_THAT(x, Equals(f()));
  const auto again = check_keys([](const Key& key) { return normal(key, {2}); });
  EXPECT_THAT(again(Key(3)), Equals(again(Key(3))));  // each call starts anew
  EXPECT_NO_THROW(check_keys([] { return normal(Key(0), {2}, complex64); })());
}

TEST(KeyReuse, LoopsConflictInTheirSecondStep) {
  const Key key(5);
  int steps = 0;
  EXPECT_THAT(reused([&] {
                Tensor x = zeros({2});
                for (int i = 0; i < 3; ++i, ++steps) x = x + normal(key, {2});
                return x;
              }),
              HasSubstr("the key [0 5]"));
  EXPECT_EQ(steps, 1);
  EXPECT_THAT(reused([&] { return loop(3, [key](const Tensor& x) { return x + normal(key, {2}); })(zeros({2})); }),
              HasSubstr("the key [0 5]"));
  EXPECT_NO_THROW(check_keys([&] {
    Tensor x = zeros({2});
    Key carried = key;
    for (int i = 0; i < 3; ++i) {
      const auto [next, now] = split(carried);
      carried = next;
      x = x + normal(now, {2});
    }
    return x;
  })());
}

TEST(KeyReuse, Lanes) {
  const auto draw = [](const Key& key) { return normal(key, {2}); };
  EXPECT_NO_THROW(check_keys([&] { return vmap(draw)(split(Key(0), 5)); })());
  EXPECT_THAT(reused([&] {
                return vmap(draw)(split(Key(0), 5)), normal(Key(split(Key(1), 2)[0])), draw(fold_in(Key(0), 9)),
                       fold_in(Key(0), 3);
              }),
              HasSubstr("with the number 3"));
  EXPECT_THAT(reused([&] {
                const Tensor keys = split(Key(0), 5);
                return vmap(draw)(keys), draw(Key(keys[3]));
              }),
              HasSubstr("Second use: random_uniform"));
  // Two lanes with one key; and one key that all lanes share, which is used once.
  const Key key(2);
  EXPECT_THAT(reused([&] {
                return vmap(draw)(concat({expand_dims(key.data(), 0), expand_dims(key.data(), 0)}, 0));
              }),
              HasSubstr("the key [0 2]"));
  EXPECT_NO_THROW(check_keys([&] { return vmap([&](const Tensor& x) { return x + draw(key); })(ones({3})); })());
  // Keys that the lanes derive.
  EXPECT_NO_THROW(
      check_keys([&] { return vmap([&](const Tensor& i) { return normal(fold_in(key, i), {2}); })(arange(4)); })());
  // Inside vmap.
  EXPECT_NO_THROW(vmap(check_keys([&](const Key& k) {
    const auto [a, b] = split(k);
    return normal(a, {2}) + normal(b, {2});
  }))(split(Key(0), 5)));
  EXPECT_THROW(vmap(check_keys([&](const Key& k) { return normal(k, {2}) + uniform(k, {2}); }))(split(Key(0), 5)),
               KeyReuseError);
  // Lanes that take other paths: rejection sampling.
  const auto rejection = [](Key k) {
    for (;;) {
      const auto [next, now] = split(k);
      const Tensor u = uniform(now);
      if (u > 0.5) return u;
      k = next;
    }
  };
  EXPECT_NO_THROW(check_keys([&] { return vmap(rejection)(split(Key(0), 20)); })());
  EXPECT_NO_THROW(vmap(check_keys(rejection))(split(Key(0), 20)));
}

TEST(KeyReuse, RerunsAreNoNewUses) {
  const Tensor x = ones({3});
  const auto dropped = [](const Tensor& v) { return sum(sin(v) * normal(Key(4), {3})); };
  EXPECT_NO_THROW(check_keys(grad(dropped))(x));
  EXPECT_NO_THROW(check_keys(grad(checkpoint(dropped)))(x));
  EXPECT_NO_THROW(grad(check_keys(checkpoint(dropped)))(x));
  EXPECT_NO_THROW(check_keys(hessian(checkpoint(dropped)))(x));
  EXPECT_NO_THROW(check_keys(vmap(grad(checkpoint(dropped))))(ones({2, 3})));
  EXPECT_NO_THROW(check_keys(grad([](const Tensor& v) {
    const auto step = [](const Tensor& s, const Tensor& key) { return std::pair(s * normal(Key(key), {3}), sum(s)); };
    return sum(scan(step, {.snapshots = 2})(v, split(Key(1), 8)).first);
  }))(x));
  // A checkpoint that uses a key twice, or uses one that was used outside.
  EXPECT_THROW(check_keys(grad(checkpoint([&](const Tensor& v) { return dropped(v) * dropped(v); })))(x),
               KeyReuseError);
  EXPECT_THROW(check_keys(grad([&](const Tensor& v) { return dropped(v) * checkpoint(dropped)(v); }))(x),
               KeyReuseError);
}

TEST(KeyReuse, CompiledFunctions) {
  const auto twice = [](const Key& key) { return normal(key, {2}) + uniform(key, {2}); };
  EXPECT_THROW(check_keys(compile(twice))(Key(0)), KeyReuseError);
  EXPECT_THROW(compile(check_keys(twice))(Key(0)), KeyReuseError);
  const auto step = [](const Key& key) {
    const auto [a, b] = split(key);
    return normal(a, {2}) + uniform(b, {2});
  };
  const auto compiled = compile(check_keys(step));
  EXPECT_THAT(compiled(Key(0)), Equals(step(Key(0))));
  EXPECT_THAT(compiled(Key(0)), Equals(step(Key(0))));
  EXPECT_NO_THROW(check_keys(compile(step))(Key(0)));
}

TEST(KeyReuse, NamesScopes) {
  EXPECT_THAT(reused([] {
                const Key key(0);
                Tensor x;
                {
                  const Scope layer("encoder");
                  x = normal(key, {2});
                }
                const Scope layer("decoder");
                return x + normal(key, {2});
              }),
              AllOf(HasSubstr("[encoder]"), HasSubstr("[decoder]")));
}

TEST(KeyReuse, AnOperationThatThrowsUsesNoKey) {
  struct RefuseOnce : Handler {
    bool refused = false;
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::random_uniform && !std::exchange(refused, true)) throw DeviceError("refused");
      return perform(std::move(call));
    }
  };
  EXPECT_NO_THROW(with(RefuseOnce(), [] {
    return check_keys([] {
      try {
        return normal(Key(0), {2});
      } catch (const DeviceError&) {
        return normal(Key(0), {2});
      }
    })();
  }));
}

}  // namespace
