// Functions composed of layout operations: against NumPy, which results are views,
// and the texts of their errors. tests/table tests every dtype, layout and transform.

#include <stave/stave.h>

#include "matchers.h"
#include "operation_names.h"

namespace rearrange_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre, testing::ThrowsMessage;

using T = const Tensor&;

Tensor counting(const Shape& shape) { return reshape(arange(shape.elements()), shape); }
bool shares_memory(T a, T b) { return a.node().storage == b.node().storage; }

TEST(Moveaxis, MovesSeveralAxes) {
  const Tensor x = counting({2, 3, 4, 5});
  EXPECT_EQ(moveaxis(x, {0, 1}, {-1, -2}).shape(), Shape(4, 5, 3, 2));
  EXPECT_TRUE(shares_memory(x, moveaxis(x, {0, 1}, {-1, -2})));
  EXPECT_THAT(moveaxis(moveaxis(x, {3, 1}, {0, 2}), {0, 2}, {3, 1}), Equals(x));
  EXPECT_THAT(
      [&] {
        moveaxis(x, {0, 1}, {2});
      },
      ThrowsMessage<ShapeError>("moveaxis: 2 sources [0,1] for 1 destinations [2]"));
  EXPECT_THAT(
      [&] {
        moveaxis(x, {0, -4}, {1, 2});
      },
      ThrowsMessage<ShapeError>("moveaxis: an axis is given twice in [0,-4] to [1,2]"));
  EXPECT_THAT(
      [&] {
        moveaxis(x, {0, 1}, {2, 2});
      },
      ThrowsMessage<ShapeError>("moveaxis: an axis is given twice in [0,1] to [2,2]"));
  EXPECT_THAT(
      [&] {
        moveaxis(x, {0, 4}, {1, 2});
      },
      ThrowsMessage<IndexError>("moveaxis: axis 4 is out of range for rank 4"));
}

TEST(Diagonal, ReadsElementsInPlace) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_THAT(diagonal(x, 1), Equals(tensor({{1, 6, 11}, {13, 18, 23}})));
  EXPECT_THAT(diagonal(x[0], -1), Equals(tensor({4, 9})));
  EXPECT_THAT(diagonal(x[0], 1, 1, 0), Equals(tensor({4, 9})));
  EXPECT_EQ(diagonal(x[0], 100).shape(), Shape(0));
  EXPECT_EQ(diagonal(x[0], std::numeric_limits<Index>::min()).shape(), Shape(0));
  EXPECT_TRUE(shares_memory(x, diagonal(x)));
  EXPECT_TRUE(shares_memory(x, diagonal(x, -1)));
  EXPECT_THAT(diagonal(transpose(x), 0, 0, 2), Equals(diagonal(x, 0, 2, 0)));
  EXPECT_THAT(trace(x), Equals(tensor({15, 51})));
  EXPECT_THAT(trace(tensor({{200, 1}, {1, 100}}, uint8)), Equals(tensor(300, uint32)));
  EXPECT_THAT([&] { diagonal(x[0][0]); }, ThrowsMessage<ShapeError>("diagonal: shape [4] has fewer than 2 axes"));
  EXPECT_THAT([&] { trace(x[0][0]); }, ThrowsMessage<ShapeError>("trace: shape [4] has fewer than 2 axes"));
  EXPECT_THAT([&] { diagonal(x, 0, 2, -1); },
              ThrowsMessage<ShapeError>("diagonal: axes 2 and -1 of shape [2,3,4] are the same"));
  EXPECT_THAT([&] { diagonal(x, 0, 0, 3); }, ThrowsMessage<IndexError>("diagonal: axis 3 is out of range for rank 3"));
}

