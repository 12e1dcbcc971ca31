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
/// x, 2 x, ... 33 x, each by an addition to the one before.
std::vector<Tensor> multiples(const Tensor& a) {
  std::vector<Tensor> rows = {a};
  while (rows.size() < 33) rows.push_back(rows.back() + a);
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
  const double all = 33. * 34 * 67 / 6;  // the sum of k^2 for k up to 33
  return {
      {"elements", [](const Tensor& a) { return squares(concat(elements(a, 40))); }, {14, 28, 42, 56, 60, 72}},
      {"elements_in_another_order",
       [](const Tensor& a) { return squares(concat(reversed(elements(a, 40)))); },
       {14, 28, 42, 56, 60, 72}},
      {"one_part_many_times",
       [](const Tensor& a) { return squares(concat(std::vector<Tensor>(40, 2 * a))); },
       {320, 640, 960, 1280, 1600, 1920}},
      {"with_constants",
       [](const Tensor& a) {
         std::vector<Tensor> parts;
         for (const Tensor& part : elements(a, 36)) parts.insert(parts.end(), {tensor({7.}, float64), part});
         return squares(concat(parts));
       },
       {12, 24, 36, 48, 60, 72}},
      {"constants_alone",
       [](const Tensor& a) { return squares(a) + squares(concat(elements(stop_gradient(a), 40))); },
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
         const Tensor before = squares(rows[32]), all_rows = squares(stack(rows)), after = squares(rows[0] + rows[32]);
         return before + all_rows + after;
       },
       {2 * (all + 2245), 4 * (all + 2245), 6 * (all + 2245), 8 * (all + 2245), 10 * (all + 2245),
        12 * (all + 2245)}},  // 33^2 + 34^2 = 2245
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

// A gradient of 33 rows computes the cotangent of a row between the steps of the loop.
TEST(GradOfLongConcatOrder, FewCotangentsWait) {
  const Program program = trace(grad([](const Tensor& a) { return squares(stack(multiples(a))); }))(x);
  std::size_t in_a_row = 0, most = 0, slices = 0;
  for (const Program::Instruction& step : program.instructions) {
    const bool is_slice = step.op == &op_slice;
    slices += is_slice;
    in_a_row = is_slice ? in_a_row + 1 : 0;
    most = std::max(most, in_a_row);
  }
  EXPECT_EQ(slices, 33u) << program;
  EXPECT_LE(most, 2u) << program;
}

}  // namespace grad_concat_test
