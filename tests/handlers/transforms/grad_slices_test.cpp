// Cotangents of slices of one value: those of slices that do not overlap are joined by one concat.
#include <functional>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"
#include "quadratic.h"

namespace grad_slices_test {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3., 4., 5., 6.}, float64);

Tensor part(const Tensor& a, Index first, Index last) { return a(slice(first, last)); }

struct Case {
  std::string name;
  std::function<Tensor(const Tensor&)> f;
  std::vector<double> gradient;  // by hand, at x
  bool is_joined;
};

// Each element x_i that is read as k x_i^2 has the derivative 2 k x_i.
std::vector<Case> cases() {
  const auto squares = [](const Tensor& a) { return sum(a * a); };
  return {
      {"all_elements",
       [](const Tensor& a) {
         Tensor total = zeros({}, float64);
         for (const Tensor& it : unstack(a)) total = total + it * it;
         return total;
       },
       {2, 4, 6, 8, 10, 12},
       true},
      {"in_another_order",
       [=](const Tensor& a) { return squares(part(a, 4, 6)) + squares(part(a, 0, 1)) + squares(part(a, 1, 4)); },
       {2, 4, 6, 8, 10, 12},
       true},
      {"with_gaps",
       [=](const Tensor& a) { return squares(part(a, 1, 2)) + 3 * squares(part(a, 3, 5)); },
       {0, 4, 0, 24, 30, 0},
       true},
      {"the_same_slice_twice",
       [=](const Tensor& a) { return squares(part(a, 0, 3)) + squares(part(a, 3, 6)) + 2 * squares(part(a, 0, 3)); },
       {6, 12, 18, 8, 10, 12},
       true},
      {"overlapping",
       [=](const Tensor& a) { return squares(part(a, 0, 3)) + squares(part(a, 2, 5)) + squares(part(a, 4, 6)); },
       {2, 4, 12, 8, 20, 12},
       false},
      {"one_inside_of_another",
       [=](const Tensor& a) { return squares(part(a, 0, 4)) + squares(part(a, 1, 2)); },
       {2, 8, 6, 8, 0, 0},
       false},
      {"with_the_whole",
       [=](const Tensor& a) { return squares(part(a, 0, 2)) + squares(a) + squares(part(a, 4, 6)); },
       {4, 8, 6, 8, 20, 24},
       false},
      {"empty_slices",
       [=](const Tensor& a) { return squares(part(a, 2, 2)) + squares(part(a, 0, 2)) + squares(part(a, 2, 2)); },
       {2, 4, 0, 0, 0, 0},
       false},
      {"backwards",
       [=](const Tensor& a) { return squares(a(slice(none, none, -2))) + squares(a(slice(0, none, 2))); },
       {2, 4, 6, 8, 10, 12},
       false}};
}

class GradOfSlices : public testing::TestWithParam<Case> {};

TEST_P(GradOfSlices, IsThatByHand) {
  const Case& it = GetParam();
  expect_quadratic_gradient(it.f, x, from(it.gradient, {6}));
}

TEST_P(GradOfSlices, TakesOneConcat) {
  const Case& it = GetParam();
  const Program program = trace(grad(it.f))(x);
  EXPECT_EQ(count(program, op_concat) == 1 && count(program, op_pad) + count(program, op_dynamic_update_slice) == 0,
            it.is_joined)
      << program;
}

INSTANTIATE_TEST_SUITE_P(Slices, GradOfSlices, testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

// The slices of a row lie along the last axis in each lane, and those of a matrix along two axes.
TEST(GradOfColumns, JacobianUnderVmap) {
  const auto f = [](const Tensor& a) {
    const auto [p, q, r] = unstack<3>(a);
    return stack({p * q, q * r});
  };
  const Tensor rows = tensor({{1., 2., 3.}, {4., 5., 6.}}, float64);
  const Tensor expected = tensor({{{2., 1., 0.}, {0., 3., 2.}}, {{5., 4., 0.}, {0., 6., 5.}}}, float64);
  EXPECT_THAT(vmap(jacrev(f))(rows), IsNear(expected, 0));
  EXPECT_THAT(compile(vmap(jacrev(f)))(rows), IsNear(expected, 0));
  const Program program = trace(vmap(jacrev(f)))(rows);
  EXPECT_EQ(count(program, op_pad) + count(program, op_dynamic_update_slice), 0u) << program;
}

TEST(GradOfColumns, SlicesAlongTwoAxes) {
  const auto f = [](const Tensor& a) {
    return sum(a(0) * a(0)) + sum(a(slice(), 1) * a(slice(), 1)) + 5 * a(1, 2) * a(1, 2);
  };
  const Tensor a = tensor({{1., 2., 3.}, {4., 5., 6.}}, float64);
  EXPECT_THAT(grad(f)(a), IsNear(tensor({{2., 8., 6.}, {0., 10., 60.}}, float64), 0));
}

}  // namespace grad_slices_test
