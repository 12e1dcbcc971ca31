// einsum: values against NumPy, the operations that it performs, its memory, and its error
// messages. tests/table covers every dtype, layout and transform.

#include <stave/stave.h>

#include "matchers.h"
#include "operation_names.h"

namespace einsum_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::ThrowsMessage;

using T = const Tensor&;

Tensor counting(const Shape& shape) { return reshape(arange(shape.elements()), shape); }
const Tensor a = counting({2, 3}), b = counting({3, 4}), c = counting({3, 3});

TEST(Einsum, EqualsNumPy) {
  const Tensor ab = tensor({{20, 23, 26, 29}, {56, 68, 80, 92}});
  EXPECT_THAT(einsum("ij,jk->ik", a, b), Equals(ab));
  EXPECT_THAT(einsum("ij,jk", a, b), Equals(ab));
  EXPECT_THAT(einsum("Ba,aC", a, b), Equals(ab));  // capitals come first
  EXPECT_THAT(einsum("ij,jk->ki", a, b), Equals(transpose(ab)));
  EXPECT_THAT(einsum("ij,kj->ik", a, c), Equals(tensor({{5, 14, 23}, {14, 50, 86}})));
  EXPECT_THAT(einsum("ii", c), Equals(tensor(12)));
  EXPECT_THAT(einsum("ii->i", c), Equals(tensor({0, 4, 8})));
  EXPECT_THAT(einsum("ba", a), Equals(transpose(a)));
  EXPECT_THAT(einsum("ij->j", a), Equals(tensor({3, 5, 7})));
  EXPECT_THAT(einsum("i,j->ij", arange(2), arange(3)), Equals(tensor({{0, 0, 0}, {0, 1, 2}})));
  EXPECT_THAT(einsum("...ij,...jk", counting({2, 2, 3}), counting({3, 2})),
              Equals(tensor({{{10, 13}, {28, 40}}, {{46, 67}, {64, 94}}})));
  EXPECT_EQ(einsum("i...,...j->...ji", zeros({2, 5}), zeros({4, 5, 3})).shape(), Shape(4, 5, 3, 2));
  // A length of 1 repeats.
  EXPECT_THAT(einsum("i,i", ones({1}), tensor({1., 2., 4.})), Equals(tensor(7.)));
  EXPECT_EQ(einsum("ij->...ij", a).shape(), Shape(2, 3));
  EXPECT_THAT(einsum(",", tensor(2), tensor(3.)), Equals(tensor(6.)));
  // The dtype stays, and its sums wrap around.
  EXPECT_THAT(einsum("ij->i", tensor({{200, 100}}, uint8)), Equals(tensor({44}, uint8)));
}

TEST(Einsum, PerformsMatmulsAndViews) {
  const auto operations = [](const char* subscripts, const std::vector<Tensor>& xs) {
    return operations_in([&] { einsum(subscripts, xs); });
  };
  EXPECT_THAT(operations("ij,jk->ik", {a, b}), ElementsAre("matmul"));
  EXPECT_THAT(operations("bij,bjk->bik", {ones({5, 2, 3}), ones({5, 3, 2})}), ElementsAre("matmul"));
  EXPECT_THAT(operations("ij,kj->ik", {a, c}), ElementsAre("permute_dims", "matmul"));
  EXPECT_THAT(operations("ij->ji", {a}), ElementsAre("permute_dims"));
  EXPECT_THAT(operations("i,i->i", {arange(3), arange(3)}), ElementsAre("multiply"));
  EXPECT_THAT(operations("ii->i", {c}), ElementsAre("reshape", "slice"));
  EXPECT_EQ(einsum("ii->i", c).node().storage, c.node().storage);
}

// From the left, [n, 1] x [1, n] x [n, 1] needs n^2 elements; from the right it needs 1.
TEST(Einsum, KeepsIntermediateResultsSmall) {
  const Tensor column = ones({1000, 1}), row = ones({1, 1000});
  const auto largest_of = [](const char* subscripts, const std::vector<Tensor>& xs) {
    struct Largest : Handler {
      Index size = 0;
      Outputs handle(Call& call) override {
        size = std::max(size, call.abstract_outputs()[0].shape.elements());
        return perform(std::move(call));
      }
    } largest;
    with(largest, [&] { einsum(subscripts, xs); });
    return largest.size;
  };
  EXPECT_LE(largest_of("ij,jk,kl->il", {column, row, column}), 1000);
  EXPECT_LE(largest_of("ij,kl,jk->il", {column, column, row}), 1000);
  EXPECT_LE(largest_of("i,j,i,j->", {ones({1000}), ones({1000}), ones({1000}), ones({1000})}), 1000);
  // k is summed alone.
  EXPECT_LE(largest_of("ij,k->ij", {ones({50, 20}), ones({1000})}), 1000);
  EXPECT_THAT(einsum("ij,jk,kl->il", column, row, column), Equals(full({1000, 1}, 1000.)));
}

TEST(Einsum, Differentiates) {
  const Tensor x = tensor({1., 2.}), m = tensor({{1., 2.}, {3., 5.}});
  const auto form = [&](T v) { return einsum("i,ij,j", v, m, v); };
  EXPECT_THAT(grad(form)(x), IsNear(matmul(m + transpose(m), x)));
  EXPECT_THAT(hessian(form)(x), IsNear(m + transpose(m)));
  EXPECT_THAT(grad([](T t) { return einsum("ii", t); })(m), Equals(eye(2)));
  EXPECT_THAT(vmap([&](T v) { return einsum("ij,j", m, v); })(stack({x, 2 * x})),
              IsNear(stack({matmul(m, x), 2 * matmul(m, x)})));
}

