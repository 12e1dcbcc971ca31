// Questions about dtypes, against the values of numpy.finfo, numpy.iinfo and the tables of the
// array API standard.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include <cstdint>
#include <limits>

namespace {

using namespace stave;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <class T>
void expect_limits(Dtype dtype) {
  using Limits = std::numeric_limits<T>;
  const FloatInfo info = finfo(dtype);
  EXPECT_EQ(info.bits, static_cast<int>(8 * sizeof(T)));
  EXPECT_EQ(info.eps, Limits::epsilon());
  EXPECT_EQ(info.max, Limits::max());
  EXPECT_EQ(info.min, Limits::lowest());
  EXPECT_EQ(info.smallest_normal, Limits::min());
  EXPECT_EQ(info.dtype, dtype_of<T>());
}

TEST(Finfo, GivesTheLimitsOfFloats) {
  expect_limits<float>(float32);
  expect_limits<double>(float64);
  expect_limits<float>(complex64);
  expect_limits<double>(complex128);
  // numpy.finfo(numpy.float16), ml_dtypes.finfo(ml_dtypes.bfloat16)
  const FloatInfo half = finfo(float16), brain = finfo(ones({2}, bfloat16));
  EXPECT_EQ(half.bits, 16);
  EXPECT_EQ(half.eps, 0.0009765625);
  EXPECT_EQ(half.max, 65504);
  EXPECT_EQ(half.min, -65504);
  EXPECT_EQ(half.smallest_normal, 6.103515625e-05);
  EXPECT_EQ(brain.bits, 16);
  EXPECT_EQ(brain.eps, 0.0078125);
  EXPECT_EQ(brain.max, 3.3895313892515355e+38);
  EXPECT_EQ(brain.smallest_normal, 1.1754943508222875e-38);
  EXPECT_EQ(brain.dtype, bfloat16);
  EXPECT_THAT([] { finfo(int32); },
              ThrowsMessage<DtypeError>("finfo: int32 is neither floating nor complex: use iinfo for integers"));
}

template <class T>
void expect_range() {
  const IntegerInfo info = iinfo(dtype_of<T>());
  EXPECT_EQ(info.bits, static_cast<int>(8 * sizeof(T)));
  EXPECT_EQ(info.max, static_cast<std::uint64_t>(std::numeric_limits<T>::max()));
  EXPECT_EQ(info.min, static_cast<std::int64_t>(std::numeric_limits<T>::min()));
  EXPECT_EQ(info.dtype, dtype_of<T>());
}

TEST(Iinfo, GivesTheRangeOfIntegers) {
  expect_range<std::int8_t>();
  expect_range<std::int16_t>();
  expect_range<std::int32_t>();
  expect_range<std::int64_t>();
  expect_range<std::uint8_t>();
  expect_range<std::uint16_t>();
  expect_range<std::uint32_t>();
  expect_range<std::uint64_t>();
  EXPECT_EQ(iinfo(tensor({1})).bits, 32);
  EXPECT_THAT([] { iinfo(bool_); },
              ThrowsMessage<DtypeError>("iinfo: bool is not an integer dtype: use finfo for floats"));
}

TEST(Isdtype, KnowsTheKindsOfTheStandard) {
  using K = DtypeKind;
  for (int i = 0; i < dtype_count; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    const std::string name = name_of(dtype);
    const bool is_bool = name == "bool", is_unsigned = name.starts_with("uint"), is_signed = name.starts_with("int");
    const bool has_complex = name.starts_with("complex");
    EXPECT_EQ(isdtype(dtype, K::boolean), is_bool) << name;
    EXPECT_EQ(isdtype(dtype, K::signed_integer), is_signed) << name;
    EXPECT_EQ(isdtype(dtype, K::unsigned_integer), is_unsigned) << name;
    EXPECT_EQ(isdtype(dtype, K::integral), is_signed || is_unsigned) << name;
    EXPECT_EQ(isdtype(dtype, K::real_floating), name.find("float") != std::string::npos) << name;
    EXPECT_EQ(isdtype(dtype, K::complex_floating), has_complex) << name;
    EXPECT_EQ(isdtype(dtype, K::numeric), !is_bool) << name;
    EXPECT_EQ(isdtype(dtype, {K::boolean, K::complex_floating}), is_bool || has_complex) << name;
    EXPECT_TRUE(isdtype(dtype, dtype));
  }
  EXPECT_FALSE(isdtype(int8, uint8));
}

TEST(CanCast, FollowsPromotion) {
  EXPECT_TRUE(can_cast(int8, int16));
  EXPECT_TRUE(can_cast(uint8, int16));
  EXPECT_TRUE(can_cast(bool_, int8));
  EXPECT_TRUE(can_cast(float32, complex64));
  EXPECT_TRUE(can_cast(float64, complex128));
  EXPECT_TRUE(can_cast(tensor({1}), int64));
  EXPECT_TRUE(can_cast(uint64, uint64));
  EXPECT_FALSE(can_cast(int16, int8));
  EXPECT_FALSE(can_cast(uint8, int8));
  EXPECT_FALSE(can_cast(float64, complex64));
  EXPECT_FALSE(can_cast(float32, int32));
  EXPECT_FALSE(can_cast(int8, bool_));
  EXPECT_FALSE(can_cast(uint64, int64));
  EXPECT_FALSE(can_cast(int64, uint64));
}

TEST(ResultType, IsTheDtypeOfASum) {
  const Tensor bytes = ones({2}, uint8), halves = ones({}, float16), wholes = ones({2}, int16);
  EXPECT_EQ(result_type({bytes, wholes}), int16);
  EXPECT_EQ(result_type({bytes, 3}), uint8);
  EXPECT_EQ(result_type({3, bytes, 2.5}), default_dtype());
  EXPECT_EQ(result_type({halves, 2.5}), float16);
  EXPECT_EQ(result_type({wholes, true, bytes}), (wholes + bytes + 1).dtype());
  EXPECT_EQ(result_type({1, 2.5}), default_dtype());
  EXPECT_EQ(result_type({float32, complex128}), complex128);
  EXPECT_EQ(result_type({bool_, bool_}), bool_);
  EXPECT_EQ(result_type({uint8, int8, float16}), float16);
  EXPECT_THAT([] { result_type({uint64, int8}); }, ThrowsMessage<DtypeError>(HasSubstr("uint64 and int8")));
  EXPECT_THAT([] { result_type({1, Tensor()}); }, ThrowsMessage<Error>(HasSubstr("result_type: operand 1")));
}

}  // namespace
