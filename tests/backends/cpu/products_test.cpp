// Convolutions and products of matrices by the library's own kernel, on each instruction set:
// sums of small integers, which are exact in any order, against plain loops; what compiled programs
// do with products; and convolutions by Winograd's algorithm, whose sums are rounded.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <stave/stave.h>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>

#include "bits.h"
#include "isas.h"

namespace {

using namespace stave;

using Random = std::mt19937;

Index number(Random& random, Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); }

/// Integers from -4 to 4, in a layout that may be a view.
Tensor integers(Random& random, const Shape& shape, Dtype dtype) {
  Shape order;
  for (int axis = 0; axis < shape.rank(); ++axis) order.push_back(axis);
  const bool is_view = number(random, 0, 2) == 0;
  if (is_view) std::shuffle(order.begin(), order.end(), random);
  Shape stored;
  Shape back(shape);
  for (std::size_t i = 0; i < order.size(); ++i) {
    stored.push_back(shape[static_cast<std::size_t>(order[i])]);
    back[static_cast<std::size_t>(order[i])] = static_cast<Index>(i);
  }
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(number(random, -4, 4));
  return permute_dims(astype(from(values, stored), dtype), back);
}

std::vector<double> elements(const Tensor& x) { return astype(x, float64).to_vector<double>(); }

class Products : public stave_test::OnEachIsa {};
STAVE_ON_EACH_ISA(Products);

/// A convolution with three spatial axes, of which the leading ones may have length 1.
struct Case {
  Index n, groups, o, c;
  std::array<Index, 3> in, window, stride, dilation, low, high;
};

std::vector<double> convolution_by_loops(const Case& p, const std::vector<double>& x, const std::vector<double>& w,
                                         const std::array<Index, 3>& out) {
  std::vector<double> y;
  const auto at = [](const std::vector<double>& values, std::initializer_list<std::pair<Index, Index>> places) {
    Index position = 0;
    for (const auto& [index, length] : places) {
      if (index < 0 || index >= length) return 0.0;
      position = position * length + index;
    }
    return values[static_cast<std::size_t>(position)];
  };
  for (Index n = 0; n < p.n; ++n)
    for (Index o = 0; o < p.groups * p.o; ++o)
      for (Index a = 0; a < out[0]; ++a)
        for (Index b = 0; b < out[1]; ++b)
          for (Index d = 0; d < out[2]; ++d) {
            double sum = 0;
            for (Index c = 0; c < p.c; ++c)
              for (Index i = 0; i < p.window[0]; ++i)
                for (Index j = 0; j < p.window[1]; ++j)
                  for (Index k = 0; k < p.window[2]; ++k)
                    sum +=
                        at(w, {{o, p.groups * p.o}, {c, p.c}, {i, p.window[0]}, {j, p.window[1]}, {k, p.window[2]}}) *
                        at(x, {{n, p.n},
                               {o / p.o * p.c + c, p.groups * p.c},
                               {a * p.stride[0] + i * p.dilation[0] - p.low[0], p.in[0]},
                               {b * p.stride[1] + j * p.dilation[1] - p.low[1], p.in[1]},
                               {d * p.stride[2] + k * p.dilation[2] - p.low[2], p.in[2]}});
            y.push_back(sum);
          }
  return y;
}

void check_convolution(Random& random, const Case& p, std::size_t axes, Dtype dtype) {
  std::array<Index, 3> out{1, 1, 1};
  Shape x_shape{p.n, p.groups * p.c}, w_shape{p.groups * p.o, p.c};
  Shape stride, dilation, low, high;
  for (std::size_t axis = 3 - axes; axis < 3; ++axis) {
    const Index reach = (p.window[axis] - 1) * p.dilation[axis] + 1;
    out[axis] = (p.in[axis] + p.low[axis] + p.high[axis] - reach) / p.stride[axis] + 1;
    x_shape.push_back(p.in[axis]);
    w_shape.push_back(p.window[axis]);
    stride.push_back(p.stride[axis]);
    dilation.push_back(p.dilation[axis]);
    low.push_back(p.low[axis]);
    high.push_back(p.high[axis]);
  }
  const Tensor x = integers(random, x_shape, dtype), w = integers(random, w_shape, dtype);
  Tensor padded = x;
  for (std::size_t i = 0; i < axes; ++i) {
    Shape before(padded.shape()), after(padded.shape());
    before[i + 2] = low[i];
    after[i + 2] = high[i];
    padded = concat({zeros(before, dtype), padded, zeros(after, dtype)}, static_cast<int>(i) + 2);
  }
  const ConvOptions plain{.stride = stride, .dilation = dilation, .groups = p.groups};
  ConvOptions options = plain;
  options.padding = Padding(low, high);
  const std::vector<double> expected = convolution_by_loops(p, elements(x), elements(w), out);
  ASSERT_EQ(elements(conv(x, w, options)), expected) << x_shape.str() << " " << w_shape.str();
  ASSERT_EQ(elements(conv(padded, w, plain)), expected) << x_shape.str() << " " << w_shape.str();
}

