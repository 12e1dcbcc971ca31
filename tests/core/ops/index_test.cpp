// Indexing by tensors: values and vmap against loops on the host, and errors.

#include <functional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/transforms/vmap.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

namespace {

Tensor counting(const Shape& shape) { return reshape(arange(shape.elements()), shape); }

TEST(Take, ReadsEntriesAlongAnAxis) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(values(take(x, tensor({1, 0, 1}))), ElementsAre(3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(take(x, tensor({2, -3}), 1)), ElementsAre(2, 0, 5, 3));
  EXPECT_THAT(values(take(x, tensor({2, -3}), -1)), ElementsAre(2, 0, 5, 3));
  EXPECT_EQ(take(x, zeros({4, 0}, int32), 1).shape(), Shape(2, 4, 0));
  EXPECT_EQ(take(counting({2, 3, 4}), zeros({5, 6}, int32), 1).shape(), Shape(2, 5, 6, 4));
  EXPECT_THAT(values(take(x, tensor(1), 1)), ElementsAre(1, 4));
  EXPECT_TRUE(take(counting({2, 3, 4}), tensor({2, 1}), 1).is_contiguous());
  EXPECT_THAT(values(take(counting({2, 3, 4}), tensor({2, 0}), 1)),
              ElementsAre(8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15));
}

TEST(Take, SupportsEveryDtype) {
  for (Dtype dtype : {bool_, uint8, uint32, int32, int64, float32, float64}) {
    const Tensor y = take(astype(tensor({0, 1, 2}), dtype), tensor({2, 0, 0}));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_THAT(values(y), ElementsAre(dtype == bool_ ? 1 : 2, 0, 0)) << name_of(dtype);
  }
  for (Dtype dtype : {uint8, uint32, int32, int64})
    EXPECT_THAT(values(take(tensor({10, 11, 12}), astype(tensor({2, 0}), dtype))), ElementsAre(12, 10))
        << name_of(dtype);
}

TEST(Take, ReadsViews) {
  // The rows are 11 17 23, 9 15 21 and 7 13 19.
  const Tensor x = transpose(counting({4, 6}))(slice(none, none, -2), slice(1, none));
  EXPECT_THAT(values(take(x, tensor({2, 0}))), ElementsAre(7, 13, 19, 11, 17, 23));
  EXPECT_THAT(values(take(x, flip(tensor({0, 2, 1}))(slice(0, 2)), 1)), ElementsAre(17, 23, 15, 21, 13, 19));
  EXPECT_THAT(values(take(x, broadcast_to(tensor(1), {2}), 1)), ElementsAre(17, 17, 15, 15, 13, 13));
}

TEST(Take, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(
      [&] {
        take(x, tensor({0, 3}), 1);
      },
      ThrowsMessage<IndexError>(AllOf(HasSubstr("index 3 is out of range"), HasSubstr("axis 1"), HasSubstr("3"))));
  EXPECT_THAT([&] { take(x, tensor({-3}), 0); }, ThrowsMessage<IndexError>(AllOf(HasSubstr("index -3 is out of range"),
                                                                                 HasSubstr("axis 0"), HasSubstr("2"))));
  EXPECT_THAT([&] { take(x, tensor({0}), 2); }, ThrowsMessage<IndexError>("take: axis 2 is out of range for rank 2"));
  EXPECT_THAT([&] { take(x, tensor({0.5})); },
              ThrowsMessage<DtypeError>("take: indices are float32: convert them to int32 or int64 with astype"));
  EXPECT_THAT([&] { take(zeros({0}), tensor({0})); }, ThrowsMessage<IndexError>(HasSubstr("index 0 is out of range")));
}

TEST(TakeAlongAxis, ReadsOneIndexPerElement) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(values(take_along_axis(x, tensor({{2, 0}, {-1, 1}}), 1)), ElementsAre(2, 0, 5, 4));
  EXPECT_THAT(values(take_along_axis(x, tensor({{1, 0, 1}}), 0)), ElementsAre(3, 1, 5));
  // The other axes broadcast.
  EXPECT_THAT(values(take_along_axis(x, tensor({{2}}), 1)), ElementsAre(2, 5));
  EXPECT_EQ(take_along_axis(counting({2, 3, 4}), zeros({2, 5, 1}, int32), 1).shape(), Shape(2, 5, 4));
  EXPECT_THAT([&] { take_along_axis(x, tensor({0}), 0); },
              ThrowsMessage<ShapeError>("take_along_axis: x [2,3] and indices [1] must have equal ranks"));
  EXPECT_THAT(
      [&] {
        take_along_axis(x, tensor({{0}, {1}, {2}}), 1);
      },
      ThrowsMessage<ShapeError>(HasSubstr("take_along_axis: shapes [2] and [3] do not broadcast")));
}

