// Slices at computed positions: values, errors (positions are not clamped), and vmap over starts.
// tests/table tests derivatives.

#include <stave/stave.h>

#include "matchers.h"

namespace dynamic_slice_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

using T = const Tensor&;

Tensor counting(const Shape& shape) { return reshape(arange(shape.elements()), shape); }

TEST(DynamicSlice, StartsAtAComputedIndex) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(dynamic_slice(x, tensor({1, 2}), {2, 2}), Equals(tensor({{6, 7}, {10, 11}})));
  EXPECT_THAT(dynamic_slice(x, tensor({-2, -4}), {2, 1}), Equals(tensor({{4}, {8}})));
  EXPECT_THAT(dynamic_slice(x, {argmax(tensor({0, 5, 1})), 0}, {1, 3}), Equals(tensor({{4, 5, 6}})));
  EXPECT_THAT(dynamic_slice(counting({5}), {tensor(3)}, {2}), Equals(tensor({3, 4})));
  EXPECT_THAT(dynamic_slice(counting({5}), {astype(tensor(3), uint8)}, {2}), Equals(tensor({3, 4})));
  EXPECT_THAT(dynamic_slice(counting({5}), std::vector<Operand>{1}, {2}), Equals(tensor({1, 2})));
  EXPECT_THAT(dynamic_slice(transpose(x)(slice(none, none, -1)), {1, 1}, {3, 2}),
              Equals(tensor({{6, 10}, {5, 9}, {4, 8}})));
  EXPECT_THAT(values(dynamic_slice(x, {3, 0}, {0, 4})), IsEmpty());
  EXPECT_THAT(dynamic_slice(tensor(7), {}, {}), Equals(tensor(7)));
}

// jax.lax.dynamic_update_slice gives the first result.
TEST(DynamicUpdateSlice, ReplacesASliceOfACopy) {
  const Tensor x = zeros({3, 3}), ones_ = ones({2, 2});
  EXPECT_THAT(dynamic_update_slice(x, ones_, {1, 1}), Equals(tensor({{0., 0., 0.}, {0., 1., 1.}, {0., 1., 1.}})));
  EXPECT_THAT(x, Equals(zeros({3, 3})));
  EXPECT_THAT(dynamic_update_slice(transpose(counting({2, 3})), tensor({{10, 20}}), tensor({-1, 0})),
              Equals(tensor({{0, 3}, {1, 4}, {10, 20}})));
  EXPECT_EQ(dynamic_update_slice(counting({2}), tensor({0.5}), {0}).dtype(), float32);
  EXPECT_THAT(dynamic_update_slice(tensor({true, false, false}), tensor({true, true}), {1}),
              Equals(tensor({true, true, true})));
  EXPECT_THAT(dynamic_update_slice(tensor(7), tensor(8), {}), Equals(tensor(8)));
  // Large enough for several threads.
  const Tensor large = dynamic_update_slice(zeros({1000, 1000}), ones({500, 700}), {500, 299});
  EXPECT_THAT(sum(large), IsNumber(350000));
  EXPECT_THAT(sum(large(slice(500, none), slice(299, 999))), IsNumber(350000));
}

TEST(DynamicSlice, StartIsNotClamped) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {0, 3}, {3, 2});
      },
      ThrowsMessage<IndexError>(
          "dynamic_slice: a slice of 2 that starts at index 3 is out of range for axis 1 with size 4"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {-1, 0}, {2, 2});
      },
      ThrowsMessage<IndexError>(
          "dynamic_slice: a slice of 2 that starts at index -1 is out of range for axis 0 with size 3"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {0, -5}, {1, 0});
      },
      ThrowsMessage<IndexError>(HasSubstr("a slice of 0 that starts at index -5 is out of range for axis 1")));
  EXPECT_THAT(
      [&] {
        dynamic_update_slice(x, tensor({{1}}), {3, 0});
      },
      ThrowsMessage<IndexError>(
          "dynamic_update_slice: a slice of 1 that starts at index 3 is out of range for axis 0 with size 3"));
  EXPECT_THAT(
      [&] {
        vmap([&](T i) { return dynamic_slice(x, {i, 0}, {1, 4}); })(tensor({0, 2, 3}));
      },
      ThrowsMessage<IndexError>(HasSubstr("index 3 is out of range for axis 0 with size 3")));
}