TEST(Unstack, GivesViews) {
  const Tensor x = counting({2, 3});
  const std::vector<Tensor> columns = unstack(x, 1);
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_THAT(columns[2], Equals(tensor({2, 5})));
  EXPECT_TRUE(shares_memory(x, columns[1]));
  EXPECT_THAT(stack(unstack(x, -1), -1), Equals(x));
  EXPECT_TRUE(unstack(zeros({0, 3})).empty());
  const auto [a, b] = unstack<2>(tensor({{1., 2.}, {3., 4.}}), 1);
  EXPECT_THAT(b, Equals(tensor({2., 4.})));
  EXPECT_THAT(
      [] {
        unstack<3>(zeros({2, 3}));
      },
      ThrowsMessage<ShapeError>("unstack<3>: x of shape [2,3] has 2 entries along axis 0"));
  EXPECT_THAT([] { unstack(tensor(1)); },
              ThrowsMessage<ShapeError>("unstack: a tensor of rank 0 has no axis to unstack"));
  EXPECT_THAT([&] { unstack(x, 2); }, ThrowsMessage<IndexError>("unstack: axis 2 is out of range for rank 2"));
}

// Each operation is recorded by the transforms around it, so their number matters in long loops.
TEST(Unstack, IsOneOperationForEachEntryOfAContiguousTensor) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_THAT(operations_in([&] { unstack(x); }), ElementsAre("reshape", "slice", "slice"));
  EXPECT_THAT(operations_in([&] { unstack(x, 1); }), ElementsAre("reshape", "slice", "slice", "slice"));
  const Tensor turned = permute_dims(x, {2, 0, 1});
  for (const Tensor& from : {x, turned, zeros({0, 3}), zeros({3, 0, 2}), zeros({2, 3, 0})})
    for (Index axis = 0; axis < from.rank(); ++axis) {
      const std::vector<Tensor> entries = unstack(from, axis);
      ASSERT_EQ(static_cast<Index>(entries.size()), from.shape(axis));
      for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_THAT(entries[i], Equals(take(from, tensor(static_cast<int>(i)), axis)));
        EXPECT_TRUE(from.size() == 0 || shares_memory(from, entries[i]));
      }
    }
}
TEST(Stack, IsOneConcatAndOneReshape) {
  const std::vector<Tensor> rows = unstack(counting({3, 2, 4}));
  EXPECT_THAT(operations_in([&] { stack(rows); }), ElementsAre("concat", "reshape"));
  EXPECT_THAT(operations_in([&] { stack(rows, 1); }), ElementsAre("concat", "reshape"));
  for (Index axis = -3; axis < 3; ++axis) EXPECT_THAT(unstack(stack(rows, axis), axis)[1], Equals(rows[1]));
}

TEST(Diff, SubtractsNeighbours) {
  EXPECT_THAT(diff(tensor({1, 4, 9, 16, 25})), Equals(tensor({3, 5, 7, 9})));
  EXPECT_THAT(diff(tensor({1, 4, 9, 16, 25}), 2), Equals(tensor({2, 2, 2})));
  EXPECT_THAT(diff(tensor({true, false, false})), Equals(tensor({true, false})));
  EXPECT_THAT(diff(tensor({3, 1}, uint8)), Equals(tensor({254}, uint8)));
  EXPECT_THAT(diff(counting({2, 3}), 1, 0), Equals(tensor({{3, 3, 3}})));
  EXPECT_EQ(diff(counting({3}), 1000000000).shape(), Shape(0));
  EXPECT_THAT([] { diff(tensor({1, 2}), -1); }, ThrowsMessage<ShapeError>("diff: n is -1: it must not be negative"));
  EXPECT_THAT([] { diff(tensor(1)); }, ThrowsMessage<IndexError>("diff: axis -1 is out of range for rank 0"));
}

TEST(Roll, WrapsAround) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(roll(x, {1, -1}, {0, 1}), Equals(tensor({{9, 10, 11, 8}, {1, 2, 3, 0}, {5, 6, 7, 4}})));
  EXPECT_THAT(roll(x, 5), Equals(tensor({{7, 8, 9, 10}, {11, 0, 1, 2}, {3, 4, 5, 6}})));
  EXPECT_THAT(roll(x, 1, {0, 1}), Equals(roll(roll(x, 1, 0), 1, 1)));
  EXPECT_THAT(roll(x, {1, 1}, 0), Equals(roll(x, 2, 0)));
  // -2^63 is 1 modulo 3.
  EXPECT_THAT(roll(x, std::numeric_limits<Index>::min(), 0), Equals(roll(x, 1, 0)));
  EXPECT_THAT([&] { roll(x, 1, 2); }, ThrowsMessage<IndexError>("roll: axis 2 is out of range for rank 2"));
  EXPECT_THAT(
      [&] {
        roll(x, {1, 2, 3}, {0, 1});
      },
      ThrowsMessage<ShapeError>("roll: 3 shifts [1,2,3] for 2 axes [0,1]: give one for each, or one for all"));
}

