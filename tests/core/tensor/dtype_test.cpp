// The 8-bit and 16-bit dtypes and uint64: C++ types and numbers, computations in a wider dtype,
// ends of ranges.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

// ---- floats of sixteen bits, as C++ types -------------------------------------------------------

// IEEE 754's binary16 by its definition: a sign, five bits of exponent, ten of the significand.
double value_of_float16(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31, rest = bits & 1023;
  const double magnitude = exponent == 31  ? (rest ? std::nan("") : INFINITY)
                           : exponent == 0 ? std::ldexp(rest, -24)
                                           : std::ldexp(1024 + rest, static_cast<int>(exponent) - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

TEST(Float16, ConvertsToAndFromFloatExactly) {
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double value = value_of_float16(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(float(half)));
      ASSERT_TRUE(std::isnan(float(Float16(float(half)))));
      continue;
    }
    ASSERT_EQ(float(half), value);
    ASSERT_EQ(Float16(value).bits, bits);
  }
}

TEST(Float16, DoublesAreRoundedOnceToNearestEven) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // between this number and the next
    const double low = value_of_float16(bits), high = value_of_float16(bits + 1), middle = (low + high) / 2;
    const unsigned even = bits % 2 ? bits + 1 : bits;
    const double below = std::nextafter(middle, 0), above = std::nextafter(middle, high);
    ASSERT_EQ(Float16(middle).bits, even) << low;
    // `below` is no float: rounding to float first would give the midpoint.
    ASSERT_EQ(Float16(below).bits, bits) << low;
    ASSERT_EQ(Float16(above).bits, bits + 1) << low;
    ASSERT_EQ(Float16(-above).bits, (bits + 1) | 0x8000);
  }
  EXPECT_EQ(Float16(65519.99).bits, 0x7bff);
  EXPECT_EQ(Float16(65520).bits, 0x7c00);
}

TEST(BFloat16, IsTheRoundedUpperHalfOfAFloat) {
  for (unsigned bits = 0; bits < 0x7f7f; ++bits) {
    const auto value = [](unsigned upper) {
      const std::uint32_t word = upper << 16;
      float x;
      std::memcpy(&x, &word, sizeof x);
      return static_cast<double>(x);
    };
    const double low = value(bits), high = value(bits + 1), middle = (low + high) / 2;
    ASSERT_EQ(BFloat16(low).bits, bits);
    ASSERT_EQ(BFloat16(middle).bits, bits % 2 ? bits + 1 : bits) << low;
    ASSERT_EQ(BFloat16(std::nextafter(middle, 0)).bits, bits) << low;
    ASSERT_EQ(BFloat16(std::nextafter(middle, high)).bits, bits + 1) << low;
  }
  EXPECT_TRUE(std::isnan(float(BFloat16(std::nan("")))));
  EXPECT_EQ(float(BFloat16((std::int64_t{1} << 40) + (std::int64_t{1} << 32) + 1)), 0x1.02p40f);
  EXPECT_EQ(float(BFloat16(-(std::int64_t{1} << 62) - (std::int64_t{1} << 54) - 1)), -0x1.02p62f);
  EXPECT_EQ(float(BFloat16(greatest)), 0x1p64f);
}

TEST(Float16, ComputesAsFloatAndIsANumberBesideTensors) {
  const Float16 a(1.5), b(2.25);
  static_assert(std::is_same_v<decltype(a + b), float>);
  EXPECT_EQ(a * b + 1, 4.375f);
  EXPECT_TRUE(a < b && a != b && a <= 1.5);
  EXPECT_THAT(tensor({1., 2.}) * a, Equals(tensor({1.5, 3.})));
  EXPECT_EQ((tensor({1, 2}) * a).dtype(), float32);
  EXPECT_EQ(tensor(0.1, float16).item<double>(), 0.0999755859375);
  EXPECT_EQ(tensor(0.1, bfloat16).item<float>(), 0.10009765625f);
  EXPECT_EQ(tensor(2.5, float16).item<int>(), 2);
  EXPECT_EQ(tensor(2.5, float32).item<Float16>(), Float16(2.5));
  const std::vector<BFloat16> values = {BFloat16(1), BFloat16(-0.5)};
  EXPECT_EQ(from(values).dtype(), bfloat16);
  EXPECT_EQ(from(values).to_vector<BFloat16>(), values);
}

