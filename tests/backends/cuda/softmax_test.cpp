// Tests softmax, log_softmax and logsumexp: plans, and the body of the kernel executed on the host,
// against the definition in long double and against the CPU backend.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include <stave/backends/cuda/kernels/softmax_kernels.h>
#include <stave/backends/cuda/softmax.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/softmax.cuh>
#include "machine.h"
#include "rounding.h"
#include "strided.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::OpId;

// ---- on the host -------------------------------------------------------------------------------

template <class E>
void softmax_on_host(const SoftmaxPlan& plan, Machine machine) {
  using T = stave::Computed<E>;
  SoftmaxArgs args = plan.on_host();
  std::vector<SoftmaxTotal<T>> partials(static_cast<std::size_t>(plan.partials()));
  args.partials = partials.data();
  const auto shared = std::make_unique<SoftmaxShared<T>>();
  const auto run = [&](SoftmaxStage stage) {
    run_on_host(
        grid_size(args.tasks(), machine.blocks),
        [&](const HostBlock& block) { softmax_body<E>(block, args, stage, *shared); }, machine.backwards);
  };
  if (partials.empty()) return run(SoftmaxStage::whole);
  run(SoftmaxStage::partials);
  run(SoftmaxStage::finish);
}

Shape shape_of_result(OpId op, int axis, const Array& x) {
  Shape shape = x.shape;
  if (op == OpId::logsumexp) shape[static_cast<std::size_t>(axis)] = 1;
  return shape;
}

Array computed(OpId op, int axis, Array& x, Machine machine = large) {
  Array out = contiguous(shape_of_result(op, axis, x), x.dtype);
  const SoftmaxPlan plan(op, axis, x.view(), out.view());
  if (plan.args().row_count == 0) return out;
  stave::visit_real_dtype(x.dtype, [&](auto zero) {
    if constexpr (!std::is_integral_v<decltype(zero)>) softmax_on_host<decltype(zero)>(plan, machine);
  });
  return out;
}

// ---- the definition ----------------------------------------------------------------------------

/// Compares a result with its exact value. Rounding errors come from x - max, which changes its
/// exponential by |x - max| / 2 ulp; from the exponential (2 ulp in CUDA); and from the result.
/// A 16-bit result is rounded once more. `more`: an error that is allowed in addition.
template <class E>
void expect_one(E result, long double exact, bool logarithm, long double more = 0) {
  using T = stave::Computed<E>;
  const T got = static_cast<T>(result);
  if (std::isnan(exact)) {
    EXPECT_TRUE(std::isnan(got)) << got;
    return;
  }
  if (std::isinf(exact)) {
    EXPECT_EQ(got, static_cast<T>(exact));
    return;
  }
  // The value is nearly exact before it is rounded.
  if constexpr (stave::is_half<E>) {
    const auto nearest = static_cast<T>(rounded<E>(exact));
    if (nearest == got) return;
    const double least = std::ldexp(epsilon<E>, shape_of<E>.least);
    EXPECT_LE(std::abs(got - exact), std::max(0.51 * epsilon<E> * std::abs(got), 0.51 * least)) << "for " << exact;
    return;
  }
  const long double ulp = std::numeric_limits<T>::epsilon(), least = std::numeric_limits<T>::denorm_min(),
                    size = std::abs(exact) + least;
  const long double doubles = std::numeric_limits<double>::epsilon();
  EXPECT_LE(std::abs(static_cast<long double>(got) - exact),
            (5 + std::abs(std::log(size)) / 2) * ulp * size + (logarithm ? 2 * doubles : least) + more)
      << got << " for " << exact;
}

template <class T>
void expect_softmax(OpId op, int axis, Array& x, Array& out) {
  const auto along = static_cast<std::size_t>(axis);
  const Index n = x.shape[along];
  const bool logarithm = op == OpId::log_softmax;
  Shape others = x.shape;
  others[along] = 1;
  for_positions(others, [&](Shape position) {
    if (testing::Test::HasFailure()) return;
    long double max = -HUGE_VALL, sum = 0;
    const auto element = [&](Index i) {
      position[along] = i;
      return static_cast<long double>(x.at<T>(offset_of(position, x.strides)));
    };
    for (Index i = 0; i < n; ++i) max = std::max(max, element(i));
    if (op == OpId::logsumexp) {
      for (Index i = 0; i < n; ++i) sum += element(i) == max ? 1 : std::exp(element(i) - max);
      position[along] = 0;
      // The logarithm, which may cancel the maximum, is as exact as that of log_softmax.
      const long double more = 5 * std::numeric_limits<stave::Computed<T>>::epsilon() * std::log(sum);
      return expect_one(out.at<T>(offset_of(position, out.strides)), max + std::log(sum), true, more);
    }
    for (Index i = 0; i < n; ++i) sum += std::exp(element(i) - max);
    for (Index i = 0; i < n && !testing::Test::HasFailure(); ++i) {
      const long double shifted = element(i) - max;
      expect_one(out.at<T>(offset_of(position, out.strides)),
                 logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum, logarithm);
    }
  });
}

