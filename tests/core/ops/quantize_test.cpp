// Quantized weights: codes and products as NumPy computes them (tests/data/quantize.py), the bounds
// of the errors, the kernels of every instruction set, and the operation under transforms.
// tests/table has the values and derivatives of small cases.
#include <cmath>
#include <limits>
#include <random>

#include <stave/stave.h>

#include "files.h"
#include "isas.h"
#include "matchers.h"

namespace quantize_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using Named = std::map<std::string, Tensor>;

Tensor draws(std::uint64_t seed, const Shape& shape, Dtype dtype = float32) {
  return astype(normal(Key(seed), shape, float64), dtype);
}

const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

/// The largest absolute value.
double largest(const Tensor& x) { return x.size() == 0 ? 0 : (max)(abs(astype(x, float64))).item<double>(); }

/// A number for each group as one for each element.
Tensor for_elements(const Tensor& x, Index group) { return repeat(astype(x, float64), group, -1); }

// ---- values -------------------------------------------------------------------------------------

TEST(Quantize, GivesTheCodesScalesAndProductsOfNumPy) {
  const Named arrays = load_npz<Named>(STAVE_SOURCE_DIR "/tests/data/quantize.npz");
  const Tensor &w = arrays.at("w"), &x = arrays.at("x");
  for (const int bits : {4, 8})
    for (const Index group : {16, 48, 96})
      for (const bool symmetric : {false, true}) {
        const std::string name =
            (symmetric ? "symmetric_" : "affine_") + std::to_string(bits) + "_" + std::to_string(group) + "/";
        SCOPED_TRACE(name);
        const Quantized q = quantize(w, {.bits = bits, .group_size = group, .symmetric = symmetric});
        EXPECT_THAT(q.packed, Equals(arrays.at(name + "packed")));
        EXPECT_THAT(q.scales, Equals(arrays.at(name + "scales")));
        EXPECT_EQ(q.biases.has_value(), !symmetric);
        if (!symmetric) {
          EXPECT_THAT(*q.biases, Equals(arrays.at(name + "biases")));
        }
        EXPECT_TRUE(allclose(dequantize(q, float64), arrays.at(name + "weights"), 1e-15, 1e-15));
        EXPECT_TRUE(allclose(quantized_matmul(x, q), arrays.at(name + "product"), 1e-6, 2e-5));
        EXPECT_TRUE(allclose(quantized_matmul(astype(x, float64), q), arrays.at(name + "product"), 1e-13, 1e-13));
      }
}

// The bound of the documentation: scale / 2 + u (2^bits scale + 2 |w| + 2 |bias|).
TEST(Quantize, ErrorsAreAtMostHalfAScale) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const int bits : {4, 8})
      for (const bool symmetric : {false, true})
        for (const Index group : {2, 32, 128}) {
          const Tensor w = draws(3, {64, 128}, dtype) + astype(draws(4, {64, 1}), dtype);
          const Quantized q = quantize(w, {.bits = bits, .group_size = group, .symmetric = symmetric});
          const Tensor exact = astype(w, float64), scale = for_elements(q.scales, group);
          const double unit = dtype == float16    ? 0x1p-11
                              : dtype == bfloat16 ? 0x1p-8
                              : dtype == float32  ? 0x1p-24
                                                  : 0x1p-53;
          Tensor size = (1 << bits) * scale + 2 * abs(exact);
          if (q.biases) size = size + 2 * abs(for_elements(*q.biases, group));
          const Tensor error = abs(dequantize(q, float64) - exact);
          EXPECT_TRUE(bool(all(error <= 0.5 * scale + unit * size)))
              << dtype << " " << bits << " bits, groups of " << group << (symmetric ? ", symmetric" : "");
          // The bound is nearly reached.
          if (group > 2) {
            EXPECT_GT(largest(error / scale), 0.45);
          }
        }
}