// ---- integers -----------------------------------------------------------------------------------

TEST(Integers, OfEveryCppTypeHaveADtype) {
  EXPECT_EQ(from(std::vector<short>{-1}).dtype(), int16);
  EXPECT_EQ(from(std::vector<unsigned short>{1}).dtype(), uint16);
  EXPECT_EQ(from(std::vector<signed char>{-1}).dtype(), int8);
  EXPECT_EQ(from(std::vector<unsigned long>{1}).dtype(), uint64);
  EXPECT_EQ(from(std::vector<unsigned long long>{greatest}).item<unsigned long long>(), greatest);
  static_assert(!has_dtype<char> && !has_dtype<wchar_t> && !has_dtype<long double>);
}

TEST(Numbers, ArePrintedExactly) {
  EXPECT_EQ(Scalar(greatest).str(), "18446744073709551615");
  EXPECT_EQ(Scalar(-1).str(), "-1");
  EXPECT_EQ(Scalar(0.5).str(), "0.5");
  EXPECT_THAT(trace([] { return full({2}, greatest, uint64); })().str(), HasSubstr("18446744073709551615"));
}

TEST(Numbers, ComplexNumbersAreWeak) {
  const Scalar z(std::complex<float>(1, -2));
  EXPECT_EQ(z.kind, Scalar::Kind::complex);
  EXPECT_EQ(z.str(), "1-2j");
  EXPECT_EQ(z, Scalar(std::complex<double>(1, -2)));
  EXPECT_FALSE(z == Scalar(std::complex<double>(1, 2)));
  EXPECT_FALSE(Scalar(std::complex<double>(1, 0.)) == Scalar(1.));
  EXPECT_FALSE(Scalar(std::complex<double>(1, 0.)) == Scalar(std::complex<double>(1, -0.)));
  const Tensor x = ones({2});
  for (const Tensor& result : {x * z, add(z, 1), full({2}, z), where(x > 0, x, z), astype(x, float16) + z, 1 + z + x})
    EXPECT_EQ(result.dtype(), complex64);
  EXPECT_EQ((ones({2}, float64) - z).dtype(), complex128);
  EXPECT_EQ((ones({2}, int64) / z).dtype(), complex64);
  with(DefaultDtype(float64), [&] {
    EXPECT_EQ(tensor(z).dtype(), complex128);
    EXPECT_EQ((ones({2}, int64) * z).dtype(), complex128);
  });
  const auto refused = ThrowsMessage<DtypeError>(HasSubstr("the complex number 1-2j does not fit float32"));
  EXPECT_THAT([&] { full({2}, z, float32); }, refused);
  EXPECT_THAT([&] { pad(x, {{1, 1}}, z); }, refused);
  EXPECT_THAT([&] { tensor({z}, float32); }, refused);
  EXPECT_THAT([&] { arange(z); }, ThrowsMessage<DtypeError>(HasSubstr("arange")));
}