TEST(DynamicSlice, Errors) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, tensor({0}), {1, 1});
      },
      ThrowsMessage<ShapeError>(
          "dynamic_slice: starts of shape [1] must have rank 1 and one index for each axis of x [3,4]"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {tensor({0, 0})}, {1, 1});
      },
      ThrowsMessage<ShapeError>(
          "dynamic_slice: start 0 has shape [2]: give single integers, or one tensor of rank 1 for all axes"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {0, 0}, {1});
      },
      ThrowsMessage<ShapeError>("dynamic_slice: sizes [1] must be one for each axis of x [3,4]"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {0, 0}, {1, 5});
      },
      ThrowsMessage<ShapeError>(
          "dynamic_slice: sizes [1,5] do not fit into x [3,4]: along axis 1 from 0 to 4 can be taken"));
  EXPECT_THAT([&] { dynamic_slice(x, {0, 0}, {-1, 1}); }, ThrowsMessage<ShapeError>(HasSubstr("sizes [-1,1]")));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {0.5, 0}, {1, 1});
      },
      ThrowsMessage<DtypeError>("dynamic_slice: indices are float32: convert them to int32 or int64 with astype"));
  EXPECT_THAT(
      [&] {
        dynamic_slice(x, {true, 0}, {1, 1});
      },
      ThrowsMessage<DtypeError>(HasSubstr("dynamic_slice: indices are bool")));
  EXPECT_THAT(
      [&] {
        dynamic_update_slice(x, tensor({1}), {0, 0});
      },
      ThrowsMessage<ShapeError>("dynamic_update_slice: sizes [1] must be one for each axis of x [3,4]"));
  EXPECT_THAT([&] { dynamic_slice(tensor(7), Tensor(), {}); },
              ThrowsMessage<TransformError>(HasSubstr("dynamic_slice: operand 1 is an empty Tensor")));
}

TEST(DynamicSlice, UnderVmapEqualsALoop) {
  const Tensor xs = counting({3, 4, 2}), is = tensor({2, 0, -2}), us = counting({3, 2, 1}) + 100;
  const auto read = [](T x, T i) { return dynamic_slice(x, {i, 1}, {2, 1}); };
  const auto write = [](T x, T u, T i) { return dynamic_update_slice(x, u, {i, 1}); };
  std::vector<Tensor> reads, reads_of_one, writes, writes_to_one;
  for (int lane = 0; lane < 3; ++lane) {
    reads.push_back(read(xs[lane], is[lane]));
    reads_of_one.push_back(read(xs[0], is[lane]));
    writes.push_back(write(xs[lane], us[lane], is[lane]));
    writes_to_one.push_back(write(xs[0], us[0], is[lane]));
  }
  EXPECT_THAT(vmap(read)(xs, is), Equals(stack(reads)));
  EXPECT_THAT(vmap(read, {.in_axes = {unmapped, 0}})(xs[0], is), Equals(stack(reads_of_one)));
  EXPECT_THAT(vmap(write)(xs, us, is), Equals(stack(writes)));
  EXPECT_THAT(vmap(write, {.in_axes = {unmapped, unmapped, 0}})(xs[0], us[0], is), Equals(stack(writes_to_one)));
  const auto nested = vmap(vmap(read));
  EXPECT_THAT(nested(stack({xs, xs + 50}), stack({is, is})), Equals(stack({stack(reads), stack(reads) + 50})));
}

TEST(DynamicUpdateSlice, CotangentsFlowToTheUpdateAndToTheRest) {
  const Tensor weights = reshape(arange(1., 7., 1.), {2, 3});
  const auto loss = [&](T x, T u) { return sum(dynamic_update_slice(x, u, {tensor(0), 1}) * weights); };
  const auto [dx, du] = grad<0, 1>(loss)(zeros({2, 3}), zeros({2, 1}));
  EXPECT_THAT(dx, Equals(tensor({{1., 0., 3.}, {4., 0., 6.}})));
  EXPECT_THAT(du, Equals(tensor({{2.}, {5.}})));
}

}  // namespace dynamic_slice_test
