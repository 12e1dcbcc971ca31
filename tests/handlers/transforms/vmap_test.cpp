// vmap alone, against loops and closed forms. nesting_test.cpp tests nests with other transforms,
// and errors_test.cpp tests errors.

#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace vmap_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;

/// The numbers 0, 1, 2, ... in this shape.
Tensor counting(const Shape& shape) { return reshape(arange(0, shape.elements(), 1, float32), shape); }

Tensor square_sum(const Tensor& x) { return sum(x * x); }

// ---- axes ---------------------------------------------------------------------------------------

TEST(Vmap, MapsTheFirstAxis) {
  const Tensor x = counting({3, 2});
  EXPECT_THAT(vmap(square_sum)(x), Equals(tensor({1., 13., 41.})));
  EXPECT_THAT(vmap([](const Tensor& row) { return 2 * row; })(x), Equals(2 * x));
  EXPECT_THAT(vmap([](const Tensor& a, const Tensor& b) { return sum(a * b); })(x, x), Equals(tensor({1., 13., 41.})));
}

TEST(Vmap, TheFunctionSeesOneLane) {
  Shape seen;
  int calls = 0;
  vmap([&](const Tensor& x) {
    ++calls;
    seen = x.shape();
    EXPECT_EQ(x.rank(), 2);
    EXPECT_EQ(x.size(), 12);
    EXPECT_EQ(x.dtype(), float64);
    EXPECT_TRUE(x.is_contiguous());
    return x;
  })(zeros({5, 3, 4}, float64));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, Shape(3, 4));
}

TEST(Vmap, InAxesChooseTheMappedAxis) {
  const Tensor x = counting({2, 3, 4});
  const auto mapped = [&](MapAxes axes) { return vmap(square_sum, {.in_axes = axes})(x); };
  EXPECT_THAT(mapped(0), IsNear(sum(x * x, {1, 2})));
  EXPECT_THAT(mapped(1), IsNear(sum(x * x, {0, 2})));
  EXPECT_THAT(mapped(2), IsNear(sum(x * x, {0, 1})));
  EXPECT_THAT(mapped(-1), IsNear(sum(x * x, {0, 1})));
  EXPECT_THAT(mapped({-3}), IsNear(sum(x * x, {1, 2})));
  // The position of the mapped axis matters, not only its length: each lane is x[:, i, :].
  const Tensor lanes = vmap([](const Tensor& lane) { return lane * 1; }, {.in_axes = 1})(x);
  EXPECT_THAT(lanes, Equals(permute_dims(x, {1, 0, 2})));
}

TEST(Vmap, InAxesMayDifferPerArgument) {
  const Tensor a = counting({3, 2}), b = counting({2, 3}), c = tensor({10., 20.});
  const auto f = [](const Tensor& x, const Tensor& y, const Tensor& z) { return x * y + z; };
  const Tensor expected = a * transpose(b) + c;
  EXPECT_THAT(vmap(f, {.in_axes = {0, 1, unmapped}})(a, b, c), Equals(expected));
  EXPECT_THAT(vmap(f, {.in_axes = {-2, -1, unmapped}})(a, b, c), Equals(expected));
  EXPECT_THAT(vmap(f, {.in_axes = {unmapped, 0, unmapped}})(tensor({1., 2.}), a, c), Equals(tensor({1., 2.}) * a + c));
}

TEST(Vmap, OneAxisAppliesToAllTensorsOfATree) {
  const auto f = [](const std::vector<Tensor>& xs, const std::pair<Tensor, int>& p) {
    return xs[0] + xs[1] + p.first * p.second;
  };
  const Tensor a = counting({2, 3}), b = 10 * a, c = tensor({1., 2.});
  EXPECT_THAT(vmap(f, {.in_axes = {1, unmapped}})(std::vector{a, b}, std::pair(c, 100)),
              Equals(transpose(a + b) + 100 * c));
}

