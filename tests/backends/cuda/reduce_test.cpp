// Tests reductions: plans, and the bodies of the kernels executed on the host,
// against loops over positions and against the CPU backend.
#include <gtest/gtest.h>

#include <cmath>

#include <stave/backends/cuda/kernels/reduce_kernels.h>
#include <stave/backends/cuda/reduce.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/backends/cuda/kernels/reduce.cuh>
#include "machine.h"
#include "rounding.h"
#include "strided.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::OpId;

// ---- on the host -------------------------------------------------------------------------------

template <class Fold>
void reduce_on_host(const ReducePlan& plan, Machine machine) {
  using Accumulator = typename Fold::Accumulator;
  ReduceArgs args = plan.on_host();
  std::vector<Accumulator> partials(static_cast<std::size_t>(plan.partials())), shared(block_threads);
  args.partials = partials.data();
  run_on_host(
      grid_size(args.tasks(), machine.blocks),
      [&](const HostBlock& block) { reduce_body<Fold>(block, args, shared.data()); }, machine.backwards);
  if (plan.partials() == 0) return;
  const unsigned bits = merge_lane_bits(args.parts());
  const Index width = block_threads >> bits;
  run_on_host(
      grid_size((args.outputs + width - 1) / width, machine.blocks),
      [&](const HostBlock& block) { merge_body<Fold>(block, args, bits, shared.data()); }, machine.backwards);
}

using OnHost = void (*)(const ReducePlan&, Machine);

template <template <class> class Fold>
OnHost fold_of_any(Dtype dtype) {
  return stave::visit_real_dtype(dtype,
                                 [](auto zero) -> OnHost { return reduce_on_host<Fold<Signless<decltype(zero)>>>; });
}

OnHost fold_of(OpId op, Dtype dtype) {
  if (dtype == Dtype::complex64) return reduce_on_host<Product<stave::ComplexElement<float>>>;
  if (dtype == Dtype::complex128) return reduce_on_host<Product<stave::ComplexElement<double>>>;
  if (op == OpId::max || op == OpId::min) return fold_of_any<Extreme>(dtype);
  if (op == OpId::argmax || op == OpId::argmin) return fold_of_any<ArgExtreme>(dtype);
  if (op == OpId::all || op == OpId::any) return reduce_on_host<Logical>;
  return op == OpId::sum ? fold_of_any<Sum>(dtype) : fold_of_any<Product>(dtype);
}

Shape without(const Shape& shape, const Shape& axes) {
  Shape rest;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<Index>(i)) == axes.end()) rest.push_back(shape[i]);
  return rest;
}

/// The result of the kernels.
Array reduced(OpId op, Array& x, const Shape& axes, Dtype result, Machine machine = large) {
  Array out = contiguous(without(x.shape, axes), result);
  const ReducePlan plan(op, axes, x.view(), out.view());
  if (plan.args().outputs > 0) fold_of(op, x.dtype)(plan, machine);
  return out;
}

/// Factors whose products, in any order, stay far from the ends of double's range.
template <class T>
void fill_with_factors(Array& x, std::mt19937& random) {
  for (std::size_t i = 0; i < x.memory.size() / sizeof(T); ++i) {
    const double size =
        std::ldexp(1 + 1e-3 * (static_cast<double>(random() % 2001) / 1000 - 1), static_cast<int>(random() % 3) - 1);
    reinterpret_cast<T*>(x.memory.data())[i] = static_cast<T>(random() % 2 ? size : -size);
  }
}

Shape any_axes(const Shape& shape, std::mt19937& random) {
  Shape axes;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (random() % 2) axes.push_back(static_cast<Index>(i));
  return axes;
}

// ---- references: the elements of each output, in row-major order -------------------------------

template <class T>
std::vector<std::vector<T>> elements_by_output(Array& x, const Shape& axes) {
  const Shape kept = without(x.shape, axes);
  std::vector<std::vector<T>> elements(static_cast<std::size_t>(kept.elements()));
  const Strides strides = stave::contiguous_strides(kept);
  for_positions(x.shape, [&](const Shape& position) {
    const auto output = static_cast<std::size_t>(offset_of(without(position, axes), strides));
    elements[output].push_back(x.at<T>(offset_of(position, x.strides)));
  });
  return elements;
}

