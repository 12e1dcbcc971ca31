// Tests sort and argsort: plans, keys, and the bodies of the kernels executed on the host,
// with std::stable_sort instead of the radix sort.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/sort.cuh>
#include "strided.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::OpId;
using stave::SortAttributes;

// ---- on the host -------------------------------------------------------------------------------

/// Sorts by the lower `bits` of the keys.
void sort_pairs_on_host(SortArgs& args, int bits) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> pairs;
  for (Index i = 0; i < args.count; ++i)
    pairs.emplace_back(args.keys[i] & ((std::uint64_t{1} << bits) - 1), args.places[i]);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < pairs.size(); ++i) args.places[i] = pairs[i].second;
}

void make_keys_on_host(Dtype dtype, const HostBlock& block, const SortArgs& args, const SortPass& pass) {
  stave::visit_real_dtype(dtype, [&](auto zero) { make_keys_body<Signless<decltype(zero)>>(block, args, pass); });
}

void place_on_host(OpId op, Dtype dtype, const HostBlock& block, const SortArgs& args) {
  if (op == OpId::argsort) return place_positions_body(block, args);
  stave::visit_size(stave::size_of(dtype), [&](auto element) { place_elements_body<decltype(element)>(block, args); });
}

/// Runs the steps of the backend's driver.
Array sorted(OpId op, Array& x, int axis, bool descending, Dtype positions = Dtype::int32,
             Index most = SortPlan::most_in_batch) {
  Array out = contiguous(x.shape, op == OpId::sort ? x.dtype : positions);
  const SortPlan plan(*stave::make_intrusive<SortAttributes>(axis, descending), x.view(), out.view(), most);
  std::vector<std::uint32_t> keys(static_cast<std::size_t>(plan.batch_elements())), places(keys.size());
  for (Index i = 0; i < plan.batches(); ++i) {
    SortArgs args = plan.batch(i);
    args.elements = plan.elements().on_host();
    args.keys = keys.data();
    args.places = places.data();
    const auto each = [&](auto body) { run_on_host(3, body, i % 2); };
    each([&](const HostBlock& block) { number_places_body(block, args); });
    for (const SortPass& pass : plan.passes()) {
      each([&](const HostBlock& block) { make_keys_on_host(x.dtype, block, args, pass); });
      sort_pairs_on_host(args, pass.bits);
    }
    each([&](const HostBlock& block) { place_on_host(op, x.dtype, block, args); });
  }
  return out;
}

// ---- the reference -----------------------------------------------------------------------------

template <class T>
bool before(T a, T b) {
  return a < b || (a == a && b != b);
}

template <class T>
void expect_sorted(Array& x, int axis, bool descending, Array& elements, Array& positions) {
  const auto along = static_cast<std::size_t>(axis);
  Shape others = x.shape;
  if (others[along] != 0) others[along] = 1;
  for_positions(others, [&](Shape at) {
    const Index from = offset_of(at, x.strides), to = offset_of(at, elements.strides);
    const auto element = [&](Index i) { return x.at<T>(from + i * x.strides[along]); };
    std::vector<Index> order(static_cast<std::size_t>(x.shape[along]));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return descending ? before(element(b), element(a)) : before(element(a), element(b));
    });
    for (std::size_t i = 0; i < order.size() && !testing::Test::HasFailure(); ++i) {
      const Index place = to + static_cast<Index>(i) * elements.strides[along];
      const T expected = element(order[i]);
      EXPECT_EQ(std::memcmp(&elements.at<T>(place), &expected, sizeof expected), 0) << "bits of element " << i;
      EXPECT_EQ(positions.dtype == Dtype::int64 ? positions.at<std::int64_t>(place) : positions.at<std::int32_t>(place),
                order[i]);
    }
  });
}

TEST(Sort, any_dtype_axis_and_layout) {
  std::mt19937 random(1);
  for (int d = 0; d < stave::real_dtype_count; ++d)
    for (int i = 0; i < 80 && !HasFailure(); ++i) {
      Shape shape = any_shape(random);
      if (shape.empty()) shape = {1000};
      Array x = any_layout(shape, static_cast<Dtype>(d), random);
      fill(x, random, true);
      const int axis = static_cast<int>(random() % shape.size());
      const bool descending = i % 2;
      SCOPED_TRACE(testing::Message() << stave::name_of(x.dtype) << " " << x.shape.str() << " strides "
                                      << x.strides.str() << " axis " << axis << " descending " << descending);
      Array elements = sorted(OpId::sort, x, axis, descending),
            positions = sorted(OpId::argsort, x, axis, descending, i % 3 ? Dtype::int32 : Dtype::int64);
      stave::visit_real_dtype(
          x.dtype, [&](auto zero) { expect_sorted<decltype(zero)>(x, axis, descending, elements, positions); });
      for (const OpId op : {OpId::sort, OpId::argsort}) {
        Array& ours = op == OpId::sort ? elements : positions;
        Array cpu = contiguous(ours.shape, ours.dtype);
        const View in = x.view(), out = cpu.view();
        const auto attributes = stave::make_intrusive<SortAttributes>(axis, descending);
        stave::cpu_backend().run(record_of(op), attributes.get(), {&in, 1}, {&out, 1});
        EXPECT_EQ(cpu.memory, ours.memory) << "not as on the CPU";
      }
    }
}

