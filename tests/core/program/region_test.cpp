// Regions and their builder: steps, merged repetitions, and text.
#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;

TEST(RegionBuilder, InputsAreAddedBetweenSteps) {
  stave_detail::RegionBuilder builder(stave_detail::Repetitions::kept);
  const int x = builder.input(float32), square = builder.add(op_square, {{x}}, float32);
  const int y = builder.input(int32), half = builder.number(0.5, float32);
  const int sum = builder.add(op_add, {{square, builder.add(op_astype, {{y}}, float32)}}, float32);
  const int total = builder.reduce(op_sum, builder.add(op_multiply, {{sum, half}}, float32), {-1}, false);
  EXPECT_EQ(builder.input_index(x), 0);
  EXPECT_EQ(builder.input_index(y), 1);
  EXPECT_EQ(builder.input_index(sum), -1);
  EXPECT_EQ(builder.dtype(y), int32);
  const RegionPtr region = builder.region({{sum, y, total}});
  EXPECT_EQ(region->inputs(), (std::vector{float32, int32}));
  const Outputs found = fused(region, {tensor({1.f, 2.f, 3.f}), tensor({10, 20, 30})});
  EXPECT_THAT(found[0], IsNear(tensor({11.f, 24.f, 39.f}), 0));
  EXPECT_THAT(found[1].to_vector<int>(), testing::ElementsAre(10, 20, 30));
  EXPECT_THAT(found[2], IsNear(tensor(37.f), 0));
  EXPECT_EQ(builder.region({{square}})->steps().size(), 1u) << "a second region, with other outputs";
}

TEST(RegionBuilder, MergesRepeatedStepsOnRequest) {
  using stave_detail::Repetitions;
  for (const Repetitions repetitions : {Repetitions::kept, Repetitions::merged}) {
    const bool merges = repetitions == Repetitions::merged;
    stave_detail::RegionBuilder builder(repetitions);
    const int x = builder.input(float32), y = builder.input(float32);
    const int first = builder.add(op_multiply, {{x, y}}, float32);
    EXPECT_EQ(builder.add(op_multiply, {{x, y}}, float32) == first, merges);
    EXPECT_NE(builder.add(op_multiply, {{y, x}}, float32), first);
    EXPECT_NE(builder.add(op_add, {{x, y}}, float32), first);
    EXPECT_EQ(builder.add(op_astype, {{x}}, int32) == builder.add(op_astype, {{x}}, int32), merges);
    EXPECT_NE(builder.add(op_astype, {{x}}, int32), builder.add(op_astype, {{x}}, int64));
  }
}

TEST(RegionBuilder, NumbersWithEqualBitsAreOneValue) {
  stave_detail::RegionBuilder builder(stave_detail::Repetitions::kept);
  const int zero = builder.number(0., float32);
  EXPECT_EQ(builder.number(0., float32), zero);
  EXPECT_NE(builder.number(-0., float32), zero);
  EXPECT_NE(builder.number(0., float64), zero);
  EXPECT_NE(builder.number(0, int32), builder.number(0, int64));
}

TEST(RegionBuilder, AppendsTheStepsOfARegion) {
  const IntrusivePtr<Region> inner(new Region({float32, float32}));  // a * 2 - b, and a
  inner->set_outputs({inner->add(op_subtract, {inner->add(op_multiply, {0, inner->add(2, float32)}), 1}), 0});
  stave_detail::RegionBuilder builder(stave_detail::Repetitions::merged);
  const int x = builder.input(float32), square = builder.add(op_square, {{x}}, float32);
  const std::vector<int> once = builder.append(*inner, {{square, x}});
  EXPECT_EQ(once[1], square);
  EXPECT_EQ(builder.append(*inner, {{square, x}}), once);
  EXPECT_THAT(fused(builder.region({{once[0]}}), {tensor({1.f, 3.f})})[0], IsNear(tensor({1.f, 15.f}), 0));
}

TEST(Region, ShowsItsSteps) {
  const auto f = elementwise_op("f", [](const Tensor& x, const Tensor& y) { return x * y + 0.5; });
  const Tensor x = zeros({2});
  std::string shown;
  struct Look : Handler {
    std::string* shown = nullptr;
    Outputs handle(Call& call) override {
      if (call.op().name == std::string("f")) *shown = call.as<FusedAttributes>().region->str();
      return perform(std::move(call));
    }
  } look;
  look.shown = &shown;
  with(look, [&] { f(x, x); });
  EXPECT_EQ(shown,
            "a:float32 b:float32 ->\n  c:float32 = multiply a b\n  d:float32 = 0.5\n  e:float32 = add c d\n  in e\n");
  Region ended({float32, float32});
  const int product = ended.add(op_multiply, {0, 1}), unused = ended.add(op_exp, {0});
  ended.reduce(op_max, unused, {-1});
  ended.set_outputs({ended.reduce(op_sum, product, {-1, -2}, true), product});
  EXPECT_EQ(ended.str(), "a:float32 b:float32 ->\n  c:float32 = multiply a b\n  in sum(c, [-2,-1] keepdims) c\n");
}

}  // namespace