TEST(Gather, IndicesAddressLeadingAxes) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_THAT(values(gather(x, tensor({{1, 2, 3}, {0, -1, 0}}))), ElementsAre(23, 8));
  EXPECT_THAT(values(gather(x, tensor({{1, 2}}))), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(values(gather(x, tensor({1, 0, 2}))), ElementsAre(14));
  EXPECT_EQ(gather(x, zeros({5, 6, 1}, int32)).shape(), Shape(5, 6, 3, 4));
  // The indices address no axis, so each entry is x itself.
  EXPECT_EQ(values(gather(x, zeros({2, 0}, int32))), values(stack({x, x})));
  EXPECT_THAT(
      [&] { gather(x, tensor(1)); },
      ThrowsMessage<ShapeError>(
          "gather: indices of shape [] need a last axis whose length is the number of axes of x that they address"));
  EXPECT_THAT(
      [&] {
        gather(x, zeros({2, 4}, int32));
      },
      ThrowsMessage<ShapeError>("gather: indices of shape [2,4] address 4 axes, x has shape [2,3,4]"));
}

TEST(ScatterAdd, AccumulatesInAFixedOrder) {
  const Tensor x = ones({3}, int32);
  EXPECT_THAT(values(scatter_add(x, tensor({{0}, {2}, {0}, {-1}}), tensor({1, 10, 100, 1000}))),
              ElementsAre(102, 1, 1011));
  EXPECT_THAT(values(x), ElementsAre(1, 1, 1));
  EXPECT_THAT(values(scatter_add(zeros({2, 2}, int32), tensor({{1}, {1}}), counting({2, 2}))), ElementsAre(0, 0, 2, 4));
  EXPECT_THAT(values(scatter_add(zeros({2, 2}, int32), tensor({{1, 0}, {0, 1}}), tensor({5, 6}))),
              ElementsAre(0, 6, 5, 0));
  EXPECT_EQ(scatter_add(x, tensor({{0}}), tensor({0.5})).dtype(), float32);
  EXPECT_THAT(values(scatter_add(x, zeros({0, 1}, int32), zeros({0}, int32))), ElementsAre(1, 1, 1));
  // The result is deterministic, though its rounding depends on the order of the additions.
  const Tensor where = zeros({4096, 1}, int32), what = 1 / (1 + arange(4096));
  const float first = scatter_add(zeros({1}), where, what).item<float>();
  for (int run = 0; run < 5; ++run) EXPECT_EQ(scatter_add(zeros({1}), where, what).item<float>(), first);
}

TEST(ScatterAdd, Errors) {
  EXPECT_THAT([&] { scatter_add(zeros({3}), tensor({{3}}), ones({1})); },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("index 3 is out of range"), HasSubstr("axis 0"))));
  EXPECT_THAT([&] { scatter_add(zeros({3}), tensor({{0}}), ones({2})); },
              ThrowsMessage<ShapeError>(
                  "scatter_add: updates of shape [2] should have shape [1], for x [3] and indices [1,1]"));
  EXPECT_THAT(scatter_add(zeros({3}, bool_), tensor({{0}}), ones({1}, bool_)), Equals(tensor({1, 0, 0})));
}