TEST_P(Products, ConvolutionsEqualLoops) {
  Random random(7);
  for (int round = 0; round < 150; ++round) {
    const auto axes = static_cast<std::size_t>(number(random, 1, 3));
    Case p{number(random, 1, 3),
           number(random, 0, 3) == 0 ? 2 : 1,
           number(random, 1, 70),
           number(random, 1, 40),
           {1, 1, 1},
           {1, 1, 1},
           {1, 1, 1},
           {1, 1, 1},
           {},
           {}};
    for (std::size_t axis = 3 - axes; axis < 3; ++axis) {
      p.window[axis] = number(random, 1, axes == 1 ? 9 : 3);
      p.stride[axis] = number(random, 1, 3);
      p.dilation[axis] = number(random, 1, 2);
      p.low[axis] = number(random, 0, 3);
      p.high[axis] = number(random, 0, 3);
      p.in[axis] = number(random, 0, 12) + (p.window[axis] - 1) * p.dilation[axis] + 1;
    }
    check_convolution(random, p, axes, round % 3 == 0 ? float64 : float32);
    if (HasFatalFailure()) return;
  }
}

// Weights and images beyond the tiles, for which tiles are divided along every axis.
TEST_P(Products, LargeConvolutionsEqualLoops) {
  Random random(8);
  for (const Case& p : {Case{1, 1, 130, 100, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
                        Case{5, 1, 100, 90, {1, 7, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
                        Case{2, 1, 20, 25, {1, 50, 61}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 0, 1}},
                        Case{1, 1, 24, 48, {1, 1, 4001}, {1, 1, 5}, {1, 1, 1}, {1, 1, 2}, {0, 0, 4}, {0, 0, 4}},
                        Case{1, 1, 16, 512, {1, 4, 5}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {}, {}},
                        Case{1, 2, 40, 30, {5, 9, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}}) {
    check_convolution(random, p, p.in[0] > 1 ? 3 : p.in[1] > 1 ? 2 : 1, float32);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Products, PackedWeightsEqualLoops) {
  Random random(9);
  for (int round = 0; round < 60; ++round) {
    const Dtype dtype = round % 2 ? float32 : float64;
    const Index m = number(random, 1, round % 5 ? 40 : 600), k = number(random, 2, round % 3 ? 100 : 900),
                n = number(random, 1, round % 4 ? 100 : 1500), batch = number(random, 1, 3);
    const Tensor a = integers(random, {batch, m, k}, dtype), b = integers(random, {k, n}, dtype);
    const auto product = compile([&](const Tensor& x) { return matmul(x, b); }, {.for_inference = true});
    const std::vector<double> left = elements(a), right = elements(b);
    std::vector<double> expected(static_cast<std::size_t>(batch * m * n));
    for (Index i = 0; i < batch * m; ++i)
      for (Index p = 0; p < k; ++p)
        for (Index j = 0; j < n; ++j)
          expected[static_cast<std::size_t>(i * n + j)] +=
              left[static_cast<std::size_t>(i * k + p)] * right[static_cast<std::size_t>(p * n + j)];
    for (int run = 0; run < 3; ++run) ASSERT_EQ(elements(product(a)), expected) << m << " " << k << " " << n;
  }
}

/// Runs f and compile(f), and expects the same bits.
template <class F, class... X>
void expect_same(const char* name, const F& f, const X&... xs) {
  const Tensor expected = f(xs...);
  const auto compiled = compile(f);
  for (int run = 0; run < 3; ++run)
    ASSERT_EQ(stave_test::bytes_of(compiled(xs...)), stave_test::bytes_of(expected)) << name << ", run " << run;
}

TEST_P(Products, OperationsAfterProductsHaveTheSameBits) {
  Random random(10);
  const auto values = [&](const Shape& shape) { return integers(random, shape, float32) / 3 + 0.1; };
  const Tensor x = values({3, 20, 14, 15}), w = values({24, 20, 3, 3}), bias = values({24, 1, 1}),
               same = values({24, 24, 3, 3}), columns = values({15}), y = values({3, 24, 14, 15});
  const ConvOptions padded{.padding = 1};
  expect_same(
      "bias", [&](const Tensor& a) { return relu(conv(a, w, padded) + bias); }, x);
  expect_same(
      "residual", [&](const Tensor& a, const Tensor& b) { return relu(conv(a, w, padded) + bias + b); }, x, y);
  expect_same(
      "itself", [&](const Tensor& a) { return conv(a, same, padded) + a; }, y);
  expect_same(
      "both",
      [&](const Tensor& a) {
        const Tensor c = conv(a, w, padded);
        return c * tanh(c);
      },
      x);
  expect_same(
      "a row", [&](const Tensor& a) { return conv(a, w, padded) + columns; }, x);
  expect_same(
      "mask", [&](const Tensor& a) { return astype(conv(a, w, padded) > 1, float32); }, x);
  expect_same(
      "reversed",
      [&](const Tensor& a) {
        const Tensor c = conv(a, w, padded);
        return c + flip(c, -1);
      },
      x);
  expect_same(
      "another shape",
      [&](const Tensor& a) {
        return exp(reshape(conv(a, w, padded), {3, 24, -1}) / 50);
      },
      x);
  expect_same(
      "strided", [&](const Tensor& a) { return relu(conv(a, w, {.stride = 2, .padding = 1}) - bias); }, x);
  expect_same(
      "pointwise",
      [&](const Tensor& a) {
        return relu(conv(a, values({24, 20, 1, 1}) * 0 + 1) + bias);
      },
      x);

  const Tensor a = values({4, 70, 90}), b = values({90, 300}), c = values({300}), d = values({4, 70, 300}),
               rows = values({70, 1}), square = values({90, 90});
  expect_same(
      "dense", [&](const Tensor& t) { return gelu(matmul(t, b) + c); }, a);
  expect_same(
      "dense residual", [&](const Tensor& t, const Tensor& u) { return matmul(t, b) + c + u; }, a, d);
  expect_same(
      "dense itself", [&](const Tensor& t) { return matmul(t, square) + t; }, a);
  expect_same(
      "rows", [&](const Tensor& t) { return matmul(t, b) * rows; }, a);
  expect_same(
      "batches", [&](const Tensor& t) { return matmul(t, matrix_transpose(t)) * 0.5 + rows; }, a);
  expect_same(
      "two outputs",
      [&](const Tensor& t) {
        const Tensor u = matmul(t, b), v = u + c;
        return u + sum(v);
      },
      a);
  expect_same(
      "heads",
      [&](const Tensor& t) {
        return permute_dims(reshape(matmul(t, b) + c, {4, 70, 3, 100}), {0, 2, 1, 3}) * 2;
      },
      a);
}

// The scales of batch normalisation are folded into the weights: the program has as many operations
// as one with a bias, and its results are those of float64.
TEST_P(Products, ScalesAreFolded) {
  Random random(11);
  const Tensor w = integers(random, {6, 5, 3, 3}, float32) / 7, mean = integers(random, {6, 1, 1}, float32),
               scale = integers(random, {6, 1, 1}, float32) / 3 + 2, shift = integers(random, {6, 1, 1}, float32);
  const auto f = [&](const Tensor& x) {
    const auto as = [&](const Tensor& t) { return astype(t, x.dtype()); };
    return relu((conv(x, as(w), {.padding = 1}) - as(mean)) / as(abs(scale)) * as(scale) + as(shift));
  };
  const Tensor x = integers(random, {2, 5, 8, 9}, float32) / 5;
  const Program folded = with_scales_folded(with_constants_folded(trace(f)(x)));
  const auto operations = [](const Program& program) { return cost_of(program).operations; };
  EXPECT_EQ(operations(folded), 3);  // convolution, add, relu
  const std::vector<double> exact = elements(f(astype(x, float64)));
  const auto compiled = compile(f, {.for_inference = true});
  for (int run = 0; run < 3; ++run) {
    const std::vector<double> found = elements(compiled(x));
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(found[i], exact[i], 1e-5 * (1 + std::abs(exact[i])));
  }
}

// Where scaled weights would overflow or lose digits, the product stays as it is.
TEST_P(Products, ScalesAreNotFoldedIntoWeightsThatCannotHoldThem) {
  const auto expect = [&](double x, double w, const Tensor& scale, double result) {
    const Tensor weights = full({16, 3}, w, float32), given = full({2, 16}, x, float32);
    const auto f = [&](const Tensor& a) { return matmul(a, weights) * scale; };
    const auto compiled = compile(f, {.for_inference = true});
    for (int run = 0; run < 3; ++run)
      for (const double found : elements(compiled(given)))
        if (std::isfinite(result)) ASSERT_NEAR(found, result, 1e-6 * std::abs(result));
        else ASSERT_EQ(found, result);
  };
  expect(1e-30, 1e10, full({3}, 1e30f), 16e10);
  expect(1e30, 1e-12, full({3}, 1e-30f), 16e-12);
  expect(-1, 1, 1 / zeros({3}), -INFINITY);
  expect(2, 3, zeros({3}), 0);
  // A channel's small weights may lose digits beside its large ones.
  const Tensor w = concat({full({15, 3}, 1e-30f), full({1, 3}, 2.f)});
  const auto f = [&](const Tensor& a) { return matmul(a, w) * full({3}, 1e-10f) + full({3}, 1.f); };
  EXPECT_EQ(cost_of(with_scales_folded(with_constants_folded(trace(f)(ones({2, 16}))))).operations, 2);
  const Tensor empty = zeros({0, 3}, float32);
  const auto g = [&](const Tensor& a) { return matmul(a, empty) * full({3}, 2.f); };
  EXPECT_TRUE(array_equal(compile(g, {.for_inference = true})(zeros({2, 0})), zeros({2, 3})));
}

// ---- Winograd's algorithm, for constant weights -------------------------------------------------

Tensor reals(Random& random, const Shape& shape) {
  return integers(random, shape, float32) / 7 + integers(random, shape, float32) / 97;
}

/// A convolution with windows of 3x3 and what follows on it in a network.
struct Layer {
  Case p;
  Tensor w, bias;
  Layer(Random& random, const Case& shapes)
      : p(shapes), w(reals(random, {p.groups * p.o, p.c, 3, 3})), bias(reals(random, {p.groups * p.o, 1, 1})) {}
  ConvOptions options() const {
    return {.padding = Padding({p.low[1], p.low[2]}, {p.high[1], p.high[2]}), .groups = p.groups};
  }
  Shape x_shape() const { return {p.n, p.groups * p.c, p.in[1], p.in[2]}; }
  std::array<Index, 3> out() const {
    return {1, p.in[1] + p.low[1] + p.high[1] - 2, p.in[2] + p.low[2] + p.high[2] - 2};
  }
  Shape y_shape() const { return {p.n, p.groups * p.o, out()[1], out()[2]}; }
};

/// Runs a layer with and without operations after it, and compares both with loops in float64.
void check_layer(Random& random, const Case& p) {
  const Layer layer(random, p);
  const Tensor x = reals(random, layer.x_shape()), residual = reals(random, layer.y_shape());
  const auto plain =
      compile([&](const Tensor& a) { return conv(a, layer.w, layer.options()); }, {.for_inference = true});
  const auto whole = compile(
      [&](const Tensor& a, const Tensor& b) { return relu(conv(a, layer.w, layer.options()) + layer.bias + b); },
      {.for_inference = true});
  const std::vector<double> exact = convolution_by_loops(p, elements(x), elements(layer.w), layer.out()),
                            scale = convolution_by_loops(p, elements(abs(x)), elements(abs(layer.w)), layer.out()),
                            shift = elements(broadcast_to(layer.bias, layer.y_shape())), more = elements(residual);
  for (int run = 0; run < 3; ++run) {
    const std::vector<double> y = elements(plain(x)), z = elements(whole(x, residual));
    ASSERT_EQ(y.size(), exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(y[i], exact[i], 1e-6 * scale[i]) << layer.x_shape().str() << " " << i;
      ASSERT_NEAR(z[i], std::max(0.0, exact[i] + shift[i] + more[i]), 1e-6 * (scale[i] + 2)) << layer.x_shape().str();
    }
  }
}

TEST_P(Products, WinogradConvolutionsEqualLoops) {
  Random random(12);
  for (int round = 0; round < 14; ++round) {
    const auto length = [&] { return number(random, 5, 17); };
    const auto padding = [&] { return number(random, 0, 3); };
    const auto channels = [&] { return number(random, 32, 50); };
    const Case p{number(random, 1, 3),
                 number(random, 1, 2),
                 channels(),
                 channels(),
                 {1, length(), length()},
                 {1, 3, 3},
                 {1, 1, 1},
                 {1, 1, 1},
                 {0, padding(), padding()},
                 {0, padding(), padding()}};
    check_layer(random, p);
    if (HasFatalFailure()) return;
  }
}

// Several blocks of terms, of result channels and of tiles, and rows of tiles that are longer than
// a block.
TEST_P(Products, LargeWinogradConvolutionsEqualLoops) {
  Random random(13);
  const std::array<Index, 3> ones{1, 1, 1}, pad{0, 1, 1};
  for (const Case& p : {Case{3, 1, 33, 400, {1, 7, 9}, {1, 3, 3}, ones, ones, pad, pad},
                        Case{1, 1, 150, 32, {1, 12, 14}, {1, 3, 3}, ones, ones, pad, pad},
                        Case{1, 1, 32, 32, {1, 3, 301}, {1, 3, 3}, ones, ones, pad, {0, 0, 3}},
                        Case{1, 1, 32, 32, {1, 1, 70}, {1, 3, 3}, ones, ones, {0, 3, 20}, {0, 3, 0}},
                        Case{11, 1, 32, 36, {1, 5, 5}, {1, 3, 3}, ones, ones, pad, pad}}) {
    check_layer(random, p);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Products, WinogradConvolutionsReadViews) {
  Random random(14);
  const Layer layer(random, {2, 1, 34, 33, {1, 11, 12}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}, {0, 1, 0}});
  const Tensor x = reals(random, layer.x_shape());
  const auto f = compile([&](const Tensor& a) { return conv(a, layer.w, layer.options()); }, {.for_inference = true});
  const auto run = [&](const Tensor& a) {
    f(a);  // records the function for this layout
    return stave_test::bytes_of(f(a));
  };
  const auto expected = run(x);
  // The weights are prepared: a run without them has other bits where there is a kernel.
  const bool has_kernel = stave_cpu::kernels().winograd.input != nullptr;
  EXPECT_EQ(stave_test::bytes_of(conv(x, layer.w, layer.options())) != expected, has_kernel);
  const auto copied = [](const Tensor& a) { return from(a.to_vector<float>(), a.shape()); };
  for (const Shape& order : {Shape{0, 2, 3, 1}, Shape{3, 2, 1, 0}, Shape{1, 0, 2, 3}}) {
    Shape back{0, 0, 0, 0};
    for (int i = 0; i < 4; ++i) back[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;
    const Tensor view = permute_dims(copied(permute_dims(x, order)), back);
    ASSERT_TRUE(run(view) == expected) << order.str();
  }
  for (const int axis : {-1, -2}) ASSERT_TRUE(run(flip(copied(flip(x, axis)), axis)) == expected) << axis;
}

// Each image alone gives the bits of all together, and so does one thread: after a fork, loops run
// on the calling thread (parallel.cpp).
TEST_P(Products, WinogradConvolutionsDoNotDependOnTheDivision) {
  Random random(15);
  const Layer layer(random, {5, 1, 64, 64, {1, 27, 30}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}});
  const Tensor x = reals(random, layer.x_shape());
  const auto f = compile([&](const Tensor& a) { return relu(conv(a, layer.w, layer.options()) + layer.bias); },
                         {.for_inference = true});
  for (int run = 0; run < 2; ++run) f(x);
  const auto together = stave_test::bytes_of(f(x));
  const std::vector<float> values = x.to_vector<float>();
  std::vector<std::byte> single;
  for (std::size_t n = 0; n < 5; ++n) {
    const std::size_t each = values.size() / 5;
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(n * each);
    const Tensor image = from(std::vector<float>(first, first + static_cast<std::ptrdiff_t>(each)), {1, 64, 27, 30});
    for (int run = 0; run < 2; ++run) f(image);
    const auto bytes = stave_test::bytes_of(f(image));
    single.insert(single.end(), bytes.begin(), bytes.end());
  }
  EXPECT_TRUE(single == together);

  const pid_t child = fork();
  if (child == 0) {
    const bool same = stave_cpu::thread_count() == 1 && stave_test::bytes_of(f(x)) == together;
    _exit(same ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The results whose windows contain a NaN or infinity are not finite, and all others are.
TEST_P(Products, WinogradConvolutionsKeepNansInWindows) {
  Random random(16);
  const Layer layer(random, {1, 1, 32, 32, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}});
  const std::vector<float> values = reals(random, layer.x_shape()).to_vector<float>();
  const auto f = compile([&](const Tensor& a) { return conv(a, layer.w, layer.options()); }, {.for_inference = true});
  for (const float special : {NAN, INFINITY})
    for (const Index row : {7, 8})
      for (const Index column : {5, 6}) {
        std::vector<float> with = values;
        with[static_cast<std::size_t>(16 * row + column)] = special;
        f(from(with, layer.x_shape()));
        const std::vector<double> y = elements(f(from(with, layer.x_shape())));
        for (Index i = 0; i < 16; ++i)
          for (Index j = 0; j < 16; ++j) {
            const bool inside = std::abs(i - row) <= 1 && std::abs(j - column) <= 1;
            ASSERT_EQ(std::isfinite(y[static_cast<std::size_t>(16 * i + j)]), !inside) << i << " " << j;
          }
      }
}

}  // namespace