void expect_softmax(OpId op, int axis, Array& x) {
  SCOPED_TRACE(testing::Message() << stave::record_of(op).name << " " << stave::name_of(x.dtype) << " " << x.shape.str()
                                  << " strides " << x.strides.str() << " axis " << axis);
  Array out = computed(op, axis, x);
  stave::visit_real_dtype(x.dtype, [&](auto zero) {
    if constexpr (!std::is_integral_v<decltype(zero)>) expect_softmax<decltype(zero)>(op, axis, x, out);
  });
  EXPECT_EQ(computed(op, axis, x, small).memory, out.memory) << "depends on the machine";
}

constexpr OpId ops[] = {OpId::softmax, OpId::log_softmax, OpId::logsumexp};
constexpr Dtype floats[] = {
#define X(name, type) Dtype::name,
    STAVE_FLOATS(X)
#undef X
};

TEST(Softmax, any_axis_and_layout) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    Array x = any_layout(any_shape(random), floats[i % 4], random);
    if (x.shape.empty()) continue;
    const auto axis = static_cast<int>(random() % x.shape.size());
    if (x.shape[static_cast<std::size_t>(axis)] == 0) continue;
    fill(x, random, i % 3 == 0);
    for (OpId op : ops) expect_softmax(op, axis, x);
    if (HasFailure()) return;
  }
}

// Rows that a tile holds, longer rows, and rows that are split into parts; and columns likewise.
TEST(Softmax, long_rows_and_columns) {
  std::mt19937 random(2);
  for (Dtype dtype : floats)
    for (const Shape& shape : {Shape{3, 4096}, Shape{3, 8192}, Shape{2, 8193}, Shape{1, 150001}, Shape{4096, 3},
                               Shape{1000, 40}, Shape{1025, 40}, Shape{70001, 2}, Shape{300, 7, 33}})
      for (int axis : {0, 1}) {
        Array x = contiguous(shape, dtype);
        fill(x, random);
        for (OpId op : ops) expect_softmax(op, axis, x);
        if (HasFailure()) return;
      }
}

// The first part of a row is all -inf, all parts are, or a single element determines the result.
TEST(Softmax, infinities_in_parts) {
  for (Dtype dtype : floats)
    for (const Shape& shape : {Shape{1, 40}, Shape{1, 100000}, Shape{100000, 1}, Shape{30000, 2}})
      for (int kind = 0; kind < 5; ++kind) {
        const int axis = shape[0] == 1;
        const Index n = shape[static_cast<std::size_t>(axis)];
        Array x = contiguous(shape, dtype);
        for (Index i = 0; i < shape.elements(); ++i) {
          const Index at = i / (shape.elements() / n);
          const double value = kind == 0   ? -HUGE_VAL
                               : kind == 1 ? (at < n / 2 ? -HUGE_VAL : 1)
                               : kind == 2 ? (at == n - 1 ? HUGE_VAL : 1)
                               : kind == 3 ? (at == n / 2 ? std::nan("") : -HUGE_VAL)
                                           : (at == n / 3 ? 200 : -200);
          stave::visit_real_dtype(dtype,
                                  [&](auto zero) { x.at<decltype(zero)>(i) = static_cast<decltype(zero)>(value); });
        }
        for (OpId op : ops) expect_softmax(op, axis, x);
        if (HasFailure()) return;
      }
}

TEST(Softmax, in_place) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{20, 300}, Shape{2, 20000}, Shape{1, 150000}, Shape{500, 50}, Shape{3000, 50}})
    for (int axis : {0, 1})
      for (OpId op : {OpId::softmax, OpId::log_softmax}) {
        Array x = contiguous(shape, Dtype::float32);
        fill(x, random);
        Array expected = computed(op, axis, x);
        const SoftmaxPlan plan(op, axis, x.view(), x.view());
        softmax_on_host<float>(plan, large);
        EXPECT_EQ(x.memory, expected.memory) << shape.str() << " axis " << axis;
      }
}

