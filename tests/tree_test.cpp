// Trees: which types are trees, the order of leaves, functions on trees,
// and trees as arguments and results of transforms.

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <memory>
#include <set>
#include <sstream>
#include <unordered_map>
#include <variant>

#include <stave/stave.h>

#include "matchers.h"

namespace tree_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Tensor number(double x) { return full({}, x, float32); }

template <class T>
std::vector<float> leaves(const T& tree) {
  std::vector<float> result;
  for (const Tensor& leaf : tree_leaves(tree)) result.push_back(leaf.item<float>());
  return result;
}

// Classes that the trees below contain.
struct Point {
  Tensor x, y;
};
struct Empty {};
struct Mixed {
  int layers;
  Tensor weight;
  std::string name;
  double rate;
  Tensor bias;
  bool trained;
};
struct Nested {
  Point from;
  std::vector<Point> path;
  std::optional<Point> to;
  Empty nothing;
};
struct Arrays {  // arrays of tensors and of a class with members, beside other members
  Tensor first;
  Tensor plain[3];
  std::array<Tensor, 2> library;
  Point points[2];
  int counts[4];
  Tensor last;
};
struct ArrayFirst {
  Point points[2];
  Tensor rest;
};
struct OnlyArray {
  Tensor rows[4];
};
struct Made {  // not default-constructible
  explicit Made(int) {}
  Made(const Made&) = default;
};
struct ArraysOfAllKinds {
  Made made[2];
  Tensor grid[2][3];
  std::vector<std::unique_ptr<Tensor>> owners;
  std::unique_ptr<Tensor> owner[3];
  Made one;
};
static_assert(stave_detail::initialiser_count<ArraysOfAllKinds> == 2 + 6 + 1 + 3 + 1);
static_assert(stave_detail::member_count<ArraysOfAllKinds> == 5);
class Opaque {  // no aggregate, no traits
 public:
  explicit Opaque(Tensor x) : x_(std::move(x)) {}
  const Tensor& x() const { return x_; }

 private:
  Tensor x_;
};
class Layer {  // no aggregate, but with traits
 public:
  Layer(Tensor weights, int id) : weights_(std::move(weights)), id_(id) {}
  Tensor& weights() { return weights_; }
  const Tensor& weights() const { return weights_; }
  int id() const { return id_; }

 private:
  Tensor weights_;
  int id_;
};
struct Virtual {
  virtual ~Virtual() = default;
  Tensor x;
};

