// Tests dependence rules: sets of elements, rules of operations that a user defines, and their
// check.
#include <algorithm>
#include <set>

#include <stave/core/ops/element_sets.h>

#include "sparsity.h"

namespace depends_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

/// Returns the sets of all elements of a tensor of numbers.
std::vector<std::set<int>> sets_in(const ElementSets& sets, const Tensor& numbers) {
  std::vector<std::set<int>> result;
  for (const std::int32_t number : numbers.to_vector<std::int32_t>()) {
    std::set<int>& set = result.emplace_back();
    for (const ElementSets::Run run : sets[number])
      for (int i = run.low; i < run.high; ++i) set.insert(i);
  }
  return result;
}

TEST(ElementSets, Unite) {
  ElementSets sets;
  const Tensor x = sets.singletons({4}, 0);
  using Set = std::set<int>;
  EXPECT_THAT(sets_in(sets, sets.unite(x, flip(x))), ElementsAre(Set{0, 3}, Set{1, 2}, Set{1, 2}, Set{0, 3}));
  EXPECT_THAT(sets_in(sets, sets.unite(x, Tensor())), ElementsAre(Set{0}, Set{1}, Set{2}, Set{3}));
  EXPECT_THAT(sets_in(sets, sets.unite_running(x, 0, false)),
              ElementsAre(Set{0}, Set{0, 1}, Set{0, 1, 2}, Set{0, 1, 2, 3}));
  EXPECT_THAT(sets_in(sets, sets.unite_running(x, 0, true)),
              ElementsAre(Set{0, 1, 2, 3}, Set{1, 2, 3}, Set{2, 3}, Set{3}));
  EXPECT_THAT(sets_in(sets, sets.unite_over(reshape(x, {2, 2}), Shape(0))), ElementsAre(Set{0, 2}, Set{1, 3}));
  EXPECT_THAT(sets_in(sets, sets.unite_over(broadcast_to(x, {3, 4}), {0, 1})), ElementsAre(Set{0, 1, 2, 3}));
  EXPECT_THAT(sets_in(sets, sets.unite_at(x, tensor({2, 0, 2, 2}, int64), 3)),
              ElementsAre(Set{1}, Set{}, Set{0, 2, 3}));
}

// A union that equals one of its parts has that part's number, so dense sets are not repeated.
TEST(ElementSets, KnowWhatTheyContain) {
  ElementSets sets;
  const Tensor x = sets.singletons({100}, 0), all = broadcast_to(sets.unite_over(x, Shape(0)), {100});
  const std::size_t before = sets.size();
  EXPECT_THAT(sets.unite(x, all), Equals(all));
  EXPECT_EQ(sets.size(), before);
  EXPECT_TRUE(sets.contains(all(0).item<int>(), 99));
  EXPECT_FALSE(sets.contains(all(0).item<int>(), 100));
}

TEST(ElementSets, FreeWhatNoTensorNames) {
  ElementSets sets;
  const Tensor x = sets.singletons({1000}, 0);
  Tensor y = x;
  for (int i = 1; i < 200; ++i) {
    y = sets.unite(y, roll(x, i));
    const std::array live{x, y};
    if (i % 10 == 0 || i == 199) sets.collect(live);
  }
  EXPECT_LE(sets.size(), 2u + 2 * 1000);
  EXPECT_EQ(sets_in(sets, y)[0].size(), 200u);
  EXPECT_THAT(sets_in(sets, x(slice(2))), ElementsAre(std::set<int>{0}, std::set<int>{1}));
  sets.collect({});
  EXPECT_EQ(sets.size(), 1u);  // the empty set
}

// A long loop does not keep the sets of all its steps.
TEST(JacobianSparsity, KeepsNoSetsOfOldValues) {
  const auto f = [](const Tensor& v) {
    Tensor y = v;
    for (int i = 0; i < 2000; ++i) y = 0.5 * y + 0.1 * roll(y, 1) * v;
    return y;
  };
  const SparsityPattern pattern = jacobian_sparsity(f)(drawn(1, {400}));
  EXPECT_EQ(pattern.entries(), 160000);
}