template <class T>
T expected_extreme(const std::vector<T>& x, bool max) {
  T best = x[0];
  for (T e : x)
    if (e != e || (best == best && (max ? e > best : e < best))) best = e;
  return best;
}
template <class T>
Index expected_position(const std::vector<T>& x, bool max) {
  Index best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    const T a = x[i], b = x[static_cast<std::size_t>(best)];
    if (b == b && (a != a || (max ? a > b : a < b))) best = static_cast<Index>(i);
  }
  return best;
}

/// Checks sums and products: integers exactly, floats against long double,
/// within the rounding of the result.
template <class T>
void expect_arithmetic(OpId op, const std::vector<T>& x, T got) {
  if constexpr (!std::is_integral_v<T>) {
    long double expected = op == OpId::sum ? 0 : 1, size = 0;
    for (T e : x) {
      if (op == OpId::sum) expected += static_cast<long double>(e);
      else expected *= static_cast<long double>(e);
      size += std::abs(static_cast<long double>(e));
    }
    const auto nearest = static_cast<double>(rounded<T>(expected)), answer = static_cast<double>(got);
    if (std::isnan(nearest)) EXPECT_TRUE(std::isnan(answer));
    else if (std::isinf(nearest) || nearest == answer) EXPECT_EQ(answer, nearest);
    else if (op == OpId::sum)
      EXPECT_NEAR(answer, nearest, std::abs(nearest) * epsilon<T> + static_cast<double>(size) * 1e-18);
    else
      EXPECT_NEAR(answer, nearest,
                  std::abs(nearest) * (1e-15 * static_cast<double>(x.size() + 2) + epsilon<T>)+std::ldexp(
                                          epsilon<T>, shape_of<T>.least));
  } else {
    std::uint64_t expected = op == OpId::sum ? 0 : 1;
    for (T e : x)
      expected = op == OpId::sum ? expected + static_cast<std::uint64_t>(e) : expected * static_cast<std::uint64_t>(e);
    EXPECT_EQ(got, static_cast<T>(expected));
  }
}

template <class T>
void expect_one(OpId op, const std::vector<T>& x, Array& out, Index at) {
  switch (op) {
    case OpId::max:
    case OpId::min: {
      const T expected = expected_extreme(x, op == OpId::max), got = out.at<T>(at);
      EXPECT_TRUE(got == expected || (got != got && expected != expected)) << +got << " for " << +expected;
      return;
    }
    case OpId::argmax:
    case OpId::argmin: {
      const Index expected = expected_position(x, op == OpId::argmax);
      EXPECT_EQ(out.dtype == Dtype::int64 ? out.at<std::int64_t>(at) : out.at<std::int32_t>(at), expected);
      return;
    }
    case OpId::all: EXPECT_EQ(out.at<bool>(at), std::find(x.begin(), x.end(), T(0)) == x.end()); return;
    case OpId::any: EXPECT_EQ(out.at<bool>(at), std::find(x.begin(), x.end(), T(1)) != x.end()); return;
    default: expect_arithmetic(op, x, out.at<T>(at));
  }
}

bool is_position(OpId op) { return op == OpId::argmax || op == OpId::argmin; }

void expect_reduced(OpId op, Array& x, const Shape& axes, Dtype result) {
  Array out = reduced(op, x, axes, result);
  stave::visit_real_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto elements = elements_by_output<T>(x, axes);
    for (std::size_t i = 0; i < elements.size() && !testing::Test::HasFailure(); ++i)
      expect_one(op, elements[i], out, static_cast<Index>(i));
  });
  EXPECT_EQ(reduced(op, x, axes, result, small).memory, out.memory) << "depends on the machine";
}

bool takes(OpId op, Dtype dtype) {
  if (op == OpId::all || op == OpId::any) return dtype == Dtype::bool_;
  return dtype != Dtype::bool_ || (op != OpId::sum && op != OpId::prod);
}
constexpr OpId reductions[] = {OpId::sum, OpId::prod, OpId::max,    OpId::min,
                               OpId::all, OpId::any,  OpId::argmax, OpId::argmin};