TEST(Einsum, ErrorsOfSubscripts) {
  EXPECT_THAT([] { einsum("ij,jk", a); },
              ThrowsMessage<ShapeError>("einsum: \"ij,jk\" names 2 operands, but there are 1"));
  EXPECT_THAT([] { einsum("ij"); }, ThrowsMessage<ShapeError>("einsum: \"ij\" names 1 operands, but there are 0"));
  EXPECT_THAT(
      [] { einsum("i1", a); },
      ThrowsMessage<ShapeError>("einsum: '1' in \"i1\" is not a label: write letters, \"...\", \",\" and one \"->\""));
  EXPECT_THAT([] { einsum("ij->i->", a); },
              ThrowsMessage<ShapeError>(
                  "einsum: '-' in \"ij->i->\" is not a label: write letters, \"...\", \",\" and one \"->\""));
  EXPECT_THAT([] { einsum("i.j", a); }, ThrowsMessage<ShapeError>(testing::HasSubstr("'.' in \"i.j\" is not a label")));
  EXPECT_THAT([] { einsum("...i...", a); },
              ThrowsMessage<ShapeError>("einsum: \"...i...\" has two ellipses in \"...i...\""));
  EXPECT_THAT([] { einsum("ij->iz", a); },
              ThrowsMessage<ShapeError>("einsum: label z of the output occurs in no operand of \"ij->iz\""));
  EXPECT_THAT([] { einsum("ij->ii", a); },
              ThrowsMessage<ShapeError>("einsum: label i occurs twice in the output of \"ij->ii\""));
}

TEST(Einsum, SumsTheAxesOfAnEllipsisThatTheOutputDoesNotName) {
  const Tensor x = reshape(arange(0, 24, 1, float32), {2, 3, 4});
  EXPECT_THAT(einsum("i...->i", x), Equals(tensor({66., 210.})));
  EXPECT_THAT(einsum("...,i->", x, ones({2})), Equals(tensor(552.)));
}

TEST(Einsum, ErrorsOfOperands) {
  EXPECT_THAT([] { einsum("ijk", a); },
              ThrowsMessage<ShapeError>("einsum: operand 0 of shape [2,3] has 2 axes, but \"ijk\" names 3 of it"));
  EXPECT_THAT([] { einsum("i,jk", arange(2), b[0]); },
              ThrowsMessage<ShapeError>("einsum: operand 1 of shape [4] has 1 axes, but \"i,jk\" names 2 of it"));
  EXPECT_THAT(
      [] { einsum("ij...k", a); },
      ThrowsMessage<ShapeError>("einsum: operand 0 of shape [2,3] has 2 axes, but \"ij...k\" names at least 3 of it"));
  EXPECT_THAT(
      [] { einsum("ij,jk->ik", a, a); },
      ThrowsMessage<ShapeError>("einsum: label j has length 3 in operand 0 of shape [2,3], but 2 in operand 1 of "
                                "shape [2,3] (\"ij,jk->ik\")"));
  EXPECT_THAT(
      [] { einsum("ii", a(slice(0, 1))); },
      ThrowsMessage<ShapeError>(
          "einsum: label i has length 1 in operand 0 of shape [1,3], but 3 in operand 0 of shape [1,3] (\"ii\")"));
  EXPECT_THAT(
      [] {
        einsum("...,...", a, counting({2, 4}));
      },
      ThrowsMessage<ShapeError>("einsum: axis -1 of the ellipsis has length 3 in operand 0 of shape [2,3], but 4 in "
                                "operand 1 of shape [2,4] (\"...,...\")"));
  EXPECT_THAT(einsum("i->", tensor({true, true})), Equals(tensor(2)));
  EXPECT_THAT([] { vmap([](T x) { return einsum("ij", x); })(a); },
              ThrowsMessage<ShapeError>(testing::HasSubstr("inside vmap")));
}

// Counts the multiplications of matrix products.
struct CountMultiplications : Handler {
  Index count = 0;
  Outputs handle(Call& call) override {
    if (&call.op() == &op_matmul) count += call.input(0).size() * call.input(1).shape(-1);
    return perform(std::move(call));
  }
  std::string describe() const override { return "counting multiplications"; }
};

// Six matrices whose best order takes 15125 multiplications (Cormen, Leiserson, Rivest, Stein,
// "Introduction to Algorithms", 3rd edition, 15.2).
TEST(Einsum, TakesTheCheapestOrder) {
  const Index lengths[] = {30, 35, 15, 5, 10, 20, 25};
  std::vector<Tensor> matrices;
  Tensor expected = eye(30, float64);
  for (int i = 0; i < 6; ++i) {
    matrices.push_back(uniform(Key(static_cast<std::uint64_t>(i)), {lengths[i], lengths[i + 1]}, float64));
    expected = matmul(expected, matrices.back());
  }
  CountMultiplications counting;
  const Tensor result = with(counting, [&] { return einsum("ab,bc,cd,de,ef,fg->ag", matrices); });
  EXPECT_EQ(counting.count, 15125);
  EXPECT_TRUE(allclose(result, expected));
  // More operands than einsum plans an order for.
  const std::vector<Tensor> ten(10, ones({2, 2}));
  EXPECT_THAT(values(einsum("ab,bc,cd,de,ef,fg,gh,hi,ij,jk->ak", ten)), ElementsAre(512, 512, 512, 512));
}

}  // namespace einsum_test
