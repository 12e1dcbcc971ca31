// Contractions: values against loops on the host, operands that are read in place, errors, and vmap
// against a loop over lanes.

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/storage.h>
#include <stave/handlers/transforms/vmap.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::Each;
using testing::ElementsAre;
using testing::ThrowsMessage;

namespace {

// Small integers, which every dtype multiplies exactly.
Tensor sample(const Shape& shape, Dtype dtype = float32) {
  return astype(reshape(arange(shape.elements()) * 7 % 11 - 4, shape), dtype);
}
Tensor naturals(const Shape& shape, Dtype dtype) {
  return astype(reshape(arange(shape.elements()) * 7 % 5, shape), dtype);
}

// Returns [m, k] x [k, n] by three loops.
std::vector<double> product(const Tensor& a, const Tensor& b) {
  const Index m = a.shape(0), k = a.shape(1), n = b.shape(1);
  const std::vector<double> left = values(a), right = values(b);
  std::vector<double> result;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index l = 0; l < k; ++l)
        sum += left[static_cast<std::size_t>(i * k + l)] * right[static_cast<std::size_t>(l * n + j)];
      result.push_back(sum);
    }
  return result;
}

TEST(Matmul, EqualsThreeLoopsForManySizes) {
  for (Index m : {1, 2, 3, 17, 70})
    for (Index k : {1, 2, 5, 16, 65})
      for (Index n : {1, 2, 7, 33}) {
        const Tensor a = sample({m, k}), b = sample({k, n});
        const Tensor c = matmul(a, b);
        EXPECT_EQ(c.shape(), Shape(m, n));
        EXPECT_EQ(values(c), product(a, b)) << m << " " << k << " " << n;
      }
}

// Products of dense rows with a vector, of every remainder of rows and of terms; long ones are
// computed in pieces and on several threads. Sums of these integers are exact.
TEST(Matmul, MultipliesRowsByAVector) {
  for (const Dtype dtype : {float32, float64})
    for (Index rows : {2, 3, 4, 5, 67, 300})
      for (Index terms : {2, 15, 16, 17, 63, 1000, 5003, 40001}) {
        const Tensor wide = sample({rows, terms + 3}, dtype), a = wide(slice(), slice(1, terms + 1)),
                     x = sample({terms, 1}, dtype);
        const std::vector<double> expected = product(contiguous(a), x);
        EXPECT_EQ(values(matmul(a, x)), expected) << dtype << " " << rows << " " << terms;
        EXPECT_EQ(values(matmul(transpose(x), transpose(a))), expected) << dtype << " " << rows << " " << terms;
        EXPECT_EQ(values(matmul(contiguous(a), x(slice(), 0))), expected) << dtype << " " << rows << " " << terms;
        const Tensor apart = repeat(x, 2, 1)(slice(), slice(1));  // a vector that is not dense
        EXPECT_EQ(values(matmul(a, apart)), expected) << dtype << " " << rows << " " << terms;
      }
}

TEST(Matmul, SupportsEveryDtype) {
  for (Dtype dtype : {uint8, uint32, int32, int64, float32, float64}) {
    const Tensor a = naturals({3, 4}, dtype), b = naturals({4, 5}, dtype);
    EXPECT_EQ(matmul(a, b).dtype(), dtype);
    EXPECT_EQ(values(matmul(a, b)), product(a, b)) << name_of(dtype);
  }
  EXPECT_EQ(matmul(sample({2, 2}), sample({2, 2}, float64)).dtype(), float64);
  EXPECT_EQ(matmul(sample({2, 2}, int64), sample({2, 2})).dtype(), float32);
  // Integers wrap around.
  EXPECT_EQ(matmul(tensor({{1 << 20}}), tensor({{1 << 20}})).item<int>(), 0);
  EXPECT_THAT(matmul(ones({2, 2}, bool_), ones({2, 2}, bool_)), Equals(full({2, 2}, 2, int32)));
}

TEST(Matmul, ReadsViewsInPlace) {
  const Tensor a = sample({40, 30}), b = sample({40, 50});
  const auto expect_product = [](const Tensor& x, const Tensor& y) {
    const std::vector<double> expected = product(x, y);
    const std::size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    const Tensor c = matmul(x, y);
    EXPECT_LE(memory_stats().peak_bytes - before, static_cast<std::size_t>(c.size()) * sizeof(float));
    EXPECT_EQ(values(c), expected);
  };
  expect_product(transpose(a), b);
  expect_product(transpose(b), a);
  expect_product(transpose(b(slice(), slice(10, 40))), a);  // rows with gaps
  expect_product(transpose(a)(slice(3, 20)), b(slice(), slice(0, 30)));
  expect_product(contiguous(transpose(a)), transpose(contiguous(transpose(b))));
}

