// Tests scans: plans, and the bodies of the kernels executed on the host, against a loop over
// elements and against the CPU backend.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include <stave/backends/cuda/kernels/scan_kernels.h>
#include <stave/backends/cuda/scan.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/scan.cuh>
#include "cuda/scan_on_host.h"
#include "machine.h"
#include "rounding.h"
#include "strided.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::OpId;
using stave::ScanAttributes;

// ---- on the host -------------------------------------------------------------------------------

template <class Step>
void scan_on_host(const ScanPlan& plan, Machine machine) {
  stave_test::scan_on_host<Step>(plan, [&](std::int64_t tasks, const auto& body) {
    run_on_host(grid_size(tasks, machine.blocks), body, machine.backwards);
  });
}

template <template <class> class Step>
void scan_as(Dtype dtype, const ScanPlan& plan, Machine machine) {
  if constexpr (requires { typename Step<stave::ComplexElement<double>>::ComplexState; })
    if (stave::is_complex(dtype))
      return dtype == Dtype::complex64 ? scan_on_host<Step<stave::ComplexElement<float>>>(plan, machine)
                                       : scan_on_host<Step<stave::ComplexElement<double>>>(plan, machine);
  stave::visit_real_dtype(dtype, [&](auto zero) { scan_on_host<Step<Signless<decltype(zero)>>>(plan, machine); });
}

bool is_extreme(OpId op) { return op == OpId::cummax || op == OpId::cummin; }

std::vector<View> views(std::vector<Array>& arrays) {
  std::vector<View> result;
  for (Array& array : arrays) result.push_back(array.view());
  return result;
}

Array scanned(OpId op, std::vector<Array>& x, int axis, bool reverse, Machine machine = large) {
  Array out = contiguous(x[0].shape, x[0].dtype);
  if (out.shape.elements() == 0) return out;
  const std::vector<View> in = views(x);
  const auto attributes = stave::make_intrusive<ScanAttributes>(axis, reverse);
  const ScanPlan plan(*attributes, in, out.view());
  if (op == OpId::linear_recurrence) scan_as<Recurrence>(out.dtype, plan, machine);
  else if (op == OpId::cumulative_prod) scan_as<RunningProduct>(out.dtype, plan, machine);
  else if (is_extreme(op))
    stave::visit_real_dtype(out.dtype, [&](auto zero) {
      using T = Element<decltype(zero)>;
      op == OpId::cummax ? scan_on_host<RunningMax<T>>(plan, machine) : scan_on_host<RunningMin<T>>(plan, machine);
    });
  else scan_as<RunningSum>(out.dtype, plan, machine);
  return out;
}

Array scanned_by_cpu(OpId op, std::vector<Array>& x, int axis, bool reverse) {
  Array out = contiguous(x[0].shape, x[0].dtype);
  const std::vector<View> in = views(x);
  const View to = out.view();
  const auto attributes = stave::make_intrusive<ScanAttributes>(axis, reverse);
  stave::cpu_backend().run(record_of(op), attributes.get(), in, {&to, 1});
  return out;
}

// ---- the reference: from element to element ----------------------------------------------------

/// Compares a scan with one computed in type W. The rounding error is relative to `size`,
/// the sum of the absolute values of the terms.
template <class T, class W>
void expect_scanned(OpId op, std::vector<Array>& x, int axis, bool reverse, Array& out) {
  const auto along = static_cast<std::size_t>(axis);
  Shape others = out.shape;
  others[along] = 1;
  for_positions(others, [&](Shape position) {
    W state = op == OpId::cumulative_prod ? 1 : 0, size = state;
    for (Index i = 0; i < out.shape[along] && !testing::Test::HasFailure(); ++i) {
      position[along] = reverse ? out.shape[along] - 1 - i : i;
      const W a = static_cast<W>(x[0].at<T>(offset_of(position, x[0].strides)));
      const W b = static_cast<W>(x.back().at<T>(offset_of(position, x.back().strides)));
      if (op == OpId::cumulative_sum) state += a, size += a < 0 ? -a : a;
      else if (op == OpId::cumulative_prod) state *= a, size *= a < 0 ? -a : a;
      else
        state = (a == 0 || state == 0 ? 0 : a * state) + b,
        size = (a == 0 || size == 0 ? 0 : (a < 0 ? -a : a) * size) + (b < 0 ? -b : b);
      const T answer = out.at<T>(offset_of(position, out.strides));
      if constexpr (!std::is_integral_v<T>) {
        const auto got = static_cast<double>(answer), expected = static_cast<double>(rounded<T>(state));
        if (std::isnan(expected)) EXPECT_TRUE(std::isnan(got)) << "at " << i;
        else if (std::isinf(expected) || got == expected) EXPECT_EQ(got, expected) << "at " << i;
        else
          EXPECT_NEAR(got, expected,
                      epsilon<T> * std::abs(expected) + 1e-15 * static_cast<double>(i + 8) * static_cast<double>(size))
              << "at " << i;
      } else {
        EXPECT_EQ(answer, static_cast<T>(state)) << "at " << i;
      }
    }
  });
}