class Reduce : public testing::TestWithParam<OpId> {};

TEST_P(Reduce, any_dtype_axes_and_layout) {
  const OpId op = GetParam();
  std::mt19937 random(1);
  for (int d = 0; d < stave::real_dtype_count; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    for (int i = 0; takes(op, dtype) && i < 150; ++i) {
      Array x = any_layout(any_shape(random), dtype, random);
      Shape axes = any_axes(x.shape, random);
      const Shape kept = without(x.shape, axes);
      if (op != OpId::sum && op != OpId::prod && x.shape.elements() == 0) continue;
      if (is_position(op) && axes.size() != 1) {
        axes = {};
        for (int axis = 0; axis < x.shape.rank(); ++axis) axes.push_back(axis);
      }
      fill(x, random, i % 3 == 0);
      if (op == OpId::prod && is_float(dtype))
        stave::visit_real_dtype(dtype, [&](auto zero) { fill_with_factors<decltype(zero)>(x, random); });
      SCOPED_TRACE(testing::Message() << stave::name_of(dtype) << " " << x.shape.str() << " strides " << x.strides.str()
                                      << " axes " << axes.str() << " origin " << x.origin);
      expect_reduced(op, x, axes, !is_position(op) ? dtype : i % 2 ? Dtype::int32 : Dtype::int64);
      if (HasFailure()) return;
    }
  }
}

// The CPU's kernels give the same bits. Where the order of operations could matter,
// as in sums of floats, it almost never does, because both add in a wider type.
TEST_P(Reduce, agrees_with_the_cpu) {
  const OpId op = GetParam();
  std::mt19937 random(2);
  for (int d = 0; d < stave::real_dtype_count; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    if (!takes(op, dtype) || (op == OpId::prod && stave::is_float(dtype))) continue;
    for (int i = 0; i < 50; ++i) {
      Array x = any_layout(any_shape(random), dtype, random);
      const Shape axes = x.shape.empty() || i % 2 ? Shape{} : Shape{static_cast<Index>(random() % x.shape.size())};
      if (x.shape.elements() == 0 || (is_position(op) && axes.size() != 1)) continue;
      fill(x, random);
      Array out = reduced(op, x, axes, is_position(op) ? Dtype::int32 : dtype), cpu = contiguous(out.shape, out.dtype);
      const View in = x.view(), to = cpu.view();
      const auto attributes = stave::make_intrusive<stave::ReduceAttributes>(axes, false);
      stave::cpu_backend().run(record_of(op), attributes.get(), {&in, 1}, {&to, 1});
      EXPECT_EQ(out.memory, cpu.memory) << stave::name_of(dtype) << " " << x.shape.str() << " axes " << axes.str();
    }
  }
}

std::string name_of_reduction(const testing::TestParamInfo<OpId>& of) {
  static constexpr const char* names[] = {"sum", "prod", "max", "min", "all", "any", "argmax", "argmin"};
  return names[std::find(std::begin(reductions), std::end(reductions), of.param) - std::begin(reductions)];
}
INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::ValuesIn(reductions), name_of_reduction);

// ---- complex numbers ---------------------------------------------------------------------------