TEST(Matmul, AcceptsAnyStrides) {
  const Tensor a = sample({8, 12}), b = sample({12, 10});
  EXPECT_EQ(values(matmul(flip(a), b)), product(flip(a), b));
  EXPECT_EQ(values(matmul(a(slice(none, none, 2), slice(none, none, 3)), b(slice(4)))),
            product(a(slice(none, none, 2), slice(none, none, 3)), b(slice(4))));
  EXPECT_EQ(values(matmul(broadcast_to(a(0), {3, 12}), b)), product(broadcast_to(a(0), {3, 12}), b));
  EXPECT_EQ(values(matmul(a, broadcast_to(b(slice(), slice(0, 1)), {12, 4}))),
            product(a, broadcast_to(b(slice(), slice(0, 1)), {12, 4})));
}

// Sums of few terms have a kernel of their own, and larger ones BLAS.
TEST(Matmul, SumsOfFewTermsAreRightInEveryLayout) {
  for (const Dtype dtype : {float32, float64})
    for (const Index m : {2, 3, 65, 70})
      for (const Index k : {2, 7, 8, 9})
        for (const Index n : {2, 15, 17, 33, 1100}) {
          const Tensor a = sample({m, k}, dtype), b = sample({k, n}, dtype);
          const std::vector<double> expected = product(a, b);
          const Tensor columns = matrix_transpose(contiguous(matrix_transpose(b)));
          for (const Tensor& left : {a, matrix_transpose(contiguous(matrix_transpose(a))), flip(contiguous(flip(a)))})
            for (const Tensor& right : {b, columns, flip(contiguous(flip(b)))})
              EXPECT_EQ(values(matmul(left, right)), expected) << dtype << m << " " << k << " " << n;
        }
}

TEST(Matmul, AcceptsVectors) {
  const Tensor a = sample({3, 4}), v = sample({4}), w = sample({3});
  EXPECT_EQ(matmul(a, v).shape(), Shape(3));
  EXPECT_EQ(values(matmul(a, v)), product(a, expand_dims(v, 1)));
  EXPECT_EQ(matmul(w, a).shape(), Shape(4));
  EXPECT_EQ(values(matmul(w, a)), product(expand_dims(w, 0), a));
  EXPECT_EQ(matmul(v, v).shape(), Shape());
  EXPECT_EQ(matmul(v, v).item<float>(), sum(v * v).item<float>());
  EXPECT_EQ(matmul(v, sample({2, 5, 4, 3})).shape(), Shape(2, 5, 3));
  EXPECT_EQ(matmul(sample({2, 5, 3, 4}), v).shape(), Shape(2, 5, 3));
}

// Stacks of matrices, whose leading axes broadcast.
TEST(Matmul, BroadcastsStacksOfMatrices) {
  const auto expect_stacks = [](const Tensor& a, const Tensor& b) {
    const Tensor c = matmul(a, b);
    Shape batch = c.shape();
    batch.resize(batch.size() - 2);
    const auto flat = [&](const Tensor& x) {
      Shape shape = batch;
      shape.append(x.shape().end() - 2, x.shape().end());
      return reshape(broadcast_to(x, shape), {batch.elements(), x.shape(-2), x.shape(-1)});
    };
    const Tensor lefts = flat(a), rights = flat(b), results = flat(c);
    for (Index i = 0; i < batch.elements(); ++i) EXPECT_EQ(values(results[i]), product(lefts[i], rights[i]));
    return c.shape();
  };
  EXPECT_EQ(expect_stacks(sample({5, 2, 3}), sample({5, 3, 4})), Shape(5, 2, 4));
  EXPECT_EQ(expect_stacks(sample({5, 2, 3}), sample({3, 4})), Shape(5, 2, 4));
  EXPECT_EQ(expect_stacks(matrix_transpose(sample({5, 3, 2})), sample({3, 4})), Shape(5, 2, 4));
  EXPECT_EQ(expect_stacks(sample({2, 3}), sample({5, 3, 4})), Shape(5, 2, 4));
  EXPECT_EQ(expect_stacks(sample({2, 3}), sample({5, 3, 1})), Shape(5, 2, 1));
  EXPECT_EQ(expect_stacks(sample({2, 3}), matrix_transpose(sample({5, 4, 3}))), Shape(5, 2, 4));
  EXPECT_EQ(expect_stacks(sample({6, 1, 2, 3}), sample({5, 3, 4})), Shape(6, 5, 2, 4));
  EXPECT_EQ(expect_stacks(sample({2, 5, 2, 3}), sample({2, 1, 3, 4})), Shape(2, 5, 2, 4));
  EXPECT_EQ(expect_stacks(moveaxis(sample({2, 3, 5}), -1, 0), flip(sample({5, 3, 4}))), Shape(5, 2, 4));
}