/// Compares a cummax or cummin. From the first NaN on, results are NaN.
template <class T>
void expect_extremes(OpId op, std::vector<Array>& x, int axis, bool reverse, Array& out) {
  const auto along = static_cast<std::size_t>(axis);
  Shape others = out.shape;
  others[along] = 1;
  for_positions(others, [&](Shape position) {
    T extreme{};
    for (Index i = 0; i < out.shape[along]; ++i) {
      position[along] = reverse ? out.shape[along] - 1 - i : i;
      const T a = x[0].at<T>(offset_of(position, x[0].strides));
      const bool beyond = op == OpId::cummax ? a > extreme : a < extreme;
      if (i == 0 || a != a || beyond) extreme = extreme != extreme ? extreme : a;
      const T answer = out.at<T>(offset_of(position, out.strides));
      ASSERT_TRUE(answer == extreme || (answer != answer && extreme != extreme)) << "at " << i;
    }
  });
}

void expect_scan(OpId op, std::vector<Array>& x, int axis, bool reverse) {
  SCOPED_TRACE(testing::Message() << stave::name_of(x[0].dtype) << " " << x[0].shape.str() << " strides "
                                  << x[0].strides.str() << " axis " << axis << (reverse ? " reverse" : ""));
  Array out = scanned(op, x, axis, reverse);
  stave::visit_real_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;
    if (is_extreme(op)) return expect_extremes<T>(op, x, axis, reverse, out);
    expect_scanned<T, std::conditional_t<std::is_integral_v<T>, std::uint64_t, Wide>>(op, x, axis, reverse, out);
  });
  EXPECT_EQ(scanned(op, x, axis, reverse, small).memory, out.memory) << "depends on the machine";
}

// ---- inputs ------------------------------------------------------------------------------------

/// Factors close to 1 or -1; with `wild`, sometimes 0, infinity or NaN.
template <class T>
void fill_with_factors(Array& x, std::mt19937& random, bool wild) {
  for (std::size_t i = 0; i < x.memory.size() / sizeof(T); ++i) {
    constexpr double special[] = {0, -0., HUGE_VAL, NAN};
    double factor = (random() % 2 ? 1 : -1) * (1 + 1e-3 * (static_cast<double>(random() % 2001) / 1000 - 1));
    if (wild && random() % 97 == 0) factor = special[random() % 4];
    reinterpret_cast<T*>(x.memory.data())[i] = static_cast<T>(factor);
  }
}

std::vector<Array> any_inputs(OpId op, const Shape& shape, Dtype dtype, std::mt19937& random, bool wild) {
  std::vector<Array> x;
  for (int k = 0; k < (op == OpId::linear_recurrence ? 2 : 1); ++k) {
    x.push_back(any_layout(shape, dtype, random));
    fill(x.back(), random, wild && (k == 1 || op == OpId::cumulative_sum || is_extreme(op)));
  }
  if (op != OpId::cumulative_sum && !is_extreme(op) && is_float(dtype))
    stave::visit_real_dtype(dtype, [&](auto zero) { fill_with_factors<decltype(zero)>(x[0], random, wild); });
  return x;
}

constexpr OpId scans[] = {OpId::cumulative_sum, OpId::cumulative_prod, OpId::cummax, OpId::cummin,
                          OpId::linear_recurrence};
class Scan : public testing::TestWithParam<OpId> {};

TEST_P(Scan, any_dtype_axis_and_layout) {
  const OpId op = GetParam();
  std::mt19937 random(1);
  for (int d = 1; d < stave::real_dtype_count; ++d)
    for (int i = 0; i < 120 && !HasFailure(); ++i) {
      Shape shape = any_shape(random);
      if (shape.empty()) shape = {5};
      std::vector<Array> x = any_inputs(op, shape, static_cast<Dtype>(d), random, i % 3 == 0);
      expect_scan(op, x, static_cast<int>(random() % shape.size()), i % 2 == 0);
    }
}