/// Numbers of the same length, so that products stay near 1.
template <class T>
void fill_with_directions(Array& x, std::mt19937& random) {
  for (std::size_t i = 0; i < x.memory.size() / (2 * sizeof(T)); ++i) {
    const double angle = static_cast<double>(random() % 6283) / 1000;
    reinterpret_cast<T*>(x.memory.data())[2 * i] = static_cast<T>(std::cos(angle));
    reinterpret_cast<T*>(x.memory.data())[2 * i + 1] = static_cast<T>(std::sin(angle));
  }
}
template <class T>
void check_complex(OpId op) {
  std::mt19937 random(3);
  for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
    Array x = any_layout(any_shape(random), stave::dtype_of<stave::ComplexElement<T>>(), random);
    const Shape axes = any_axes(x.shape, random);
    fill_with_directions<T>(x, random);
    Array out = contiguous(without(x.shape, axes), x.dtype), cpu = out;
    if (op == OpId::prod) {
      out = reduced(op, x, axes, x.dtype);
    } else {
      const stave_detail::PartsApart from(x.view()), to(out.view());
      const ReducePlan plan(op, axes, from.view, to.view);
      if (plan.args().outputs > 0) fold_of(op, from.view.dtype)(plan, large);
    }
    const View in = x.view(), result = cpu.view();
    const auto attributes = stave::make_intrusive<stave::ReduceAttributes>(axes, false);
    stave::cpu_backend().run(record_of(op), attributes.get(), {&in, 1}, {&result, 1});
    // The lengths of numbers differ from 1 by rounding, and so does that of their product.
    const double tolerance = (op == OpId::prod ? 4 : 1) * epsilon<T> * (1 + (sizeof(T) == 8 ? 40000. : 0.));
    for (Index e = 0; e < 2 * out.shape.elements(); ++e)
      EXPECT_NEAR(out.at<T>(e), cpu.at<T>(e), tolerance) << x.shape.str() << " axes " << axes.str();
  }
}
TEST(ReduceComplex, SumsAreThoseOfTheParts) {
  check_complex<float>(OpId::sum);
  check_complex<double>(OpId::sum);
}
TEST(ReduceComplex, ProductsEqualTheCpu) {
  check_complex<float>(OpId::prod);
  check_complex<double>(OpId::prod);
}

// ---- accuracy, empty and large arrays ----------------------------------------------------------

TEST(ReduceMeaning, sums_of_many_floats_are_exact) {
  Array x = contiguous({1 << 25}, Dtype::float32);
  for (Index i = 0; i < x.shape[0]; ++i) x.at<float>(i) = 1;
  EXPECT_EQ(reduced(OpId::sum, x, {0}, Dtype::float32).at<float>(0), 33554432.f);
  for (Index i = 0; i < x.shape[0]; ++i) x.at<float>(i) = .1f;
  EXPECT_EQ(reduced(OpId::sum, x, {0}, Dtype::float32).at<float>(0), 33554432.f * .1f);
}

// A sum in double is rounded once. 2049 is the middle of two float16 numbers,
// and rounding to float first would give exactly that.
TEST(ReduceMeaning, sums_and_products_of_16_bits_are_rounded_once) {
  Array x = contiguous({3}, Dtype::float16), y = contiguous({2}, Dtype::bfloat16);
  const double terms[] = {2048, 1, 0x1p-24};
  for (Index i = 0; i < 3; ++i) x.at<stave::Float16>(i) = stave::Float16(terms[i]);
  EXPECT_EQ(reduced(OpId::sum, x, {0}, Dtype::float16).at<stave::Float16>(0), 2050);
  y.at<stave::BFloat16>(0) = stave::BFloat16(0x1p-100), y.at<stave::BFloat16>(1) = stave::BFloat16(257 * 0x1p-7);
  EXPECT_EQ(reduced(OpId::sum, y, {0}, Dtype::bfloat16).at<stave::BFloat16>(0), 2);
  Array ones = contiguous({1 << 20}, Dtype::bfloat16);
  for (Index i = 0; i < ones.shape[0]; ++i) ones.at<stave::BFloat16>(i) = stave::BFloat16(1);
  EXPECT_EQ(reduced(OpId::sum, ones, {0}, Dtype::bfloat16).at<stave::BFloat16>(0), 0x1p20f);
  for (Index i = 0; i < 40; ++i) ones.at<stave::BFloat16>(i) = stave::BFloat16(i < 20 ? 0x1p-30 : 0x1p30);
  // Intermediate products exceed the range of bfloat16.
  EXPECT_EQ(reduced(OpId::prod, ones, {0}, Dtype::bfloat16).at<stave::BFloat16>(0), 1);
}

