// Tests the bodies of elementwise kernels, executed on the host for every operation, dtype
// and layout, against the CPU backend: bit for bit where IEEE arithmetic determines the result,
// else within a few ulp. (operation_table tests the CPU backend against references in long double.)
// Results in 16-bit floats are those in float32, rounded.
#include <gtest/gtest.h>

#include <memory>

#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/select.cuh>

#include "cuda/elementwise_on_host.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::Dtype;
using stave::OpId;

/// The magnitude to which the error of element `i` is relative, if the result
/// is a difference of terms: near its zeros it cannot be more accurate than the terms.
/// The terms of zeta are f^-s and (1-f)^-s for a fraction f near 1/2. The power in b a^(b-1)
/// is rounded to a multiple of the smallest float before it is multiplied by b.
template <class T>
double terms_of(OpId op, const std::vector<Buffer>& in, Index i) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == OpId::zeta) return in[1].at<T>(i) < 0 ? std::exp2(double{in[0].at<T>(i)}) : 0;
    if (op == OpId::power_rule) return std::ldexp(std::abs(double{in[1].at<T>(i)}), shape_of<T>.least);
  }
  return op == OpId::lgamma || op == OpId::digamma || op == OpId::logaddexp ? 4 : 0;
}

void expect_equal(const Buffer& got, const Buffer& expected, OpId op, const std::vector<Buffer>& in, Index elements,
                  double ulps, const std::string& what) {
  stave::visit_real_dtype(got.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (Index i = 0; i < elements; ++i)
      ASSERT_TRUE(close(got.at<T>(i), expected.at<T>(i), ulps, terms_of<T>(op, in, i)))
          << what << ": element " << i << " is " << +got.at<T>(i) << ", expected " << +expected.at<T>(i);
  });
  ASSERT_TRUE(got.guards_are_whole()) << what << ": wrote outside the output";
}

Buffer expected_of(OpId op, const std::vector<Buffer>& in, const stave::Shape& shape, Dtype dtype) {
  if (op == OpId::astype && is_half_float(dtype)) return rounded_to(dtype, in[0], shape);
  // The result in float32 does not give the next 16-bit float.
  if (op == OpId::nextafter) {
    Buffer next(dtype, shape);
    run_on_cpu(op, in, next);
    return next;
  }
  std::vector<Buffer> wide;
  for (const Buffer& input : in) wide.push_back(widened(input));
  Buffer result(is_half_float(dtype) ? Dtype::float32 : dtype, shape);
  run_on_cpu(op, wide, result);
  return is_half_float(dtype) ? rounded_to(dtype, result, shape) : result;
}

using Kernel = void (*)(const std::vector<Buffer>& in, const Buffer& out);

void check(Kernel kernel, OpId op, const std::vector<Dtype>& in_dtypes, Dtype out_dtype, double ulps) {
  std::mt19937_64 random(static_cast<std::uint64_t>(op) * 16 + static_cast<std::uint64_t>(out_dtype));
  for_each_layout(static_cast<int>(in_dtypes.size()), [&](const std::vector<Layout>& layouts) {
    std::vector<Buffer> in;
    std::string what = stave::all_ops()[static_cast<std::size_t>(op)]->name;
    for (const Dtype dtype : in_dtypes) {
      const Layout& layout = layouts[in.size()];
      in.emplace_back(dtype, layout.shape, layout.strides, layout.misaligned_by);
      stave::visit_real_dtype(dtype, [&](auto zero) { fill_with_values<decltype(zero)>(in.back(), random); });
      what += std::string(" ") + name_of(dtype) + " " + layout.name;
    }
    const stave::Shape& shape = layouts[0].shape;
    const Buffer got(out_dtype, shape);
    kernel(in, got);
    expect_equal(got, expected_of(op, in, shape, out_dtype), op, in, shape.elements(), ulps, what);
  });
}