TEST_P(Scan, long_rows_in_parts) {
  const OpId op = GetParam();
  std::mt19937 random(2);
  for (int d = 1; d < stave::real_dtype_count; ++d)
    for (const Shape& shape : {Shape{100003}, Shape{3, 20000}, Shape{20000, 3}, Shape{2, 5000, 2}})
      for (const bool wild : {false, true}) {
        if (HasFailure()) return;
        std::vector<Array> x = any_inputs(op, shape, static_cast<Dtype>(d), random, wild);
        expect_scan(op, x, shape.rank() == 3 ? 1 : shape[0] > shape.back() ? 0 : shape.rank() - 1, wild);
      }
}

TEST_P(Scan, integers_equal_the_cpu) {
  const OpId op = GetParam();
  std::mt19937 random(3);
  for (int d = 0; d < stave::real_dtype_count; ++d)
    for (int i = 0; i < 30; ++i) {
      const auto dtype = static_cast<Dtype>(d);
      Shape shape = any_shape(random);
      if (!is_integer(dtype)) continue;
      if (shape.elements() == 0 || shape.empty()) continue;
      std::vector<Array> x = any_inputs(op, shape, dtype, random, false);
      const int axis = static_cast<int>(random() % shape.size());
      EXPECT_EQ(scanned(op, x, axis, i % 2).memory, scanned_by_cpu(op, x, axis, i % 2).memory)
          << stave::name_of(dtype) << " " << shape.str();
    }
}

std::string name_of_scan(const testing::TestParamInfo<OpId>& of) { return record_of(of.param).name; }
INSTANTIATE_TEST_SUITE_P(All, Scan, testing::ValuesIn(scans), name_of_scan);

// ---- complex numbers ---------------------------------------------------------------------------

/// Compares a scan with the CPU's. With `wild`, some factors are 0, and some so large or small that
/// products leave the range of float64.
template <class T>
void check_complex(OpId op, bool wild) {
  std::mt19937 random(4);
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-10;
  for (const Shape& shape : {Shape{5}, Shape{257}, Shape{100003}, Shape{3, 20000}, Shape{20000, 3}, Shape{2, 5000, 2},
                             Shape{70, 40}, Shape{4, 130}}) {
    std::vector<Array> x;
    for (int k = 0; k < (op == OpId::linear_recurrence ? 2 : 1); ++k) {
      x.push_back(any_layout(shape, stave::dtype_of<stave::ComplexElement<T>>(), random));
      T* const parts = reinterpret_cast<T*>(x[static_cast<std::size_t>(k)].memory.data());
      for (std::size_t i = 0; i < x.back().memory.size() / (2 * sizeof(T)); ++i) {
        const double angle = static_cast<double>(random() % 6283) / 1000;
        double length = op == OpId::linear_recurrence ? 0.9 : 1;
        if (wild && random() % 301 == 0) length = k == 0 && random() % 3 == 0 ? 0 : random() % 2 ? 1e30 : 1e-30;
        parts[2 * i] = static_cast<T>(length * std::cos(angle));
        parts[2 * i + 1] = static_cast<T>(length * std::sin(angle));
      }
    }
    const int axis = shape.rank() == 3 ? 1 : shape[0] > shape.back() ? 0 : shape.rank() - 1;
    for (const Machine& machine : {large, small}) {
      Array got = scanned(op, x, axis, wild, machine), cpu = scanned_by_cpu(op, x, axis, wild);
      for (Index i = 0; i < shape.elements() && !testing::Test::HasFailure(); ++i) {
        const T re = cpu.at<T>(2 * i), im = cpu.at<T>(2 * i + 1), largest = std::numeric_limits<T>::max();
        const double size = std::hypot(static_cast<double>(re), static_cast<double>(im));
        // Products near the ends of T's range may round to either side of them.
        if (!(size < largest / 1e3)) continue;
        const double most = tolerance * size + static_cast<double>(std::numeric_limits<T>::min());
        EXPECT_NEAR(got.at<T>(2 * i), re, most) << shape.str() << " at " << i;
        EXPECT_NEAR(got.at<T>(2 * i + 1), im, most) << shape.str() << " at " << i;
      }
    }
  }
}
TEST(ScanComplex, products_equal_the_cpu) {
  for (const bool wild : {false, true}) {
    check_complex<float>(OpId::cumulative_prod, wild);
    check_complex<double>(OpId::cumulative_prod, wild);
  }
}
TEST(ScanComplex, recurrences_equal_the_cpu) {
  for (const bool wild : {false, true}) {
    check_complex<float>(OpId::linear_recurrence, wild);
    check_complex<double>(OpId::linear_recurrence, wild);
  }
}