class Logbook {  // no aggregate, declared to hold no tensors
 public:
  explicit Logbook(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tree_test

template <>
struct stave::TreeTraits<tree_test::Logbook> {};
template <>
struct stave::TreeTraits<tree_test::Layer> {
  template <class L, class F>
  static void visit(L& layer, F&& f) {
    f(layer.weights());
  }
};

namespace tree_test {

// ---- what is a tree -----------------------------------------------------------------------------

static_assert(is_tree<Tensor> && is_tree<const Tensor&>);
static_assert(is_tree<std::vector<Tensor>> && is_tree<std::array<Tensor, 3>> && is_tree<Tensor[3]>);
static_assert(is_tree<std::vector<std::vector<Point>>> && is_tree<std::map<std::string, Tensor>>);
static_assert(is_tree<std::optional<Point>> && is_tree<std::pair<int, Tensor>> && is_tree<std::tuple<Tensor, double>>);
static_assert(is_tree<Point> && is_tree<Empty> && is_tree<Mixed> && is_tree<Nested> && is_tree<Arrays> &&
              is_tree<Layer>);
static_assert(is_tree<Key> && is_tree<std::unique_ptr<Tensor>> && is_tree<std::shared_ptr<Point>>);
static_assert(is_tree<std::deque<Tensor>> && is_tree<std::list<Point>> && is_tree<std::unordered_map<int, Tensor>>);
static_assert(is_tree<std::variant<int, Tensor>> && is_tree<std::vector<std::unique_ptr<Point>>>);
static_assert(!is_tree<int> && !is_tree<double> && !is_tree<std::string> && !is_tree<Opaque>);
static_assert(!is_tree<std::vector<int>> && !is_tree<std::pair<int, double>> && !is_tree<std::optional<std::string>>);
static_assert(!is_tree<std::ostream> && !is_tree<std::unique_ptr<int>> && !is_tree<std::function<Tensor(Tensor)>>);
static_assert(!is_tree<Virtual> && !is_tree<Tensor*> && !is_tree<Dtype> && !is_tree<std::set<Tensor>>);

// ---- leaves -------------------------------------------------------------------------------------

TEST(Leaves, OfContainersComeInOrder) {
  const Tensor a = number(1), b = number(2), c = number(3);
  EXPECT_THAT(leaves(a), ElementsAre(1));
  EXPECT_THAT(leaves(std::vector{c, a, b}), ElementsAre(3, 1, 2));
  EXPECT_THAT(leaves(std::vector<Tensor>{}), IsEmpty());
  EXPECT_THAT(leaves(std::array{b, a}), ElementsAre(2, 1));
  EXPECT_THAT(leaves(std::pair(b, c)), ElementsAre(2, 3));
  EXPECT_THAT(leaves(std::pair("name", c)), ElementsAre(3));
  EXPECT_THAT(leaves(std::tuple(c, 5, b, std::string("x"), a)), ElementsAre(3, 2, 1));
  // The order is that of the keys.
  EXPECT_THAT(leaves(std::map<std::string, Tensor>{{"z", a}, {"a", b}, {"m", c}}), ElementsAre(2, 3, 1));
  EXPECT_THAT(leaves(std::map<int, Point>{{2, {a, b}}, {1, {c, c}}}), ElementsAre(3, 3, 1, 2));
  EXPECT_THAT(leaves(std::optional(a)), ElementsAre(1));
  EXPECT_THAT(leaves(std::optional<Tensor>()), IsEmpty());
}

TEST(Leaves, OfAggregatesComeAsDeclared) {
  const Tensor a = number(1), b = number(2), c = number(3), d = number(4);
  EXPECT_THAT(leaves(Point{a, b}), ElementsAre(1, 2));
  EXPECT_THAT(leaves(Empty{}), IsEmpty());
  EXPECT_THAT(leaves(Mixed{2, a, "mlp", 0.1, b, true}), ElementsAre(1, 2));
  EXPECT_THAT(leaves(Nested{{a, b}, {{c, d}, {a, a}}, Point{d, c}, {}}), ElementsAre(1, 2, 3, 4, 1, 1, 4, 3));
  EXPECT_THAT(leaves(Nested{{a, b}, {}, {}, {}}), ElementsAre(1, 2));
}

TEST(Leaves, OfArraysInsideAggregates) {
  const auto n = [](double x) { return number(x); };
  const Arrays arrays{n(1), {n(2), n(3), n(4)}, {n(5), n(6)}, {{n(7), n(8)}, {n(9), n(10)}}, {0, 0, 0, 0}, n(11)};
  EXPECT_THAT(leaves(arrays), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(leaves(ArrayFirst{{{n(1), n(2)}, {n(3), n(4)}}, n(5)}), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(leaves(OnlyArray{{n(1), n(2), n(3), n(4)}}), ElementsAre(1, 2, 3, 4));
}

// clang-format off
// Aggregates of n tensors, for each n up to 32.
#define M1 Tensor t1;
#define M2 M1 Tensor t2;
#define M3 M2 Tensor t3;
#define M4 M3 Tensor t4;
#define M5 M4 Tensor t5;
#define M6 M5 Tensor t6;
#define M7 M6 Tensor t7;
#define M8 M7 Tensor t8;
#define M9 M8 Tensor t9;
#define M10 M9 Tensor t10;
#define M11 M10 Tensor t11;
#define M12 M11 Tensor t12;
#define M13 M12 Tensor t13;
#define M14 M13 Tensor t14;
#define M15 M14 Tensor t15;
#define M16 M15 Tensor t16;
#define M17 M16 Tensor t17;
#define M18 M17 Tensor t18;
#define M19 M18 Tensor t19;
#define M20 M19 Tensor t20;
#define M21 M20 Tensor t21;
#define M22 M21 Tensor t22;
#define M23 M22 Tensor t23;
#define M24 M23 Tensor t24;
#define M25 M24 Tensor t25;
#define M26 M25 Tensor t26;
#define M27 M26 Tensor t27;
#define M28 M27 Tensor t28;
#define M29 M28 Tensor t29;
#define M30 M29 Tensor t30;
#define M31 M30 Tensor t31;
#define M32 M31 Tensor t32;
#define EACH(X)                                                                                      \
  X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) \
  X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32)
#define X(n) struct A##n { M##n };
// clang-format on
EACH(X)
#undef X

template <class A>
void expect_members(std::size_t n) {
  A aggregate;
  int next = 0;
  visit_tensors(aggregate, [&](Tensor& member) { member = number(next++); });
  EXPECT_EQ(next, static_cast<int>(n));
  static_assert(sizeof(A) % sizeof(Tensor) == 0);
  // All members have one type, so there are no gaps.
  const Tensor* const members = reinterpret_cast<const Tensor*>(&aggregate);
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(members[i].item<int>(), static_cast<int>(i)) << n << " members";
}

TEST(Leaves, OfAggregatesOfUpTo32Members) {
#define X(n) expect_members<A##n>(n);
  EACH(X)
#undef X
}

// Members that are no trees are skipped, whatever their type.
// They are neither copied nor inspected.
struct PassedOver {
  std::unique_ptr<int> owner;
  Tensor x;
  std::function<Tensor(Tensor)> activation;
  std::ostringstream out;
  Key key;
  const char* text;
  std::filesystem::path path;
  Logbook log;
  Logbook* other;
  FILE* file;
  Dtype dtype;
  Tensor y;
};
TEST(Leaves, PassOverWhatIsNoTree) {
  PassedOver tree{std::make_unique<int>(3),
                  number(1),
                  [](Tensor x) { return x; },
                  {},
                  Key(0),
                  nullptr,
                  "folder",
                  Logbook("text"),
                  nullptr,
                  nullptr,
                  float64,
                  number(2)};
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2));
  visit_tensors(tree, [](Tensor& leaf) { leaf = leaf + 10; });
  EXPECT_THAT(leaves(tree), ElementsAre(11, 12));
  EXPECT_EQ(*tree.owner, 3);
}

TEST(Leaves, OfClassesWithTraits) {
  std::vector<Layer> layers{Layer(number(1), 5), Layer(number(2), 6)};
  EXPECT_THAT(leaves(layers), ElementsAre(1, 2));
  visit_tensors(layers, [](Tensor& leaf) { leaf = -leaf; });
  EXPECT_THAT(leaves(layers), ElementsAre(-1, -2));
  EXPECT_EQ(layers[1].id(), 6);
}

// Every container of trees is a tree. Its gradient contains gradients,
// and never shares the argument's own tensors.
struct Owners {
  std::deque<Tensor> deque;
  std::list<Point> list;
  std::unordered_map<std::string, Tensor> map;
  std::variant<int, Tensor, Point> variant;
  std::shared_ptr<Point> shared, again;
  std::optional<std::shared_ptr<Tensor>> nested;
  std::string name;
};
Owners owners() {
  const auto point = std::make_shared<Point>(Point{number(7), number(8)});
  return {{number(1), number(2)},
          {{number(3), number(4)}},
          {{"z", number(5)}, {"a", number(6)}},
          Point{number(9), number(10)},
          point,
          point,
          std::make_shared<Tensor>(number(11)),
          "name"};
}
struct Unique {
  std::unique_ptr<Point> point;
  std::vector<std::unique_ptr<Tensor>> list;
  std::map<std::string, std::unique_ptr<Tensor>> map;
  std::variant<Tensor, std::unique_ptr<Tensor>> variant;
  std::string name;
  Point points[2];
};
Unique unique() {
  Unique tree{std::make_unique<Point>(Point{number(1), number(2)}), {}, {}, std::make_unique<Tensor>(number(5)), "name",
              {{number(6), number(7)}, {number(8), number(9)}}};
  tree.list.push_back(std::make_unique<Tensor>(number(3)));
  tree.map.emplace("key", std::make_unique<Tensor>(number(4)));
  return tree;
}
struct Recursive {
  Tensor value;
  std::vector<Recursive> children;
  std::unique_ptr<Recursive> next;
};

TEST(Leaves, OfEveryContainer) {
  // Leaves of unordered maps are ordered by key.
  EXPECT_THAT(leaves(owners()), ElementsAre(1, 2, 3, 4, 6, 5, 9, 10, 7, 8, 7, 8, 11));
  EXPECT_THAT(leaves(unique()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  Recursive tree{number(1), {}, std::make_unique<Recursive>(Recursive{number(3), {}, nullptr})};
  tree.children.push_back({number(2), {}, nullptr});
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2, 3));
  EXPECT_THAT(leaves(std::unordered_map<int, Tensor>{{3, number(1)}, {-5, number(2)}, {0, number(3)}}),
              ElementsAre(2, 3, 1));
  EXPECT_THAT(leaves(std::multimap<int, Tensor>{{3, number(1)}, {3, number(2)}}), ElementsAre(1, 2));
  EXPECT_THAT(leaves(std::variant<int, Tensor>(3)), IsEmpty());
  EXPECT_THAT(leaves(std::shared_ptr<Point>()), IsEmpty());
}

TEST(TreeArguments, GradientsHaveObjectsOfTheirOwn) {
  const Owners tree = owners();
  const auto loss = [](const Owners& o) {
    return o.deque[0] * o.list.front().y + o.map.at("a") * std::get<Point>(o.variant).x + o.shared->x * o.again->x +
           **o.nested;
  };
  const Owners g = grad(loss)(tree);
  // A shared object occurs twice in the tree. The gradient of each pointer
  // is that of its own occurrence.
  EXPECT_THAT(leaves(g), ElementsAre(4, 0, 0, 1, 9, 0, 6, 0, 7, 0, 7, 0, 1));
  EXPECT_EQ(g.name, "name");
  EXPECT_NE(g.shared, g.again);
  // The argument is unchanged.
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2, 3, 4, 6, 5, 9, 10, 7, 8, 7, 8, 11));
  EXPECT_THAT(leaves(grad(loss)(owners())), ElementsAre(4, 0, 0, 1, 9, 0, 6, 0, 7, 0, 7, 0, 1));
  EXPECT_THAT(leaves(jvp(loss, tree, tree).second), ElementsAre(2 * (1 * 4 + 6 * 9 + 7 * 7) + 11));
  EXPECT_THAT(leaves(std::get<0>(vjp(loss, tree).second(number(1)))),
              ElementsAre(4, 0, 0, 1, 9, 0, 6, 0, 7, 0, 7, 0, 1));
  EXPECT_THAT(leaves(grad(checkpoint(loss))(tree)), ElementsAre(4, 0, 0, 1, 9, 0, 6, 0, 7, 0, 7, 0, 1));
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2, 3, 4, 6, 5, 9, 10, 7, 8, 7, 8, 11));
  const Owners twice = tree_map([](const Tensor& x) { return 2 * x; }, tree);
  EXPECT_THAT(leaves(twice), ElementsAre(2, 4, 6, 8, 12, 10, 18, 20, 14, 16, 14, 16, 22));
}

