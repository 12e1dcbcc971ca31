// Statistics and pictures of tensors.
#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

TEST(Summary, OfFloats) {
  // std is the population's standard deviation, which is sqrt(35 / 12) for 1 to 6.
  EXPECT_EQ(summary_of(tensor({{1., 2., 3.}, {4., 5., 6.}})), "f32[2,3] min 1 max 6 mean 3.5 std 1.70783 nan 0 inf 0");
  EXPECT_EQ(summary_of(label(tensor({1., 3.}, float64), "w")), "w:f64[2] min 1 max 3 mean 2 std 1 nan 0 inf 0");
  EXPECT_EQ(summary_of(tensor({NAN, INFINITY, 1., 3., -INFINITY})), "f32[5] min -inf max inf mean 2 std 1 nan 1 inf 2");
  EXPECT_EQ(summary_of(tensor({NAN, NAN})), "f32[2] min nan max nan mean nan std nan nan 2 inf 0");
}

TEST(Summary, OfEveryDtype) {
  for (int i = 0; i < real_dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const std::string text = summary_of(tensor({0, 1, 1, 0}, dtype));
    EXPECT_THAT(text, HasSubstr("[4] min 0 max 1 mean 0.5 std 0.5")) << name_of(dtype);
    EXPECT_EQ(text.find(" nan 0 inf 0") != std::string::npos, is_float(dtype)) << name_of(dtype);
    EXPECT_EQ(picture_of(tensor({0, 1, 1, 0}, dtype)), "▁██▁\n") << name_of(dtype);
  }
  EXPECT_THAT(summary_of(tensor({std::int64_t{1} << 62, std::int64_t{0}})), HasSubstr("max 4611686018427387904"));
}

TEST(Summary, OfFewElements) {
  EXPECT_EQ(summary_of(Tensor()), "undefined");
  EXPECT_EQ(summary_of(tensor(2.5)), "f32[] value 2.5");
  EXPECT_EQ(summary_of(tensor({NAN})), "f32[1] value nan");
  EXPECT_EQ(summary_of(zeros({0, 3})), "f32[0,3] no elements");
  for (const Tensor& x : {Tensor(), tensor(2.5), zeros({0, 3})}) EXPECT_EQ(picture_of(x), "");
}

TEST(Summary, CountsBroadcastElementsAndFollowsLayouts) {
  const Tensor x = broadcast_to(tensor({{1.}, {NAN}}), {2, 500});
  EXPECT_EQ(summary_of(x), "f32[2,500] min 1 max 1 mean 1 std 0 nan 500 inf 0");
  EXPECT_EQ(picture_of(x(slice(), slice(0, 3))), "▒▒▒\n×××\n");
  const Tensor m = tensor({{0., 1.}, {2., 3.}, {4., 4.}});
  EXPECT_EQ(picture_of(m), "·░\n▒▓\n██\n");
  EXPECT_EQ(picture_of(matrix_transpose(m)), "·▒█\n░▓█\n");
  EXPECT_EQ(picture_of(m(slice(none, none, -1))), "██\n▒▓\n·░\n");
}

TEST(Summary, PicturesOfVectors) {
  EXPECT_EQ(picture_of(arange(8)), "▁▂▃▄▅▆▇█\n");
  EXPECT_EQ(picture_of(tensor({1., NAN, INFINITY, 2., -INFINITY})), "▁×∞█∞\n");
  EXPECT_EQ(picture_of(tensor({7., 7.})), "▅▅\n");
  EXPECT_EQ(picture_of(tensor({-1.7e308, 1.7e308}, float64)), "▁█\n");
  EXPECT_EQ(picture_of(tensor({NAN, INFINITY}), {.columns = 1}), "×\n");
  EXPECT_EQ(picture_of(arange(16), {.columns = 8}), "▁▂▃▄▅▆▇█\n");  // means of two elements
  Tensor one_nan = zeros({1000}).at(517).set(NAN);
  const std::string picture = picture_of(one_nan);
  // 517 * 64 / 1000 = 33.09. The characters before it take three bytes each.
  EXPECT_EQ(picture.find("×"), 3u * 33);
}

TEST(Summary, PicturesOfMatrices) {
  const Tensor x = reshape(arange(1000 * 1000), {1000, 1000});
  EXPECT_EQ(picture_of(x, {.columns = 3, .rows = 5}), "···\n░░░\n▒▒▒\n▓▓▓\n███\n");
  // The picture shows the last two axes at the first index of the other axes.
  EXPECT_EQ(picture_of(stack({tensor({{0., 1.}, {2., 4.}}), 9. * ones({2, 2})})), "·░\n▒█\n");
  EXPECT_THAT(message_of<TransformError>([&] { picture_of(x, {.rows = 0}); }),
              HasSubstr("picture_of: 64 columns and 0 rows; at least one of each is needed"));
}

TEST(Summary, ShowsAllLanesAndPerformsNothing) {
  std::vector<std::string> seen;
  CountOps outside;
  with(outside, [&] {
    vmap(grad([&](const Tensor& x) {
      seen.push_back(summary_of(x));
      seen.push_back(picture_of(x));
      return sum(x);
    }))(tensor({{0., 1.}, {2., 4.}}));
  });
  EXPECT_THAT(seen, testing::ElementsAre("f32[2] min 0 max 4 mean 1.75 std 1.47902 nan 0 inf 0", "·░\n▒█\n"));
  const int performed = outside.n;
  outside.n = 0;
  with(outside, [&] { vmap(grad([](const Tensor& x) { return sum(x); }))(tensor({{0., 1.}, {2., 4.}})); });
  EXPECT_EQ(outside.n, performed);  // summaries and pictures perform nothing
}

}  // namespace