// ---- operations of a user's own -----------------------------------------------------------------

// y_i = x_i w_(i / 2), where w has half as many elements.
void infer_paired(const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); }
void paired_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
  const auto x = elements<const double>(in[0]), w = elements<const double>(in[1]);
  for (std::size_t i = 0; i < x.size(); ++i) elements<double>(out[0])[i] = x[i] * w[i / 2];
}
Tensor twice(const Tensor& w) { return repeat(w, Shape(2)); }

template <Outputs (*rule)(const DependsContext&)>
Op paired_op() {
  return define_op({.name = "paired",
                    .infer = infer_paired,
                    .jvp = [](const JvpContext& c) -> Outputs {
                      return c.tangent(0) * twice(c.in(1)) + c.in(0) * twice(c.tangent(1));
                    },
                    .depends = rule,
                    .cpu = paired_cpu});
}
Outputs right(const DependsContext& c) { return c.sets.unite(c.set(0), c.has(1) ? twice(c.set(1)) : Tensor()); }
Outputs without_second(const DependsContext& c) { return c.set(0); }
Outputs moved_wrongly(const DependsContext& c) {
  return c.sets.unite(c.has(0) ? flip(c.set(0)) : Tensor(), c.has(1) ? twice(c.set(1)) : Tensor());
}
// A wrong rule: it returns two results for an operation with one output.
Outputs two_results(const DependsContext& c) { return {c.set(0), c.set(1)}; }

const Op op_right = paired_op<right>(), op_without = paired_op<without_second>(), op_wrong = paired_op<moved_wrongly>(),
         op_two = paired_op<two_results>();

TEST(CheckOp, HoldsDependenceRulesAgainstTheJacobian) {
  const std::vector<OpCase> cases{{.inputs = {drawn(1, {6}), drawn(2, {3})}}};
  EXPECT_NO_THROW(check_op(op_right, cases));
  EXPECT_THAT(message_of<TransformError>([&] { check_op(op_without, cases); }),
              HasSubstr("check_op: paired: case 0: depends: element 0 of output 0 has a derivative by element 0 of "
                        "input 1, which its set lacks"));
  EXPECT_THAT(message_of<TransformError>([&] { check_op(op_wrong, cases); }),
              HasSubstr("element 0 of output 0 has a derivative by element 0 of input 0, which its set lacks"));
  EXPECT_THAT(message_of<TransformError>([&] { check_op(op_two, cases); }),
              HasSubstr("depends: the rule gave 2 results for 1 outputs"));
}

// ---- a linear operation with and without a rule -------------------------------------------------

void reversed_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
  std::ranges::reverse_copy(elements<const double>(in[0]), elements<double>(out[0]).begin());
}
const Op op_reversed_dense =
    define_op({.name = "reversed", .infer = infer_paired, .derivative = Derivative::linear, .cpu = reversed_cpu});
const Op op_reversed = [] {
  Op op = op_reversed_dense;
  op.depends = [](const DependsContext& c) { return Outputs(flip(c.set(0))); };
  return define_op(op);
}();

TEST(JacobianSparsity, FollowsOperationsOfAUser) {
  const Tensor x = drawn(1, {6});
  const SparsityPattern dense = jacobian_sparsity([](const Tensor& v) { return apply(op_reversed_dense, {v * v}); })(x);
  EXPECT_EQ(dense.entries(), 36);
  EXPECT_THAT(dense.dense_operations, ElementsAre("reversed"));
  const SparsityPattern exact = jacobian_sparsity([](const Tensor& v) { return apply(op_reversed, {v * v}); })(x);
  EXPECT_THAT(exact.dense(), Equals(flip(eye(6, bool_), 0)));
  EXPECT_TRUE(exact.dense_operations.empty());
  EXPECT_NO_THROW(check_op(op_reversed, {{.inputs = {x}}}));
}

}  // namespace depends_test