// ---- where runs of elements leave the range of float64 -----------------------------------------

template <class T>
std::vector<Array> rows_of(const std::vector<std::vector<double>>& inputs) {
  std::vector<Array> x;
  for (const std::vector<double>& input : inputs) {
    x.push_back(contiguous({static_cast<Index>(input.size())}, stave::dtype_of<T>()));
    for (std::size_t i = 0; i < input.size(); ++i) x.back().at<T>(static_cast<Index>(i)) = static_cast<T>(input[i]);
  }
  return x;
}
std::vector<double> runs(std::initializer_list<std::pair<double, int>> of) {
  std::vector<double> all;
  for (auto [value, count] : of) all.insert(all.end(), static_cast<std::size_t>(count), value);
  return all;
}

TEST(ScanMeaning, a_product_that_underflowed_stays_0_when_later_factors_overflow) {
  auto x = rows_of<float>({runs({{1e-38, 3000}, {1e38, 30000}})});
  expect_scan(OpId::cumulative_prod, x, 0, false);
  EXPECT_EQ(scanned(OpId::cumulative_prod, x, 0, false).at<float>(32999), 0);
  auto inverse = rows_of<double>({runs({{1e200, 20000}, {1e-200, 20000}})});
  expect_scan(OpId::cumulative_prod, inverse, 0, false);
  EXPECT_EQ(scanned(OpId::cumulative_prod, inverse, 0, false).at<double>(39999), HUGE_VAL);
}

TEST(ScanMeaning, zero_factors_and_zero_states_override_infinities_and_nan) {
  auto reset = rows_of<float>({runs({{NAN, 5000}, {0, 1}, {.5, 20000}}), runs({{1, 25001}})});
  expect_scan(OpId::linear_recurrence, reset, 0, false);
  EXPECT_EQ(scanned(OpId::linear_recurrence, reset, 0, false).at<float>(25000), 2);
  auto zero = rows_of<float>({runs({{HUGE_VAL, 20000}, {1, 5000}}), runs({{0, 20000}, {1, 5000}})});
  expect_scan(OpId::linear_recurrence, zero, 0, false);
  EXPECT_EQ(scanned(OpId::linear_recurrence, zero, 0, false).at<float>(24999), 5000);
}

TEST(ScanMeaning, overflowing_factors_keep_small_states_finite) {
  auto nothing = rows_of<double>({runs({{2, 20000}}), runs({{0, 20000}})});
  expect_scan(OpId::linear_recurrence, nothing, 0, false);
  std::vector<double> factors = {1}, terms = runs({{1e-300, 1}, {0, 16000}});
  for (int i = 0; i < 2000; ++i)
    for (int k = 0; k < 8; ++k) factors.push_back(k < 4 ? 1e150 : 1e-150);
  auto up_and_down = rows_of<double>({factors, terms});
  expect_scan(OpId::linear_recurrence, up_and_down, 0, false);
  Array out = scanned(OpId::linear_recurrence, up_and_down, 0, false);
  EXPECT_NEAR(out.at<double>(15996), 1e300, 1e288);
  EXPECT_NEAR(out.at<double>(16000) * 1e300, 1, 1e-11);
}

TEST(ScanMeaning, carried_values_are_not_rounded_to_16_bits) {
  auto x = rows_of<stave::BFloat16>({runs({{1, 5000}})});
  Array sums = scanned(OpId::cumulative_sum, x, 0, false);
  for (Index i = 0; i < 5000; ++i)
    ASSERT_TRUE(same(sums.at<stave::BFloat16>(i), rounded<stave::BFloat16>(static_cast<double>(i + 1)))) << i;
  auto decay = rows_of<stave::Float16>({runs({{1, 4000}}), runs({{2048, 1}, {1, 1}, {0x1p-24, 3998}})});
  Array states = scanned(OpId::linear_recurrence, decay, 0, false);
  EXPECT_EQ(states.at<stave::Float16>(1), 2048);
  // 2049 + 2^-24.
  EXPECT_EQ(states.at<stave::Float16>(2), 2050);
}

TEST(ScanMeaning, sums_of_doubles_are_compensated) {
  std::vector<double> terms = runs({{1, 100000}});
  terms[0] = 1e16;
  auto x = rows_of<double>({terms});
  Array out = scanned(OpId::cumulative_sum, x, 0, false);
  for (Index i = 0; i < 100000; i += 2) ASSERT_EQ(out.at<double>(i), 1e16 + static_cast<double>(i)) << i;
}

