// Functions on trees, and trees as arguments and results of transforms.
#include <filesystem>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <variant>

#include <stave/stave.h>

#include "matchers.h"
#include "tree_types.h"

namespace tree_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(TreeMap, KeepsStructureAndNontensorMembers) {
  const Mixed tree{2, number(1), "mlp", 0.5, number(2), true};
  const Mixed doubled = tree_map([](const Tensor& x) { return 2 * x; }, tree);
  EXPECT_THAT(leaves(doubled), ElementsAre(2, 4));
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2));
  EXPECT_EQ(std::tie(doubled.layers, doubled.name, doubled.rate, doubled.trained), std::tuple(2, "mlp", 0.5, true));
}

TEST(TreeMap, MapsSeveralTreesTogether) {
  const std::map<std::string, Tensor> a{{"x", number(1)}, {"y", number(2)}}, b{{"x", number(10)}, {"y", number(20)}};
  const auto sum = tree_map([](const Tensor& p, const Tensor& q, const Tensor& r) { return p + q * r; }, a, b, b);
  EXPECT_THAT(leaves(sum), ElementsAre(101, 402));
  EXPECT_TRUE(sum.contains("y"));
}

TEST(TreeMap, TreesOfDifferentSizeAreAnError) {
  const std::vector<Tensor> one{number(1)}, two{number(1), number(2)};
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_THAT(
      [&] { tree_map(add, one, two); },
      testing::ThrowsMessage<ShapeError>(
          "tree_map: the trees differ in structure: in a length, in the keys of a map, or in which member is present"));
  EXPECT_THROW(tree_map(add, std::optional<Tensor>(), std::optional(number(1))), ShapeError);
}

TEST(TreeMap, TreesOfEqualSizeButDifferentStructureAreAnError) {
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  const auto refused = [&](const auto& a, const auto& b) { EXPECT_THROW(tree_map(add, a, b), ShapeError); };
  const Tensor x = number(1);
  using Map = std::map<std::string, Tensor>;
  refused(Map{{"a", x}}, Map{{"b", x}});
  using Unordered = std::unordered_map<std::string, Tensor>;
  refused(Unordered{{"a", x}}, Unordered{{"b", x}});
  using Lists = std::vector<std::vector<Tensor>>;
  refused(Lists{{x, x}, {x}}, Lists{{x}, {x, x}});
  using Either = std::variant<Point, std::array<Tensor, 2>>;
  refused(Either(Point{x, x}), Either(std::array{x, x}));
  using Optionals = std::pair<std::optional<Tensor>, std::optional<Tensor>>;
  refused(Optionals{x, {}}, Optionals{{}, x});
  EXPECT_THROW(jvp([](const Map& m) { return m.at("a"); }, Map{{"a", x}}, Map{{"b", x}}), ShapeError);
  EXPECT_THROW(vjp([](const Tensor& t) { return Map{{"a", t}}; }, x).second(Map{{"b", x}}), ShapeError);
  EXPECT_THROW(linearize([](const Map& m) { return m.at("a"); }, Map{{"a", x}}).second(Map{{"b", x}}), ShapeError);
}

TEST(TreeMap, GivesSeveralTrees) {
  const Point p{number(2), number(3)}, q{number(5), number(7)};
  const auto [sum, product] = tree_map([](const Tensor& a, const Tensor& b) { return std::pair(a + b, a * b); }, p, q);
  EXPECT_THAT(leaves(sum), ElementsAre(7, 10));
  EXPECT_THAT(leaves(product), ElementsAre(10, 21));
  const auto [a, b, c] = tree_map([](const Tensor& x) { return std::tuple(x, 2 * x, 3 * x); }, std::vector{number(1)});
  EXPECT_THAT(leaves(c), ElementsAre(3));
}

TEST(AddAll, IsTheSumOfTensors) {
  EXPECT_THAT(add_all(std::vector{tensor({1., 2.}), tensor(10.), tensor({3., 4.})}), Equals(tensor({14., 16.})));
  EXPECT_THAT(add_all(Point{number(3), number(4)}), IsNumber(7));
  EXPECT_THAT(add_all(std::vector<Tensor>()), IsNumber(0));
}

TEST(Ravel, UnravelRestoresTheTree) {
  const Point p{tensor({{1., 2.}, {3., 4.}}), tensor(5, int32)};
  const auto [vector, unravel] = ravel(p);
  const auto of_four = [&unravel = unravel] { unravel(ones({4})); };
  EXPECT_THAT(vector, Equals(tensor({1., 2., 3., 4., 5.})));
  const Point twice = unravel(2 * vector);
  EXPECT_THAT(twice.x, Equals(2 * p.x));
  EXPECT_THAT(twice.y, Equals(tensor(10, int32)));
  EXPECT_THAT(of_four, testing::ThrowsMessage<ShapeError>(
                           "unravel: the tree has 5 elements, but a tensor of shape [4] was given"));
  EXPECT_EQ(ravel(std::vector<Tensor>()).first.shape(), Shape(0));
  // ravel in a gradient: d sum((2 v)^2) / dv = 8 v.
  const auto loss = [](const Point& q) { return sum(square(2 * ravel(q).first)); };
  EXPECT_THAT(grad(loss)(Point{p.x, number(5)}).x, Equals(8 * p.x));
}