TEST(Integers, BeyondInt64AreUint64) {
  EXPECT_EQ(tensor(greatest).dtype(), uint64);
  EXPECT_EQ(tensor({greatest, greatest - 1}).dtype(), uint64);
  EXPECT_EQ(tensor({std::uint64_t{1}}).dtype(), int64);
  EXPECT_EQ(full({2}, greatest, uint64).to_vector<std::uint64_t>(), (std::vector<std::uint64_t>{greatest, greatest}));
  EXPECT_THAT(full({1}, greatest, uint64) - (greatest - 5), Equals(tensor({5}, uint64)));
  EXPECT_THAT(add(greatest, 1), Equals(tensor(0, uint64)));  // adds two numbers, and wraps around
  EXPECT_THAT([] { full({1}, greatest, int64); },
              ThrowsMessage<DtypeError>(HasSubstr("the number 18446744073709551615 does not fit int64")));
  EXPECT_THAT([] { full({1}, -1, uint64); }, ThrowsMessage<DtypeError>(HasSubstr("the number -1 does not fit uint64")));
  EXPECT_THAT([] { full({1}, 0x1p64, uint64); }, ThrowsMessage<DtypeError>(HasSubstr("does not fit uint64")));
  EXPECT_EQ(full({}, 0x1p63, uint64).item<std::uint64_t>(), std::uint64_t{1} << 63);
  EXPECT_EQ(tensor(greatest).item<double>(), 0x1p64);
  EXPECT_EQ(astype(tensor(greatest), float64).item<double>(), 0x1p64);
  EXPECT_EQ(astype(tensor(0x1p63, float64), uint64).item<std::uint64_t>(), std::uint64_t{1} << 63);
  EXPECT_THAT(pad(zeros({1}, uint64), {{1, 0}}, greatest), Equals(tensor({greatest, std::uint64_t{0}}, uint64)));
}

TEST(Integers, Uint64ComparesAsUnsigned) {
  const Tensor x = tensor({greatest, std::uint64_t{1}, std::uint64_t{1} << 63}, uint64);
  EXPECT_EQ(max(x).item<std::uint64_t>(), greatest);
  EXPECT_EQ(argmin(x).item<int>(), 1);
  EXPECT_THAT(sort(x), Equals(tensor({std::uint64_t{1}, std::uint64_t{1} << 63, greatest}, uint64)));
  EXPECT_THAT(x > 5, Equals(tensor({true, false, true})));
  EXPECT_THAT(floor_divide(x, 2), Equals(tensor({greatest / 2, std::uint64_t{0}, std::uint64_t{1} << 62}, uint64)));
  EXPECT_THAT(x / 1, IsNear(tensor({0x1p64, 1., 0x1p63})));
}

TEST(Integers, ArangeReachesTheEndsOfTheDtype) {
  const std::uint64_t start = greatest - 4;
  EXPECT_THAT(arange(start, greatest, 2), Equals(tensor({start, start + 2}, uint64)));
  EXPECT_THAT(arange(start, greatest, 2, uint64), Equals(tensor({start, start + 2}, uint64)));
  EXPECT_THAT(arange(greatest, greatest - 5, -2, uint64),
              Equals(tensor({greatest, greatest - 2, greatest - 4}, uint64)));
  EXPECT_THAT(arange(-128, 128, 85, int8), Equals(tensor({-128, -43, 42, 127}, int8)));
  EXPECT_THAT([] { arange(-128, 129, 256, int8); },
              ThrowsMessage<DtypeError>(HasSubstr("the number 128 does not fit int8")));
  EXPECT_THAT(arange(0, 3, 1, float16), Equals(tensor({0, 1, 2}, float16)));
}

TEST(Integers, AreSummedInAtLeast32Bits) {
  EXPECT_THAT(sum(full({1000}, 127, int8)), Equals(tensor(127000)));
  EXPECT_THAT(sum(full({3}, 65535, uint16)), Equals(tensor(196605, uint32)));
  EXPECT_THAT(prod(tensor({-300, 300}, int16)), Equals(tensor(-90000)));
  EXPECT_THAT(cumulative_sum(tensor({100, 100}, int8)), Equals(tensor({100, 200})));
  EXPECT_EQ(sum(tensor({greatest, std::uint64_t{2}}, uint64)).item<std::uint64_t>(), 1u);
  EXPECT_THAT(mean(full({4}, 100, int8)), Equals(tensor(100.)));
}

TEST(Integers, OfAnyDtypeMayBeIndices) {
  const Tensor x = tensor({10, 20, 30});
  for (const Dtype dtype : {int8, int16, uint8, uint16, uint32, uint64, int64})
    EXPECT_THAT(take(x, tensor({2, 0}, dtype), 0), Equals(tensor({30, 10})));
  EXPECT_THAT(take(x, tensor({-1}, int8), 0), Equals(tensor({30})));
  EXPECT_THAT([&] { take(x, tensor({greatest}), 0); }, ThrowsMessage<IndexError>(HasSubstr("out of range")));
}