template <class S, class T>
void check_struct(OpId op, bool unary) {
  if constexpr (stave_detail::admits<T>(S::operands)) {
    constexpr Dtype dtype = stave::dtype_of<T>();
    const Dtype out = S::result == stave_detail::Result::boolean ? stave::bool_ : dtype;
    // The largest difference, in ulp, between CUDA's functions and those of SLEEF or the host.
    const bool differ = is_float(dtype) && S::work == stave_detail::Work::function;
    const double ulps = !differ ? 0 : stave::is_half<T> ? 1 : 4;
    if constexpr (requires(Lane<stave::Computed<T>> x) { S::value(x); }) {
      if (unary) check(execute<UnaryBody<S, KernelType<S, T>>>, op, {dtype}, out, ulps);
    } else {
      check(execute<BinaryBody<S, KernelType<S, T>>>, op, {dtype, dtype}, out, ulps);
    }
  }
}
template <class T>
void check_all() {
#define X(name, Struct) check_struct<stave_detail::Struct, T>(OpId::name, true);
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct) check_struct<stave_detail::Struct, T>(OpId::name, false);
  STAVE_BINARY_OPS(X)
#undef X
}
#define X(name, type) \
  TEST(Elementwise, name) { check_all<type>(); }
STAVE_REALS(X)
#undef X

template <class From>
void check_astype() {
#define X(name, To)                                                                                          \
  check(execute<AstypeBody<ReadAs<From, To>, WrittenAs<From, To>>>, OpId::astype, {stave::dtype_of<From>()}, \
        stave::name, 0);
  STAVE_REALS(X)
#undef X
}
#define X(name, type) \
  TEST(Astype, name) { check_astype<type>(); }
STAVE_REALS(X)
#undef X

// Numbers close to the middle of two 16-bit floats. Rounding to float first would put them
// at the middle.
TEST(Astype, RoundsOnce) {
  EXPECT_EQ(converted<stave::Float16>(2049 + 0x1p-40), 2050);
  EXPECT_EQ(converted<stave::Float16>(-2049 - 0x1p-40), -2050);
  EXPECT_EQ(converted<stave::Float16>(2049.0), 2048);
  EXPECT_EQ(converted<stave::BFloat16>((std::int64_t{257} << 50) + 1), 0x1p50f * 258);
  EXPECT_EQ(converted<stave::BFloat16>((std::uint64_t{257} << 55) + 1), 0x1p55f * 258);
  EXPECT_EQ(converted<stave::BFloat16>(std::uint64_t{257} << 55), 0x1p55f * 256);
  EXPECT_EQ(converted<stave::Float16>(~std::uint64_t{0}), HUGE_VALF);
}
TEST(Astype, SaturatesAndTruncates) {
  EXPECT_EQ(converted<std::int32_t>(2147483648.0f), 2147483647);
  EXPECT_EQ(converted<std::int32_t>(-3e9), -2147483647 - 1);
  EXPECT_EQ(converted<std::int32_t>(-1.9f), -1);
  EXPECT_EQ(converted<std::uint8_t>(-1.0f), 0);
  EXPECT_EQ(converted<std::uint8_t>(255.9f), 255);
  EXPECT_EQ(converted<std::uint32_t>(4294967296.0), 4294967295u);
  EXPECT_EQ(converted<std::int64_t>(HUGE_VAL), 9223372036854775807);
  EXPECT_EQ(converted<std::uint64_t>(0x1p64), ~std::uint64_t{0});
  EXPECT_EQ(converted<std::uint64_t>(0x1.8p63f), std::uint64_t{3} << 62);
  EXPECT_EQ(converted<std::uint64_t>(-0.5), 0u);
  EXPECT_EQ(converted<std::int8_t>(127.9f), 127);
  EXPECT_EQ(converted<std::int8_t>(-129.f), -128);
  EXPECT_EQ(converted<std::int16_t>(1e9), 32767);
  EXPECT_EQ(converted<std::uint16_t>(stave::BFloat16(1e9)), 65535);
  EXPECT_EQ(converted<std::int8_t>(stave::Float16(-1.75)), -1);
  EXPECT_EQ(converted<float>(~std::uint64_t{0}), 0x1p64f);
  // Volatile, because the conversion of a constant NaN is undefined and a compiler may fold
  // it to any value.
  volatile double nan = NAN;
  EXPECT_EQ(converted<std::int64_t>(static_cast<double>(nan)), 0);
  // integers wrap around, as in NumPy's astype
  EXPECT_EQ(converted<std::uint8_t>(std::int32_t{-1}), 255);
  EXPECT_EQ(converted<bool>(0.5f), 1);
  EXPECT_EQ(converted<bool>(stave::Float16(0x1p-24)), 1);
  EXPECT_EQ(converted<bool>(stave::Float16(-0.0)), 0);
}