// As in JAX, a prefix of the arguments' tree gives the axes.
TEST(Vmap, InAxesMayFollowTheTree) {
  struct Pair {
    Tensor a;
    int n;
    std::vector<Tensor> bs;
  };
  const Tensor x = counting({3, 2}), y = counting({2, 3}), z = tensor({1., 10.});
  const auto f = [](const Tensor& s, const Pair& p) { return s * p.a * p.n + p.bs[0] * p.bs[1]; };
  const Pair pair{x, 2, {y, z}};
  const Tensor s = tensor({1., 2., 3.}), expected = expand_dims(s, 1) * x * 2 + transpose(y) * z;
  EXPECT_THAT(vmap(f, {.in_axes = {0, {0, 0, {1, unmapped}}}})(s, pair), Equals(expected));
  EXPECT_THAT(vmap(f, {.in_axes = {0, {0, none, {-1, none}}}})(s, pair), Equals(expected));
  const auto of_pair = [&](const Pair& p) { return f(tensor(2.), p); };
  EXPECT_THAT(vmap(of_pair, {.in_axes = {{0, 0, {1, unmapped}}}})(pair), Equals(2 * x * 2 + transpose(y) * z));
  EXPECT_THAT(
      [&] {
        vmap(f, {.in_axes = {0, {0, 1}}})(s, pair);
      },
      testing::ThrowsMessage<TransformError>(testing::HasSubstr("in_axes has 2 entries for 3 members")));
  EXPECT_THAT(
      [&] {
        vmap(f, {.in_axes = {{0, 1}, 0}})(s, pair);
      },
      testing::ThrowsMessage<TransformError>(testing::HasSubstr("in_axes has 2 entries for 1 tensor")));
  EXPECT_THAT(
      [&] {
        vmap(of_pair, {.in_axes = {{0, 0, {0, unmapped}}}})(pair);
      },
      testing::ThrowsMessage<ShapeError>(testing::HasSubstr("argument 0 (its member 2/0) of shape [2,3]")));
}

TEST(Vmap, OutAxesMayFollowTheTree) {
  const Tensor x = counting({3, 2});
  struct Results {
    Tensor a;
    std::vector<Tensor> bs;
  };
  const auto f = [](const Tensor& row) { return Results{row, {2 * row, 3 * row}}; };
  const Results r = vmap(f, {.out_axes = {1, {0, 1}}})(x);
  EXPECT_THAT(r.a, Equals(transpose(x)));
  EXPECT_THAT(r.bs[0], Equals(2 * x));
  EXPECT_THAT(r.bs[1], Equals(3 * transpose(x)));
}

TEST(Vmap, OutAxesPlaceTheLanes) {
  const Tensor x = counting({3, 2, 4});
  const auto f = [](const Tensor& lane) { return lane + 1; };
  EXPECT_THAT(vmap(f, {.out_axes = 1})(x), Equals(permute_dims(x + 1, {1, 0, 2})));
  EXPECT_THAT(vmap(f, {.out_axes = -1})(x), Equals(permute_dims(x + 1, {1, 2, 0})));
  EXPECT_THAT(vmap(f, {.in_axes = 2, .out_axes = 2})(x), Equals(x + 1));
  EXPECT_THAT(vmap(square_sum, {.out_axes = -1})(x), IsNear(sum(x * x, {1, 2})));
}

TEST(Vmap, OutAxesMayDifferPerResult) {
  const Tensor x = counting({3, 2}), constant = tensor({7., 8.});
  const auto f = [&](const Tensor& lane) { return std::tuple(2 * lane, sum(lane), constant); };
  const auto [a, b, c] = vmap(f, {.out_axes = {1, 0, unmapped}})(x);
  EXPECT_THAT(a, Equals(transpose(2 * x)));
  EXPECT_THAT(b, Equals(tensor({1., 5., 9.})));
  EXPECT_THAT(c, Equals(constant));
  const auto [p, q] = vmap([](const Tensor& lane) { return std::pair(lane, -lane); }, {.out_axes = {0, 1}})(x);
  EXPECT_THAT(p, Equals(x));
  EXPECT_THAT(q, Equals(transpose(-x)));
}