TEST(ReduceMeaning, sums_of_doubles_are_compensated) {
  Array x = contiguous({100001}, Dtype::float64);
  for (Index i = 0; i < 100000; ++i) x.at<double>(i) = i % 2 ? 1 : 1e16;
  x.at<double>(100000) = -5e20;
  EXPECT_EQ(reduced(OpId::sum, x, {0}, Dtype::float64).at<double>(0), 50000);
  x.at<double>(7) = HUGE_VAL;
  EXPECT_EQ(reduced(OpId::sum, x, {0}, Dtype::float64).at<double>(0), HUGE_VAL);
}

TEST(ReduceMeaning, empty_reductions_give_the_neutral_element) {
  Array floats = contiguous({3, 0}, Dtype::float32), bools = contiguous({3, 0}, Dtype::bool_);
  for (Index i = 0; i < 3; ++i) {
    EXPECT_EQ(reduced(OpId::sum, floats, {1}, Dtype::float32).at<float>(i), 0);
    EXPECT_EQ(reduced(OpId::prod, floats, {1}, Dtype::float32).at<float>(i), 1);
    EXPECT_TRUE(reduced(OpId::all, bools, {1}, Dtype::bool_).at<bool>(i));
    EXPECT_FALSE(reduced(OpId::any, bools, {1}, Dtype::bool_).at<bool>(i));
  }
  Array none = contiguous({0, 3}, Dtype::float32);
  EXPECT_EQ(reduced(OpId::sum, none, {1}, Dtype::float32).shape.elements(), 0);
}

// ---- dispatch ----------------------------------------------------------------------------------

class NoScratch : public Scratch {
 public:
  void* allocate(std::size_t) override { throw std::bad_alloc(); }
};

TEST(ReduceDispatch, has_exactly_the_kernels_of_the_cpu) {
  for (const OpId op : reductions)
    for (int d = 0; d < stave::real_dtype_count; ++d) {
      const auto dtype = static_cast<Dtype>(d);
      const bool arithmetic = op == OpId::sum || op == OpId::prod;
      const ReduceLauncher launcher = is_position(op) ? arg_reduction(dtype)
                                      : arithmetic    ? arithmetic_reduction(op, dtype)
                                                      : extreme_reduction(op, dtype);
      EXPECT_EQ(launcher != nullptr, takes(op, dtype)) << static_cast<int>(op) << " " << stave::name_of(dtype);
    }
  EXPECT_NE(arithmetic_reduction(OpId::prod, Dtype::complex64), nullptr);
  EXPECT_NE(arithmetic_reduction(OpId::prod, Dtype::complex128), nullptr);
}

TEST(ReduceDispatch, missing_kernel_is_an_error_that_names_operation_and_dtype) {
  NoScratch scratch;
  Array x = contiguous({3}, Dtype::bool_), out = contiguous({}, Dtype::bool_);
  try {
    run_reduce({nullptr, 132, scratch, nullptr, 1}, OpId::prod, {0}, x.view(), out.view());
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_STREQ(error.what(), "cuda: no kernel of prod for bool; convert with astype");
  }
}

// ---- plans -------------------------------------------------------------------------------------

ReducePlan plan_of(const Shape& shape, const Strides& strides, const Shape& axes, Dtype dtype = Dtype::float32) {
  alignas(256) static char memory[256];  // never read
  const Shape kept = without(shape, axes);
  const Strides out = stave::contiguous_strides(kept);
  return ReducePlan(OpId::sum, axes, {memory, dtype, shape, strides}, {memory, dtype, kept, out});
}
ReducePlan plan_of(const Shape& shape, const Shape& axes, Dtype dtype = Dtype::float32) {
  return plan_of(shape, stave::contiguous_strides(shape), axes, dtype);
}

TEST(ReducePlans, a_full_reduction_keeps_every_multiprocessor_busy_with_16_byte_loads) {
  const ReducePlan plan = plan_of({1 << 13, 1 << 13}, {0, 1});
  const ReduceArgs& args = plan.args();
  EXPECT_TRUE(args.vectors);
  EXPECT_EQ(args.lanes(), block_threads);
  EXPECT_EQ(args.row_lanes(), block_threads);
  EXPECT_EQ(args.row_units, 1 << 24);
  EXPECT_EQ(args.tasks(), 2048);
  EXPECT_EQ(args.parts() * args.units_per_part, 1 << 24);
  EXPECT_EQ(plan.partials(), 2048);
  EXPECT_EQ(grid_size(args.tasks(), 1056), 1056);
}

