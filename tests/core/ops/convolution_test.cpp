// Convolutions and pooling: results of PyTorch and JAX for unusual cases, larger cases against
// plain loops, and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include <limits>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

// 1, 2, 3, ...
Tensor counting(const Shape& shape) { return reshape(arange(1., static_cast<double>(shape.elements() + 1)), shape); }
// Small integers in an irregular order.
Tensor jumble(const Shape& shape, int factor, int modulus, int shift) {
  return counting(shape) * factor % modulus - shift;
}

// torch.nn.functional.conv1d(..., padding="same") and jax.lax.conv(..., "SAME"): an odd amount of
// padding has its extra element at the end.
TEST(Conv, SamePaddingOfEvenWindowsIsLongerAtTheEnd) {
  const Tensor two = tensor({{{1., 10.}}}), four = tensor({{{1., 10., 100., 1000.}}});
  EXPECT_THAT(conv(counting({1, 1, 5}), two, {.padding = Padding::same}), Equals(tensor({{{21., 32., 43., 54., 5.}}})));
  EXPECT_THAT(conv(counting({1, 1, 7}), four, {.padding = Padding::same, .dilation = 2}),
              Equals(tensor({{{4200., 5310., 6420., 7531., 642., 753., 64.}}})));
  EXPECT_THAT(conv(counting({1, 1, 5}), four, {.stride = 2, .padding = Padding::same}),
              Equals(tensor({{{3210., 5432., 54.}}})));
  EXPECT_THAT(conv(counting({1, 1, 6}), four, {.stride = 2, .padding = Padding::same}),
              Equals(tensor({{{3210., 5432., 654.}}})));
  EXPECT_THAT(conv(counting({1, 1, 3}), tensor({{{2.}}}), {.stride = 2, .padding = Padding::same}),
              Equals(tensor({{{2., 6.}}})));
}

TEST(Conv, PaddingMayAddOrCrop) {
  const Tensor x = counting({1, 7}), w = tensor({{{1., 10., 100.}}});
  EXPECT_THAT(conv(x, w, {.padding = {{-1, 2}}}), Equals(tensor({{432., 543., 654., 765., 76., 7.}})));
  EXPECT_THAT(conv(x, w, {.padding = {{-6, 2}}}), Equals(tensor({{7.}})));
  // The padding crops all of x.
  EXPECT_THAT(conv(x, w, {.padding = {{-7, 3}}}), Equals(tensor({{0.}})));
  // jax.lax.conv_general_dilated(x, w, (2,), [(-1, 2)], lhs_dilation=(2,))
  EXPECT_THAT(conv(x, w, {.stride = 2, .padding = {{-1, 2}}, .input_dilation = 2}),
              Equals(tensor({{20., 30., 40., 50., 60., 70.}})));
  EXPECT_THAT(conv(x, w, {.padding = Padding::valid}), Equals(conv(x, w)));
  EXPECT_THAT(conv(x, w, {.padding = {1}}), Equals(conv(x, w, {.padding = 1})));
}

// Values of jax.lax.conv_general_dilated with dimension_numbers ("NHWC", "HWIO", "NHWC"),
// strides (1, 2), "SAME".
TEST(Conv, ChannelsLastEqualsJax) {
  const Tensor x = jumble({1, 3, 4, 2}, 5, 7, 3), w = jumble({2, 2, 2, 3}, 3, 5, 2);
  const Tensor y = conv(x, w, {.stride = {1, 2}, .padding = Padding::same, .channels_last = true});
  EXPECT_THAT(
      y, Equals(reshape(tensor({-5., -5., 0., -5., -4., -3., -5., 4., 8., -5., 5., 5., -1., -3., 0., 1., -3., -2.}),
                        {1, 3, 2, 3})));
  const Tensor first =
      conv(moveaxis(x, -1, 1), permute_dims(w, {3, 2, 0, 1}), {.stride = {1, 2}, .padding = Padding::same});
  EXPECT_THAT(moveaxis(first, 1, -1), Equals(y));
}