TEST(Vmap, UnbatchedResultsAreRepeated) {
  const auto constant = [](const Tensor&) { return tensor({1., 2.}); };
  EXPECT_THAT(vmap(constant)(zeros({3})), Equals(tensor({{1., 2.}, {1., 2.}, {1., 2.}})));
  EXPECT_THAT(vmap(constant, {.out_axes = 1})(zeros({3})), Equals(tensor({{1., 1., 1.}, {2., 2., 2.}})));
  EXPECT_THAT(vmap(constant, {.out_axes = unmapped})(zeros({3})), Equals(tensor({1., 2.})));
  EXPECT_THAT(vmap([](const Tensor& x) { return ones_like(x); })(zeros({3, 2})), Equals(ones({3, 2})));
}

TEST(Vmap, AxisSizeGivesTheNumberOfLanes) {
  EXPECT_THAT(vmap([](const Tensor& x) { return x; }, {.in_axes = unmapped, .axis_size = 3})(tensor(5.)),
              Equals(tensor({5., 5., 5.})));
  EXPECT_THAT(vmap([] { return tensor(5); }, {.axis_size = 2})(), Equals(tensor({5, 5})));
  EXPECT_THAT(vmap(square_sum, {.axis_size = 3})(counting({3, 2})), Equals(tensor({1., 13., 41.})));
}

TEST(Vmap, MapsZeroLanes) {
  EXPECT_THAT(vmap(square_sum)(zeros({0, 2})), Equals(zeros({0})));
  EXPECT_THAT(vmap([](const Tensor& x) {
                return matmul(x, ones({4, 5}));
              })(zeros({0, 3, 4})),
              Equals(zeros({0, 3, 5})));
  EXPECT_THAT(vmap([](const Tensor& x) { return argmax(x); })(zeros({0, 3, 2})), Equals(zeros({0}, int32)));
  EXPECT_THAT(vmap([](const Tensor& x) { return reshape(x, {-1}); })(zeros({0, 3, 2})), Equals(zeros({0, 6})));
  EXPECT_THAT(vmap([](const Tensor& x) { return max(x); })(zeros({0, 3})), Equals(zeros({0})));
  EXPECT_THAT(vmap([](const Tensor& x) { return softmax(x); })(zeros({0, 3})), Equals(zeros({0, 3})));
  EXPECT_THAT(vmap([](const Tensor& x) { return prod(x); })(zeros({0, 3})), Equals(zeros({0})));
  EXPECT_THAT(vmap([](const Tensor&) { return tensor({1, 2}); })(zeros({0})), Equals(zeros({0, 2}, int32)));
  EXPECT_THAT(vmap([](const Tensor& x, const Tensor& i) { return take(x, i); })(zeros({0, 3}), zeros({0, 2}, int32)),
              Equals(zeros({0, 2})));
  EXPECT_THAT(vmap(grad(square_sum))(zeros({0, 2})), Equals(zeros({0, 2})));
}

// ---- functions ----------------------------------------------------------------------------------

TEST(Vmap, AcceptsAnyCallable) {
  const Tensor x = counting({3, 2});
  EXPECT_THAT(vmap(sum)(x), Equals(tensor({1., 5., 9.})));
  EXPECT_THAT(vmap(sin)(x), Equals(sin(x)));
  EXPECT_THAT(vmap(maximum)(x, flip(x)), Equals(maximum(x, flip(x))));
  EXPECT_THAT(vmap(matmul, {.in_axes = {0, unmapped}})(x, ones({2, 4})), Equals(matmul(x, ones({2, 4}))));
  EXPECT_THAT(vmap(&square_sum)(x), Equals(tensor({1., 13., 41.})));
  EXPECT_THAT(vmap([](auto lane) { return lane; })(x), Equals(x));
  const auto kept = vmap(square_sum);
  EXPECT_THAT(kept(x), Equals(kept(x)));
}

TEST(Vmap, NontreeArgumentsPassThrough) {
  std::ostringstream out;
  const auto f = [](const Tensor& x, int n, std::ostream& stream, const std::string& text) {
    stream << text;
    return x * n;
  };
  EXPECT_THAT(vmap(f)(tensor({1., 2.}), 3, out, "once"), Equals(tensor({3., 6.})));
  EXPECT_EQ(out.str(), "once");
}