TEST(ReducePlans, a_transposed_array_is_read_in_the_order_of_its_memory) {
  const ReducePlan plan = plan_of({1000, 4000}, {1, 1000}, {0, 1});
  EXPECT_TRUE(plan.args().vectors);
  EXPECT_EQ(plan.args().row_length, 4000000);
  EXPECT_TRUE(plan_of({1000, 4000}, {1, 1000}, {1}).args().columns);
  EXPECT_FALSE(plan_of({1000, 4000}, {1, 1000}, {0}).args().columns);
}

TEST(ReducePlans, columns_are_read_line_by_line) {
  const ReduceArgs args = plan_of({100000, 64}, {0}).args();
  EXPECT_TRUE(args.columns);
  EXPECT_EQ(args.lanes(), 8);  // a block covers 32 outputs
  EXPECT_GT(args.parts(), 500);
  const ReduceArgs many = plan_of({16, 1 << 20}, {0}).args();
  EXPECT_EQ(many.parts(), 1);
  EXPECT_GE(many.tiles, 1 << 12);
}

TEST(ReducePlans, short_rows_share_a_block) {
  const ReduceArgs three = plan_of({1 << 20, 3}, {1}).args();
  EXPECT_EQ(three.lanes(), 1);
  EXPECT_EQ(three.tiles, 1 << 12);
  const ReduceArgs sixty = plan_of({1 << 20, 64}, {1}).args();
  EXPECT_TRUE(sixty.vectors);
  EXPECT_LE(sixty.lanes(), 16);
}

TEST(ReducePlans, split_work_covers_everything_once) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Shape shape;
    for (unsigned k = random() % 4 + 1; k > 0; --k) shape.push_back(Index{1} << (random() % 14));
    for (Index& length : shape) length = std::max<Index>(1, length - static_cast<Index>(random() % 3));
    const ReduceArgs args = plan_of(shape, any_axes(shape, random)).args();
    EXPECT_GE(args.row_parts * args.units_per_part, args.row_units) << shape.str();
    EXPECT_LT((args.row_parts - 1) * args.units_per_part, std::max<Index>(1, args.row_units)) << shape.str();
    EXPECT_GE(args.rows_parts * args.rows_per_part, args.rows) << shape.str();
    EXPECT_LT((args.rows_parts - 1) * args.rows_per_part, args.rows) << shape.str();
    EXPECT_GE(args.tiles * (block_threads >> args.lane_bits), args.outputs) << shape.str();
    EXPECT_LE(args.parts(), 4096) << shape.str();
  }
}

TEST(ReducePlans, more_elements_than_31_bits_count) {
  const Index n = (Index{1} << 32) + 3;
  const ReducePlan all = plan_of({n}, {0});
  EXPECT_EQ(all.args().row_units, n / 4);
  EXPECT_GE(all.args().row_parts * all.args().units_per_part, n / 4);
  const ReducePlan columns = plan_of({3, n}, {0});
  EXPECT_EQ(columns.args().outputs, n);
  EXPECT_TRUE(columns.kept().wide());
  EXPECT_EQ(columns.on_host().kept(static_cast<std::uint64_t>(n - 1))[1], n - 1);
  const ReducePlan rows = plan_of({n, 3}, {1});
  EXPECT_EQ(rows.on_host().kept(static_cast<std::uint64_t>(n - 1))[0], 3 * (n - 1));
}

TEST(ReducePlans, supports_more_axes_than_a_map_holds) {
  std::mt19937 random(4);
  Shape shape, axes;
  for (Index i = 0; i < 15; ++i) {
    shape.push_back(2);
    if (i % 2) axes.push_back(i);
  }
  Array x = contiguous(shape, Dtype::int32);
  fill(x, random);
  EXPECT_GT(plan_of(shape, axes).kept().axes().size(), std::size_t{inline_axes});
  expect_reduced(OpId::sum, x, axes, Dtype::int32);
}

}  // namespace
}  // namespace stave_cuda