// The function has cubic terms; expected values are torch.autograd.grad, and torch.autograd.grad of
// the sum of squares of that.
TEST(Conv, SecondDerivativesEqualPyTorch) {
  const Tensor x = jumble({1, 2, 3, 4}, 5, 7, 3), w = jumble({2, 2, 2, 2}, 3, 5, 2);
  const auto loss = [](const Tensor& a, const Tensor& b) {
    return sum(pow(conv(a, b, {.stride = {1, 2}, .padding = 1}), 3));
  };
  const auto [to_x, to_w] = grad<0, 1>(loss)(x, w);
  EXPECT_THAT(to_x,
              IsNear(reshape(tensor({-468., 741., -597., 435., -540., 612., -372., 624., -102., 756., -294., 486., 198.,
                                     -891., 741., -450., 684., -729., 612., -618., 588., -759., 756., -300.}),
                             {1, 2, 3, 4})));
  EXPECT_THAT(to_w, IsNear(reshape(tensor({306., 243., 267., 165., 432., -177., -90., -594., 195., 174., 75., -543.,
                                           -243., -120., -723., 129.}),
                                   {2, 2, 2, 2})));
  const auto squares = [&](const Tensor& a, const Tensor& b) {
    const auto [to_a, to_b] = grad<0, 1>(loss)(a, b);
    return sum(to_a * to_a) + sum(to_b * to_b);
  };
  const auto [twice_x, twice_w] = grad<0, 1>(squares)(x, w);
  EXPECT_THAT(
      twice_x,
      IsNear(reshape(tensor({724608.,   1840752.,  -1085292., 1014858.,  918306.,   -51714.,   1102662.,  1625346.,
                             163638.,   -1703880., 654966.,   996750.,   -478404.,  -3163338., 1430766.,  -859482.,
                             -1590732., 1331856.,  -548496.,  -1216098., -1462932., 1993698.,  -2361708., -608418.}),
                     {1, 2, 3, 4})));
  EXPECT_THAT(twice_w,
              IsNear(reshape(tensor({5135346., -1875006., 4187502., -4485870., -5791338., 2635974., -3750966., 4230450.,
                                     789930., -167526., 1443906., -2366676., -153108., 359226., -4238568., 3130344.}),
                             {2, 2, 2, 2})));
}

// Values of torch.nn.functional.conv_transpose2d(..., stride=(2, 3), padding=(1, 2),
// output_padding=(1, 2), groups=2, dilation=(2, 1)).
TEST(ConvTranspose, EqualsPyTorch) {
  const Tensor x = jumble({1, 4, 2, 3}, 1, 5, 2), w = jumble({4, 1, 2, 3}, 1, 7, 3);
  const Tensor y = conv_transpose(
      x, w, {.stride = {2, 3}, .padding = {1, 2}, .output_padding = {1, 2}, .dilation = {2, 1}, .groups = 2});
  EXPECT_THAT(y, Equals(reshape(
                     tensor({0.,  0.,  0., 0.,   0.,  0.,  0.,  -1., 7.,  5., 3., 3.,  5.,  7.,  0., 0.,  0.,  0., 0.,
                             0.,  0.,  2., -2.,  -5., -8., -1., -2., -3., 0., 0., 0.,  0.,  0.,  0., 0.,  3.,  4., 5.,
                             -1., 11., 4., -10., 0.,  0.,  0.,  0.,  0.,  0., 0., -1., -2., -1., 0., -5., -2., 1.}),
                     {1, 2, 4, 7})));
}

// jax.lax.conv_transpose(..., (2,), "SAME", transpose_kernel=True), for windows smaller than, equal
// to and larger than the stride.
TEST(ConvTranspose, SamePaddingGivesStrideTimesTheLength) {
  const auto of = [](Index length, Index window) {
    return reshape(
        conv_transpose(counting({1, length}), counting({1, 1, window}), {.stride = 2, .padding = Padding::same}), {-1});
  };
  EXPECT_THAT(of(4, 3), Equals(tensor({1., 2., 5., 4., 9., 6., 13., 8.})));
  EXPECT_THAT(of(3, 1), Equals(tensor({1., 0., 2., 0., 3., 0.})));
  EXPECT_THAT(of(3, 4), Equals(tensor({2., 5., 8., 9., 14., 9.})));
}