TEST(ZerosLike, KeepsShapesAndDtypes) {
  const Point zero = zeros_like(Point{ones({2, 3}, float64), ones({4}, int32)});
  EXPECT_THAT(zero.x, Equals(zeros({2, 3}, float64)));
  EXPECT_THAT(zero.y, Equals(zeros({4}, int32)));
  EXPECT_THAT(leaves(zeros_like(std::vector{number(3)})), ElementsAre(0));
}

TEST(GlobalNorm, IsTheNormOfAllElements) {
  // The squares are 1 + 4 + 4 + 16.
  EXPECT_THAT(global_norm(Point{tensor({1., 2.}), tensor({{2.}, {4.}})}), IsNumber(5));
  EXPECT_THAT(global_norm(tensor({3., -4.})), IsNumber(5));
  EXPECT_THAT(global_norm(std::vector<Tensor>{}), IsNumber(0));
  EXPECT_EQ(global_norm(Point{number(1), zeros({}, float64)}).dtype(), float64);
  EXPECT_THAT(global_norm(tensor({3, 4})), IsNear(full({}, 5.)));  // integers give float32
}

// ---- under transforms ---------------------------------------------------------------------------

TEST(TreeArguments, GradientsHaveTheirType) {
  const auto f = [](const Nested& n) { return n.from.x * n.from.y + 3. * n.path[1].x + square(n.to->y); };
  const Nested at{
      {number(2), number(5)}, {{number(0), number(0)}, {number(1), number(1)}}, Point{number(1), number(4)}, {}};
  const Nested g = grad(f)(at);
  EXPECT_THAT(leaves(g), ElementsAre(5, 2, 0, 0, 3, 0, 0, 8));
}

TEST(TreeArguments, GradientsKeepNontensorMembers) {
  const auto f = [](const Mixed& m) {
    EXPECT_EQ(m.name, "mlp");
    return m.rate * m.weight * static_cast<float>(m.layers);
  };
  const Mixed g = grad(f)(Mixed{3, number(1), "mlp", 0.5, number(2), true});
  EXPECT_THAT(leaves(g), ElementsAre(1.5, 0));
  EXPECT_EQ(g.layers, 3);
  EXPECT_EQ(g.name, "mlp");
}

TEST(TreeArguments, MayBeEveryKindOfTree) {
  const Tensor a = number(3), b = number(5);
  EXPECT_THAT(leaves(grad([](const std::vector<Tensor>& v) { return v[0] * v[1]; })(std::vector{a, b})),
              ElementsAre(5, 3));
  EXPECT_THAT(leaves(grad([](const std::array<Tensor, 2>& v) { return v[0] * v[1]; })(std::array{a, b})),
              ElementsAre(5, 3));
  EXPECT_THAT(
      leaves(grad([](const std::pair<Tensor, Tensor>& p) { return p.first / p.second; })(std::pair(a, number(2)))),
      ElementsAre(0.5, -0.75));
  EXPECT_THAT(leaves(grad([](const std::tuple<Tensor, int, Tensor>& t) { return std::get<0>(t) * std::get<2>(t); })(
                  std::tuple(a, 1, b))),
              ElementsAre(5, 3));
  using Map = std::map<std::string, Tensor>;
  const Map g = grad([](const Map& m) { return m.at("a") * square(m.at("b")); })(Map{{"b", b}, {"a", a}});
  EXPECT_THAT(leaves(g), ElementsAre(25, 30));
  const auto with_bias = [](const Tensor& x, const std::optional<Tensor>& bias) { return bias ? x * *bias : x; };
  EXPECT_THAT(leaves(grad<0, 1>(with_bias)(a, std::optional(b))), ElementsAre(5, 3));
  EXPECT_THAT(leaves(grad<0, 1>(with_bias)(a, std::optional<Tensor>())), ElementsAre(1));
  EXPECT_THAT(leaves(grad([](const Layer& l) { return l.weights() * float(l.id()); })(Layer(a, 7))), ElementsAre(7));
  EXPECT_THAT(leaves(grad([](const Arrays& s) { return s.plain[1] * s.points[1].x + s.last; })(
                  Arrays{a, {a, b, a}, {a, a}, {{a, a}, {a, a}}, {}, a})),
              ElementsAre(0, 0, 3, 0, 0, 0, 0, 0, 5, 0, 1));
}