TEST(Vmap, CapturedValuesAreTheSameInEveryLane) {
  const Tensor w = tensor({{1., 2.}, {3., 4.}}), x = counting({3, 2});
  EXPECT_THAT(vmap([&](const Tensor& row) { return matmul(w, row); })(x), IsNear(matmul(x, transpose(w))));
  EXPECT_THAT(vmap([&](const Tensor& row) { return row + w; })(x), Equals(expand_dims(x, 1) + w));
  EXPECT_THAT(vmap([&](const Tensor& i) { return take(w, i); })(tensor({1, 0, 1})), Equals(take(w, tensor({1, 0, 1}))));
  // The lane and the captured value have different ranks.
  EXPECT_THAT(vmap([&](const Tensor& number) { return number * w; })(tensor({1., 10.})),
              Equals(tensor({{{1., 2.}, {3., 4.}}, {{10., 20.}, {30., 40.}}})));
}

// A value that is the same in every lane can be read like any tensor.
TEST(Vmap, CapturedValuesAreConcrete) {
  const Tensor n = tensor(3);
  const auto f = [&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < n.item<int>(); ++i) y = y * x;
    return bool(n > 2) ? y : x;
  };
  EXPECT_THAT(vmap(f)(tensor({1., 2.})), Equals(tensor({1., 16.})));
}

// ---- nested -------------------------------------------------------------------------------------

TEST(NestedVmap, MapsEveryPair) {
  const Tensor x = tensor({1., 2., 3.}), y = tensor({10., 20.});
  const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };
  const auto table = vmap(vmap(product, {.in_axes = {unmapped, 0}}), {.in_axes = {0, unmapped}});
  EXPECT_THAT(table(x, y), Equals(tensor({{10., 20.}, {20., 40.}, {30., 60.}})));
  const Tensor stacks = counting({2, 3, 4});
  EXPECT_THAT(vmap(vmap(square_sum))(stacks), IsNear(sum(stacks * stacks, -1)));
  EXPECT_THAT(vmap(vmap(square_sum), {.in_axes = 1})(stacks), IsNear(transpose(sum(stacks * stacks, -1))));
  EXPECT_THAT(vmap(vmap(vmap([](const Tensor& n) { return n + 1; })))(stacks), Equals(stacks + 1));
}

// A value captured from an outer lane behaves like that lane's value.
TEST(NestedVmap, MayCaptureValuesOfOuterLanes) {
  const Tensor x = tensor({1., 2., 3.}), y = tensor({10., 20.});
  const auto rows = vmap([&](const Tensor& a) { return vmap([&](const Tensor& b) { return a * b; })(y); })(x);
  EXPECT_THAT(rows, Equals(tensor({{10., 20.}, {20., 40.}, {30., 60.}})));
  // The outer lane is a vector, and the inner lane is a matrix.
  // They are used together and separately.
  const Tensor v = counting({3, 2}), m = counting({4, 2, 2});
  const auto nested = vmap([&](const Tensor& row) {
    const Tensor doubled = 2 * row;
    return vmap([&](const Tensor& matrix) { return matmul(matrix, doubled) + sum(row); })(m);
  })(v);
  ASSERT_EQ(nested.shape(), Shape(3, 4, 2));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_THAT(nested(i, j), IsNear(matmul(m[j], 2 * v[i]) + sum(v[i])));
  // The result depends only on the outer lane.
  const auto outer_only = vmap([&](const Tensor& a) { return vmap([&](const Tensor&) { return a; })(y); })(x);
  EXPECT_THAT(outer_only, Equals(tensor({{1., 1.}, {2., 2.}, {3., 3.}})));
}

// ---- operations that need more than an added axis -----------------------------------------------