TEST(Tile, RepeatsTheWhole) {
  EXPECT_THAT(tile(arange(3), {2, 2}), Equals(tensor({{0, 1, 2, 0, 1, 2}, {0, 1, 2, 0, 1, 2}})));
  EXPECT_THAT(tile(tensor(5), {3}), Equals(tensor({5, 5, 5})));
  EXPECT_THAT([] { tile(arange(3), {2, -1}); }, ThrowsMessage<ShapeError>("tile: counts [2,-1] have a negative one"));
}

TEST(Repeat, RepeatsEntries) {
  const Tensor x = counting({2, 2});
  EXPECT_THAT(repeat(x, 2), Equals(tensor({0, 0, 1, 1, 2, 2, 3, 3})));
  EXPECT_THAT(repeat(arange(3), {2, 0, 1}), Equals(tensor({0, 0, 2})));
  EXPECT_THAT(repeat(x, {1, 2}, 1), Equals(tensor({{0, 1, 1}, {2, 3, 3}})));
  EXPECT_THAT(repeat(x, 2, 0), Equals(tensor({{0, 1}, {0, 1}, {2, 3}, {2, 3}})));
  EXPECT_THAT([&] { repeat(x, -1); }, ThrowsMessage<ShapeError>("repeat: the count -1 is negative"));
  EXPECT_THAT([&] { repeat(x, {1, -2}, 0); }, ThrowsMessage<ShapeError>("repeat: the count -2 of entry 1 is negative"));
  EXPECT_THAT(
      [&] {
        repeat(x, {1, 2, 3}, 0);
      },
      ThrowsMessage<ShapeError>(
          "repeat: 3 counts for axis 0 of shape [2,2]: give one for each of its 2 entries, or a single one"));
  // A single count applies to all entries, as in NumPy.
  EXPECT_THAT(repeat(x, std::vector<Index>{2}, 1), Equals(repeat(x, 2, 1)));
  EXPECT_THAT(repeat(x, std::vector<Index>{2}), Equals(repeat(x, 2)));
  EXPECT_THAT([&] { repeat(x, 2, 2); }, ThrowsMessage<IndexError>("repeat: axis 2 is out of range for rank 2"));
  // The gradient sums over the repeated entries.
  EXPECT_THAT(grad([](T t) {
                return sum(repeat(t, {2, 0, 1}) * tensor({1., 10., 100.}));
              })(ones({3})),
              Equals(tensor({11., 0., 100.})));
}

TEST(Meshgrid, GivesViews) {
  const Tensor a = tensor({1, 2}), b = tensor({3, 4, 5});
  const std::vector<Tensor> xy = meshgrid({a, b}), ij = meshgrid({a, b}, "ij");
  EXPECT_THAT(xy[0], Equals(tensor({{1, 2}, {1, 2}, {1, 2}})));
  EXPECT_THAT(xy[1], Equals(tensor({{3, 3}, {4, 4}, {5, 5}})));
  EXPECT_THAT(ij[0], Equals(tensor({{1, 1, 1}, {2, 2, 2}})));
  EXPECT_THAT(ij[1], Equals(tensor({{3, 4, 5}, {3, 4, 5}})));
  EXPECT_TRUE(shares_memory(xy[0], a) && shares_memory(ij[1], b));
  EXPECT_TRUE(meshgrid({}).empty());
  EXPECT_THAT(
      [&] {
        meshgrid({a, b}, "ji");
      },
      ThrowsMessage<ShapeError>("meshgrid: the indexing \"ji\" is neither \"xy\" nor \"ij\""));
  EXPECT_THAT(
      [&] {
        meshgrid({a, zeros({2, 2})});
      },
      ThrowsMessage<ShapeError>("meshgrid: input 1 of shape [2,2] has more than 1 axis"));
}

}  // namespace rearrange_test