TEST(TreeArguments, MayBePassedToGenericLambdas) {
  const Point point{tensor({1., 2.}), tensor({3., 4.})};
  const auto product = [](const auto& p) { return p.x * p.y; };
  const auto loss = [](const auto& p) { return sum(p.x * p.y); };
  const auto scaled_loss = [](const auto& p, const auto& scale) { return sum(p.x * p.y) * scale; };
  EXPECT_THAT(grad(loss)(point).x, Equals(point.y));
  EXPECT_THAT(grad(scaled_loss)(point, tensor(2.)).x, Equals(2 * point.y));
  EXPECT_THAT(value_and_grad(loss)(point).value, Equals(tensor(11.)));
  EXPECT_THAT(std::get<0>(vjp(product, point).second(point.x)).x, Equals(point.x * point.y));
  EXPECT_THAT(jvp(product, point, point).second, Equals(2 * point.x * point.y));
  EXPECT_THAT(linearize(product, point).second(point), Equals(2 * point.x * point.y));
  EXPECT_THAT(vmap(product)(point), Equals(point.x * point.y));
  EXPECT_THAT(checkpoint(product)(point), Equals(point.x * point.y));
  EXPECT_THAT(debug(product, {.print = false})(point), Equals(point.x * point.y));
  auto operations = operations_of(product, point);
  for ([[maybe_unused]] PendingOperation& op : operations) {
  }
  EXPECT_THAT(*operations.result(), Equals(point.x * point.y));
}

TEST(TreeArguments, WorkUnderVmapAndJvp) {
  const auto area = [](const Point& p) { return p.x * p.y; };
  EXPECT_THAT(vmap(area)(Point{tensor({1., 2., 3.}), tensor({4., 5., 6.})}), IsNear(tensor({4., 10., 18.})));
  const auto mirrored = vmap([](const Point& p) {
    return Point{p.y, -p.x};
  })(Point{tensor({1., 2.}), tensor({4., 5.})});
  EXPECT_THAT(mirrored.x, IsNear(tensor({4., 5.})));
  EXPECT_THAT(mirrored.y, IsNear(tensor({-1., -2.})));
  const auto [value, tangent] = jvp(area, Point{number(3), number(5)}, Point{number(1), number(10)});
  EXPECT_THAT(value, IsNumber(15));
  EXPECT_THAT(tangent, IsNumber(35));
  const auto [out, pullback] = vjp([](const Point& p) { return Point{p.x * p.y, p.x}; }, Point{number(3), number(5)});
  EXPECT_THAT(leaves(out), ElementsAre(15, 3));
  EXPECT_THAT(leaves(pullback(Point{number(1), number(10)})), ElementsAre(15, 3));
}

// Arguments that are not trees reach f as they were given: by reference, moved, or by value.
TEST(TreeArguments, NontreeArgumentsPassThroughUnchanged) {
  std::ostringstream out;
  const auto f = [](const Tensor& x, std::ostream& stream, std::unique_ptr<int> owner, const Opaque& constant, int n,
                    const std::string& text) {
    stream << text << n << *owner;
    return x * constant.x();
  };
  const Tensor x = number(3);
  EXPECT_THAT(grad(f)(x, out, std::make_unique<int>(7), Opaque(number(4)), 8, "n="), IsNumber(4));
  EXPECT_THAT(vmap(f)(tensor({1., 2.}), out, std::make_unique<int>(7), Opaque(number(4)), 9, " n="),
              IsNear(tensor({4., 8.})));
  const auto [y, pullback] = vjp(f, x, out, std::make_unique<int>(1), Opaque(number(2)), 2, " m=");
  EXPECT_THAT(std::get<0>(pullback(number(1))), IsNumber(2));
  EXPECT_EQ(out.str(), "n=87 n=97 m=21");
}

// grad accepts an aggregate that cannot be copied as an argument that is not differentiated.
struct Logger {
  std::unique_ptr<std::string> lines = std::make_unique<std::string>();
  Tensor weight;
};
TEST(TreeArguments, NoncopyableAggregatesPassThroughGrad) {
  Logger logger;
  logger.weight = number(4);
  const auto f = [](const Tensor& x, const Logger& log) {
    *log.lines += "called";
    return x * log.weight;
  };
  EXPECT_THAT(grad(f)(number(3), logger), IsNumber(4));
  EXPECT_EQ(*logger.lines, "called");
}