// <conv(x, w), y> = <x, conv_transpose(y, w)>: all elements of the Jacobian are compared exactly,
// on integers.
TEST(ConvTranspose, IsTheTransposeOfConv) {
  const Tensor w = jumble({4, 3, 3, 2}, 7, 11, 5), x = jumble({2, 6, 9, 8}, 3, 13, 6);
  const ConvOptions options{.stride = {2, 3}, .padding = {{1, 0}, {2, 1}}, .dilation = {1, 2}, .groups = 2};
  const Tensor y = conv(x, w, options), ct = jumble(y.shape(), 5, 9, 4);
  const Tensor back = conv_transpose(ct, w,
                                     {.stride = options.stride,
                                      .padding = options.padding,
                                      .output_padding = {1, 2},
                                      .dilation = options.dilation,
                                      .groups = 2});
  EXPECT_THAT(back, Equals(std::get<0>(vjp([&](const Tensor& a) { return conv(a, w, options); }, x).second(ct))));
  EXPECT_THAT(sum(back * x), Equals(sum(ct * y)));
}

// The convolution of x and w as a sum over slices of x. It checks sizes beyond all tiles, row
// blocks and pieces of the implementation: on integers, which both ways sum exactly, in floating
// dtypes and in int32.
Tensor by_slices(const Tensor& x, const Tensor& w, Index stride, Index pad) {
  const Tensor wide = stave::pad(x, {{0, 0}, {0, 0}, {pad, pad}, {pad, pad}});
  const Index height = (wide.shape(2) - w.shape(2)) / stride + 1, width = (wide.shape(3) - w.shape(3)) / stride + 1;
  Tensor y = zeros({x.shape(0), w.shape(0), height, width}, x.dtype());
  for (Index i = 0; i < w.shape(2); ++i)
    for (Index j = 0; j < w.shape(3); ++j) {
      const Tensor seen = wide(slice(), slice(), slice(i, i + (height - 1) * stride + 1, stride),
                               slice(j, j + (width - 1) * stride + 1, stride));
      y = y + moveaxis(tensordot(w(slice(), slice(), i, j), seen, {1}, {1}), 0, 1);
    }
  return y;
}
TEST(Conv, SizesBeyondAllTilesEqualASumOverSlices) {
  struct Case {
    Shape x, w;
    Index stride, pad;
  };
  for (const auto& [xs, ws, stride, pad] :
       {Case{{3, 5, 40, 37}, {14, 5, 3, 3}, 1, 1},    // row kernel, several blocks of results
        Case{{2, 60, 20, 19}, {7, 60, 3, 5}, 2, 2},   // row kernel, several blocks of channels
        Case{{2, 3, 300, 90}, {3, 3, 7, 7}, 2, 3},    // several row blocks
        Case{{5, 130, 9, 8}, {20, 130, 3, 3}, 1, 1},  // products, a sum in several pieces
        Case{{40, 16, 7, 7}, {40, 16, 3, 3}, 1, 1},   // products of several images
        // Convolutions with few results.
        Case{{9, 20, 14, 14}, {70, 20, 1, 1}, 2, 0}, Case{{4, 2, 30, 30}, {3, 2, 25, 25}, 1, 0}}) {
    const Tensor x = astype(jumble(xs, 7, 17, 8), float64), w = astype(jumble(ws, 5, 13, 6), float64);
    const ConvOptions options{.stride = stride, .padding = pad};
    const auto f = [&](const Tensor& a, const Tensor& b) { return conv(a, b, options); };
    const auto plain = [stride = stride, pad = pad](const Tensor& a, const Tensor& b) {
      return by_slices(a, b, stride, pad);
    };
    const Tensor expected = plain(x, w), ct = astype(jumble(expected.shape(), 3, 11, 5), float64);
    const auto [to_x, to_w] = vjp(plain, x, w).second(ct);
    for (const Dtype dtype : {float64, float32}) {
      const Tensor a = astype(x, dtype), b = astype(w, dtype);
      const auto [y, pullback] = vjp(f, a, b);
      EXPECT_THAT(astype(y, float64), Equals(expected)) << xs.str() << ws.str();
      const auto [x_bar, w_bar] = pullback(astype(ct, dtype));
      EXPECT_THAT(astype(x_bar, float64), Equals(to_x)) << xs.str() << ws.str();
      EXPECT_THAT(astype(w_bar, float64), Equals(to_w)) << xs.str() << ws.str();
    }
    EXPECT_THAT(astype(f(astype(x, int32), astype(w, int32)), float64), Equals(expected)) << xs.str() << ws.str();
  }
}