// The bound holds for all finite weights: in subnormal scales, which have few digits, and near the
// largest number, where the range of a group and the largest code could overflow.
TEST(Quantize, ErrorsAreAtMostHalfAScaleForTheSmallestAndLargestWeights) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const int bits : {4, 8})
      for (const bool symmetric : {false, true}) {
        const FloatInfo limits = finfo(dtype);
        const double unit = limits.eps / 2, smallest = limits.smallest_normal * limits.eps;
        for (const double size : {1e3 * limits.smallest_normal, 10 * limits.smallest_normal, limits.smallest_normal,
                                  1e3 * smallest, 30 * smallest, 3 * smallest, smallest, limits.max / 3, limits.max}) {
          SCOPED_TRACE(testing::Message()
                       << dtype << " " << bits << " bits, size " << size << (symmetric ? ", symmetric" : ""));
          // Rows of both signs, of one sign, and rows with the largest weights.
          const Tensor random = 2. * uniform(Key(6), {4, 32}, float64) - 1., ends = tensor({1., -1.}, float64);
          const Tensor shares =
              concat({random, abs(random), concat({random(slice(), slice(0, 30)), broadcast_to(ends, {4, 2})}, 1)});
          const Tensor w = astype(shares * size, dtype), exact = astype(w, float64);
          const Quantized q = quantize(w, {.bits = bits, .group_size = 16, .symmetric = symmetric});
          // Divided by `size`, so that the bound does not overflow.
          const Tensor scale = for_elements(q.scales, 16) / size;
          Tensor terms = (1 << bits) * scale + 2 * abs(exact / size);
          if (q.biases) terms = terms + 2 * abs(for_elements(*q.biases, 16) / size);
          const Tensor bound = 0.5 * scale + unit * terms;
          EXPECT_TRUE(bool(all(abs(dequantize(q, float64) / size - exact / size) <= bound)));
          // One rounding more, to the dtype.
          const Tensor rounded = astype(dequantize(q), float64);
          EXPECT_TRUE(bool(all(isfinite(rounded))));
          EXPECT_TRUE(bool(
              all(abs(rounded / size - exact / size) <= bound + unit * abs(exact / size) + 0.5 * (smallest / size))));
        }
      }
}

TEST(Quantize, InfinitiesAndNansMakeTheirGroupNan) {
  for (const bool symmetric : {false, true})
    for (const int bits : {4, 8}) {
      const Tensor w = tensor({{inf, 1., 2., 3.}, {1., -inf, 0., inf}, {1., nan, 2., 3.}, {-1., 1., 1., 1.}}, float64);
      const Quantized q = quantize(w, {.bits = bits, .group_size = 4, .symmetric = symmetric});
      const Tensor expected = tensor({{nan}, {nan}, {nan}, {0.}}, float64);
      EXPECT_THAT(isnan(q.scales), Equals(isnan(expected)));
      EXPECT_THAT(isnan(dequantize(q)), Equals(broadcast_to(isnan(expected), {4, 4})));
      EXPECT_THAT(dequantize(q)(3), IsNear(w(3), 1e-15));
      EXPECT_THAT(isnan(quantized_matmul(ones({1, 4}, float64), q)), Equals(matrix_transpose(isnan(expected))));
    }
}

TEST(Quantize, RowsMayBeEmpty) {
  for (const Index group : {0, 8}) {
    const Quantized q = quantize(ones({2, 0}), {.group_size = group});
    EXPECT_EQ(q.packed.shape(), Shape(2, 0));
    EXPECT_EQ(q.scales.shape(), Shape(2, 0));
    EXPECT_THAT(dequantize(q), Equals(ones({2, 0})));
    EXPECT_THAT(quantized_matmul(ones({3, 0}), q), Equals(zeros({3, 2})));
  }
}

TEST(Quantize, NestsUnderVmapAndCompile) {
  const Tensor w = stack({draws(3, {4, 16}), draws(4, {4, 16}) * 1e-44, draws(5, {4, 16}) * 1e37});
  for (const bool symmetric : {false, true}) {
    const auto f = [symmetric](const Tensor& x) { return quantize(x, {.group_size = 8, .symmetric = symmetric}); };
    const Quantized expected = f(w), lanes = vmap(f)(w), compiled = compile(f)(w);
    for (const Quantized& found : {lanes, compiled}) {
      EXPECT_THAT(found.packed, Equals(expected.packed));
      EXPECT_THAT(found.scales, Equals(expected.scales));
      EXPECT_THAT(dequantize(found), Equals(dequantize(expected)));
    }
  }
}