TEST(TreeArguments, ThatCannotBeCopiedAreCopiedPartByPart) {
  const Unique tree = unique();
  const auto loss = [](const Unique& u) {
    return u.point->x * *u.list[0] + *u.map.at("key") * **std::get_if<1>(&u.variant) + square(u.points[1].y);
  };
  const Unique g = grad(loss)(tree);
  EXPECT_THAT(leaves(g), ElementsAre(3, 0, 1, 5, 4, 0, 0, 0, 18));
  EXPECT_EQ(g.name, "name");
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(leaves(grad(loss)(unique())), ElementsAre(3, 0, 1, 5, 4, 0, 0, 0, 18));
}

TEST(TreeArguments, OfContainersUnderVmap) {
  const std::deque<Tensor> xs{tensor({1., 2.}), tensor({3., 4.})};
  EXPECT_THAT(vmap([](const std::deque<Tensor>& x) { return x[0] * x[1]; })(xs), Equals(tensor({3., 8.})));
  const auto shared = std::make_shared<Point>(Point{xs[0], xs[1]});
  const auto mapped = vmap([](const std::shared_ptr<Point>& p) { return std::make_shared<Point>(Point{p->y, p->x}); });
  EXPECT_THAT(mapped(shared)->x, Equals(xs[1]));
  EXPECT_THAT(shared->x, Equals(xs[0]));
}

