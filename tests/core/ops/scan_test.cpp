// Scans: accuracy, infinities, exact derivatives where factors are 0, long axes and the texts
// of errors. table/rows_scan.cpp tests values and derivatives in every dtype and layout.

#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace scan_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::StartsWith;

using T = const Tensor&;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// ---- values -------------------------------------------------------------------------------------

TEST(CumulativeSum, HasTheOptionsOfTheArrayApi) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_THAT(cumulative_sum(x, 1), Equals(tensor({{1, 3, 6}, {4, 9, 15}})));
  EXPECT_THAT(cumulative_sum(x, 0), Equals(tensor({{1, 2, 3}, {5, 7, 9}})));
  EXPECT_THAT(cumulative_sum(x, -1, {.include_initial = true}), Equals(tensor({{0, 1, 3, 6}, {0, 4, 9, 15}})));
  EXPECT_THAT(cumulative_sum(x, 1, {.reverse = true}), Equals(tensor({{6, 5, 3}, {15, 11, 6}})));
  EXPECT_THAT(cumulative_prod(x, 0, {.include_initial = true, .reverse = true}),
              Equals(tensor({{4, 10, 18}, {4, 5, 6}, {1, 1, 1}})));
  EXPECT_THAT(cumulative_sum(tensor({1, 2, 3})), Equals(tensor({1, 3, 6})));
  EXPECT_THAT(cumulative_prod(tensor({2., 3., 4.})), Equals(tensor({2., 6., 24.})));
}

TEST(CumulativeSum, WidensSmallIntegersAsSumDoes) {
  EXPECT_THAT(cumulative_sum(full({3}, 200, uint8)), Equals(tensor({200, 400, 600}, uint32)));
  EXPECT_THAT(cumulative_sum(tensor({true, false, true})), Equals(tensor({1, 1, 2})));
  EXPECT_THAT(cumulative_prod(tensor({true, false, true})), Equals(tensor({1, 0, 0})));
}

TEST(CumulativeSum, OfFloatsIsAccurate) {
  // A single float32 accumulator would stay at 2^24.
  const Tensor counts = cumulative_sum(ones({1 << 25}));
  EXPECT_EQ(counts(-1).item<float>(), 1 << 25);
  EXPECT_EQ(counts((1 << 24) + 2).item<float>(), (1 << 24) + 4);  // 2^24 + 3, rounded to even
  const Tensor tenths = cumulative_sum(full({1 << 24}, 0.1f));
  EXPECT_NEAR(tenths(-1).item<double>(), 0.1 * (1 << 24), 1e-6 * 0.1 * (1 << 24));
  // The expected sums are calculated by hand.
  const Tensor x = tensor({1e16, 1., 1., -1e16, 1e100, 1., -1e100}, float64);
  EXPECT_THAT(cumulative_sum(x), Equals(tensor({1e16, 1e16, 1e16 + 2, 2., 1e100, 1e100, 3.}, float64)));
  EXPECT_THAT(cumulative_sum(stack({x, x}, 1), 0), Equals(stack({cumulative_sum(x), cumulative_sum(x)}, 1)));
}

TEST(CumulativeSum, FollowsIeeeAfterInfinityAndNan) {
  for (const Dtype dtype : {float32, float64}) {
    EXPECT_THAT(cumulative_sum(tensor({1., inf, 2., -inf, 3.}, dtype)),
                IsNear(tensor({1., inf, inf, nan, nan}, dtype)));
    EXPECT_THAT(cumulative_sum(tensor({1., nan, 2.}, dtype)), IsNear(tensor({1., nan, nan}, dtype)));
  }
  EXPECT_THAT(cumulative_sum(tensor({1e308, 1e308, 1.}, float64)), IsNear(tensor({1e308, inf, inf}, float64)));
}

TEST(CumulativeProd, FollowsIeee) {
  EXPECT_THAT(cumulative_prod(tensor({2., 0., inf, 3.}, float64)), IsNear(tensor({2., 0., nan, nan}, float64)));
}

// The rows are longer than a block. Both directions and strides of every sign are tested.
TEST(Scans, LongAndStridedRowsHaveTheRightSums) {
  constexpr Index n = 5000;
  const Tensor x = arange(n);
  const Tensor sums = astype(square(astype(x, int64)) + x, int64);  // twice the sum 0 + ... + i
  EXPECT_TRUE(array_equal(2 * cumulative_sum(astype(x, int64)), sums));
  const Tensor columns = broadcast_to(expand_dims(astype(x, int64), 1), {n, 700});
  EXPECT_TRUE(array_equal(2 * cumulative_sum(columns, 0)(ellipsis, 699), sums));
  EXPECT_TRUE(array_equal(2 * cumulative_sum(matrix_transpose(columns), 1)(650), sums));
  const Tensor backwards = x(slice(none, none, -1));
  EXPECT_TRUE(array_equal(cumulative_sum(backwards, 0, {.reverse = true}), flip(cumulative_sum(x))));
  EXPECT_TRUE(array_equal(cumulative_sum(x, 0, {.reverse = true}), flip(cumulative_sum(backwards))));
}