// One matrix times many matrices of few columns, several of which are multiplied at a time: in
// groups that are not all full, with some rows at a time, and with b in any layout.
TEST(Matmul, MultipliesOneMatrixByManyNarrowOnes) {
  const auto check = [](const Tensor& a, const Tensor& b) {
    const Tensor c = matmul(a, b);
    ASSERT_EQ(c.shape(), Shape(b.shape(0), a.shape(0), b.shape(2)));
    EXPECT_TRUE(c.is_contiguous());
    for (Index i = 0; i < b.shape(0); ++i)
      EXPECT_EQ(values(c[i]), product(a, b[i])) << a.shape() << " " << b.shape() << " " << i;
  };
  for (const Dtype dtype : {float32, float64})
    for (const Index lanes : {7, 37, 150})
      for (const Index n : {1, 2, 3, 8})
        for (const auto& [m, k] : std::vector<std::pair<Index, Index>>{{2, 3}, {9, 16}, {70, 5}, {65, 33}, {300, 64}}) {
          const Tensor a = sample({m, k}, dtype);
          check(a, sample({lanes, k, n}, dtype));
          check(matrix_transpose(contiguous(matrix_transpose(a))), sample({lanes, k, n}, dtype));
          if (lanes > 37) continue;
          check(a, permute_dims(sample({k, n, lanes}, dtype), {2, 0, 1}));
          check(a, permute_dims(sample({k, lanes, n}, dtype), {1, 0, 2}));
          check(a, sample({lanes, 2 * k, n + 1}, dtype)(slice(), slice(none, none, -2), slice(0, n)));
        }
}

TEST(Matmul, MultipliesNarrowMatricesInSeveralBatches) {
  const Tensor a = sample({3, 1, 20, 24}, float64), b = sample({3, 17, 24, 2}, float64), c = matmul(a, b);
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 17; ++j) EXPECT_EQ(values(c[i][j]), product(a[i][0], b[i][j]));
}

// Machine code computes tiny products one by one, and must find the same bits.
TEST(Matmul, TinyNarrowProductsHaveTheBitsOfEachAlone) {
  for (const Dtype dtype : {float32, float64})
    for (const auto& [m, k, n] : std::vector<std::array<Index, 3>>{{3, 3, 2}, {64, 16, 2}, {5, 11, 3}, {4, 16, 1}}) {
      const Tensor a = astype(sin(sample({m, k}, float64)), dtype), b = astype(cos(sample({40, k, n}, float64)), dtype);
      const Tensor c = matmul(a, b);
      for (Index i = 0; i < 40; ++i) EXPECT_EQ(values(c[i]), values(matmul(a, b[i])));
    }
}

TEST(Matmul, AcceptsEmptyOperands) {
  EXPECT_THAT(values(matmul(zeros({2, 0}), zeros({0, 3}))), Each(0));
  EXPECT_EQ(matmul(zeros({2, 0}), zeros({0, 3})).shape(), Shape(2, 3));
  EXPECT_EQ(matmul(zeros({0, 4}), zeros({4, 3})).shape(), Shape(0, 3));
  EXPECT_EQ(matmul(zeros({0, 2, 4}), zeros({4, 3})).shape(), Shape(0, 2, 3));
  EXPECT_EQ(matmul(zeros({5, 2, 0}), zeros({0, 3})).shape(), Shape(5, 2, 3));
  EXPECT_EQ(matmul(zeros({2, 0}), zeros({5, 0, 3})).shape(), Shape(5, 2, 3));
  EXPECT_EQ(matmul(zeros({0}), zeros({0})).item<float>(), 0);
}

TEST(Matmul, MultipliesSeveralOperands) {
  const Tensor a = tensor({{1., 2.}, {3., 4.}}), b = tensor({{0., 1.}, {1., 0.}}), v = tensor({1., 10.});
  EXPECT_THAT(matmul(a, b, v), Equals(tensor({12., 34.})));
  EXPECT_THAT(matmul(v, a, b, v), Equals(tensor(352.)));
}