// A member that is a reference is refused, because it would be written through.
struct Reference {
  const Tensor& x;
};
TEST(Leaves, OfReferencesAreRefused) {
  const Tensor x = number(1);
  EXPECT_THAT([&] { tree_leaves(Reference{x}); },
              testing::ThrowsMessage<TransformError>(HasSubstr("a member of a tree is a reference")));
}

// ---- functions on trees -------------------------------------------------------------------------

TEST(TreeMap, KeepsStructureAndWhatIsNoTensor) {
  const Mixed tree{2, number(1), "mlp", 0.5, number(2), true};
  const Mixed doubled = tree_map([](const Tensor& x) { return 2 * x; }, tree);
  EXPECT_THAT(leaves(doubled), ElementsAre(2, 4));
  EXPECT_THAT(leaves(tree), ElementsAre(1, 2));
  EXPECT_EQ(std::tie(doubled.layers, doubled.name, doubled.rate, doubled.trained), std::tuple(2, "mlp", 0.5, true));
}

TEST(TreeMap, OfSeveralTrees) {
  const std::map<std::string, Tensor> a{{"x", number(1)}, {"y", number(2)}}, b{{"x", number(10)}, {"y", number(20)}};
  const auto sum = tree_map([](const Tensor& p, const Tensor& q, const Tensor& r) { return p + q * r; }, a, b, b);
  EXPECT_THAT(leaves(sum), ElementsAre(101, 402));
  EXPECT_TRUE(sum.contains("y"));
}