TEST(Softmax, sums_are_wider_than_elements) {
  Array x = contiguous({1, Index{3} << 23}, Dtype::float32);
  for (Index i = 0; i < x.shape[1]; ++i) x.at<float>(i) = 0;
  Array y = computed(OpId::softmax, 1, x);
  EXPECT_EQ(y.at<float>(0), 1 / (3 * 0x1p23f));
  EXPECT_EQ(y.at<float>(x.shape[1] - 1), 1 / (3 * 0x1p23f));
}

// If the inverse of a sum were rounded to float, all weights of the row would have the same error.
TEST(Softmax, weights_add_up_to_one) {
  std::mt19937 random(6);
  for (Index n : {4000, 20000}) {
    Array x = contiguous({20, n}, Dtype::float32);
    std::uniform_real_distribution<float> values(0, 1);
    for (Index i = 0; i < x.shape.elements(); ++i) x.at<float>(i) = values(random);
    Array y = computed(OpId::softmax, 1, x);
    for (Index row = 0; row < 20; ++row) {
      double sum = 0;
      for (Index i = 0; i < n; ++i) sum += y.at<float>(row * n + i);
      EXPECT_NEAR(sum, 1, 4e-9);
    }
  }
}

TEST(Softmax, agrees_with_the_cpu) {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    Array x = any_layout(any_shape(random), floats[i % 4], random);
    if (x.shape.elements() == 0 || x.shape.empty()) continue;
    const auto axis = static_cast<int>(random() % x.shape.size());
    fill(x, random, true);
    for (OpId op : ops) {
      Array out = computed(op, axis, x), cpu = contiguous(out.shape, x.dtype);
      const View in = x.view(), to = cpu.view();
      const auto attributes = stave::make_intrusive<stave::AxisAttributes>(axis);
      stave::cpu_backend().run(record_of(op), attributes.get(), {&in, 1}, {&to, 1});
      stave::visit_real_dtype(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (!std::is_integral_v<T>)
          for (Index k = 0; k < out.shape.elements(); ++k) {
            const auto a = static_cast<double>(out.at<T>(k)), b = static_cast<double>(cpu.at<T>(k));
            const double tolerance = (stave::is_half<T> ? 1 : 20) * epsilon<T> * (1 + std::abs(b));
            ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance)
                << a << " and " << b << " of " << x.shape.str() << " axis " << axis;
          }
      });
      if (HasFailure()) return;
    }
  }
}

// ---- dispatch ----------------------------------------------------------------------------------

class NoScratch : public Scratch {
 public:
  void* allocate(std::size_t) override { throw std::bad_alloc(); }
};

TEST(SoftmaxDispatch, has_kernels_for_floats_only) {
  for (int d = 0; d < stave::real_dtype_count; ++d)
    EXPECT_EQ(softmax_of(static_cast<Dtype>(d)) != nullptr, stave::is_float(static_cast<Dtype>(d))) << d;
  NoScratch scratch;
  Array x = contiguous({3}, Dtype::int32);
  try {
    run_softmax({nullptr, 132, scratch, nullptr, 1}, OpId::log_softmax, 0, x.view(), x.view());
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_STREQ(error.what(), "cuda: no kernel of log_softmax for int32; convert with astype");
  }
}

// ---- plans -------------------------------------------------------------------------------------

alignas(256) char memory[256];  // never read
View view_of(const Shape& shape, const Strides& strides, Dtype dtype = Dtype::float32) {
  return {memory, dtype, shape, strides};
}
SoftmaxArgs plan_of(const Shape& shape, int axis, Dtype dtype = Dtype::float32) {
  const Strides strides = stave::contiguous_strides(shape);
  const View view = view_of(shape, strides, dtype);
  return SoftmaxPlan(OpId::softmax, axis, view, view).args();
}