// The error of long sums in every layout, relative to the exact sum of products of numbers in [0,
// 1).
TEST(Matmul, LongSumsAreAccurateInEveryLayout) {
  const Index n = 400'009;
  const Tensor x = uniform(Key(1), {n, 2}), y = uniform(Key(2), {2, n}), v = uniform(Key(3), {n});
  const auto close = [](const Tensor& a, const Tensor& b) {
    const Tensor exact = matmul(astype(a, float64), astype(b, float64));
    const Tensor error = abs(astype(matmul(a, b), float64) - exact) / exact;
    EXPECT_LT(max(error).item<double>(), 1e-6) << a.shape() << a.strides() << b.shape() << b.strides();
  };
  const std::vector<Tensor> vectors{v, x(slice(), 0), y(1), flip(v), broadcast_to(v[0], {n}), transpose(y)(slice(), 1)};
  for (const Tensor& a : vectors)
    for (const Tensor& b : vectors) close(a, b);
  for (const Tensor& a : {transpose(x), y, flip(y, 1), y(slice(0, 1))})
    for (const Tensor& b : {x, transpose(y), x(slice(), slice(1, 2)), flip(x, 0)}) close(a, b);
  for (const Tensor& b : vectors) {
    close(transpose(x), b);
    close(y, b);
    close(b, x);
    close(b, transpose(y));
  }
  const Tensor ones64 = broadcast_to(full({1}, 0.1, float64), {n});
  EXPECT_NEAR(matmul(ones64, ones64).item<double>() / (static_cast<double>(n) * (0.1 * 0.1)), 1, 1e-13);
}

TEST(Matmul, FollowsIeee) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(isnan(matmul(tensor({0., 1.}), tensor({inf, 1.}))).item<bool>());
}

TEST(Matmul, Errors) {
  EXPECT_THAT(
      [] {
        matmul(zeros({2, 3}), zeros({4, 5}));
      },
      ThrowsMessage<ShapeError>("matmul: shapes [2,3] and [4,5] do not fit: the last length of the left, 3, must "
                                "equal the second last of the right, 4"));
  EXPECT_THAT(
      [] {
        matmul(zeros({2, 3}), zeros({2}));
      },
      ThrowsMessage<ShapeError>("matmul: shapes [2,3] and [2] do not fit: the last length of the left, 3, must "
                                "equal the only one of the right, 2"));
  EXPECT_THAT([] { matmul(zeros({2}), tensor(1.)); },
              ThrowsMessage<ShapeError>(
                  "matmul: shapes [2] and []: an operand of rank 0 has no axis to sum over: use multiply"));
  EXPECT_THAT(
      [] {
        matmul(zeros({2, 3, 3}), zeros({4, 3, 3}));
      },
      ThrowsMessage<ShapeError>(testing::HasSubstr("matmul: shapes [2] and [4] do not broadcast")));
}

TEST(Tensordot, SumsOverPairsOfAxes) {
  const Tensor a = sample({2, 3, 4}), b = sample({3, 4, 5});
  EXPECT_EQ(tensordot(a, b).shape(), Shape(2, 5));
  EXPECT_EQ(values(tensordot(a, b)), product(reshape(a, {2, 12}), reshape(b, {12, 5})));
  EXPECT_EQ(tensordot(a, b[0], 1).shape(), Shape(2, 3, 5));
  EXPECT_EQ(tensordot(a, b, 0).shape(), Shape(2, 3, 4, 3, 4, 5));
  EXPECT_EQ(values(tensordot(a, b, {1, 2}, {0, 1})), values(tensordot(a, b)));
  EXPECT_EQ(values(tensordot(a, b, {-1, 1}, {1, 0})), values(tensordot(a, b)));
  EXPECT_EQ(values(tensordot(b, a, {0, 1}, {1, 2})), values(transpose(tensordot(a, b))));
  EXPECT_THAT(
      [&] { tensordot(a, b, {0}, {0}); },
      ThrowsMessage<ShapeError>("tensordot: axes [0] of shape [2,3,4] and axes [0] of shape [3,4,5] differ in length"));
  EXPECT_THAT([&] { tensordot(a, b, {0}, {}); },
              ThrowsMessage<ShapeError>(
                  "tensordot: 1 axes of the left operand cannot be paired with 0 axes of the right operand"));
  EXPECT_THAT([&] { tensordot(a, b[0], 3); },
              ThrowsMessage<ShapeError>("tensordot: shapes [2,3,4] and [4,5] do not both have 3 axes"));
}

