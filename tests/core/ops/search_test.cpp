// Searching, counting and sets against NumPy's results,
// results that depend on values under vmap, and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include <limits>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN();

// The expected values are those of numpy.nonzero.
TEST(Nonzero, GivesAVectorOfIndicesForEachAxis) {
  const auto places = nonzero(tensor({{3, 0, 0}, {0, 4, 0}, {5, 6, 0}}));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_THAT(places[0], Equals(tensor({0, 1, 2, 2})));
  EXPECT_THAT(places[1], Equals(tensor({0, 1, 0, 1})));
  EXPECT_THAT(nonzero(tensor({false, true, true}))[0], Equals(tensor({1, 2})));
  EXPECT_THAT(nonzero(tensor({0., nan, -0.0}))[0], Equals(tensor({1})));
  EXPECT_EQ(nonzero(zeros({2, 3}))[1].shape(), Shape(0));
  EXPECT_EQ(nonzero(zeros({0, 3}))[0].shape(), Shape(0));
  EXPECT_THAT([] { nonzero(tensor(1)); }, ThrowsMessage<ShapeError>(HasSubstr("rank 0")));
  EXPECT_THAT(vmap([](const Tensor& x) { return nonzero(x)[0]; })(tensor({{0, 1, 2}, {3, 0, 4}})),
              Equals(tensor({{1, 2}, {0, 2}})));
}

// Rows that are long enough to be split into parts, contiguous and strided,
// with many equal elements, -0 and NaN.
TEST(Topk, EqualsTheStartOfADescendingSort) {
  for (const Dtype dtype : {float32, bfloat16, int64, uint8}) {
    Tensor x = astype(arange(0, 2 * 150000, 1, int64) * 611953 % 1000003 % 30011 - 15000, float64);
    if (is_float(dtype)) x = where(x == 3, nan, where(x == 4, -0.0, x));
    x = astype(reshape(x, {2, 150000}), dtype);
    for (const Tensor& rows : {x, matrix_transpose(x)})
      for (const Index k : {1, 100, 40000}) {
        const int axis = rows.shape(0) == 2 ? 1 : 0;
        const Tensor order = argsort(rows, axis, {.descending = true});
        EXPECT_THAT(topk(rows, k, axis).second, Equals(axis == 1 ? order(ellipsis, slice(k)) : order(slice(k))));
      }
  }
}

// The expected values are those of numpy.unique_values, unique_counts and unique_inverse.
TEST(Unique, GivesValuesCountsAndInverse) {
  const Tensor x = tensor({{3, 1, 3}, {2, 1, 3}});
  EXPECT_THAT(unique_values(x), Equals(tensor({1, 2, 3})));
  const auto [values, counts] = unique_counts(x);
  EXPECT_THAT(values, Equals(tensor({1, 2, 3})));
  EXPECT_THAT(counts, Equals(tensor({2, 1, 3})));
  const auto [again, inverse] = unique_inverse(x);
  EXPECT_THAT(inverse, Equals(tensor({{2, 0, 2}, {1, 0, 2}})));
  EXPECT_THAT(take(again, inverse), Equals(x));
  EXPECT_THAT(unique_values(tensor({true, false, true})), Equals(tensor({false, true})));
  // Each NaN is a distinct value.
  EXPECT_EQ(unique_values(tensor({nan, 1., nan})).str(), "[ 1. nan nan]");
  EXPECT_EQ(unique_counts(zeros({0})).second.shape(), Shape(0));
  EXPECT_THAT(unique_values(tensor(5)), Equals(tensor({5})));
}

TEST(Unique, IsDifferentiable) {
  const Tensor g = grad([](const Tensor& x) { return sum(square(unique_values(x))); })(tensor({3., 1., 3.}));
  EXPECT_THAT(g, Equals(tensor({6., 2., 0.})));  // the first of equal elements gets the derivative
}

TEST(Bincount, AddsWeights) {
  EXPECT_THAT(bincount(tensor({0, 2, 2}), 4), Equals(tensor({1, 0, 2, 0})));
  EXPECT_THAT(bincount(tensor({0, 2, 2}), 3, tensor({0.5, 1., 2.})), Equals(tensor({0.5, 0., 3.})));
  EXPECT_THAT([] { bincount(tensor({0, -1}), 4); }, ThrowsMessage<IndexError>(HasSubstr("index -1 is out of range")));
  EXPECT_THAT(
      [] {
        bincount(tensor({0, 1}), 4, tensor({1.}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("bincount: weights have shape [1], elements [2]")));
}

TEST(SegmentSum, RefusesMismatchedShapes) {
  EXPECT_THAT(
      [] {
        segment_sum(ones({3, 2}), tensor({0, 1}), 2);
      },
      ThrowsMessage<ShapeError>(HasSubstr("segment_sum: data [3,2] needs ids of shape [3], not [2]")));
  EXPECT_THAT([] { segment_sum(ones({2}), tensor({0, 2}), 2); }, ThrowsMessage<IndexError>(HasSubstr("out of range")));
}

// The expected values are those of numpy.interp and numpy.trapezoid.
TEST(Interp, IsConstantBeyondTheEndsAndKeepsNan) {
  const Tensor xp = tensor({1., 2., 4.}), fp = tensor({10., 20., 0.});
  EXPECT_THAT(interp(tensor({0., 1., 1.5, 2., 3., 4., 9., nan}), xp, fp),
              IsNear(tensor({10., 10., 15., 20., 10., 0., 0., nan})));
  const Tensor jump = interp(tensor({0.5, 1., 1.5}), tensor({0., 1., 1., 2.}), tensor({0., 1., 5., 5.}));
  EXPECT_THAT(jump, IsNear(tensor({0.5, 5., 5.})));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(interp(x, xp, fp)); })(tensor({0., 1.5, 3., 9.})),
              Equals(tensor({0., 10., -10., 0.})));
}

TEST(Trapezoid, TakesSamplePointsOfEachRow) {
  const Tensor y = tensor({{0., 1., 2.}, {0., 3., 0.}});
  EXPECT_THAT(trapezoid(y), IsNear(tensor({2., 3.})));
  EXPECT_THAT(trapezoid(y, tensor({{0., 1., 3.}, {0., 2., 4.}})), IsNear(tensor({3.5, 6.})));
  EXPECT_THAT(trapezoid(tensor({1, 2, 3})), IsNear(tensor(4.)));
}

TEST(Searchsorted, FindsEveryPositionInALongVector) {
  const Tensor row = arange(0, 1000, 1) * 2;
  const Tensor values = arange(-1, 2000, 1);
  EXPECT_THAT(searchsorted(row, values), Equals(floor_divide(values + 1, 2)));
  EXPECT_THAT(searchsorted(row, values, {.right = true}), Equals(floor_divide(values, 2) + 1));
  EXPECT_THAT(
      [] {
        searchsorted(ones({2, 2}), ones({2}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("a stack of sorted vectors")));
}

}  // namespace
