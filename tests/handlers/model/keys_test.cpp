// next_key: implicit keys by order, by scope and by lane.
#include <stave/stave.h>

#include "matchers.h"

namespace keys_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;

Tensor noise(T x) { return x + normal(next_key(), x.shape()); }
Tensor two(T x) {
  const Tensor first = noise(x);
  return noise(first);
}
Tensor inputs() { return arange(0, 12, 1, float32); }
Tensor rows() { return reshape(inputs(), {3, 4}); }

TEST(NextKey, GivesTheRowsOfSplitInOrder) {
  const Tensor keys = split(Key(4), 3);
  with(Keys(Key(4)), [&] {
    for (Index i = 0; i < 3; ++i) EXPECT_THAT(next_key().data(), Equals(keys[i]));
  });
}

TEST(NextKey, WithoutKeysIsAnError) {
  EXPECT_THAT(message_of<Error>([] { next_key(); }),
              HasSubstr("next_key: no handler provides keys: call the function by seed"));
}

TEST(NextKey, InAScopeDependsOnNoOtherScope) {
  const auto in = [](const char* name) {
    const Scope scope(name);
    return next_key().data();
  };
  const auto [a, b, again] = with(Keys(Key(1)), [&] {
    const Tensor first = in("a"), second = in("b"), third = in("a");
    return std::tuple(first, second, third);
  });
  const Tensor alone = with(Keys(Key(1)), [&] {
    next_key();
    return in("b");
  });
  EXPECT_THAT(b, Equals(alone));
  EXPECT_FALSE(array_equal(a, b));
  EXPECT_FALSE(array_equal(a, again));
}

TEST(Seed, DrawsTheSameAtEachCall) {
  const auto seeded = seed(two, Key(2));
  EXPECT_THAT(seeded(inputs()), Equals(seeded(inputs())));
  const Tensor keys = split(Key(2), 2);
  const Shape shape = inputs().shape();
  const Tensor expected = (inputs() + normal(Key(keys[0]), shape)) + normal(Key(keys[1]), shape);
  EXPECT_THAT(seeded(inputs()), Equals(expected));
}

TEST(Seed, OutsideOfVmapAllLanesDrawTheSame) {
  const Tensor drawn = seed(vmap(two), Key(2))(zeros({3, 4}));
  EXPECT_THAT(drawn, Equals(broadcast_to(seed(two, Key(2))(zeros({4})), {3, 4})));
}

TEST(Seed, InsideOfVmapEqualsALoop) {
  const Tensor keys = split(Key(6), 3);
  const auto lane = [](const Key& key, T x) { return seed(two, key)(x); };
  const Tensor drawn = vmap(lane)(Key(keys), rows());
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(drawn[i], Equals(seed(two, Key(keys[i]))(rows()[i])));
  EXPECT_FALSE(array_equal(drawn[0] - rows()[0], drawn[1] - rows()[1]));
}

TEST(VmapWithKeys, EqualsALoop) {
  const Tensor drawn = seed(vmap_with_keys(two), Key(8))(rows());
  const Tensor keys = split(Key(split(Key(8), 1)[0]), 3);
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(drawn[i], Equals(seed(two, Key(keys[i]))(rows()[i])));
}

TEST(VmapWithKeys, TakesTheOptionsOfVmap) {
  const auto add = [](T x, T y) { return noise(x) + y; };
  const Tensor y = ones({4});
  const auto of = [&](VmapOptions options, T xs) { return seed(vmap_with_keys(add, options), Key(8))(xs, y); };
  const Tensor expected = of({.in_axes = {0, unmapped}}, rows());
  EXPECT_THAT(of({.in_axes = {1, unmapped}}, transpose(rows())), Equals(expected));
  EXPECT_THAT(of({.in_axes = {0, unmapped}, .out_axes = 1}, rows()), Equals(transpose(expected)));
  const auto alone = [] { return noise(zeros({4})); };
  EXPECT_THAT(seed(vmap_with_keys(alone, {.axis_size = 3}), Key(8))() + rows() + 1., IsNear(expected));
  EXPECT_THAT(message_of<ShapeError>([&] { seed(vmap_with_keys(alone), Key(8))(); }),
              HasSubstr("vmap: no argument is mapped"));
  EXPECT_THAT(message_of<ShapeError>([&] { seed(vmap_with_keys(add), Key(8))(rows(), y); }),
              HasSubstr("vmap: arguments disagree on the number of lanes"));
}

TEST(VmapWithKeys, MasksOfDropoutDifferByLane) {
  const auto layer = [](T x) { return dropout(next_key(), x, 0.5); };
  const Tensor xs = ones({4, 64});
  const Tensor same = seed(vmap(layer), Key(0))(xs), apart = seed(vmap_with_keys(layer), Key(0))(xs);
  for (Index i = 1; i < 4; ++i) {
    EXPECT_THAT(same[i], Equals(same[0]));
    EXPECT_FALSE(array_equal(apart[i], apart[0]));
  }
  // The gradient of dropout is its mask.
  const auto slope = vmap_with_keys(grad([&](T x) { return sum(layer(x)); }));
  EXPECT_THAT(seed(slope, Key(0))(xs), Equals(apart));
}

TEST(VmapWithKeys, CanBeNested) {
  const Tensor xs = zeros({2, 3, 4});
  const Tensor drawn = seed(vmap_with_keys(vmap_with_keys(noise)), Key(8))(xs);
  const Tensor outer = split(Key(split(Key(8), 1)[0]), 2);
  for (Index i = 0; i < 2; ++i) EXPECT_THAT(drawn[i], Equals(seed(vmap_with_keys(noise), Key(outer[i]))(xs[i])));
}

TEST(Keys, GiveTheSameDrawsWhenACheckpointRunsAgain) {
  const auto layer = [](T x) { return sum(square(x * normal(next_key(), x.shape()))); };
  const Tensor x = inputs();
  EXPECT_THAT(seed(grad(checkpoint(layer)), Key(3))(x), IsNear(seed(grad(layer), Key(3))(x)));
  // The scope of the keys ends before the backward pass.
  const auto inside = [&](T v) { return seed(checkpoint(layer), Key(3))(v); };
  EXPECT_THAT(grad(inside)(x), IsNear(seed(grad(layer), Key(3))(x)));
  EXPECT_THAT(seed(vmap_with_keys(grad(checkpoint(layer))), Key(3))(rows()),
              IsNear(seed(vmap_with_keys(grad(layer)), Key(3))(rows())));
}

TEST(Keys, WorkInsideAndOutsideCompile) {
  const auto compiled = compile([](const Key& key, T x) { return seed(two, key)(x); });
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_THAT(compiled(Key(i), inputs()), IsNear(seed(two, Key(i))(inputs())));
  EXPECT_EQ(compiled.recordings(), 1u);
  const auto inner = compile(two);
  const auto run = [&](auto f) {
    return with(Keys(Key(5)), [&] {
      const Tensor first = f(inputs());
      return f(first);  // draws other keys
    });
  };
  EXPECT_THAT(run(inner), IsNear(run(two)));
}

}  // namespace keys_test