TEST(Outer, MultipliesAllPairs) {
  EXPECT_THAT(values(outer(tensor({1, 2}), tensor({3, 4, 5}))), ElementsAre(3, 4, 5, 6, 8, 10));
  EXPECT_EQ(outer(sample({2, 3}), sample({4})).shape(), Shape(6, 4));
}

// ---- under vmap, against a loop over the lanes --------------------------------------------------

using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

void expect_lanes(const Binary& f, const Tensor& as, const Tensor& bs) {
  std::vector<Tensor> both, first, second, pairs;
  for (int lane = 0; lane < 3; ++lane) {
    both.push_back(f(as[lane], bs[lane]));
    first.push_back(f(as[lane], bs[0]));
    second.push_back(f(as[0], bs[lane]));
    std::vector<Tensor> row;
    for (int inner = 0; inner < 3; ++inner) row.push_back(f(as[lane], bs[inner]));
    pairs.push_back(stack(row));
  }
  EXPECT_EQ(values(vmap(f)(as, bs)), values(stack(both)));
  EXPECT_EQ(values(vmap(f, {.in_axes = {-1, 1}})(moveaxis(as, 0, -1), moveaxis(bs, 0, 1))), values(stack(both)));
  EXPECT_EQ(values(vmap(f, {.in_axes = {0, unmapped}})(as, bs[0])), values(stack(first)));
  EXPECT_EQ(values(vmap(f, {.in_axes = {unmapped, 0}})(as[0], bs)), values(stack(second)));
  const auto against_all = [&](const Tensor& a) { return vmap([&](const Tensor& b) { return f(a, b); })(bs); };
  EXPECT_EQ(values(vmap(against_all)(as)), values(stack(pairs)));
}

// Sizes that are not multiples of a block, in many layouts, and more terms than one block sums.
TEST(Matmul, IsNearTheFloat64ProductInManyLayouts) {
  for (const Dtype dtype : {float32, float16, bfloat16}) {
    const Tensor a = astype(sin(sample({2, 147, 611})), dtype), b = astype(cos(sample({2, 611, 83})), dtype);
    const auto expect_near = [&](const Tensor& x, const Tensor& y) {
      const double tolerance = dtype == float32 ? 1e-5 : dtype == float16 ? 0x1p-11 : 0x1p-8;
      EXPECT_THAT(matmul(x, y), IsNear(astype(matmul(astype(x, float64), astype(y, float64)), dtype), tolerance));
    };
    expect_near(a, b);
    expect_near(a[0], b);
    expect_near(matrix_transpose(b), matrix_transpose(a));
    expect_near(a(ellipsis, slice(0, 610, 3)), b(ellipsis, slice(0, 204), slice()));
    expect_near(a(ellipsis, slice(3, 16), slice(0, 9)), b(ellipsis, slice(2, 11), slice(1, 20)));
    expect_near(ones({1, 1 << 15}, dtype), ones({1 << 15, 1}, dtype));
    expect_near(ones({16, 1 << 13}, dtype) / 8, ones({1 << 13, 16}, dtype));
  }
}

TEST(ContractVmap, EqualsALoop) {
  const Binary product_of = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  expect_lanes(product_of, sample({3, 2, 5}), sample({3, 5, 4}));
  expect_lanes(product_of, sample({3, 5}), sample({3, 5, 4}));
  expect_lanes(product_of, sample({3, 2, 5}), sample({3, 5}));
  expect_lanes(product_of, sample({3, 5}), sample({3, 5}));
  expect_lanes(product_of, sample({3, 6, 2, 5}), sample({3, 5, 4}));
  expect_lanes(product_of, sample({3, 2, 5}), sample({3, 6, 5, 4}));
  expect_lanes(product_of, sample({3, 6, 2, 5}), sample({3, 6, 5, 4}));
  expect_lanes([](const Tensor& a, const Tensor& b) { return matmul(transpose(a), b); }, sample({3, 5, 2}),
               sample({3, 5, 4}));
  expect_lanes([](const Tensor& a, const Tensor& b) { return matmul(a, transpose(b)); }, sample({3, 2, 5}),
               sample({3, 4, 5}));
  expect_lanes([](const Tensor& a, const Tensor& b) { return tensordot(a, b, {0}, {1}); }, sample({3, 5, 2}),
               sample({3, 4, 5}));
  expect_lanes([](const Tensor& a, const Tensor& b) { return outer(a, b); }, sample({3, 2}), sample({3, 4}));
}

}  // namespace