TEST(Where, EqualsTheCpuForEveryElementSize) {
#define X(name, type) \
  check(execute<WhereBody<BitsOf<type>>>, OpId::where, {stave::bool_, stave::name, stave::name}, stave::name, 0);
  STAVE_REALS(X)
#undef X
}

// The output may use the buffer of a contiguous input.
TEST(Elementwise, MayWriteIntoAnOperand) {
  Buffer a(stave::float32, {1003}), b(stave::float32, {1003});
  for (int i = 0; i < 1003; ++i) a.data<float>()[i] = static_cast<float>(i), b.data<float>()[i] = 0.5f;
  View in[] = {a.view(), b.view()};
  ElementwisePlan<2> plan(in, a.view(), lanes_of(4));
  auto loop = plan.on_host();
  for_each_thread(plan.blocks(), [&](Position p) { BinaryBody<stave_detail::Subtract, float>::run(loop, p); });
  for (int i = 0; i < 1003; ++i) ASSERT_EQ(a.data<float>()[i], static_cast<float>(i) - 0.5f);
}

// A scalar operand in the host's memory, which is freed before the kernel runs.
// The kernel uses it for all elements, by vectors or one by one.
TEST(Elementwise, NumberIsPassedWithTheLaunch) {
  for (const auto& [shape, misaligned_by] : std::vector<std::pair<stave::Shape, std::size_t>>{
           {{1000}, 0}, {{1003}, 0}, {{1003}, 1}, {{7, 64}, 0}, {{7, 63}, 1}, {{}, 0}}) {
    const stave::Strides dense = contiguous_strides(shape);
    stave::Strides still(dense);
    for (Index& stride : still) stride = 0;
    Buffer x(stave::float64, shape, dense, misaligned_by), left(stave::float64, shape), right(stave::float64, shape);
    for (std::size_t i = 0; i < x.elements(); ++i) x.data<double>()[i] = static_cast<double>(i);
    const auto subtract = [&](bool from_number, const Buffer& out) {
      auto number = std::make_unique<double>(2.5);
      const View of_number{number.get(), stave::float64, shape, still, true};
      const View in[] = {from_number ? of_number : x.view(), from_number ? x.view() : of_number};
      const ElementwisePlan<2> plan(in, out.view(), lanes_of(8));
      const auto loop = plan.on_host();
      number.reset();
      for_each_thread(plan.blocks(), [&](Position p) { BinaryBody<stave_detail::Subtract, double>::run(loop, p); });
    };
    subtract(false, right);
    subtract(true, left);
    for (std::size_t i = 0; i < x.elements(); ++i) {
      ASSERT_EQ(right.data<double>()[i], static_cast<double>(i) - 2.5);
      ASSERT_EQ(left.data<double>()[i], 2.5 - static_cast<double>(i));
    }
  }
}

