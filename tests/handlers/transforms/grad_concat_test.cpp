// Cotangents of the inputs of a long concat. They are computed one after the other, as the backward
// pass comes to their entries.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"
#include "quadratic.h"

namespace grad_concat_test {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3., 4., 5., 6.}, float64);

Tensor squares(const Tensor& a) { return sum(a * a); }

/// The elements of x in turn, as arrays of one element.
std::vector<Tensor> elements(const Tensor& a, Index count) {
  std::vector<Tensor> parts;
  for (Index k = 0; k < count; ++k) parts.push_back(a(slice(k % 6, k % 6 + 1)));
  return parts;
}
/// x, 2 x, ... 2000 x, each by an addition to the one before.
std::vector<Tensor> multiples(const Tensor& a) {
  std::vector<Tensor> rows = {a};
  while (rows.size() < 2000) rows.push_back(rows.back() + a);
  return rows;
}
template <class T>
T reversed(T parts) {
  std::reverse(parts.begin(), parts.end());
  return parts;
}

struct Case {
  std::string name;
  std::function<Tensor(const Tensor&)> f;
  std::vector<double> gradient;  // by hand, at x
};

// Each element x_i that is read as k x_i^2 has the derivative 2 k x_i.
std::vector<Case> cases() {
  const double all = 2000. * 2001 * 4001 / 6;  // the sum of k^2 for k up to 2000
  return {
      {"elements",
       [](const Tensor& a) { return squares(concat(elements(a, 3000))); },
       {1000, 2000, 3000, 4000, 5000, 6000}},
      {"elements_in_another_order",
       [](const Tensor& a) { return squares(concat(reversed(elements(a, 3000)))); },
       {1000, 2000, 3000, 4000, 5000, 6000}},
      {"one_part_many_times",
       [](const Tensor& a) { return squares(concat(std::vector<Tensor>(3000, 2 * a))); },
       {24000, 48000, 72000, 96000, 120000, 144000}},
      {"with_constants",
       [](const Tensor& a) {
         std::vector<Tensor> parts;
         for (const Tensor& part : elements(a, 3000)) parts.insert(parts.end(), {tensor({7.}, float64), part});
         return squares(concat(parts));
       },
       {1000, 2000, 3000, 4000, 5000, 6000}},
      {"constants_alone",
       [](const Tensor& a) { return squares(a) + squares(concat(elements(stop_gradient(a), 3000))); },
       {2, 4, 6, 8, 10, 12}},
      {"rows_of_a_loop",
       [](const Tensor& a) { return squares(stack(multiples(a))); },
       {2 * all, 4 * all, 6 * all, 8 * all, 10 * all, 12 * all}},
      {"columns_of_a_loop",
       [](const Tensor& a) { return squares(stack(multiples(a), 1)); },
       {2 * all, 4 * all, 6 * all, 8 * all, 10 * all, 12 * all}},
      {"rows_in_two_orders",
       [](const Tensor& a) {
         const std::vector<Tensor> rows = multiples(a);
         return squares(stack(rows)) + squares(stack(reversed(rows)));
       },
       {4 * all, 8 * all, 12 * all, 16 * all, 20 * all, 24 * all}},
      {"rows_that_are_used_before_and_after",
       [](const Tensor& a) {
         const std::vector<Tensor> rows = multiples(a);
         const Tensor before = squares(rows[1999]), all_rows = squares(stack(rows)),
                      after = squares(rows[0] + rows[1999]);
         return before + all_rows + after;
       },
       {2 * (all + 8004001), 4 * (all + 8004001), 6 * (all + 8004001), 8 * (all + 8004001), 10 * (all + 8004001),
        12 * (all + 8004001)}},  // 2000^2 + 2001^2 = 8004001
      {"concats_of_concats",
       [](const Tensor& a) {
         std::vector<Tensor> parts;
         for (int k = 0; k < 36; ++k) parts.push_back(concat(elements(a, 36)));
         return squares(concat(parts));
       },
       {432, 864, 1296, 1728, 2160, 2592}},
  };
}

class GradOfLongConcat : public testing::TestWithParam<Case> {};

TEST_P(GradOfLongConcat, IsThatByHand) {
  const Case& it = GetParam();
  expect_quadratic_gradient(it.f, x, from(it.gradient, {6}));
}

INSTANTIATE_TEST_SUITE_P(Parts, GradOfLongConcat, testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

// A gradient of many rows computes the cotangent of a row between the steps of the loop, at most 64
// operations ahead.
TEST(GradOfLongConcatOrder, FewCotangentsWait) {
  const Program program = trace(grad([](const Tensor& a) { return squares(stack(multiples(a))); }))(x);
  std::size_t in_a_row = 0, most = 0, slices = 0;
  for (const Program::Instruction& step : program.instructions) {
    const bool is_slice = step.op == &op_slice;
    slices += is_slice;
    in_a_row = is_slice ? in_a_row + 1 : 0;
    most = std::max(most, in_a_row);
  }
  EXPECT_EQ(slices, 2000u);
  EXPECT_LE(most, 66u);
}

// Concats of values that were computed long before add to the sums of those at once.
TEST(GradOfLongConcatOrder, ManyConcatsOfEarlyValuesTakeLittleMemory) {
  const auto f = [](const Tensor& a) {
    std::vector<Tensor> parts;
    for (int k = 0; k < 40; ++k) parts.push_back(a(k) * 2.);
    Tensor total = sum(parts[0]);
    for (int i = 0; i < 300; ++i) total = total + sum(stack(parts) * 3.);
    return total;
  };
  const Tensor a = ones({40, 1000}, float64);
  const std::size_t before = memory_stats().live_bytes;
  reset_peak_memory();
  const Tensor slope = grad(f)(a);
  EXPECT_LT(memory_stats().peak_bytes - before, 8u << 20);  // a stack has 320 KB
  EXPECT_THAT(slope(39), IsNear(full({1000}, 1800., float64), 0));
}

// A row's cotangent is the first of the sum, as in a recorded loop, so the bits are equal.
TEST(GradOfLongConcatOrder, IsThatOfARecordedLoop) {
  const auto step = [](const Tensor& h, const Tensor& row) {
    const Tensor y = exp(row), z = 1.1 * row;
    return std::pair(0.9 * h + y * z - y / 3, std::tuple(y, z * y));
  };
  const auto loss = [=](const Tensor& h, const Tensor& rows) {
    const auto [last, ys] = scan(step)(h, rows);
    const auto& [a, b] = ys;
    return sum(sin(a) * b) + sum(square(b)) + sum(last);
  };
  const Tensor rows = normal(Key(3), {1000, 4}, float64);
  const auto [by_h, by_rows] = grad<0, 1>(loss)(ones({4}, float64), rows);
  const auto [compiled_by_h, compiled_by_rows] = compile(grad<0, 1>(loss))(ones({4}, float64), rows);
  EXPECT_THAT(by_h, Is(compiled_by_h));
  EXPECT_THAT(by_rows, Is(compiled_by_rows));
}

}  // namespace grad_concat_test