// Derivatives and tree_map leave a key as it is. Under vmap a key has the data of one lane.
struct Noisy {
  Tensor w;
  Key key;
};
TEST(TreeKeys, AreUnchangedByDerivatives) {
  const Noisy at{tensor({1., 2.}), Key(7)};
  const auto loss = [](const Noisy& n) { return sum(n.w * uniform(n.key, {2})); };
  const Noisy g = grad(loss)(at);
  EXPECT_THAT(g.w, Equals(uniform(Key(7), {2})));
  EXPECT_THAT(g.key.data(), Equals(Key(7).data()));
  EXPECT_EQ(tree_leaves(at).size(), 1u);
  EXPECT_THAT(tree_map([](const Tensor& x) { return 2 * x; }, at).key.data(), Equals(Key(7).data()));
  EXPECT_THAT(jvp(loss, at, at).second, Equals(loss(at)));
}

TEST(TreeKeys, VmapGivesEachLaneItsKey) {
  const Tensor keys = split(Key(3), 4), xs = tensor({1., 2., 3., 4.});
  const auto draw = [](const Tensor& x, const Key& key) { return x + uniform(key, {2}); };
  const Tensor lanes = vmap(draw)(xs, keys), same = vmap(draw, {.in_axes = {0, unmapped}})(xs, Key(3));
  for (Index i = 0; i < 4; ++i) {
    EXPECT_THAT(lanes[i], Equals(draw(xs[i], keys[i])));
    EXPECT_THAT(same[i], Equals(draw(xs[i], Key(3))));
  }
  const auto [drawn, next] = vmap([](const Noisy& n) {
    const auto [now, later] = split(n.key);
    return std::pair(n.w * uniform(now), Noisy{n.w, later});
  })(Noisy{xs, keys});
  for (Index i = 0; i < 4; ++i) {
    EXPECT_THAT(drawn[i], Equals(xs[i] * uniform(split(Key(keys[i]))[0])));
    EXPECT_THAT(next.key.data()[i], Equals(split(Key(keys[i]))[1].data()));
  }
  const auto keys_last = vmap([](const Key& k) { return k; }, {.in_axes = -1, .out_axes = -1});
  EXPECT_THAT(keys_last(Key(keys)).data(), Equals(keys));
  const auto refused = testing::ThrowsMessage<TransformError>(HasSubstr("is one key: give `unmapped`"));
  EXPECT_THAT([&] { vmap(draw)(xs, Key(3)); }, refused);
  EXPECT_THAT([&] { vmap([](const Noisy& n) { return n.w; })(Noisy{xs, Key(3)}); }, refused);
}

// ---- a training step ----------------------------------------------------------------------------

struct Mlp {
  Tensor w1, b1, w2, b2;
};

Tensor predict(const Mlp& m, const Tensor& x) { return matmul(tanh(matmul(x, m.w1) + m.b1), m.w2) + m.b2; }
Tensor loss(const Mlp& m, const Tensor& x, const Tensor& y) { return mean(square(predict(m, x) - y)); }

TEST(Mlp, TrainsInOneLine) {
  Mlp mlp{tensor({{0.1, -0.2, 0.3}, {0.4, 0.5, -0.6}}), tensor({0.01, 0.02, 0.03}), tensor({{0.7}, {-0.8}, {0.9}}),
          tensor({0.05})};
  const Tensor x = tensor({{1., 2.}, {-3., 4.}, {0.5, -1.5}}), y = tensor({{1.}, {-1.}, {0.5}});
  const float before = loss(mlp, x, y).item<float>();
  for (int step = 0; step < 3; ++step)
    mlp = tree_map([](const Tensor& w, const Tensor& g) { return w - 0.1 * g; }, mlp, grad(loss)(mlp, x, y));

  // The expected values come from JAX in float64:
  //   def loss(m, x, y):
  //     return jnp.mean(jnp.square(jnp.tanh(x @ m['w1'] + m['b1']) @ m['w2'] + m['b2'] - y))
  //   for _ in range(3):
  //     m = jax.tree_util.tree_map(lambda w, g: w - .1 * g, m, jax.grad(loss)(m, x, y))
  EXPECT_NEAR(before, 0.9429172243673875, 1e-6);
  EXPECT_THAT(
      mlp.w1,
      IsNear(tensor({{0.16566314389, -0.30211235302, 0.40822322466}, {0.54250141824, 0.26206384047, -0.34638346535}}),
             1e-6));
  EXPECT_THAT(mlp.b1, IsNear(tensor({0.03897318173, -0.06170903587, 0.12638641522}), 1e-6));
  EXPECT_THAT(mlp.w2, IsNear(tensor({{0.83811917196}, {-0.70635194620}, {0.79563510475}}), 1e-6));
  EXPECT_THAT(mlp.b2, IsNear(tensor({0.15322833512}), 1e-6));
  EXPECT_THAT(loss(mlp, x, y), IsNumber(0.12285847353, 1e-6));
}

}  // namespace tree_test