struct CountConvolutions : Handler {
  int n = 0;
  Outputs handle(Call& call) override {
    n += call.op().id == OpId::convolution;
    return perform(std::move(call));
  }
};
TEST(Conv, PerExampleGradientsAreOneConvolution) {
  const Tensor x = jumble({5, 3, 6, 7}, 3, 7, 3), w = jumble({4, 3, 3, 3}, 5, 11, 5);
  const auto loss = [](const Tensor& b, const Tensor& a) { return sum(square(conv(a, b, {.padding = 1}))); };
  CountConvolutions count;
  const Tensor all = with(count, [&] { return vmap(grad(loss), {.in_axes = {unmapped, 0}})(w, x); });
  EXPECT_EQ(count.n, 2);  // forward, and the cotangent of w
  for (Index i = 0; i < 5; ++i) EXPECT_THAT(all(i), Equals(grad(loss)(w, x(i))));
}

TEST(Conv, IntegersWrap) {
  const Tensor x = full({1, 1, 3}, 100, int8), w = full({1, 1, 3}, 2, int8);
  EXPECT_THAT(conv(x, w), Equals(full({1, 1, 1}, 600 - 512, int8)));
  EXPECT_THAT(sum_pool(x, {3}), Equals(full({1, 1, 1}, 300, int32)));  // as sum does
}

TEST(Conv, HalfFloatsAreRoundedOnce) {
  const Tensor x = full({1, 1, 4096}, 1, float16), w = ones({1, 1, 4096}, float16);
  EXPECT_THAT(conv(x, w), Equals(full({1, 1, 1}, 4096, float16)));
  EXPECT_THAT(avg_pool(full({1, 64, 64}, 60000, float16), {64, 64}), Equals(full({1, 1, 1}, 60000, float16)));
  EXPECT_THAT(sum_pool(ones({1, 60, 60}, float16), {50, 50}, {.stride = 1}), Equals(full({1, 11, 11}, 2500, float16)));
}

TEST(Conv, InfinityStaysInItsWindows) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = reshape(tensor({1., 2., inf, 4., 5., nan, 7., 8.}), {1, 1, 8});
  EXPECT_THAT(conv(x, ones({1, 1, 2}), {.padding = 1}),
              IsNear(reshape(tensor({1., 3., inf, inf, 9., nan, nan, 15., 8.}), {1, 1, 9})));
  const Tensor dilated = conv(x, ones({1, 1, 1}), {.input_dilation = 2});
  EXPECT_THAT(dilated(0, 0, slice(3, 6)), Equals(tensor({0., inf, 0.})));
}

TEST(Conv, AcceptsEmptyOperands) {
  EXPECT_EQ(conv(zeros({0, 3, 8, 8}), zeros({4, 3, 3, 3})).shape(), (Shape{0, 4, 6, 6}));
  EXPECT_EQ(conv(zeros({2, 3, 8, 8}), zeros({0, 3, 3, 3})).shape(), (Shape{2, 0, 6, 6}));
  EXPECT_THAT(conv(zeros({2, 0, 8}), zeros({4, 0, 3})), Equals(zeros({2, 4, 6})));
  EXPECT_THAT(conv(zeros({2, 3, 0}), ones({4, 3, 3}), {.padding = 2}), Equals(zeros({2, 4, 2})));
  const auto [to_x, to_w] = grad<0, 1>([](const Tensor& x, const Tensor& w) {
    return sum(conv(x, w, {.padding = 2}));
  })(zeros({2, 3, 0}), ones({4, 3, 3}));
  EXPECT_EQ(to_x.shape(), (Shape{2, 3, 0}));
  EXPECT_THAT(to_w, Equals(zeros({4, 3, 3})));
  EXPECT_EQ(max_pool(zeros({0, 3, 4, 4}), 2).shape(), (Shape{0, 3, 2, 2}));
}

