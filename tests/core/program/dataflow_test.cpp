// Dataflow in a program, and the facts of operations on which passes rely.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/core/program/dataflow.h>
#include <stave/stave.h>

namespace {

using namespace stave;
using namespace stave_detail;
using ::testing::ElementsAre;

// The variables of the program: 0, 1: inputs;  2 = 0 * 0;  3 = 2 + 1;  4 = astype(3, int32);
// 5 = astype(4);  6 = stop_gradient(2);  7 = 6 * 6.
Program program() {
  Program p;
  const auto add = [&](const Op& op, std::initializer_list<int> inputs, Dtype dtype = float32) {
    Program::Instruction step{&op};
    for (const int input : inputs) step.inputs.push_back(input);
    step.outputs = {p.add_variable({3}, dtype)};
    p.instructions.push_back(std::move(step));
  };
  p.inputs = {p.add_variable({3}, float32), p.add_variable({3}, float32)};
  add(op_multiply, {0, 0});
  add(op_add, {2, 1});
  add(op_astype, {3}, int32);
  add(op_astype, {4});
  add(op_stop_gradient, {2});
  add(op_multiply, {6, 6});
  p.outputs = {5, -1, 3};
  return p;
}

std::vector<int> marked(const PerVariable<bool>& mask) {
  std::vector<int> found;
  for (int variable = 0; variable < mask.size(); ++variable)
    if (mask[variable]) found.push_back(variable);
  return found;
}

std::vector<int> reached(const Program& p, std::vector<int> seeds, Direction direction) {
  return marked(reach(p, seeds, direction).variables);
}

TEST(Dataflow, FindsProducersReadCountsAndLastReads) {
  const Program p = program();
  EXPECT_THAT(producers(p).at(std::vector{0, 1, 2, 7}), ElementsAre(-1, -1, 0, 5));
  EXPECT_THAT(read_counts(p).at(std::vector{0, 1, 2, 3, 5, 7}), ElementsAre(2, 1, 2, 2, 1, 0));
  EXPECT_THAT(last_reads(p).at(std::vector{0, 1, 2, 3, 5, 7}), ElementsAre(0, 1, 4, 6, 6, -1));
}

TEST(Dataflow, ReachesForward) {
  const Program p = program();
  EXPECT_THAT(reached(p, {1}, Direction::forward), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(reached(p, {6, -1}, Direction::forward), ElementsAre(6, 7));
  EXPECT_THAT(reached(p, {}, Direction::forward), ElementsAre());
}

TEST(Dataflow, ReachesBackward) {
  const Program p = program();
  EXPECT_THAT(reached(p, {3}, Direction::backward), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(reached(p, {7}, Direction::backward), ElementsAre(0, 2, 6, 7));
  EXPECT_THAT(reach(p, p.outputs, Direction::backward).instructions, ElementsAre(true, true, true, true, false, false));
}

TEST(Dataflow, InstructionsMayBeginOrStopTheTraversal) {
  const Program p = program();
  const auto flow = [](std::size_t k) { return k == 4 ? Flow::begins : k == 2 ? Flow::stops : Flow::passes; };
  const Reached forward = reach(p, {{1}}, Direction::forward, flow);
  EXPECT_THAT(marked(forward.variables), ElementsAre(1, 3, 6, 7));
  EXPECT_THAT(forward.instructions, ElementsAre(false, true, false, false, true, true));
  const Reached backward = reach(p, {{5}}, Direction::backward, flow);
  EXPECT_THAT(marked(backward.variables), ElementsAre(0, 2, 4, 5));
}

TEST(Dataflow, DerivativesPassNeitherIntegersNorConstantOperations) {
  const Program p = program();
  EXPECT_THAT(marked(reach_derivatives(p, {{0}}, Direction::forward)), ElementsAre(0, 2, 3));
  EXPECT_THAT(marked(reach_derivatives(p, {{5}}, Direction::backward)), ElementsAre(5));
  EXPECT_THAT(marked(reach_derivatives(p, {{7}}, Direction::backward)), ElementsAre(6, 7));
}

TEST(Dataflow, RenamingFollowsChains) {
  Renaming renamed(program());
  renamed.set(7, 6);
  renamed.set(6, 2);
  std::vector<int> variables{7, -1, 3};
  renamed.apply(variables);
  EXPECT_THAT(variables, ElementsAre(2, -1, 3));
}

std::set<std::string> names_where(bool (*has)(const Op&)) {
  std::set<std::string> names;
#define X(name, ...) \
  if (has(op_##name)) names.insert(#name);
  STAVE_ALL_OPS(X)
#undef X
  return names;
}

// Factorisations and solvers throw for singular matrices, operations on indices for an index out of
// range, `to` where the device is missing, `call` for its function.
TEST(OperationFacts, OnlyTheListedOperationsMayThrow) {
  EXPECT_EQ(names_where([](const Op& op) { return op.may_throw(); }), (std::set<std::string>{"call",
                                                                                             "cholesky",
                                                                                             "det",
                                                                                             "dynamic_slice",
                                                                                             "dynamic_update_slice",
                                                                                             "eig",
                                                                                             "eigh",
                                                                                             "eigvals",
                                                                                             "eigvalsh",
                                                                                             "expm",
                                                                                             "gather",
                                                                                             "ldl",
                                                                                             "logm",
                                                                                             "lstsq",
                                                                                             "lu",
                                                                                             "qr",
                                                                                             "scatter",
                                                                                             "scatter_add",
                                                                                             "scatter_max",
                                                                                             "scatter_min",
                                                                                             "scatter_multiply",
                                                                                             "schur",
                                                                                             "slogdet",
                                                                                             "solve",
                                                                                             "solve_banded",
                                                                                             "sqrtm",
                                                                                             "svd",
                                                                                             "svdvals",
                                                                                             "sylvester",
                                                                                             "to",
                                                                                             "triangular_solve"}));
}

TEST(OperationFacts, OnlyTheListedOperationsMoveElements) {
  EXPECT_EQ(names_where([](const Op& op) { return op.moves_elements; }),
            (std::set<std::string>{"broadcast_to", "concat", "pad", "permute_dims", "reshape", "slice"}));
}

// Transcendental functions cost more than memory traffic; arithmetic, comparisons and views do not.
TEST(OperationFacts, ArithmeticAndViewsAreCheap) {
  for (const Op* op : {&op_add, &op_multiply, &op_negative, &op_relu, &op_less, &op_where, &op_astype, &op_reshape,
                       &op_slice, &op_stop_gradient})
    EXPECT_TRUE(op->is_cheap()) << op->name;
  for (const Op* op : {&op_exp, &op_log, &op_tanh, &op_pow, &op_sum, &op_matmul, &op_to, &op_pad, &op_gather, &op_copy})
    EXPECT_FALSE(op->is_cheap()) << op->name;
}

TEST(OperationFacts, FlopsFollowFromShapes) {
  const Shape a{8, 16}, b{16, 4}, c{8, 4};
  EXPECT_EQ(op_matmul.flops_of(nullptr, std::vector{a, b}, c), 2u * 8 * 16 * 4);
  EXPECT_EQ(op_exp.flops_of(nullptr, std::vector{a}, a), 8u * 16);
  for (const Op* op : {&op_sum, &op_prod, &op_max, &op_min})
    EXPECT_EQ(op->flops_of(nullptr, std::vector{a}, {8}), 8u * 16) << op->name;
  // weights [groups, o, c, window], batch 5 with 6 outputs of 3 positions
  EXPECT_EQ(op_convolution.flops_of(nullptr, std::vector{Shape{5, 2, 2, 9}, Shape{2, 3, 2, 7}}, {5, 6, 3}),
            2u * (5 * 6 * 3) * (2 * 7));
  for (const Op* op :
       {&op_full, &op_iota, &op_astype, &op_stop_gradient, &op_copy, &op_reshape, &op_permute_dims, &op_broadcast_to,
        &op_slice, &op_pad, &op_concat, &op_gather, &op_scatter, &op_dynamic_slice, &op_dynamic_update_slice, &op_to})
    EXPECT_EQ(op->flops_of(nullptr, std::vector{a}, a), 0u) << op->name;
  for (const Op* op : {&op_cholesky, &op_sort, &op_attention, &op_all, &op_argmax, &op_softmax, &op_scatter_add})
    EXPECT_EQ(op->flops_of(nullptr, std::vector{a}, a), std::nullopt) << op->name;
}

}  // namespace