// The lines of docs/guides/bring_your_model.md.
TEST(Quantize, TheGuideShowsAGradient) {
  const Tensor weights = draws(1, {8, 128}), x = draws(2, {4, 128});

  const Quantized w = quantize(weights, {.bits = 8, .group_size = 64});
  const auto loss = [&](const Tensor& inputs) { return sum(square(quantized_matmul(inputs, w))); };
  const Tensor each = vmap(grad(loss))(x);

  const Tensor plain = dequantize(w);
  EXPECT_TRUE(allclose(each, 2 * matmul(matmul(x, matrix_transpose(plain)), plain), 1e-4, 1e-2));
}

TEST(Quantize, CodesAreTheBytesThatAreDocumented) {
  const Tensor w = tensor({{0., 1., 2., 15., 3., 4., 5., 0.}});
  const Quantized four = quantize(w, {.bits = 4, .group_size = 8});
  EXPECT_THAT(four.packed, Equals(tensor({{0x10, 0xf2, 0x43, 0x05}}, uint8)));
  EXPECT_THAT(four.scales, Equals(tensor({{1.}})));
  EXPECT_THAT(*four.biases, Equals(tensor({{0.}})));
  const Quantized eight = quantize(tensor({{-127., 0., 126., 1.}}), {.bits = 8, .group_size = 4, .symmetric = true});
  EXPECT_THAT(eight.packed, Equals(tensor({{1, 128, 254, 129}}, uint8)));
  EXPECT_THAT(dequantize(eight), Equals(tensor({{-127., 0., 126., 1.}})));
}

// ---- kernels ------------------------------------------------------------------------------------

/// Random weights: every code occurs.
Quantized random_weights(std::uint64_t seed, const Shape& shape, int bits, Index group, bool symmetric, Dtype scales) {
  Shape packed = shape, groups = shape;
  packed.back() = shape.back() * bits / 8;
  groups.back() = shape.back() / group;
  Quantized w{astype(random_bits(Key(seed), packed) % 256, uint8), draws(seed + 1, groups, scales), {}, bits};
  if (!symmetric) w.biases = draws(seed + 2, groups, scales);
  return w;
}

/// Compares a product with the product of float64 matrices.
void expect_product(const Tensor& x, const Quantized& w, bool transpose) {
  const Tensor weights = dequantize(w, float64), wide = astype(x, float64);
  const auto times = [&](const Tensor& a, const Tensor& b) { return matmul(a, transpose ? matrix_transpose(b) : b); };
  const Tensor expected = times(wide, weights);
  // Rounding errors are relative to the terms that are summed, those of codes and biases.
  const Tensor size = times(abs(wide), abs(weights) + (1 << w.bits) * largest(w.scales));
  const double unit = x.dtype() == float64   ? 0x1p-52
                      : x.dtype() == float32 ? 0x1p-23
                      : x.dtype() == float16 ? 0x1p-10
                                             : 0x1p-7;
  const Tensor found = quantized_matmul(x, w, {.transpose = transpose});
  EXPECT_EQ(found.dtype(), x.dtype());
  EXPECT_EQ(found.shape(), expected.shape());
  EXPECT_TRUE(bool(all(abs(astype(found, float64) - expected) <= 4 * unit * size + unit * abs(expected))))
      << x.dtype() << x.shape() << " " << w.bits << " bits " << w.packed.shape() << " scales " << w.scales.dtype()
      << w.scales.shape() << (w.biases ? "" : " symmetric") << (transpose ? "" : " not transposed");
}

class QuantizedKernels : public stave_test::OnEachIsa {};

// Groups shorter than a vector, of one, two and more whole vectors of each instruction set, and
// with a rest; long groups, whose sums are added in parts; and as many rows of x as one call of a
// kernel takes, fewer, and more.
TEST_P(QuantizedKernels, ComputeProducts) {
  std::uint64_t seed = 0;
  for (const int bits : {4, 8})
    for (const auto& [k, group] : {std::pair<Index, Index>{8, 2},
                                   {80, 16},
                                   {72, 8},
                                   {44, 4},
                                   {96, 32},
                                   {192, 64},
                                   {90, 30},
                                   {500, 100},
                                   {130, 130},
                                   {9000, 9000},
                                   {8192, 32}})
      for (const Index rows : {1, 2, 3, 4, 7, 20}) {
        seed += 10;
        const bool symmetric = seed % 20 == 0;
        const Dtype dtype = seed % 30 == 0 ? float64 : float32, scales = seed % 50 == 0 ? float16 : dtype;
        const Quantized w = random_weights(seed, {5, k}, bits, group, symmetric, scales);
        expect_product(draws(seed + 3, {rows, k}, dtype), w, true);
        expect_product(draws(seed + 4, {rows, 5}, dtype), w, false);
      }
}