// A large dilation, which is computed in parts to bound the memory. Checks the values only.
TEST(Conv, HugeDilationsGiveTheRightValues) {
  const Tensor x = jumble({1, 100, 3, 41}, 7, 17, 8), w = jumble({2, 100, 3, 2}, 5, 13, 6);
  const Tensor y = conv(x, w, {.padding = {4000, 3000}, .dilation = {4000, 3000}});
  ASSERT_EQ(y.shape(), (Shape{1, 2, 3, 3041}));
  // Only the middle row of the window overlaps x: its second column at the first places, its first
  // column at the last places.
  const auto seen = [&](Index i, Index j) { return tensordot(w(slice(), slice(), i, j), x(0), {1}, {0}); };
  EXPECT_THAT(y(0, slice(), slice(), slice(0, 41)), Equals(seen(1, 1)));
  EXPECT_THAT(y(0, slice(), slice(), slice(3000, 3041)), Equals(seen(1, 0)));
  const Tensor to_w = grad([&](const Tensor& v) {
    return sum(conv(x, v, {.padding = {4000, 3000}, .dilation = {4000, 3000}}));
  })(w);
  EXPECT_THAT(to_w(1, slice(), 1, 1), Equals(sum(x(0), {1, 2})));
  EXPECT_THAT(to_w(1, slice(), 0, 1), Equals(zeros({100})));
}

#define EXPECT_REFUSAL(kind, call, words) EXPECT_THAT([] { (void)(call); }, ThrowsMessage<kind>(HasSubstr(words)))

TEST(Conv, RefusesMismatchedArguments) {
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 3, 8, 8}), ones({4, 2, 3, 3})),
                 "conv: x [2,3,8,8] has 3 channels, w [4,2,3,3] is for 2: 2 in each of 1 groups");
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 4, 8}), ones({3, 2, 3}), {.groups = 2}),
                 "conv: the 3 results of w [3,2,3] do not make 2 groups of equal size");
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 3, 4}), ones({1, 3, 3}), {.padding = {{-1, -1}}}),
                 "conv: a window of 3 elements does not fit into spatial axis 0, which has 4 and padding -1 and -1");
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 3, 4}), ones({1, 3, 3}), {.dilation = 2}),
                 "a window of 5 elements does not fit");
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 3, 4}), ones({1, 3, 0})), "conv: w [1,3,0] has an empty window");
  EXPECT_REFUSAL(ShapeError, conv(ones({2, 3}), ones({1, 3})), "conv: w [1,3] has rank 2: it must have 3, 4 or 5");
  EXPECT_REFUSAL(ShapeError, conv(ones({4}), ones({1, 3, 3})),
                 "conv: x [4] needs an axis of channels and 1 spatial axes");
  EXPECT_REFUSAL(ShapeError, conv(ones({1, 1, 4}), ones({1, 1, 2}), {.stride = 0}),
                 "conv: stride 0 must not be less than 1");
  EXPECT_REFUSAL(ShapeError, conv(ones({1, 1, 4}), ones({1, 1, 2}), {.stride = {1, 2}}),
                 "conv: stride [1,2] has 2 numbers for 1 spatial axes");
  EXPECT_REFUSAL(ShapeError, conv(ones({1, 1, 4}), ones({1, 1, 2}), {.padding = {{1, 1}, {0, 0}}}),
                 "conv: padding [1,0] has 2 numbers for 1 spatial axes");
  EXPECT_REFUSAL(ShapeError, conv(ones({1, 1, 4}), ones({1, 1, 2}), {.groups = 0}), "conv: 0 groups");
  EXPECT_REFUSAL(Error, conv(Tensor(), ones({1, 1, 2})), "conv: ");
  EXPECT_REFUSAL(ShapeError, conv_transpose(ones({2, 3, 4}), ones({2, 1, 3})),
                 "conv_transpose: x [2,3,4] has 3 channels, w [2,1,3] is for 2");
  EXPECT_REFUSAL(ShapeError, conv_transpose(ones({2, 3, 4}), ones({3, 1, 3}), {.stride = 2, .output_padding = 2}),
                 "conv_transpose: output_padding 2 must be less than stride 2 or dilation 1");
  EXPECT_REFUSAL(ShapeError, conv_transpose(ones({2, 3, 1}), ones({3, 1, 3}), {.padding = 2}),
                 "conv_transpose: nothing is left of spatial axis 0");
}