// Compares vmap with a loop over lanes.
template <class F>
void expect_as_loop(F f, const Tensor& x, const Tensor& y) {
  const Tensor mapped = vmap(f)(x, y), half = vmap(f, {.in_axes = {0, unmapped}})(x, y[0]);
  for (Index i = 0; i < x.shape(0); ++i) {
    EXPECT_THAT(mapped[i], IsNear(f(x[i], y[i]))) << "lane " << i;
    EXPECT_THAT(half[i], IsNear(f(x[i], y[0]))) << "lane " << i << ", y unmapped";
  }
  const Tensor other = vmap(f, {.in_axes = {unmapped, 0}})(x[0], y);
  for (Index i = 0; i < y.shape(0); ++i) EXPECT_THAT(other[i], IsNear(f(x[0], y[i]))) << "lane " << i << ", x unmapped";
}

TEST(Vmap, EqualsALoopOverLanes) {
  const Tensor x = sin(counting({3, 4, 2})), y = cos(counting({3, 4, 2})), z = cos(counting({3, 2}));
  const Tensor i = tensor({{3, 0}, {-1, 2}, {1, 1}});
  using T = const Tensor&;
  expect_as_loop([](T a, T b) { return matmul(a, transpose(b)); }, x, y);
  expect_as_loop([](T a, T b) { return matmul(a, b); }, x, z);
  expect_as_loop([](T a, T b) { return matmul(b, transpose(a)); }, x, z);
  expect_as_loop([](T a, T b) { return tensordot(a, b, {0, 1}, {0, 1}); }, x, y);
  expect_as_loop([](T a, T b) { return a + b; }, x, z);
  expect_as_loop([](T a, T b) { return where(a > 0, a, sum(b)); }, x, z);
  expect_as_loop([](T a, T b) { return concat({a, 2 * b, a}, 1); }, x, y);
  expect_as_loop([](T a, T b) { return stack({a, b}, -1); }, x, y);
  expect_as_loop([](T a, T b) { return outer(a, b); }, x, z);
  expect_as_loop([](T a, T b) { return take(a, b); }, x, i);
  expect_as_loop([](T a, T b) { return take_along_axis(a, expand_dims(b, 1), 0); }, x, i);
  expect_as_loop([](T a, T b) { return scatter_add(a, expand_dims(b, 1), ones({2, 2})); }, x, i);
  expect_as_loop([](T a, T b) { return one_hot(b % 4, 4) * sum(a); }, x, i);
  expect_as_loop([](T a, T b) { return flip(a, 0)(slice(1, none), newaxis, -1) * b[0]; }, x, z);
  expect_as_loop([](T a, T b) { return pad(a * b, {{1, 0}, {0, 2}}, 7); }, x, z);
  expect_as_loop([](T a, T b) { return max(a, 0) + astype(argmax(a), float32) + prod(b); }, x, z);
  expect_as_loop([](T a, T b) { return logsumexp(a, {0, 1}, keepdims) + stave::std(b); }, x, z);
  expect_as_loop([](T a, T b) { return broadcast_to(b, {5, 4, 2}) * a; }, x, z);
  expect_as_loop([](T a, T b) { return reshape(permute_dims(a, {1, 0}), {-1, 2}) - b; }, x, z);
}

TEST(Vmap, RandomNumbersEqualALoop) {
  const auto draw = [](const Tensor& key) { return normal(Key(key), {4}); };
  const Tensor keys = split(Key(3), 5), lanes = vmap(draw)(keys);
  // A loop gives the same bits.
  for (Index i = 0; i < 5; ++i) EXPECT_THAT(lanes[i], Equals(draw(keys[i])));
  const Key one(7);
  const Tensor same = vmap([&](const Tensor& x) { return x * 0 + uniform(one, {2}); })(zeros({3, 2}));
  // The same key gives the same numbers.
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(same[i], Equals(uniform(one, {2})));
  EXPECT_THAT(vmap([&](const Tensor& i) { return fold_in(one, i).data(); })(tensor({0, 1})),
              Equals(stack({fold_in(one, 0u).data(), fold_in(one, 1u).data()})));
}

// vmap performs one operation on all lanes for each operation of f, and no others.
TEST(Vmap, PerformsOneOperationForAllLanes) {
  CountOps count;
  with(count, [] { vmap([](const Tensor& x) { return sin(x) * x; })(zeros({100, 3})); });
  EXPECT_EQ(count.n, 2 + 1);  // the third operation is zeros
}

}  // namespace vmap_test