TEST(Sort, batches_give_the_same_result) {
  std::mt19937 random(2);
  for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
    Array x = any_layout({7, 30, 11}, dtype, random);
    fill(x, random, true);
    for (const OpId op : {OpId::sort, OpId::argsort})
      for (const Index most : {1, 100, 1000})
        EXPECT_EQ(sorted(op, x, 1, true, Dtype::int32, most).memory, sorted(op, x, 1, true).memory) << most;
  }
}

TEST(SortKeys, order_like_elements) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double ascending[] = {-inf, -1e300, -1, -1e-310, 0, 1e-310, 1, 1e300, inf, nan};
  for (std::size_t i = 1; i < std::size(ascending); ++i) {
    EXPECT_LT(key_of(ascending[i - 1]), key_of(ascending[i])) << i;
    if (i == 3 || i == 5) continue;  // float has no such numbers
    EXPECT_LE(key_of(static_cast<float>(ascending[i - 1])), key_of(static_cast<float>(ascending[i]))) << i;
  }
  EXPECT_EQ(key_of(-0.), key_of(0.));
  EXPECT_EQ(key_of(-0.f), key_of(0.f));
  EXPECT_EQ(key_of(-nan), key_of(nan));
  EXPECT_EQ(key_of(std::numeric_limits<float>::quiet_NaN()), 0xffffffffu);
  // All float16 values except NaN.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = [](std::uint32_t of) {
      return __builtin_bit_cast(stave::Float16, static_cast<std::uint16_t>(of));
    };
    EXPECT_LT(key_of(half(bits)), key_of(half(bits + 1)));
    EXPECT_LE(key_of(half(bits + 0x8001)), key_of(half(bits + 0x8000)));
  }
  EXPECT_EQ(key_of(stave::BFloat16(-0.)), key_of(stave::BFloat16(0.)));
  EXPECT_LT(key_of(stave::BFloat16(inf)), key_of(stave::BFloat16(-nan)));
  EXPECT_LT(key_of(stave::BFloat16(-inf)), key_of(stave::BFloat16(-3e38)));
}

// ---- plans -------------------------------------------------------------------------------------

SortPlan plan_of(const Shape& shape, int axis, Dtype dtype, bool descending = false) {
  static char memory[64];  // never read
  const Strides strides = stave::contiguous_strides(shape);
  const View view{memory, dtype, shape, strides};
  return SortPlan(*stave::make_intrusive<SortAttributes>(axis, descending), view, view);
}

std::vector<SortPass> passes_of(const Shape& shape, Dtype dtype) {
  const SortPlan plan = plan_of(shape, shape.rank() - 1, dtype);
  return {plan.passes().begin(), plan.passes().end()};
}

TEST(SortPlans, passes_are_as_few_as_32_bits_allow) {
  const SortPass low{0, 32, true, false, 32}, high{32, 32, true, false, 32}, rows{0, 10, false, true, 0};
  EXPECT_EQ(passes_of({1000}, Dtype::float32), (std::vector{low}));
  EXPECT_EQ(passes_of({1000, 100}, Dtype::float32), (std::vector{low, rows}));
  EXPECT_EQ(passes_of({1000}, Dtype::float64), (std::vector{low, high}));
  EXPECT_EQ(passes_of({1000, 100}, Dtype::int64), (std::vector{low, high, rows}));
  EXPECT_EQ(passes_of({1000, 100}, Dtype::float16), (std::vector{SortPass{0, 26, true, true, 16}}));
  EXPECT_EQ(passes_of({1000, 100}, Dtype::bool_), (std::vector{SortPass{0, 18, true, true, 8}}));
  EXPECT_TRUE(passes_of({1000, 1}, Dtype::int64).empty());
}

TEST(SortPlans, many_rows_go_in_batches) {
  const SortPlan plan = plan_of({1 << 20, 1000}, 1, Dtype::float32);
  Index elements = 0;
  for (Index i = 0; i < plan.batches(); ++i) {
    EXPECT_EQ(plan.batch(i).first, elements);
    EXPECT_LE(plan.batch(i).count, plan.batch_elements());
    elements += plan.batch(i).count;
  }
  EXPECT_GT(plan.batches(), 10);
  EXPECT_EQ(elements, (Index{1} << 20) * 1000);
}

TEST(SortPlans, more_elements_than_31_bits_count) {
  const Index n = Index{3} << 30;
  const SortPlan plan = plan_of({n}, 0, Dtype::float32);
  EXPECT_EQ(plan.batches(), 1);
  EXPECT_EQ(plan.batch(0).count, n);
  try {
    plan_of({2, Index{1} << 32}, 1, Dtype::uint8);
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_STREQ(error.what(),
                 "cuda: sort: axis 1 has 4294967296 elements, and no more than 4294967295 are sorted on a GPU: sort it "
                 "on the CPU");
  }
}

TEST(SortPlans, nothing_to_sort_needs_no_batch) {
  EXPECT_EQ(plan_of({0}, 0, Dtype::float32).batches(), 0);
  EXPECT_EQ(plan_of({3, 0}, 0, Dtype::float32).batches(), 0);
  EXPECT_EQ(plan_of({0, 3}, 1, Dtype::float32).batches(), 0);
}

}  // namespace
}  // namespace stave_cuda