// More weights than are unpacked at a time.
TEST_P(QuantizedKernels, ComputeProductsByBlocks) {
  for (const int bits : {4, 8}) {
    const Quantized w = random_weights(7, {3001, 1024}, bits, 128, bits == 8, float32);
    expect_product(draws(8, {11, 1024}), w, true);
    expect_product(draws(9, {3, 3001}), w, false);
  }
}

STAVE_ON_EACH_ISA(QuantizedKernels);

TEST(QuantizedMatmul, TakesEveryDtypeAndLayout) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const Dtype scales : {float16, bfloat16, float32, float64}) {
      const Quantized w = random_weights(1, {6, 64}, 4, 32, false, scales);
      expect_product(draws(2, {2, 3, 64}, dtype), w, true);
      // Rows of every second matrix, which are not dense, and a stack that is broadcast.
      const Quantized stack = random_weights(3, {4, 1, 6, 64}, 8, 16, true, scales);
      const Quantized strided{matrix_transpose(contiguous(matrix_transpose(stack.packed)))(slice(none, none, 2)),
                              stack.scales(slice(none, none, 2)),
                              {},
                              8};
      expect_product(draws(4, {3, 2, 64}, dtype), strided, true);
      expect_product(matrix_transpose(draws(5, {2, 1, 64, 9}, dtype)), strided, true);
    }
}

// Sums of many terms are as accurate as those of few.
TEST(QuantizedMatmul, SumsOfAnyLengthAreAccurate) {
  const Index k = Index{1} << 22;
  const Quantized w{full({1, k}, 129, uint8), full({1, 1}, 0.1f), {}, 8};
  EXPECT_NEAR(quantized_matmul(full({1, k}, 0.1f), w).item<double>(), 0.01 * static_cast<double>(k), 0.05);
}

TEST(QuantizedMatmul, InfiniteScalesSpoilTheirGroupsOnly) {
  Quantized w = random_weights(1, {3, 36}, 4, 12, true, float32);
  const Tensor before = quantized_matmul(ones({1, 36}), w);
  w.scales = w.scales.at(1, 2).set(std::numeric_limits<double>::infinity());
  const Tensor after = quantized_matmul(ones({1, 36}), w);
  EXPECT_THAT(isfinite(after), Equals(tensor({{true, false, true}})));
  EXPECT_THAT(after(0, 0), Equals(before(0, 0)));
}

// ---- transforms ---------------------------------------------------------------------------------

TEST(QuantizedMatmul, RecordIsRight) {
  std::vector<OpCase> cases;
  for (const int bits : {4, 8})
    for (const bool symmetric : {false, true})
      for (const bool transpose : {false, true}) {
        const Quantized w = random_weights(5, {3, 8}, bits, 4, symmetric, float64);
        OpCase one{.inputs = {draws(6, {2, transpose ? 8 : 3}, float64), w.packed, w.scales},
                   .attributes = make_intrusive<QuantizedAttributes>(bits, transpose)};
        if (w.biases) one.inputs.push_back(*w.biases);
        cases.push_back(one);
      }
  check_op(op_quantized_matmul, cases);
}

/// The gradient by x and the scales of a loss, for weights that are quantized.
TEST(QuantizedMatmul, NestsUnderTransformsAndCompile) {
  const Quantized w = random_weights(5, {6, 32}, 4, 8, false, float32);
  const Tensor weights = dequantize(w);
  const auto loss = [&](const Tensor& x, const Tensor& scales) {
    return sum(square(quantized_matmul(x, {w.packed, scales, w.biases, w.bits})));
  };
  const auto plain = [&](const Tensor& x, const Tensor& scales) {
    return sum(square(matmul(x, matrix_transpose(dequantize({w.packed, scales, w.biases, w.bits})))));
  };
  const Tensor xs = draws(8, {4, 32});
  const auto each = vmap(grad<0, 1>(loss), {.in_axes = {0, unmapped}});
  const auto [by_x, by_scales] = each(xs, w.scales);
  const auto [x_expected, scales_expected] = vmap(grad<0, 1>(plain), {.in_axes = {0, unmapped}})(xs, w.scales);
  EXPECT_TRUE(allclose(by_x, x_expected, 1e-4, 1e-3));
  EXPECT_TRUE(allclose(by_scales, scales_expected, 1e-4, 1e-2));
  const auto compiled = compile(each);
  for (int i = 0; i < 2; ++i) {
    const auto [x_again, scales_again] = compiled(xs, w.scales);
    EXPECT_THAT(x_again, Equals(by_x));
    EXPECT_THAT(scales_again, Equals(by_scales));
  }
}