TEST(OneHot, MarksTheIndex) {
  EXPECT_THAT(values(one_hot(tensor({2, 0}), 3)), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_EQ(one_hot(tensor({2, 0}), 3).dtype(), float32);
  EXPECT_EQ(one_hot(zeros({4, 5}, int64), 7, int32).shape(), Shape(4, 5, 7));
  EXPECT_EQ(one_hot(tensor(1), 3, bool_).dtype(), bool_);
  EXPECT_THAT(values(one_hot(tensor(1), 3, bool_)), ElementsAre(0, 1, 0));
  EXPECT_THAT(values(one_hot(zeros({0}, int32), 3)), IsEmpty());
  EXPECT_THAT([] { one_hot(tensor({0, 3}), 3); }, ThrowsMessage<IndexError>(HasSubstr("index 3 is out of range")));
  EXPECT_THAT([] { one_hot(tensor({-1}), 3); }, ThrowsMessage<IndexError>(HasSubstr("index -1 is out of range")));
  EXPECT_THAT(
      [] {
        vmap([](const Tensor& x) { return one_hot(x, 3); })(tensor({1, -1}));
      },
      ThrowsMessage<IndexError>(HasSubstr("index -1 is out of range")));
  EXPECT_THAT([] { one_hot(tensor({0.}), 3); },
              ThrowsMessage<DtypeError>("one_hot: indices are float32: convert them to int32 or int64 with astype"));
}

// ---- under vmap, against a loop over the lanes --------------------------------------------------

using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

// Compares vmap of f(xs, is) with loops. xs and is have shape [3, ...]. Either argument is mapped,
// or both, or both by two nested vmaps.
void expect_lanes(const Binary& f, const Tensor& xs, const Tensor& is) {
  std::vector<Tensor> both, first, second, all_pairs;
  for (int lane = 0; lane < 3; ++lane) {
    both.push_back(f(xs[lane], is[lane]));
    first.push_back(f(xs[lane], is[0]));
    second.push_back(f(xs[0], is[lane]));
    std::vector<Tensor> row;
    for (int inner = 0; inner < 3; ++inner) row.push_back(f(xs[lane], is[inner]));
    all_pairs.push_back(stack(row));
  }
  EXPECT_EQ(values(vmap(f)(xs, is)), values(stack(both)));
  EXPECT_EQ(values(vmap([&](const Tensor& x) { return f(x, is[0]); })(xs)), values(stack(first)));
  EXPECT_EQ(values(vmap([&](const Tensor& i) { return f(xs[0], i); })(is)), values(stack(second)));
  const auto pairs = [&](const Tensor& x) { return vmap([&](const Tensor& i) { return f(x, i); })(is); };
  EXPECT_EQ(values(vmap(pairs)(xs)), values(stack(all_pairs)));
  const auto nested = vmap([&](const Tensor& x, const Tensor& i) { return vmap(f)(x, i); });
  EXPECT_EQ(values(nested(stack({xs, xs}), stack({is, is}))), values(stack({stack(both), stack(both)})));
}

TEST(IndexVmap, EqualsALoop) {
  const Tensor xs = counting({3, 2, 4}), is = tensor({{1, 0, -1}, {0, 0, 1}, {-2, 1, 1}});
  expect_lanes([](const Tensor& x, const Tensor& i) { return take(x, i); }, xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return take(x, i, 1); }, xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return take(x, i[0], 0); }, xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return take_along_axis(x, expand_dims(i, 0), 1); }, xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return gather(x, expand_dims(i, 1)); }, xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return gather(x, reshape(i(slice(2)), {1, 2})); }, xs, is);
  expect_lanes(
      [](const Tensor& x, const Tensor& i) {
        return scatter_add(x, expand_dims(i, 1), counting({3, 4}));
      },
      xs, is);
  expect_lanes([](const Tensor& x, const Tensor& i) { return x(0, 0) + one_hot(i * i, 5, int32)(slice(0, 2)); }, xs,
               is);
}

TEST(IndexVmap, ReportsTheIndexOfALane) {
  const auto pick = vmap([](const Tensor& x, const Tensor& i) { return take(x, i); });
  EXPECT_THAT(
      [&] {
        pick(counting({3, 2}), tensor({0, 1, 2}));
      },
      ThrowsMessage<IndexError>(HasSubstr("index 2 is out of range")));
}

}  // namespace