TEST(ScanSteps, composed_maps_equal_maps_in_turn) {
  using R = Recurrence<double>;
  const R::Map f{2, 3}, g{5, 7};
  EXPECT_EQ(R::apply(R::apply(11, f), g), R::apply(11, R::then(f, g)));
  EXPECT_EQ(R::apply(11, R::identity()), 11);
  EXPECT_TRUE(R::fits({0, 1}, 1e30));
  EXPECT_FALSE(R::fits({0, 1}, 1e300));
  EXPECT_FALSE(R::fits({HUGE_VAL, 1}, 1));
  EXPECT_FALSE(R::fits({1, NAN}, 1));
  EXPECT_TRUE(R::fits({.5, 1}, HUGE_VAL));
}

// ---- dispatch ----------------------------------------------------------------------------------

class NoScratch : public Scratch {
 public:
  void* allocate(std::size_t) override { throw std::bad_alloc(); }
};

TEST(ScanDispatch, has_exactly_the_kernels_of_the_cpu) {
  for (int d = 0; d < stave::real_dtype_count; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    for (const auto kernels_of : {cumulative_sum, cumulative_prod, linear_recurrence})
      EXPECT_EQ(kernels_of(dtype) != nullptr, dtype != Dtype::bool_) << stave::name_of(dtype);
  }
  for (const Dtype dtype : {Dtype::complex64, Dtype::complex128}) {
    EXPECT_EQ(cumulative_sum(dtype), nullptr);  // is that of the parts
    EXPECT_NE(cumulative_prod(dtype), nullptr);
    EXPECT_NE(linear_recurrence(dtype), nullptr);
  }
}

TEST(ScanDispatch, missing_kernel_is_an_error_that_names_operation_and_dtype) {
  NoScratch scratch;
  Array x = contiguous({3}, Dtype::bool_), out = contiguous({3}, Dtype::bool_);
  const View in = x.view();
  try {
    run_scan({nullptr, 132, scratch, nullptr, 1}, OpId::cumulative_sum, ScanAttributes(0, false), {&in, 1}, out.view());
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_STREQ(error.what(), "cuda: no kernel of cumulative_sum for bool; convert with astype");
  }
}

// ---- plans -------------------------------------------------------------------------------------

ScanPlan plan_of(const Shape& shape, int axis) {
  static char memory[64];  // never read
  const Strides strides = stave::contiguous_strides(shape);
  const View view{memory, Dtype::float32, shape, strides};
  return ScanPlan(ScanAttributes(axis, false), {&view, 1}, view);
}

TEST(ScanPlans, one_long_row_is_split_over_the_machine) {
  const ScanArgs args = plan_of({1 << 26}, 0).args();
  EXPECT_TRUE(args.tiles);
  EXPECT_EQ(args.parts, 512);
  EXPECT_EQ(args.per_part % scan_part, 0);
}

TEST(ScanPlans, many_rows_are_not_split) {
  EXPECT_EQ(plan_of({4096, 10000}, 1).args().parts, 1);
  EXPECT_EQ(plan_of({100, 1 << 17}, 0).args().parts, 1);
  EXPECT_FALSE(plan_of({100, 1 << 17}, 0).args().tiles);
  EXPECT_FALSE(plan_of({1 << 20, 8}, 1).args().tiles);
}

TEST(ScanPlans, few_columns_are_split) {
  const ScanPlan plan = plan_of({1 << 20, 16}, 0);
  EXPECT_EQ(plan.args().parts, 512);
  EXPECT_EQ(plan.partials(), 512 * 16);
  EXPECT_EQ(plan.tasks(ScanStage::scan), 32);
  EXPECT_EQ(plan.tasks(ScanStage::carries), 1);
}

TEST(ScanPlans, more_elements_than_31_bits_count) {
  const Index n = (Index{1} << 32) + 5;
  const ScanArgs args = plan_of({n}, 0).args();
  EXPECT_EQ(args.length, n);
  EXPECT_GE(args.parts * args.per_part, n);
  EXPECT_LT((args.parts - 1) * args.per_part, n);
  const ScanPlan columns = plan_of({3, n}, 0);
  EXPECT_EQ(columns.on_host().rows(static_cast<std::uint64_t>(n - 1))[2], n - 1);
}

}  // namespace
}  // namespace stave_cuda
