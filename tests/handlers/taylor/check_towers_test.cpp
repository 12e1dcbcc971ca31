// check_op says whether Taylor series through an operation take exponentially many operations, and
// a rule for series is the remedy.
#include <cmath>

#include <stave/core/op/define.h>
#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/transforms/check_op.h>

#include "matchers.h"

namespace {

using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

void infer_same(const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); }
void exponential(const Attributes*, std::span<const View> in, std::span<const View> out) {
  const auto x = elements<const double>(in[0]);
  const auto y = elements<double>(out[0]);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::exp(x[i]);
}
Tensor vjp_rule(const VjpContext& c, int) { return c.ct() * exp(c.in(0)); }

// exp(x)' = exp(x / 3) exp(2 x / 3): true, but the rule performs the operation twice, elsewhere.
extern const Op op_branching;
Outputs branching_rule(const JvpContext& c) {
  const Tensor third = apply(op_branching, {c.in(0) / 3.}), rest = apply(op_branching, {c.in(0) * (2. / 3.)});
  return third * rest * c.tangents[0];
}
const Op op_branching = define_op({
    .name = "branching",
    .infer = infer_same,
    .jvp = branching_rule,
    .vjp = vjp_rule,
    .batch = batch_elementwise,
    .cpu = exponential,
});

// The same value, with the result in the rule.
const Op op_straight = define_op({
    .name = "straight",
    .infer = infer_same,
    .jvp = [](const JvpContext& c) -> Outputs { return c.out() * c.tangents[0]; },
    .vjp = vjp_rule,
    .batch = batch_elementwise,
    .cpu = exponential,
});

// The same as op_branching, with a rule for series: k y_k = sum_j j x_j y_(k-j).
const Op op_with_series = define_op({
    .name = "with_series",
    .infer = infer_same,
    .jvp = branching_rule,
    .series = [](const SeriesContext& c) -> Outputs {
      Tensor sum;
      for (int j = 1; j <= c.order; ++j)
        if (const Tensor x = c.in(0, j), y = c.out(c.order - j); x.defined() && y.defined()) {
          const Tensor term = x * y * (static_cast<double>(j) / c.order);
          sum = sum.defined() ? sum + term : term;
        }
      return sum;
    },
    .vjp = vjp_rule,
    .batch = batch_elementwise,
    .cpu = exponential,
});

const std::vector<OpCase> cases = {{.inputs = {tensor({0.3, -0.7}, float64)}}};

TEST(CheckOp, SaysThatARuleGrowsExponentiallyInTaylorMode) {
  EXPECT_NO_THROW(check_op(op_straight, cases));
  EXPECT_THAT(message_of<TransformError>([] { check_op(op_branching, cases); }),
              AllOf(HasSubstr("check_op: branching: case 0: Taylor series"), HasSubstr("exponentially"),
                    HasSubstr("Op::series")));
  EXPECT_NO_THROW(check_op(op_with_series, cases));
}

TEST(Taylor, UsesTheRecordsRuleForSeries) {
  const auto f = [](const Tensor& x) { return apply(op_with_series, {sin(x)}); };
  const Tensor x = tensor(0.3, float64), one = tensor(1., float64);
  const std::vector<Tensor> found = taylor(f, 12)(x, one);
  const std::vector<Tensor> expected = taylor([](const Tensor& u) { return exp(sin(u)); }, 12)(x, one);
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], 1e-13)) << k;
}

const Op op_wrong_series = define_op({
    .name = "wrong_series",
    .infer = infer_same,
    .series = [](const SeriesContext&) -> Outputs { return {}; },
    .cpu = exponential,
});
TEST(Taylor, RefusesASeriesRuleWithoutResults) {
  EXPECT_THAT(message_of<TransformError>([] {
                taylor([](const Tensor& u) { return apply(op_wrong_series, {u}); }, 2)(tensor(0.3, float64),
                                                                                       tensor(1., float64));
              }),
              HasSubstr("the series rule of wrong_series gave 0 coefficients for 1 outputs"));
}

}  // namespace
