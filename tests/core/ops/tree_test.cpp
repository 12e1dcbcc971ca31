// Which types are trees, and the order of their leaves.
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <set>
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
using testing::IsEmpty;

static_assert(stave_detail::initialiser_count<ArraysOfAllKinds> == 2 + 6 + 1 + 3 + 1);
static_assert(stave_detail::member_count<ArraysOfAllKinds> == 5);

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

TEST(Leaves, IncludeArraysInsideAggregates) {
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

TEST(Leaves, AggregatesMayHave32Members) {
#define X(n) expect_members<A##n>(n);
  EACH(X)
#undef X
}

// Members that are not trees are skipped, whatever their type.
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
TEST(Leaves, SkipMembersThatAreNotTrees) {
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

TEST(Leaves, IncludeThoseOfClassesWithTraits) {
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

TEST(Leaves, IncludeThoseOfEveryContainer) {
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

TEST(TreeArguments, GradientsShareNoObjectsWithTheArgument) {
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

TEST(TreeArguments, NoncopyableTreesAreCopiedMemberByMember) {
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

TEST(TreeArguments, MayBeContainersUnderVmap) {
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
TEST(Leaves, ReferenceMembersAreRefused) {
  const Tensor x = number(1);
  EXPECT_THAT([&] { tree_leaves(Reference{x}); },
              testing::ThrowsMessage<TransformError>(HasSubstr("a member of a tree is a reference")));
}

}  // namespace tree_test