// ---- intermediate values beyond 16 bits ---------------------------------------------------------

TEST(Halves, AreSummedWideAndRoundedOnce) {
  // A bfloat16 accumulator would stop at 256, a float accumulator at 2^24.
  EXPECT_EQ(sum(full({4096}, 1, bfloat16)).item<float>(), 4096);
  EXPECT_EQ(sum(full({1 << 25}, 1, bfloat16)).item<float>(), 0x1p25f);
  EXPECT_EQ(sum(full({1 << 25, 2}, 1, bfloat16), 0)(1).item<float>(), 0x1p25f);
  EXPECT_EQ(sum(tensor({2048, 1, 1}, float16)).item<float>(), 2050);
  EXPECT_EQ(sum(tensor({65504, 65504, -65504}, float16)).item<float>(), 65504);
  EXPECT_THAT(cumulative_sum(full({3000}, 1, float16))(-1), Equals(tensor(3000, float16)));
  EXPECT_EQ(scatter_add(zeros({1}, bfloat16), zeros({1000, 1}, int32), ones({1000}, bfloat16))(0).item<float>(), 1000);
  EXPECT_EQ(matmul(full({1, 3000}, 1, float16), full({3000, 1}, 1, float16)).item<float>(), 3000);
}

TEST(Halves, MeansAndNormsAreRightWhereSumsOverflow) {
  const Tensor x = full({200000}, 3, float16);
  EXPECT_THAT(mean(x), Equals(tensor(3, float16)));
  EXPECT_THAT(var(concat({x, -x})), Equals(tensor(9, float16)));
  EXPECT_THAT(stave::std(concat({x, -x})), Equals(tensor(3, float16)));
  EXPECT_THAT(norm(full({40000}, 100, float16)), Equals(tensor(20000, float16)));
  EXPECT_NEAR(logsumexp(zeros({100000}, float16)).item<double>(), std::log(1e5), 0.01);
  EXPECT_NEAR(softmax(zeros({100000}, float16))(7).item<double>(), 1e-5, 1e-7);
}

TEST(Halves, AreDifferentiatedInTheirDtype) {
  for (const Dtype dtype : {float16, bfloat16}) {
    const Tensor x = tensor({0.5, -1., 2.}, dtype);
    const Tensor g = grad([](const Tensor& y) { return sum(sin(y) * y); })(x);
    EXPECT_EQ(g.dtype(), dtype);
    for (int i = 0; i < 3; ++i) {
      const double at = x(i).item<double>();
      EXPECT_NEAR(g(i).item<double>(), std::sin(at) + at * std::cos(at), dtype == float16 ? 4e-3 : 3e-2);
    }
    const Tensor m = grad([](const Tensor& y) { return mean(square(y)); })(full({100000}, 2, dtype));
    EXPECT_NEAR(m(5).item<double>(), 4e-5, 4e-7);
  }
}

TEST(Halves, Bfloat16CannotBeSavedAsNpy) {
  const Folder folder;
  EXPECT_THAT([&] { save_npy(folder / "x.npy", ones({2}, bfloat16)); },
              ThrowsMessage<DtypeError>(HasSubstr("bfloat16 cannot be stored in .npy files")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Halves, CheckGradsRefusesBfloat16) {
  EXPECT_THAT([] { check_grads([](const Tensor& x) { return sin(x); }, ones({2}, bfloat16)); },
              ThrowsMessage<DtypeError>(HasSubstr("bfloat16 has too few digits for differences")));
}

TEST(Halves, Bfloat16MayBeTheDefaultDtype) {
  with(DefaultDtype(bfloat16), [] {
    EXPECT_EQ(ones({2}).dtype(), bfloat16);
    EXPECT_EQ((tensor({1, 2}) / 2).dtype(), bfloat16);
  });
}

}  // namespace
