// The text of programs as StableHLO, and what is refused. What the text computes is tested in
// stablehlo/.
#include <complex>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>

#include <stave/core/program/write_stablehlo.h>
#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace std::complex_literals;
using testing::HasSubstr;
using testing::Not;

std::string text_of(const Program& program, const StableHloOptions& options = {}) {
  std::ostringstream out;
  write_stablehlo(out, program, options);
  return out.str();
}
std::string error_of(const Program& program, const StableHloOptions& options = {}) {
  try {
    static_cast<void>(text_of(program, options));
  } catch (const TransformError& error) {
    return error.what();
  }
  return "";
}

TEST(WriteStableHlo, AProgramIsAModule) {
  const Tensor x = label(ones({2, 3}), "x"), y = label(ones({2, 3}), "y");
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b - 0.1f; };
  EXPECT_EQ(text_of(trace(f)(x, y), {.name = "product"}), R"(module @product {
  // %0: x:f32[2,3]
  // %1: y:f32[2,3]
  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
    %2 = stablehlo.constant dense<0x3DCCCCCD> : tensor<2x3xf32>
    %3 = stablehlo.multiply %0, %1 : tensor<2x3xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<2x3xf32>
    return %4 : tensor<2x3xf32>
  }
}
)");
}

TEST(WriteStableHlo, ConstantsKeepAllBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto add = [](const Tensor& constant) {
    return text_of(trace([=](const Tensor& x) { return x + constant; })(zeros_like(constant)));
  };
  EXPECT_THAT(add(tensor({1.25, 0.1, -0., nan}, float64)),
              HasSubstr("dense<[1.25, 0x3FB999999999999A, 0x8000000000000000, 0x7FF8000000000000]> : tensor<4xf64>"));
  EXPECT_THAT(add(full({2}, 0.1, float16)), HasSubstr("dense<[0x2E66, 0x2E66]> : tensor<2xf16>"));
  EXPECT_THAT(add(tensor({1, -2})), HasSubstr("dense<[1, -2]> : tensor<2xi32>"));
  EXPECT_THAT(add(arange(0, 20, 1, uint8)),
              HasSubstr("dense<\"0x000102030405060708090A0B0C0D0E0F10111213\"> : tensor<20xui8>"));
  const auto masked = [](const Tensor& x) { return where(tensor({true, false, true}), x, 0.); };
  EXPECT_THAT(text_of(trace(masked)(ones({3}))), HasSubstr("dense<[true, false, true]> : tensor<3xi1>"));
}

TEST(WriteStableHlo, ComplexNumbersHaveTwoParts) {
  const auto f = [](const Tensor& z) { return z * tensor({1. + 2i, -0.1i}, complex128); };
  const std::string text = text_of(trace(f)(zeros({2}, complex128)));
  EXPECT_THAT(text,
              HasSubstr("dense<[(1.00, 2.00), (0x8000000000000000, 0xBFB999999999999A)]> : tensor<2xcomplex<f64>>"));
  EXPECT_THAT(text, HasSubstr("stablehlo.multiply %0, %1 : tensor<2xcomplex<f64>>"));
  EXPECT_THAT(text_of(trace([](const Tensor& x) { return rfft(x); })(zeros({8}, float64))),
              HasSubstr("stablehlo.fft %0, type = RFFT, length = [8] : (tensor<8xf64>) -> tensor<5xcomplex<f64>>"));
  EXPECT_THAT(text_of(trace([](const Tensor& z) { return abs(z); })(zeros({3}, complex64)), {.wide = false}),
              testing::Not(HasSubstr("f64")));
}

TEST(WriteStableHlo, LoopsStayLoopsAndFunctionsFunctions) {
  const auto run = [](const Tensor& x) { return loop(1000, [](const Tensor& y) { return 0.5 * y; })(x); };
  const std::string text = text_of(trace(run)(ones({3})));
  EXPECT_THAT(text, HasSubstr("\"stablehlo.while\""));
  EXPECT_THAT(text, HasSubstr("call @main_body_1("));
  EXPECT_THAT(text, HasSubstr("func.func private @main_body_1("));
  EXPECT_EQ(text, text_of(trace(run)(ones({3})))) << "the text is the same whenever the program is";

  const auto twice = [](const Tensor& x) {
    const auto f = checkpoint([](const Tensor& y) { return sin(y) * y; });
    return sum(f(x));
  };
  EXPECT_THAT(text_of(trace(twice)(ones({3}))), HasSubstr("call @main_function_1("));
  EXPECT_THAT(text_of(trace(grad(twice))(ones({3}))), HasSubstr("stablehlo.optimization_barrier"))
      << "what a checkpoint computes again is not merged with what it repeats";
}

TEST(WriteStableHlo, WithoutWideThereIsNoFloat64) {
  const auto f = [](const Tensor& x) {
    return std::tuple(sum(x), softmax(x, 0), log_softmax(x, 0), layer_norm(x), lgamma(x), digamma(x), cumulative_sum(x),
                      prod(x), det(outer(x, x)), linspace(0, 1, 3), zeta(2., x), erfinv(x),
                      grad([](const Tensor& y) { return sum(layer_norm(y) * y); })(x));
  };
  const Program program = trace(f)(ones({3}));
  EXPECT_THAT(text_of(program), HasSubstr("f64"));
  EXPECT_THAT(text_of(program, {.wide = false}), Not(HasSubstr("f64")));
}

TEST(WriteStableHlo, RefusesByName) {
  const Tensor a = eye(3);
  EXPECT_THAT(error_of(trace([](const Tensor& x) { return eigh(x).first; })(a)),
              HasSubstr("write_stablehlo: eigh (f32[3]) cannot be written as StableHLO: StableHLO has no decomposition "
                        "into eigenvalues or singular values"));
  EXPECT_THAT(error_of(trace([](const Tensor& x) { return lstsq(x, x); })(a)), HasSubstr("write_stablehlo: svd ("));
  EXPECT_THAT(error_of(trace([](const Tensor& x) { return 2 * x; })(a), {.name = "my-name"}),
              HasSubstr("the name \"my-name\" is not made of letters, digits and underscores"));

  const auto branch = [](const Tensor& x) { return sum(x) > 0 ? x : -x; };
  EXPECT_THAT(error_of(trace(branch)(a)), HasSubstr("write_stablehlo: the program read the value"));
  EXPECT_THAT(error_of(trace(branch)(a)), HasSubstr("set .checks"));
  EXPECT_THAT(text_of(trace(branch)(a), {.checks = true}), HasSubstr("-> (tensor<3x3xf32>, tensor<i1>)"));
}

TEST(WriteStableHlo, ChecksAreWrittenOnRequestOnly) {
  const auto f = [](const Tensor& at) { return tensor({1., 2.})[at]; };
  const Program program = trace(f)(tensor({0, 1, 1}));
  EXPECT_THAT(text_of(program), Not(HasSubstr("tensor<i1>")));
  EXPECT_THAT(text_of(program, {.checks = true}), HasSubstr("-> (tensor<3xf32>, tensor<i1>)"));
  EXPECT_THAT(text_of(trace([](const Tensor& x) { return x + 1; })(ones({2})), {.checks = true}),
              HasSubstr("stablehlo.constant dense<true> : tensor<i1>"));
}

}  // namespace
