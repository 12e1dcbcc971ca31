// The bodies of elementwise kernels, executed on the host for every operation, dtype and layout, against the CPU backend: the
// same bits where IEEE arithmetic decides them, else within a few ulp. (There against references in long double: operation_table.)
#include <gtest/gtest.h>

#include <memory>

#include <stave/core/op.h>
#include <stave/backends/cuda/kernels/select.cuh>

#include "cuda/layouts.h"

namespace stave_cuda {
namespace {

using stave::Dtype;
using stave::OpId;

/// Near their zeros these are a difference of terms: as exact as terms of this size can be.
double terms_of(OpId op) { return op == OpId::lgamma || op == OpId::digamma || op == OpId::logaddexp ? 4 : 0; }

template <class T>
bool close(T a, T b, T ulps, T terms) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (ulps != 0 && std::isfinite(a) && std::isfinite(b))
      return std::abs(a - b) <= ulps * std::max(std::numeric_limits<T>::epsilon() * std::max(std::abs(b), terms),
                                                std::numeric_limits<T>::denorm_min());
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class T>
void expect_equal(const Buffer& got, const Buffer& expected, Index elements, double ulps, double terms,
                  const std::string& what) {
  for (Index i = 0; i < elements; ++i)
    ASSERT_TRUE(close(got.at<T>(i), expected.at<T>(i), static_cast<T>(ulps), static_cast<T>(terms)))
        << what << ": element " << i << " is " << +got.at<T>(i) << ", expected " << +expected.at<T>(i);
  ASSERT_TRUE(got.guards_are_whole()) << what << ": wrote outside the output";
}

template <class Body>
void execute(const std::vector<Buffer>& in, const Buffer& out) {
  std::vector<View> views;
  std::size_t widest = stave::size_of(out.dtype());
  for (const Buffer& buffer : in) {
    views.push_back(buffer.view());
    widest = std::max(widest, stave::size_of(buffer.dtype()));
  }
  ElementwisePlan<Body::inputs> plan(views.data(), out.view(), lanes_of(widest));
  if (plan.elements() == 0) return;
  auto loop = plan.on_host();
  for_each_thread(plan.blocks(), [&](Position p) { Body::run(loop, p); });
}

void run_on_cpu(OpId op, const std::vector<Buffer>& in, const Buffer& out) {
  std::vector<View> views;
  for (const Buffer& buffer : in) views.push_back(buffer.view());
  View view = out.view();
  stave::DtypeAttributes dtype(out.dtype());
  stave::cpu_backend().run(record_of(op), op == OpId::astype ? &dtype : nullptr, views, {&view, 1});
}

/// All pairs (triples) of the layouts of each group.
template <class F>
void for_each_layout(int inputs, F f) {
  for (const auto& group : operand_layouts()) {
    const std::size_t n = group.size();
    for (std::size_t i = 0; i < (inputs == 1 ? n : inputs == 2 ? n * n : n * n * n); ++i) {
      if (inputs == 3 && i % 7 != 0) continue;
      std::vector<Layout> layouts;
      for (std::size_t k = 0, rest = i; k < static_cast<std::size_t>(inputs); ++k, rest /= n)
        layouts.push_back(group[rest % n]);
      f(layouts);
    }
  }
}

template <class Body, class... In>
void check(OpId op, Dtype out_dtype, double ulps) {
  constexpr int inputs = sizeof...(In);
  std::mt19937_64 random(static_cast<std::uint64_t>(op) * 8 + static_cast<std::uint64_t>(out_dtype));
  for_each_layout(inputs, [&](const std::vector<Layout>& layouts) {
    std::vector<Buffer> in;
    std::string what = stave::all_ops()[static_cast<std::size_t>(op)]->name;
    auto add = [&]<class T>(T) {
      const Layout& layout = layouts[in.size()];
      in.emplace_back(stave::dtype_of<T>(), layout.shape, layout.strides, layout.misaligned_by);
      fill_with_values<T>(in.back(), random);
      what += std::string(" ") + name_of(stave::dtype_of<T>()) + " " + layout.name;
    };
    (add(In()), ...);
    const stave::Shape& shape = layouts[0].shape;
    Buffer got(out_dtype, shape), expected(out_dtype, shape);
    execute<Body>(in, got);
    run_on_cpu(op, in, expected);
    stave::visit_dtype(out_dtype, [&](auto zero) {
      expect_equal<decltype(zero)>(got, expected, shape.elements(), ulps, terms_of(op), what);
    });
  });
}

template <class S, class T>
void check_struct(OpId op, bool unary) {
  if constexpr (admits<S, T>()) {
    const Dtype out = S::result == stave_detail::Result::boolean ? stave::bool_ : stave::dtype_of<T>();
    // What CUDA's functions and SLEEF's, or the host's, may differ by.
    const double ulps = Real<T> && S::work == stave_detail::Work::function ? 4 : 0;
    if constexpr (requires(Lane<T> x) { S::value(x); }) {
      if (unary) check<UnaryBody<S, T>, T>(op, out, ulps);
    } else {
      check<BinaryBody<S, T>, T, T>(op, out, ulps);
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
TEST(Elementwise, Bool) { check_all<bool>(); }
TEST(Elementwise, Uint8) { check_all<std::uint8_t>(); }
TEST(Elementwise, Uint32) { check_all<std::uint32_t>(); }
TEST(Elementwise, Int32) { check_all<std::int32_t>(); }
TEST(Elementwise, Int64) { check_all<std::int64_t>(); }
TEST(Elementwise, Float32) { check_all<float>(); }
TEST(Elementwise, Float64) { check_all<double>(); }

template <class From, class... To>
void check_astype(std::tuple<To...>) {
  using Memory = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;  // as the table of kernels has it
  (check<AstypeBody<Memory, To>, From>(OpId::astype, stave::dtype_of<To>(), 0), ...);
}
TEST(Astype, AllPairs) {
  using All = std::tuple<bool, std::uint8_t, std::uint32_t, std::int32_t, std::int64_t, float, double>;
  check_astype<bool>(All());
  check_astype<std::uint8_t>(All());
  check_astype<std::uint32_t>(All());
  check_astype<std::int32_t>(All());
  check_astype<std::int64_t>(All());
  check_astype<float>(All());
  check_astype<double>(All());
}
TEST(Astype, SaturatesAndTruncates) {
  EXPECT_EQ(converted<std::int32_t>(2147483648.0f), 2147483647);
  EXPECT_EQ(converted<std::int32_t>(-3e9), -2147483647 - 1);
  EXPECT_EQ(converted<std::int32_t>(-1.9f), -1);
  EXPECT_EQ(converted<std::uint8_t>(-1.0f), 0);
  EXPECT_EQ(converted<std::uint8_t>(255.9f), 255);
  EXPECT_EQ(converted<std::uint32_t>(4294967296.0), 4294967295u);
  EXPECT_EQ(converted<std::int64_t>(HUGE_VAL), 9223372036854775807);
  volatile double nan = NAN;  // a compiler that knows it may give what it likes
  EXPECT_EQ(converted<std::int64_t>(static_cast<double>(nan)), 0);
  EXPECT_EQ(converted<std::uint8_t>(std::int32_t{-1}), 255);  // integers wrap, as NumPy's astype
  EXPECT_EQ(converted<bool>(0.5f), 1);
}

TEST(Where, EverySize) {
  check<WhereBody<std::uint8_t>, bool, bool, bool>(OpId::where, stave::bool_, 0);
  check<WhereBody<std::uint8_t>, bool, std::uint8_t, std::uint8_t>(OpId::where, stave::uint8, 0);
  check<WhereBody<std::uint32_t>, bool, std::int32_t, std::int32_t>(OpId::where, stave::int32, 0);
  check<WhereBody<std::uint32_t>, bool, std::uint32_t, std::uint32_t>(OpId::where, stave::uint32, 0);
  check<WhereBody<std::uint32_t>, bool, float, float>(OpId::where, stave::float32, 0);
  check<WhereBody<std::uint64_t>, bool, std::int64_t, std::int64_t>(OpId::where, stave::int64, 0);
  check<WhereBody<std::uint64_t>, bool, double, double>(OpId::where, stave::float64, 0);
}

// The output's buffer may be that of a contiguous input.
TEST(Elementwise, InPlace) {
  Buffer a(stave::float32, {1003}), b(stave::float32, {1003});
  for (int i = 0; i < 1003; ++i) a.data<float>()[i] = static_cast<float>(i), b.data<float>()[i] = 0.5f;
  View in[] = {a.view(), b.view()};
  ElementwisePlan<2> plan(in, a.view(), lanes_of(4));
  auto loop = plan.on_host();
  for_each_thread(plan.blocks(), [&](Position p) { BinaryBody<stave_detail::Subtract, float>::run(loop, p); });
  for (int i = 0; i < 1003; ++i) ASSERT_EQ(a.data<float>()[i], static_cast<float>(i) - 0.5f);
}

// A number in the host's memory, which is gone when the kernel runs: for all of a tensor, whichever way its elements are read.
TEST(Elementwise, ANumberTravelsWithTheLaunch) {
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

// Any of the operands may be one, and all of them.
TEST(Elementwise, NumbersTravelEachByItself) {
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

TEST(ElementwisePlan, ByVectorsWhereMemoryAllows) {
  alignas(16) static float memory[4096];
  auto by_vectors = [](const stave::Shape& shape, const stave::Strides& a, const stave::Strides& b, int skip = 0) {
    stave::Strides dense = contiguous_strides(shape);
    View in[] = {{memory + skip, stave::float32, shape, a}, {memory, stave::float32, shape, b}};
    return ElementwisePlan<2>(in, {memory, stave::float32, shape, dense}, 4).by_vectors();
  };
  EXPECT_TRUE(by_vectors({1001}, {1}, {1}));
  EXPECT_TRUE(by_vectors({1001}, {0}, {1}));
  EXPECT_FALSE(by_vectors({1001}, {1}, {1}, 1));      // misaligned
  EXPECT_TRUE(by_vectors({1001}, {0}, {1}, 1));       // but one value may lie anywhere
  EXPECT_TRUE(by_vectors({8, 64}, {64, 1}, {0, 1}));  // a row broadcast
  EXPECT_TRUE(by_vectors({8, 64}, {64, 1}, {1, 0}));  // a column broadcast
  EXPECT_TRUE(by_vectors({8, 64}, {68, 1}, {64, 1}));
  EXPECT_FALSE(by_vectors({8, 64}, {66, 1}, {64, 1}));  // rows that start between vectors
  EXPECT_FALSE(by_vectors({8, 63}, {63, 1}, {0, 1}));
  EXPECT_FALSE(by_vectors({8, 63}, {64, 1}, {0, 1}));  // the output's rows do
  EXPECT_FALSE(by_vectors({8, 64}, {64, 1}, {1, 8}));  // transposed
  EXPECT_FALSE(by_vectors({64}, {-1}, {1}));
}

TEST(ElementwisePlan, MoreThan31Bits) {
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