// torch.nn.functional.max_pool2d(x, (3, 2), (2, 1), (1, 1), (1, 2), return_indices=True)
TEST(MaxPool, EqualsPyTorch) {
  const Tensor x = reshape(counting({20}) * 7 % 11, {1, 1, 4, 5});
  const PoolOptions options{.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}};
  EXPECT_THAT(max_pool(x, {3, 2}, options),
              Equals(reshape(tensor({5., 10., 8., 10., 8., 9., 9., 10., 8., 10.}), {1, 1, 2, 5})));
  EXPECT_THAT(argmax_pool(x, {3, 2}, options),
              Equals(reshape(tensor({6, 2, 8, 2, 8, 16, 5, 13, 19, 13}), {1, 1, 2, 5})));
  EXPECT_THAT(max_pool(x, 2), Equals(max_pool(x, {2, 2})));
}

// torch.nn.functional.max_pool1d(x, 3, 1), and its gradient
TEST(MaxPool, DerivativeGoesToTheFirstOfEqualElements) {
  const auto g = grad([](const Tensor& x) { return sum(max_pool(x, {3}, {.stride = 1})); });
  EXPECT_THAT(g(zeros({1, 4})), Equals(tensor({{1., 1., 0., 0.}})));
  EXPECT_THAT(g(tensor({1., 2., 2., 1., 2., 0.})), Equals(tensor({0., 2., 1., 0., 1., 0.})));
}

TEST(MaxPool, PropagatesNanAndIgnoresPadding) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(max_pool(tensor({-inf, -inf, 3., nan, 5., nan}), {2}, {.stride = 1, .padding = 1}),
              IsNear(tensor({-inf, -inf, 3., nan, nan, nan, nan})));
  EXPECT_THAT(max_pool(tensor({-5, -7, -3}), {3}, {.padding = Padding::same}), Equals(tensor({-3})));
  EXPECT_THAT(max_pool(tensor({false, true, false, false}), {2}), Equals(tensor({true, false})));
}

// torch.nn.functional.avg_pool2d(x, 3, 2, 1)
TEST(AvgPool, CountsPaddingUnlessExcluded) {
  const Tensor x = reshape(counting({20}) * 7 % 11, {1, 1, 4, 5});
  EXPECT_THAT(avg_pool(x, 3, {.stride = 2, .padding = 1}),
              IsNear(reshape(tensor({24., 33., 20., 32., 49., 37.}) / 9., {1, 1, 2, 3})));
  EXPECT_THAT(avg_pool(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false}),
              IsNear(reshape(tensor({6., 5.5, 5., 32. / 6, 49. / 9, 37. / 6}), {1, 1, 2, 3})));
  EXPECT_THAT(avg_pool(ones({1, 5, 5}, int32), 3, {.stride = 1, .padding = Padding::same, .count_include_pad = false}),
              Equals(ones({1, 5, 5}, float32)));
}

TEST(Pool, RefusesMismatchedWindows) {
  EXPECT_REFUSAL(ShapeError, max_pool(ones({2, 3, 4}), {5}),
                 "max_pool: a window of 5 elements does not fit into spatial axis 0, which has 4 and padding 0 and 0");
  EXPECT_REFUSAL(ShapeError, max_pool(ones({2, 3}), {2, 2, 2}),
                 "max_pool: x [2,3] does not have the 3 spatial axes of the window");
  EXPECT_REFUSAL(ShapeError, max_pool(ones({2, 3}), 2),
                 "max_pool: x [2,3] has 0 spatial axes: only 1, 2 or 3 can be pooled");
  EXPECT_REFUSAL(ShapeError, max_pool(ones({4}), {2}, {.padding = 2}),
                 "max_pool: padding 2 and 2 of spatial axis 0, which has length 4, is so wide that a window of 2 can "
                 "lie entirely in the padding");
  EXPECT_REFUSAL(ShapeError, max_pool(ones({1}), {2}, {.stride = 1, .padding = 1, .dilation = 3}), "does not fit");
  EXPECT_REFUSAL(ShapeError, max_pool(ones({1}), {2}, {.stride = 1, .padding = 2, .dilation = 3}),
                 "can lie entirely in the padding");
  EXPECT_REFUSAL(ShapeError, avg_pool(ones({4}), {2}, {.padding = 2, .count_include_pad = false}),
                 "avg_pool: padding 2 and 2");
  EXPECT_REFUSAL(ShapeError, sum_pool(ones({4}), {0}), "sum_pool: window 0 must not be less than 1");
}

}  // namespace