TEST(TreeMap, OfTreesThatDifferIsAnError) {
  const std::vector<Tensor> one{number(1)}, two{number(1), number(2)};
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_THAT(
      [&] { tree_map(add, one, two); },
      testing::ThrowsMessage<ShapeError>(
          "tree_map: the trees differ in structure: in a length, in the keys of a map, or in which member is present"));
  EXPECT_THROW(tree_map(add, std::optional<Tensor>(), std::optional(number(1))), ShapeError);
}

TEST(TreeMap, OfTreesThatDifferInMoreThanTheNumberOfTensorsIsAnError) {
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

TEST(TreeMap, ToSeveralTrees) {
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

TEST(Ravel, AndBack) {
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

TEST(GlobalNorm, IsThatOfAllElements) {
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

TEST(TreeArguments, KeepWhatIsNoTensor) {
  const auto f = [](const Mixed& m) {
    EXPECT_EQ(m.name, "mlp");
    return m.rate * m.weight * static_cast<float>(m.layers);
  };
  const Mixed g = grad(f)(Mixed{3, number(1), "mlp", 0.5, number(2), true});
  EXPECT_THAT(leaves(g), ElementsAre(1.5, 0));
  EXPECT_EQ(g.layers, 3);
  EXPECT_EQ(g.name, "mlp");
}

TEST(TreeArguments, OfEveryKind) {
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

TEST(TreeArguments, OfGenericLambdas) {
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

TEST(TreeArguments, UnderVmapAndJvp) {
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

// Arguments that are no trees reach f as they were given: by reference, moved, or by value.
TEST(TreeArguments, OthersPassThroughUntouched) {
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
TEST(TreeArguments, AggregatesThatCannotBeCopiedPassThroughGrad) {
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
TEST(TreeKeys, StayUnderDerivatives) {
  const Noisy at{tensor({1., 2.}), Key(7)};
  const auto loss = [](const Noisy& n) { return sum(n.w * uniform(n.key, {2})); };
  const Noisy g = grad(loss)(at);
  EXPECT_THAT(g.w, Equals(uniform(Key(7), {2})));
  EXPECT_THAT(g.key.data(), Equals(Key(7).data()));
  EXPECT_EQ(tree_leaves(at).size(), 1u);
  EXPECT_THAT(tree_map([](const Tensor& x) { return 2 * x; }, at).key.data(), Equals(Key(7).data()));
  EXPECT_THAT(jvp(loss, at, at).second, Equals(loss(at)));
}

TEST(TreeKeys, AreMapped) {
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