// Any subset of the operands can be scalars in the host's memory.
TEST(Elementwise, AnySubsetOfOperandsMayBeNumbers) {
  for (const auto& [shape, misaligned_by] :
       std::vector<std::pair<stave::Shape, std::size_t>>{{{1003}, 0}, {{1003}, 1}, {{7, 64}, 0}, {{}, 0}}) {
    stave::Strides still = contiguous_strides(shape);
    for (Index& stride : still) stride = 0;
    Buffer condition(stave::bool_, shape), x(stave::float32, shape, contiguous_strides(shape), misaligned_by),
        y(stave::float32, shape), out(stave::float32, shape);
    for (std::size_t i = 0; i < x.elements(); ++i) {
      condition.data<bool>()[i] = i % 3 == 0;
      x.data<float>()[i] = static_cast<float>(i);
      y.data<float>()[i] = -static_cast<float>(i);
    }
    for (unsigned numbers = 0; numbers < 8; ++numbers) {
      auto yes = std::make_unique<bool>(true);
      auto seven = std::make_unique<float>(7.f), nine = std::make_unique<float>(9.f);
      const View in[] = {numbers & 1 ? View{yes.get(), stave::bool_, shape, still, true} : condition.view(),
                         numbers & 2 ? View{seven.get(), stave::float32, shape, still, true} : x.view(),
                         numbers & 4 ? View{nine.get(), stave::float32, shape, still, true} : y.view()};
      const ElementwisePlan<3> plan(in, out.view(), lanes_of(4));
      const auto loop = plan.on_host();
      yes.reset(), seven.reset(), nine.reset();
      for_each_thread(plan.blocks(), [&](Position p) { WhereBody<std::uint32_t>::run(loop, p); });
      for (std::size_t i = 0; i < x.elements(); ++i) {
        const auto at = static_cast<float>(i);
        const bool first = numbers & 1 || i % 3 == 0;
        ASSERT_EQ(out.data<float>()[i], first ? (numbers & 2 ? 7 : at) : (numbers & 4 ? 9 : -at)) << numbers;
      }
    }
  }
}

TEST(ElementwisePlan, UsesVectorsWhereAligned) {
  alignas(16) static float memory[4096];
  auto by_vectors = [](const stave::Shape& shape, const stave::Strides& a, const stave::Strides& b, int skip = 0) {
    stave::Strides dense = contiguous_strides(shape);
    View in[] = {{memory + skip, stave::float32, shape, a}, {memory, stave::float32, shape, b}};
    return ElementwisePlan<2>(in, {memory, stave::float32, shape, dense}, 4).by_vectors();
  };
  EXPECT_TRUE(by_vectors({1001}, {1}, {1}));
  EXPECT_TRUE(by_vectors({1001}, {0}, {1}));
  EXPECT_FALSE(by_vectors({1001}, {1}, {1}, 1));  // misaligned
  // misaligned, but a single value needs no alignment
  EXPECT_TRUE(by_vectors({1001}, {0}, {1}, 1));
  EXPECT_TRUE(by_vectors({8, 64}, {64, 1}, {0, 1}));  // a broadcast row
  EXPECT_TRUE(by_vectors({8, 64}, {64, 1}, {1, 0}));  // a broadcast column
  EXPECT_TRUE(by_vectors({8, 64}, {68, 1}, {64, 1}));
  EXPECT_FALSE(by_vectors({8, 64}, {66, 1}, {64, 1}));  // some rows start between vectors
  EXPECT_FALSE(by_vectors({8, 63}, {63, 1}, {0, 1}));
  EXPECT_FALSE(by_vectors({8, 63}, {64, 1}, {0, 1}));  // the output's rows start between vectors
  EXPECT_FALSE(by_vectors({8, 64}, {64, 1}, {1, 8}));  // transposed
  EXPECT_FALSE(by_vectors({64}, {-1}, {1}));
}

TEST(ElementwisePlan, SupportsMoreThan31BitsOfIndices) {
  stave::Shape shape{3, Index{1} << 31};
  stave::Strides dense = contiguous_strides(shape), row{0, 1};
  View in[] = {{nullptr, stave::uint8, shape, dense}, {nullptr, stave::uint8, shape, row}};
  ElementwisePlan<2> plan(in, {nullptr, stave::uint8, shape, dense}, 8);
  EXPECT_EQ(plan.blocks(), (Index{3} << 31) / (8 * block_threads));
  auto loop = plan.on_host();
  EXPECT_TRUE(loop.by_vectors);
  const Position last{plan.blocks() - 1, block_threads - 1, block_threads};
  EXPECT_EQ(loop.first(last, 8), (std::uint64_t{3} << 31) - 8);
  EXPECT_EQ(loop.map(loop.first(last, 8) / 8)[0], (Index{3} << 31) - 8);
  EXPECT_EQ(loop.map(loop.first(last, 8) / 8)[1], (Index{1} << 31) - 8);
}

}  // namespace
}  // namespace stave_cuda