// The recurrences are a decaying average and the discounted returns of the rewards 1, 2, 3.
TEST(LinearRecurrence, EqualsStepsComputedByHand) {
  EXPECT_THAT(linear_recurrence(tensor(0.5), 0.5 * tensor({8., 4., 2.}), 0), Equals(tensor({4., 4., 3.})));
  EXPECT_THAT(linear_recurrence(tensor(0.5), tensor({1., 2., 3.}), 0, {.reverse = true}),
              Equals(tensor({2.75, 3.5, 3.})));
  EXPECT_THAT(linear_recurrence(tensor({inf, 2.}), tensor({1., 1.}), 0), Equals(tensor({1., 3.})));
  EXPECT_THAT(linear_recurrence(tensor({1., 0.}), tensor({inf, 1.}), 0), Equals(tensor({inf, 1.})));
}

// ---- derivatives --------------------------------------------------------------------------------

// f = a + ab + abc + abcd.
Tensor sum_of_products(T x) { return sum(cumulative_prod(x)); }

TEST(CumulativeProd, HasExactDerivativesAtZeros) {
  const Tensor x = tensor({2., 0., 3., 0.});
  const Tensor gradient = tensor({1., 8., 0., 0.});
  const Tensor second = tensor({{0., 4., 0., 0.}, {4., 0., 2., 6.}, {0., 2., 0., 0.}, {0., 6., 0., 0.}});
  EXPECT_THAT(grad(sum_of_products)(x), Equals(gradient));
  EXPECT_THAT(jacfwd(sum_of_products)(x), Equals(gradient));
  EXPECT_THAT(hessian(sum_of_products)(x), Equals(second));
  EXPECT_THAT(jacfwd(jacfwd(sum_of_products))(x), Equals(second));
  EXPECT_THAT(jacrev(grad(sum_of_products))(x), Equals(second));
}

// d^3 f / (da db dc) = 1 + d.
TEST(CumulativeProd, HasThirdDerivatives) {
  const auto third = jacfwd(hessian(sum_of_products))(zeros({4}));
  EXPECT_EQ(third(0, 1, 2).item<float>(), 1);
  EXPECT_EQ(third(2, 0, 1).item<float>(), 1);
  EXPECT_EQ(third(0, 0, 1).item<float>(), 0);
}

TEST(CumulativeProd, ZeroTangentsLeakNoNan) {
  const Tensor x = tensor({1., inf, 2.}), only_last = tensor({0., 0., 1.});
  EXPECT_THAT(jvp([](T t) { return cumulative_prod(t); }, x, only_last).second, Equals(tensor({0., 0., inf})));
  const auto first = [](T t) { return cumulative_prod(t)(0); };
  EXPECT_THAT(grad(first)(x), Equals(tensor({1., 0., 0.})));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Scans, ErrorsNameFunctionAndCause) {
  const Tensor m = ones({2, 3});
  EXPECT_EQ(message_of<ShapeError>([&] { cumulative_sum(m); }),
            "cumulative_sum: x has shape [2,3]: say along which axis");
  EXPECT_EQ(message_of<IndexError>([&] { cumulative_prod(m, 2); }),
            "cumulative_prod: axis 2 is out of range for rank 2");
  EXPECT_EQ(message_of<IndexError>([] { cumulative_sum(tensor(1.), 0); }),
            "cumulative_sum: axis 0 is out of range for rank 0");
  EXPECT_THAT(message_of<ShapeError>([&] { linear_recurrence(m, ones({2}), 0); }),
              StartsWith("linear_recurrence: shapes [2,3] and [2] do not broadcast"));
  const auto attributes = make_intrusive<ScanAttributes>(0, false);
  EXPECT_EQ(message_of<DtypeError>([&] { apply(op_cumulative_sum, {tensor({true})}, attributes); }),
            "cumulative_sum: bool has no sums and products: convert it to an integer dtype with astype");
  EXPECT_EQ(message_of<ShapeError>([&] {
              apply(op_linear_recurrence, {m, ones({3})}, attributes);
            }),
            "linear_recurrence: a is float32 [2,3], b is float32 [3]: they must be equal");
}

}  // namespace scan_test
