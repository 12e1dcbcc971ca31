// Layout operations: their values, which results are views, and the texts of their errors.

#include <functional>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/vmap.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

namespace {

bool shares_memory(const Tensor& a, const Tensor& b) { return a.node().storage == b.node().storage; }

/// The numbers 0, 1, 2, ... in this shape.
Tensor counting(const Shape& shape) { return reshape(arange(shape.elements()), shape); }

template <class F>
int operations(F&& f) {
  CountOps count;
  with(count, f);
  return count.n;
}

TEST(Reshape, KeepsRowMajorOrder) {
  const Tensor x = counting({2, 3}), y = reshape(x, {3, 2});
  EXPECT_EQ(y.shape(), Shape(3, 2));
  EXPECT_THAT(values(y), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_EQ(reshape(x, {-1}).shape(), Shape(6));
  EXPECT_EQ(reshape(x, {2, -1, 3}).shape(), Shape(2, 1, 3));
  EXPECT_EQ(reshape(zeros({0, 3}), {0, 5}).shape(), Shape(0, 5));
  EXPECT_EQ(reshape(tensor(7), {1, 1}).shape(), Shape(1, 1));
  EXPECT_EQ(reshape(counting({1, 1}), {}).shape(), Shape());
}

// Wherever NumPy reshapes without a copy, the result is a view here too. In NumPy,
// `x.T.reshape(...).base is x` says so.
TEST(Reshape, IsAViewWheneverStridesAllow) {
  const Tensor x = counting({4, 6});
  EXPECT_TRUE(shares_memory(x, reshape(x(slice(none, none, 2)), {2, 2, 3})));   // splits an axis
  EXPECT_TRUE(shares_memory(x, reshape(x(slice(), slice(0, 4)), {2, 2, 4})));   // a strided axis
  EXPECT_TRUE(shares_memory(x, reshape(transpose(x), {3, 2, 4})));              // a transpose
  EXPECT_TRUE(shares_memory(x, reshape(transpose(x), {6, 1, 4, 1})));           // axes of length 1
  EXPECT_TRUE(shares_memory(x, reshape(broadcast_to(x, {5, 4, 6}), {5, 24})));  // a repeated axis
  EXPECT_TRUE(shares_memory(x, reshape(broadcast_to(x(0, 0), {2, 3}), {6})));   // a repeated number
  EXPECT_FALSE(shares_memory(x, reshape(transpose(x), {24})));
  EXPECT_FALSE(shares_memory(x, reshape(x(slice(), slice(0, 4)), {16})));
  EXPECT_FALSE(shares_memory(x, reshape(broadcast_to(x, {5, 4, 6}), {120})));
}

TEST(Reshape, ReadsTheRightElementsOfViews) {
  const Tensor x = counting({4, 6});
  EXPECT_THAT(values(reshape(transpose(x)(slice(0, 2)), {2, 2, 2})), ElementsAre(0, 6, 12, 18, 1, 7, 13, 19));
  EXPECT_THAT(values(reshape(transpose(x)(slice(0, 2)), {8})), ElementsAre(0, 6, 12, 18, 1, 7, 13, 19));
  EXPECT_THAT(values(reshape(x(slice(none, none, -3), slice(4, none)), {4})), ElementsAre(22, 23, 4, 5));
  EXPECT_THAT(values(reshape(x(slice(none, none, -1), 0), {2, 2})), ElementsAre(18, 12, 6, 0));
}

TEST(Reshape, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(
      [&] {
        reshape(x, {4, 2});
      },
      ThrowsMessage<ShapeError>(
          "reshape: shape [2,3] holds 6 elements, but [4,2] holds 8: a length of -1 is inferred"));
  EXPECT_THAT(
      [&] {
        reshape(x, {-1, 4});
      },
      ThrowsMessage<ShapeError>("reshape: the length -1 in [-1,4] cannot be inferred for 6 elements"));
  EXPECT_THAT(
      [&] {
        reshape(x, {-1, -1});
      },
      ThrowsMessage<ShapeError>("reshape: the length -1 in [-1,-1] cannot be inferred for 6 elements"));
  EXPECT_THAT(
      [&] {
        reshape(zeros({0}), {-1, 0});
      },
      ThrowsMessage<ShapeError>("reshape: the length -1 in [-1,0] cannot be inferred for 0 elements"));
  EXPECT_THAT([&] { reshape(x, {-2, -3}); }, ThrowsMessage<ShapeError>("reshape: shape [-2,-3] has a negative length"));
}

TEST(Layout, TrivialCasesPerformNothing) {
  const Tensor x = counting({2, 3}), row = x[0];
  EXPECT_EQ(0, operations([&] {
              reshape(x, {2, -1});
              permute_dims(x, {0, 1});
              broadcast_to(x, {2, 3});
              squeeze(x);
              contiguous(x);
              concat({x});
              pad(x, {{0, 0}, {0, 0}});
              flip(x, Axes(Shape()));
              x(slice(), ellipsis);
              transpose(row);
            }));
  EXPECT_EQ(1, operations([&] { x(slice(0, 1), slice(none, none, -1)); }));
  EXPECT_EQ(1, operations([&] { x(newaxis); }));
  EXPECT_EQ(2, operations([&] { x(1); }));
}

TEST(Layout, ViewsDoNotInheritNotes) {
  Notes<Tensor> notes("test");
  const Tensor x = notes.put(zeros({2, 3}), tensor(1));
  EXPECT_EQ(notes.find(reshape(x, {6})), nullptr);
  EXPECT_EQ(notes.find(transpose(x)), nullptr);
  EXPECT_EQ(notes.find(broadcast_to(x, {2, 2, 3})), nullptr);
  EXPECT_EQ(notes.find(x(slice(1))), nullptr);
}

TEST(PermuteDims, MovesAxes) {
  const Tensor x = counting({2, 3, 4}), y = permute_dims(x, {2, 0, -2});
  EXPECT_EQ(y.shape(), Shape(4, 2, 3));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_EQ(y(3, 1, 2).item<int>(), x(1, 2, 3).item<int>());
  EXPECT_EQ(transpose(x).shape(), Shape(4, 3, 2));
  EXPECT_EQ(matrix_transpose(x).shape(), Shape(2, 4, 3));
  EXPECT_THAT(values(transpose(counting({2, 3}))), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(moveaxis(x, 0, 2).shape(), Shape(3, 4, 2));
  EXPECT_EQ(moveaxis(x, -1, 0).shape(), Shape(4, 2, 3));
  EXPECT_EQ(moveaxis(x, 1, 1).shape(), x.shape());
}

TEST(PermuteDims, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(
      [&] {
        permute_dims(x, {0, -2});
      },
      ThrowsMessage<ShapeError>("permute_dims: axes [0,0] must name each axis of shape [2,3] once"));
  EXPECT_THAT([&] { permute_dims(x, {0}); },
              ThrowsMessage<ShapeError>("permute_dims: axes [0] must name each axis of shape [2,3] once"));
  EXPECT_THAT(
      [&] {
        permute_dims(x, {0, 2});
      },
      ThrowsMessage<IndexError>("permute_dims: axis 2 is out of range for rank 2"));
  EXPECT_THAT([&] { matrix_transpose(x[0]); },
              ThrowsMessage<ShapeError>("matrix_transpose: shape [3] has fewer than 2 axes"));
}

TEST(ExpandDims, AddsAndSqueezeDropsAxesOfLengthOne) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(expand_dims(x, 0).shape(), Shape(1, 2, 3));
  EXPECT_EQ(expand_dims(x, 2).shape(), Shape(2, 3, 1));
  EXPECT_EQ(expand_dims(x, -1).shape(), Shape(2, 3, 1));
  EXPECT_EQ(expand_dims(x, {0, -1}).shape(), Shape(1, 2, 3, 1));
  EXPECT_EQ(expand_dims(x, std::vector<int>{2, 1}).shape(), Shape(2, 1, 1, 3));
  EXPECT_THAT(
      [&] {
        expand_dims(x, {0, -4});
      },
      ThrowsMessage<ShapeError>("expand_dims: an axis is given twice in [0,-4]"));
  EXPECT_THAT([&] { expand_dims(x, 3); }, ThrowsMessage<IndexError>("expand_dims: axis 3 is out of range for rank 3"));
  const Tensor y = counting({1, 2, 1, 3, 1});
  EXPECT_EQ(squeeze(y).shape(), Shape(2, 3));
  EXPECT_EQ(squeeze(y, {0, -1}).shape(), Shape(2, 1, 3));
  EXPECT_EQ(squeeze(counting({1, 1})).shape(), Shape());
  EXPECT_THAT(
      [&] {
        squeeze(y, {0, 1});
      },
      ThrowsMessage<ShapeError>("squeeze: axis 1 of shape [1,2,1,3,1] has length 2, not 1"));
}

TEST(BroadcastTo, RepeatsWithoutCopying) {
  const Tensor x = counting({2, 1}), y = broadcast_to(x, {2, 2, 3});
  EXPECT_THAT(values(y), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_EQ(broadcast_to(x, {0, 2, 1}).shape(), Shape(0, 2, 1));
  EXPECT_EQ(broadcast_to(tensor(1), {3}).shape(), Shape(3));
}

TEST(BroadcastTo, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(
      [&] {
        broadcast_to(x, {5, 3, 3});
      },
      ThrowsMessage<ShapeError>(
          "broadcast_to: shape [2,3] does not broadcast to [5,3,3]: length 2 at axis 0 is neither 1 nor 3"));
  EXPECT_THAT([&] { broadcast_to(x, {3}); },
              ThrowsMessage<ShapeError>("broadcast_to: shape [2,3] has more axes than [3]"));
  EXPECT_THAT(
      [&] {
        broadcast_to(x(slice(0, 1)), {-1, 3});
      },
      ThrowsMessage<ShapeError>("broadcast_to: shape [-1,3] has a negative length"));
}

TEST(Flip, ReversesAxes) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(values(flip(x)), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(values(flip(x, 0)), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(values(flip(x, -1)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_TRUE(shares_memory(x, flip(x)));
  EXPECT_EQ(flip(zeros({0, 2})).shape(), Shape(0, 2));
}

TEST(Contiguous, CopiesOnlyNoncontiguousTensors) {
  const Tensor x = counting({2, 3}), y = contiguous(transpose(x));
  EXPECT_FALSE(shares_memory(x, y));
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_THAT(values(y), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(shares_memory(x, contiguous(x)));
}

// ---- basic indexing -----------------------------------------------------------------------------

TEST(Index, IntegersDropAxes) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x(1, 2, 3).item<int>(), 23);
  EXPECT_EQ(x(-1, -3, -4).item<int>(), 12);
  EXPECT_EQ(x[1].shape(), Shape(3, 4));
  EXPECT_THAT(values(x(1, 0)), ElementsAre(12, 13, 14, 15));
  EXPECT_TRUE(shares_memory(x, x[1]));
}

TEST(Index, EllipsisAndNewAxis) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_THAT(values(x(ellipsis, 0)), ElementsAre(0, 4, 8, 12, 16, 20));
  EXPECT_THAT(values(x(1, ellipsis, 3)), ElementsAre(15, 19, 23));
  EXPECT_EQ(x(newaxis, ellipsis, newaxis, 0).shape(), Shape(1, 2, 3, 1));
  EXPECT_EQ(x(0, 0, 0, ellipsis).shape(), Shape());
  EXPECT_EQ(x(slice(), newaxis, 0).shape(), Shape(2, 1, 4));
}

// The expected values are Python's: x = list(range(5)); x[start:stop:step].
TEST(Index, SlicesLikePython) {
  const Tensor x = arange(5);
  const auto part = [&](SliceBound start, SliceBound stop, SliceBound step = none) {
    return values(x(slice(start, stop, step)));
  };
  EXPECT_THAT(values(x(slice(2))), ElementsAre(0, 1));
  EXPECT_THAT(part(1, none), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(part(-2, none), ElementsAre(3, 4));
  EXPECT_THAT(part(none, -2), ElementsAre(0, 1, 2));
  EXPECT_THAT(part(-100, 100), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(part(3, 1), IsEmpty());
  EXPECT_THAT(part(7, 9), IsEmpty());
  EXPECT_THAT(part(none, none, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(part(1, 4, 2), ElementsAre(1, 3));
  EXPECT_THAT(part(none, none, 100), ElementsAre(0));
  EXPECT_THAT(part(none, none, -1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(part(none, none, -2), ElementsAre(4, 2, 0));
  EXPECT_THAT(part(3, none, -1), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(part(3, 0, -1), ElementsAre(3, 2, 1));
  EXPECT_THAT(part(100, -100, -3), ElementsAre(4, 1));
  EXPECT_THAT(part(1, 3, -1), IsEmpty());
  constexpr Index far = std::numeric_limits<Index>::max();
  EXPECT_THAT(part(0, none, far), ElementsAre(0));
  EXPECT_THAT(part(none, none, -far - 1), ElementsAre(4));
  EXPECT_EQ(zeros({0})(slice(none, none, -1)).shape(), Shape(0));
}

TEST(Index, IndexesViews) {
  // These are rows 5, 3, 1 and columns 1, 2, 3.
  const Tensor x = transpose(counting({4, 6}))(slice(none, none, -2), slice(1, none));
  EXPECT_THAT(values(x), ElementsAre(11, 17, 23, 9, 15, 21, 7, 13, 19));
  EXPECT_THAT(values(x(slice(none, none, -1), -1)), ElementsAre(19, 21, 23));
}

TEST(Index, SubscriptsMayComeInAVector) {
  const Tensor x = counting({2, 3, 4});
  std::vector<Tensor::Subscript> subscripts;
  EXPECT_THAT(x(subscripts), Equals(x));
  subscripts.push_back(1);
  EXPECT_THAT(x(subscripts), Equals(x(1)));
  subscripts.push_back(slice(none, none, -1));
  subscripts.push_back(newaxis);
  EXPECT_THAT(x(std::span<const Tensor::Subscript>(subscripts)), Equals(x(1, slice(none, none, -1), newaxis)));
  EXPECT_THAT(x[subscripts], Equals(x(1, slice(none, none, -1), newaxis)));
  subscripts.assign(4, 0);
  EXPECT_THAT([&] { x(subscripts); }, ThrowsMessage<IndexError>("4 indices are too many for shape [2,3,4]"));
}

TEST(Index, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT([&] { x(0, 3); },
              ThrowsMessage<IndexError>("index 3 is out of range for axis 1 of length 3 (shape [2,3])"));
  EXPECT_THAT([&] { x[-3]; },
              ThrowsMessage<IndexError>("index -3 is out of range for axis 0 of length 2 (shape [2,3])"));
  EXPECT_THAT([&] { x(0, slice(), 0); }, ThrowsMessage<IndexError>("3 indices are too many for shape [2,3]"));
  EXPECT_THAT([&] { x(ellipsis, ellipsis); }, ThrowsMessage<IndexError>("an index has more than one ellipsis"));
  EXPECT_THAT([&] { x(0, slice(0, 1, 0)); }, ThrowsMessage<IndexError>("slice: the step for axis 1 is 0"));
  EXPECT_THAT([&] { tensor(1)[0]; }, ThrowsMessage<IndexError>("1 indices are too many for shape []"));
}

// ---- joining and padding ------------------------------------------------------------------------

TEST(Concat, JoinsAlongAnAxis) {
  const Tensor a = counting({2, 2}), b = counting({2, 1}) + 10;
  EXPECT_THAT(values(concat({a, b}, 1)), ElementsAre(0, 1, 10, 2, 3, 11));
  EXPECT_THAT(values(concat({a, transpose(b), a(slice(0, 0))}, -2)), ElementsAre(0, 1, 2, 3, 10, 11));
  EXPECT_EQ(concat({a, ones({1, 2}, float64), ones({1, 2}, bool_)}).dtype(), float64);
  EXPECT_EQ(concat({astype(a, uint32), a}).dtype(), int64);
  EXPECT_EQ(concat({ones({1}, bool_), ones({1}, bool_)}).dtype(), bool_);
}

TEST(Concat, Errors) {
  const Tensor a = counting({2, 2});
  EXPECT_THAT([&] { concat({}); }, ThrowsMessage<ShapeError>("concat: nothing to join"));
  EXPECT_THAT(
      [&] {
        concat({a, counting({2, 3})});
      },
      ThrowsMessage<ShapeError>(
          "concat: shapes [2,2] and [2,3] do not join along axis 0: the other lengths must agree"));
  EXPECT_THAT(
      [&] {
        concat({a, a[0]});
      },
      ThrowsMessage<ShapeError>("concat: shapes [2,2] and [2] do not join along axis 0: the other lengths must agree"));
  EXPECT_THAT([&] { concat({a, a}, 2); }, ThrowsMessage<IndexError>("concat: axis 2 is out of range for rank 2"));
  EXPECT_THAT(
      [&] {
        concat({tensor(1), tensor(2)});
      },
      ThrowsMessage<ShapeError>("concat: a tensor of rank 0 has no axis to join along: use stack"));
}

// Lengths whose sum or product overflows are errors.
TEST(Layout, LengthsThatOverflowAreErrors) {
  constexpr Index large = Index{1} << 59, most = std::numeric_limits<Index>::max();
  const Tensor x = counting({3}), wide = broadcast_to(ones({1}), {large});
  std::vector<Tensor> many(32, wide);
  const auto says = [](const char* text) {
    return testing::Throws<ShapeError>(testing::Property(&ShapeError::what, testing::HasSubstr(text)));
  };
  EXPECT_THAT([&] { concat(many); }, says("concat: shape ["));
  many.push_back(x);
  EXPECT_THAT([&] { concat(many); }, says("has more elements than any memory holds"));
  EXPECT_THAT([&] { concat(std::vector<Tensor>(32, broadcast_to(zeros({1, 0}), {large, 0}))); }, says("more elements"));
  EXPECT_THAT([&] { stack({wide, wide}); }, says("stack: shape"));
  const std::vector<std::pair<Index, Index>> widths = {{most, most},      {Index{1} << 62, Index{1} << 62},
                                                       {-most - 1, most}, {-most - 1, -most - 1},
                                                       {most, -most},     {0, most}};
  for (const std::pair<Index, Index>& width : widths)
    EXPECT_THAT([&] { pad(x, {width}); }, says("pad: ")) << width.first << " " << width.second;
  EXPECT_THAT([&] { tile(x, {6148914691236517206}); }, says("tile: shape"));
  EXPECT_THAT([&] { tile(x, {most, most}); }, says("tile: shape"));
  EXPECT_THAT([&] { repeat(x, 6148914691236517206); }, says("repeat: shape"));
  EXPECT_THAT([&] { repeat(x, std::vector<Index>{most, most, 4}); }, says("repeat: shape"));
  EXPECT_THAT([&] { vmap([](const Tensor& t) { return t + 1.; }, {.in_axes = unmapped, .axis_size = most})(x); },
              says("more elements than any memory holds"));
  EXPECT_EQ(tile(zeros({0}), {5}).shape(), Shape(0));
}

TEST(Stack, JoinsAlongANewAxis) {
  const Tensor a = arange(3), b = a + 10;
  EXPECT_THAT(values(stack({a, b})), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(values(stack({a, b}, -1)), ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_EQ(stack({tensor(1), tensor(2.)}).shape(), Shape(2));
  EXPECT_EQ(stack({a}).shape(), Shape(1, 3));
  EXPECT_THAT([&] { stack({a, arange(2)}); }, ThrowsMessage<ShapeError>("stack: shapes [3] and [2] differ"));
  EXPECT_THAT([&] { stack({}); }, ThrowsMessage<ShapeError>("stack: nothing to join"));
}

TEST(Pad, AddsAndCropsElements) {
  const Tensor x = counting({2, 2});
  EXPECT_THAT(values(pad(x, {{1, 0}, {0, 1}}, 9)), ElementsAre(9, 9, 9, 0, 1, 9, 2, 3, 9));
  EXPECT_THAT(values(pad(x, {{-1, 0}, {0, 0}})), ElementsAre(2, 3));
  EXPECT_THAT(values(pad(x, {{-1, 1}, {1, -1}}, 9)), ElementsAre(9, 2, 9, 9));
  EXPECT_THAT(values(pad(x, {{-1, -1}, {0, 0}})), IsEmpty());
  EXPECT_THAT(values(pad(zeros({0}, int32), {{1, 1}}, 5)), ElementsAre(5, 5));
  EXPECT_THAT(values(pad(transpose(x), {{0, 0}, {1, 0}}, 9)), ElementsAre(9, 0, 2, 9, 1, 3));
  EXPECT_EQ(pad(x, {{1, 1}, {0, 0}}).dtype(), int32);
  EXPECT_EQ(pad(ones({1}), {{0, 1}}, -std::numeric_limits<double>::infinity())[1].item<float>(),
            -std::numeric_limits<float>::infinity());
}

TEST(Pad, KeepsEveryDigitOfANumber) {
  const std::int64_t number = (std::int64_t{1} << 53) + 1;  // not representable as a double
  const Tensor x = tensor({std::int64_t{7}, number + 2});
  EXPECT_THAT(pad(x, {{1, 1}}, number), Equals(tensor({number, std::int64_t{7}, number + 2, number})));
  EXPECT_THAT(pad(x, {{-1, 1}}, number), Equals(tensor({number + 2, number})));
}

TEST(Pad, Errors) {
  const Tensor x = counting({2, 2});
  EXPECT_THAT(
      [&] {
        pad(x, {{1, 1}});
      },
      ThrowsMessage<ShapeError>("pad: 1 pairs of widths for shape [2,2]: give one for each axis"));
  EXPECT_THAT(
      [&] {
        pad(x, {{0, 0}, {-2, -1}});
      },
      ThrowsMessage<ShapeError>("pad: widths {-2, -1} cut more than length 2 of axis 1"));
  EXPECT_THAT(
      [&] {
        pad(x, {{1, 1}, {0, 0}}, 0.5);
      },
      ThrowsMessage<DtypeError>("pad: the value 0.5 does not fit int32: convert x with astype"));
}

// ---- under vmap, against a loop over the lanes --------------------------------------------------

void expect_lanes(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor xs = counting({3, 2, 4});
  const Tensor batched = vmap(f)(xs);
  const Tensor last = vmap(f, {.in_axes = {-1}})(moveaxis(xs, 0, -1));
  std::vector<Tensor> lanes;
  for (int lane = 0; lane < 3; ++lane) lanes.push_back(f(xs[lane]));
  const Tensor expected = stack(lanes);
  EXPECT_EQ(batched.shape(), expected.shape());
  EXPECT_EQ(values(batched), values(expected));
  EXPECT_EQ(values(last), values(expected));
}

TEST(LayoutVmap, EqualsALoop) {
  const Tensor other = counting({2, 4}) + 100;
  expect_lanes([](const Tensor& x) { return reshape(x, {4, -1}); });
  expect_lanes([](const Tensor& x) { return reshape(transpose(x), {8}); });
  expect_lanes([](const Tensor& x) { return transpose(x); });
  expect_lanes([](const Tensor& x) { return broadcast_to(x, {2, 2, 4}); });
  expect_lanes([](const Tensor& x) { return broadcast_to(x(slice(0, 1)), {3, 5, 4}); });
  expect_lanes([](const Tensor& x) { return broadcast_to(x(0, 0), {2, 3}); });
  expect_lanes([](const Tensor& x) { return x(slice(none, none, -1), slice(1, none, 2)); });
  expect_lanes([](const Tensor& x) { return x(1, newaxis, ellipsis); });
  expect_lanes([](const Tensor& x) { return flip(x, 1); });
  expect_lanes([](const Tensor& x) { return pad(x, {{1, 0}, {-1, 2}}, 7); });
  expect_lanes([&](const Tensor& x) { return concat({x, other, x}, 1); });
  expect_lanes([&](const Tensor& x) { return stack({other, x}, -1); });
  expect_lanes([](const Tensor& x) { return contiguous(transpose(x)); });
  expect_lanes([](const Tensor& x) { return squeeze(expand_dims(x, 1)); });
  expect_lanes([](const Tensor& x) { return vmap([](const Tensor& row) { return pad(row, {{2, 0}}); })(x); });
  expect_lanes([&](const Tensor& x) {
    return vmap([&](const Tensor& a, const Tensor& b) { return concat({a, b, x[0]}); }, {.in_axes = {1, 1}})(x, other);
  });
}

TEST(LayoutVmap, AcceptsZeroLanes) {
  const auto f = [](const Tensor& x) {
    return concat({pad(x, {{1, 0}}), broadcast_to(x(0), {2}), flip(reshape(x, {3}))});
  };
  EXPECT_EQ(vmap(f)(zeros({0, 3})).shape(), Shape(0, 9));
}

// The cotangent of a concat's input is the part of the weights that the input is multiplied by.
TEST(Layout, ConcatSplitsItsCotangentAmongManyInputs) {
  std::vector<Tensor> xs;
  for (Index i = 0; i < 40; ++i) xs.push_back(ones({2, i % 4}));
  const Tensor weights = reshape(arange(2 * 60) * 1.f, {2, 60});
  const std::vector<Tensor> found =
      grad([&](const std::vector<Tensor>& all) { return sum(concat(all, 1) * weights); })(xs);
  Index start = 0;
  for (Index i = 0; i < 40; start += i++ % 4)
    EXPECT_THAT(found[static_cast<std::size_t>(i)], Equals(weights(slice(), slice(start, start + i % 4))));
}

}  // namespace