// Weights are a tree: each lane may have its own.
TEST(QuantizedMatmul, LanesMayHaveTheirOwnWeights) {
  const Quantized w = random_weights(5, {3, 6, 32}, 8, 16, false, float32);
  const Tensor x = draws(8, {3, 2, 32});
  const auto product = [](const Tensor& y, const Quantized& v) { return quantized_matmul(y, v); };
  EXPECT_THAT(vmap(product)(x, w), Equals(quantized_matmul(x, w)));
  EXPECT_THAT(vmap(product, {.in_axes = {unmapped, 0}})(x[0], w), Equals(quantized_matmul(x[0], w)));
  const Quantized first{w.packed[0], w.scales[0], (*w.biases)[0], 8};
  EXPECT_THAT(vmap(product, {.in_axes = {0, unmapped}})(x, first), Equals(quantized_matmul(x, first)));
}

TEST(QuantizedMatmul, ProgramsAreTracedSavedAndCosted) {
  const Folder folder;
  const Quantized w = random_weights(5, {6, 32}, 4, 8, false, float32);
  const Tensor x = draws(8, {2, 32});
  const Program program = trace([](const Tensor& y, const Quantized& v) { return quantized_matmul(y, v); })(x, w);
  EXPECT_THAT(program.str(), HasSubstr("= quantized_matmul a b c d bits=4 transpose"));
  save_program(folder / "x.stave", program);
  const Program again = load_program(folder / "x.stave");
  EXPECT_EQ(again.str(), program.str());
  EXPECT_EQ(cost_of(program).flops, 2u * 2 * 6 * 32);
}

TEST(QuantizedMatmul, GradientOfCodesIsRefused) {
  const Quantized w = random_weights(5, {6, 32}, 4, 8, true, float32);
  const auto loss = [&](const Tensor& packed) {
    return sum(quantized_matmul(ones({1, 32}), {packed, w.scales, {}, 4}));
  };
  EXPECT_THAT([&] { grad(loss)(w.packed); }, ThrowsMessage<DtypeError>(HasSubstr("uint8")));
}

TEST(Quantize, BadOptionsAreErrors) {
  const Tensor w = ones({2, 8});
  const auto fault = [&](QuantizeOptions options) { return message_of<Error>([&] { quantize(w, options); }); };
  EXPECT_EQ(fault({.bits = 3}), "quantize: codes have 4 or 8 bits, not 3");
  EXPECT_THAT(fault({.group_size = 3}),
              HasSubstr("quantize: groups of 3 do not divide rows of 8 into parts of even length"));
  EXPECT_THAT(fault({.bits = 8, .group_size = 3}),
              HasSubstr("quantize: groups of 3 do not divide rows of 8 into equal parts"));
  EXPECT_THAT(fault({.group_size = -2}), HasSubstr("quantize: groups of -2 do not divide"));
  EXPECT_THAT([&] { quantize(astype(w, int32)); },
              ThrowsMessage<DtypeError>(HasSubstr("weights are floats, not int32")));
  Quantized q = quantize(w, {.group_size = 4});
  q.biases = ones({2, 3});
  EXPECT_THAT([&] { dequantize(q); },
              ThrowsMessage<ShapeError>(HasSubstr("dequantize: biases are float32 [2,3], and must be float32 [2,2]")));
  q.biases = Tensor();
  EXPECT_THAT([&] { dequantize(q); },
              ThrowsMessage<TransformError>(HasSubstr("dequantize: biases are an empty Tensor")));
  EXPECT_THAT([&] { quantized_matmul(w, q); },
              ThrowsMessage<TransformError>(HasSubstr("quantized_matmul: biases are an empty Tensor")));
  q.biases = {};
  q.bits = 5;
  EXPECT_THAT([&] { quantized_matmul(w, q); },
              ThrowsMessage<Error>(HasSubstr("quantized_matmul: codes have 4 or 8 bits, not 5")));
}

}  // namespace quantize_test