TEST(SoftmaxPlans, a_row_of_8192_floats_is_read_once_by_a_block) {
  const SoftmaxArgs args = plan_of({8192, 8192}, 1);
  EXPECT_TRUE(args.resident);
  EXPECT_FALSE(args.columns);
  EXPECT_EQ(args.lanes(), block_threads);
  EXPECT_EQ(args.tiles, 8192);
  EXPECT_EQ(args.parts, 1);
  EXPECT_TRUE(plan_of({8192, 4096}, 1, Dtype::float64).resident);
  EXPECT_TRUE(plan_of({8192, 8192}, 1, Dtype::float16).resident);
  // A tile keeps bfloat16 elements as floats.
  EXPECT_FALSE(plan_of({8192, 8193}, 1, Dtype::bfloat16).resident);
  EXPECT_FALSE(plan_of({8192, 8193}, 1).resident);
  EXPECT_EQ(plan_of({8192, 8193}, 1).parts, 1);
}

TEST(SoftmaxPlans, short_rows_share_a_block) {
  EXPECT_EQ(plan_of({1 << 20, 10}, 1).lanes(), 8);
  EXPECT_EQ(plan_of({1 << 20, 3}, 1).lanes(), 4);
  EXPECT_EQ(plan_of({4096, 1024}, 1).lanes(), 64);
  EXPECT_EQ(plan_of({4096, 1024}, 1).tiles, 1024);
}

TEST(SoftmaxPlans, columns_are_read_line_by_line) {
  const SoftmaxArgs args = plan_of({64, 200, 512}, 1);
  EXPECT_TRUE(args.columns);
  EXPECT_TRUE(args.resident);
  EXPECT_LE(args.lanes(), 8);  // at least 32 columns for a block
  const SoftmaxArgs narrow = plan_of({64, 1000, 512}, 1);
  EXPECT_TRUE(narrow.resident);
  EXPECT_EQ(narrow.lanes(), 32);  // 8 columns for a block: one sector of each row
  const SoftmaxArgs tall = plan_of({8192, 8192}, 0);
  EXPECT_FALSE(tall.resident);
  EXPECT_EQ(tall.lanes(), 8);
}

TEST(SoftmaxPlans, few_long_rows_are_split) {
  const SoftmaxArgs one = plan_of({1 << 26}, 0);
  EXPECT_FALSE(one.resident);
  EXPECT_GT(one.parts, 1000);
  EXPECT_LE(one.parts, 4096);
  EXPECT_EQ(plan_of({100, 8000}, 1).parts, 1);
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    Shape shape;
    for (unsigned k = random() % 3 + 1; k > 0; --k)
      shape.push_back(std::max<Index>(1, (Index{1} << (random() % 20)) - static_cast<Index>(random() % 3)));
    const SoftmaxArgs args = plan_of(shape, static_cast<int>(random() % shape.size()), floats[i % 4]);
    EXPECT_GE(args.parts * args.per_part, args.length) << shape.str();
    EXPECT_LT((args.parts - 1) * args.per_part, args.length) << shape.str();
    EXPECT_GE(args.tiles * (block_threads >> args.lane_bits), args.row_count) << shape.str();
    EXPECT_TRUE(!args.resident || args.parts == 1) << shape.str();
    EXPECT_LE(args.parts, 16 * args.lanes()) << shape.str();
  }
}

TEST(SoftmaxPlans, more_elements_than_31_bits_count) {
  const Index n = (Index{1} << 32) + 3;
  const SoftmaxArgs row = plan_of({n}, 0);
  EXPECT_GE(row.parts * row.per_part, n);
  const Shape shape{n, 3};
  const Strides strides = stave::contiguous_strides(shape);
  const SoftmaxPlan rows(OpId::softmax, 1, view_of(shape, strides), view_of(shape, strides));
  EXPECT_EQ(rows.on_host().rows(static_cast<std::uint64_t>(n - 1))[1], 3 * (n - 1));
}

TEST(SoftmaxPlans, scattered_inputs_are_copied_first) {
  const Shape shape{100, 200};
  const Strides dense = stave::contiguous_strides(shape);
  const auto reads = [&](const Strides& strides) { return reads_lines(view_of(shape, strides)); };
  EXPECT_TRUE(reads(dense));
  EXPECT_TRUE(reads({400, -1}));
  EXPECT_TRUE(reads({1, 0}));
  EXPECT_FALSE(reads({1, 100}));
  EXPECT_FALSE(reads({400, 2}));
  const Shape column{200, 1};
  const Strides apart{7, 1}, next{1, 1};
  EXPECT_FALSE(reads_lines(view_of(column, apart)));
  EXPECT_TRUE(reads_lines(view_of(column, next)));
}

}  // namespace
}  // namespace stave_cuda
