// Tests the bodies of gather, the scatter operations and dynamic slices, executed on the host,
// against the CPU backend; and index faults.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>

#include <stave/backends/parts_apart.h>
#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/layout.cuh>
#include <stave/backends/cuda/kernels/scatter.cuh>

#include "cuda/on_host.h"

namespace stave_cuda {
namespace {

using stave::Dtype;
using stave::DynamicSliceAttributes;
using stave::GatherAttributes;
using stave::Shape;
using stave::Strides;

template <bool to_part>
void move_on_host(const SlicePlan& plan, IndexFault& fault) {
  SliceLoop loop = plan.on_host();
  loop.fault = &fault;
  loop.ticket = 77;
  if (plan.units() == 0)
    return for_each_thread((loop.lane_count + block_threads - 1) / block_threads,
                           [&](Position p) { check_place(loop, p); });
  for_each_thread(plan.blocks(), [&](Position p) {
    stave::visit_size(static_cast<std::size_t>(plan.unit()),
                      [&](auto unit) { move_slices<decltype(unit), to_part>(loop, p); });
  });
}

void fill_bytes(Buffer& buffer, std::mt19937_64& random) {
  auto* bytes = buffer.data<std::uint8_t>();
  for (std::size_t i = 0; i < buffer.elements() * stave::size_of(buffer.dtype()); ++i)
    bytes[i] = static_cast<std::uint8_t>(random()) & (buffer.dtype() == stave::bool_ ? 1 : 255);
}
void fill_indices(Buffer& buffer, std::mt19937_64& random, std::vector<Index> low, std::vector<Index> high) {
  for (std::size_t i = 0; i < buffer.elements(); ++i) {
    const std::size_t k = i % low.size();
    const Index index = low[k] + static_cast<Index>(random() % static_cast<std::uint64_t>(high[k] - low[k] + 1));
    if (buffer.dtype() == stave::int64) buffer.data<std::int64_t>()[i] = index;
    else buffer.data<std::int32_t>()[i] = static_cast<std::int32_t>(index);
  }
}
void run_on_cpu(stave::OpId op, const stave::Attributes& attributes, const std::vector<View>& in, const Buffer& out) {
  View view = out.view();
  stave::cpu_backend().run(record_of(op), &attributes, in, {&view, 1});
}
void expect_same(const Buffer& got, const Buffer& expected, const std::string& what) {
  const std::size_t bytes = expected.elements() * stave::size_of(expected.dtype());
  EXPECT_EQ(std::memcmp(got.view().data, expected.view().data, bytes), 0) << what;
  EXPECT_TRUE(got.guards_are_whole()) << what;
}

struct GatherCase {
  const char* name;
  Shape shape;
  Strides strides;
  int batch_dims;
  // The shape of the indices, with the tuple axis last.
  Shape indices;
  Strides index_strides;
  Shape out;
};
std::vector<GatherCase> gather_cases() {
  return {
      {"elements", {50}, {1}, 0, {33, 1}, {1, 1}, {33}},
      {"rows", {10, 8}, {8, 1}, 0, {7, 1}, {1, 1}, {7, 8}},
      {"odd rows", {10, 7}, {7, 1}, 0, {5, 1}, {1, 1}, {5, 7}},
      {"of a transpose", {10, 8}, {1, 10}, 0, {4, 3, 1}, {3, 1, 1}, {4, 3, 8}},
      {"pairs", {6, 5, 4}, {20, 4, 1}, 0, {9, 2}, {2, 1}, {9, 4}},
      {"pairs, tuples down", {6, 5, 4}, {20, 4, 1}, 0, {9, 2}, {1, 9}, {9, 4}},
      {"batched", {3, 6, 8}, {48, 8, 1}, 1, {3, 5, 1}, {5, 1, 1}, {3, 5, 8}},
      {"one index for all", {3, 6, 8}, {48, 8, 1}, 1, {3, 5, 1}, {0, 0, 1}, {3, 5, 8}},
      {"batched, reversed", {3, 6, 4}, {-24, -4, 1}, 1, {3, 1}, {1, 1}, {3, 4}},
      {"tuples of six", {2, 3, 2, 3, 2, 2, 4}, {288, 96, 48, 16, 8, 4, 1}, 0, {11, 6}, {6, 1}, {11, 4}},
      {"no indices at all", {3, 4}, {4, 1}, 0, {5, 0}, {1, 1}, {5, 3, 4}},
      {"no lanes", {3, 4}, {4, 1}, 0, {0, 1}, {1, 1}, {0, 4}},
  };
}

Buffer indices_of(const GatherCase& c, Dtype dtype, std::mt19937_64& random, bool from_end = true) {
  Buffer indices(dtype, c.indices, c.index_strides);
  const Index k = c.indices.back();
  // With arbitrary strides, any number may index any axis, so all are below the shortest length.
  Index shortest = 1 << 30;
  for (Index j = 0; j < k; ++j) shortest = std::min(shortest, c.shape[static_cast<std::size_t>(c.batch_dims + j)]);
  if (k > 0) fill_indices(indices, random, {from_end ? -shortest : 0}, {shortest - 1});
  return indices;
}

TEST(Gather, EqualsTheCpu) {
  std::mt19937_64 random(1);
  for (const GatherCase& c : gather_cases())
    for (Dtype dtype : {stave::bool_, stave::uint8, stave::int16, stave::float32, stave::float64, stave::complex64,
                        stave::complex128})
      for (Dtype index_dtype : {stave::int32, stave::int64})
        for (bool from_end : {true, false}) {
          Buffer x(dtype, c.shape, c.strides), got(dtype, c.out), expected(dtype, c.out);
          fill_bytes(x, random);
          Buffer indices = indices_of(c, index_dtype, random, from_end);
          const GatherAttributes attributes(c.batch_dims, from_end);
          IndexFault fault;
          move_on_host<true>(SlicePlan::gather(attributes, x.view(), got.view(), indices.view()), fault);
          run_on_cpu(stave::OpId::gather, attributes, {x.view(), indices.view()}, expected);
          EXPECT_EQ(fault.taken, 0u) << c.name;
          if (c.out.elements() > 0) expect_same(got, expected, std::string(c.name) + " " + name_of(dtype));
        }
}

/// Runs the steps of the backend's driver, with the standard library's sort instead of CUB's.
/// Each sort covers `chunk` lanes.
void scatter_on_host(stave::OpId op, const GatherAttributes& attributes, const View& indices, const View& updates,
                     const View& out, Index chunk, IndexFault& fault, bool wide_keys = false,
                     std::optional<unsigned> part_bits = {}) {
  const SlicePlan plan =
      SlicePlan::gather(attributes, out, updates, indices, static_cast<Index>(stave::size_of(out.dtype)));
  if (plan.lanes() == 0 || plan.units() == 0) return;
  ScatterLoop loop = scatter_loop(plan, plan.on_host(), out);
  loop.slices.fault = &fault;
  loop.slices.ticket = 5;
  if (part_bits) loop.part_bits = *part_bits;
  const auto n = static_cast<std::size_t>(std::min(plan.lanes(), chunk));
  std::vector<std::uint64_t> destination(n), sorted(n);
  std::vector<std::uint32_t> key(n), lane(n), order(n);
  // Two words for the largest element.
  std::vector<std::uint64_t> partials((((n - 1) >> loop.part_bits) + 1) * static_cast<std::size_t>(2 * plan.units()),
                                      ~0ull);
  loop.partials = partials.data();
  loop.destination = destination.data(), loop.sorted = sorted.data(), loop.key = key.data(), loop.lane = lane.data();
  for (Index first = 0; first < plan.lanes(); first += static_cast<Index>(n)) {
    loop.first_lane = static_cast<std::uint64_t>(first);
    loop.lanes = static_cast<std::uint64_t>(std::min<Index>(static_cast<Index>(n), plan.lanes() - first));
    auto each = [&](auto body, std::uint64_t threads) {
      for_each_thread((threads + block_threads - 1) / block_threads, [&](Position p) { body(loop, p); });
    };
    auto sort = [&] {
      std::vector<std::size_t> by_key(loop.lanes);
      for (std::size_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
      std::stable_sort(by_key.begin(), by_key.end(), [&](auto a, auto b) { return key[a] < key[b]; });
      for (std::size_t i = 0; i < by_key.size(); ++i) order[i] = lane[by_key[i]];
      loop.order = order.data();
    };
    each(find_destinations, loop.lanes);
    sort();
    if (wide_keys) {
      each(take_upper_keys, loop.lanes);
      sort();
    }
    each(sort_destinations, loop.lanes);
    const auto merge = [&]<class How, class T>(How, T) {
      each(merge_parts<How, T>, loop.parts() * loop.slices.slice_units.divisor);
      each(merge_updates<How, T>, loop.lanes * loop.slices.slice_units.divisor);
    };
    if (out.dtype == stave::complex64) merge(Multiplying(), stave::ComplexElement<float>());
    else if (out.dtype == stave::complex128) merge(Multiplying(), stave::ComplexElement<double>());
    else
      stave::visit_real_dtype(out.dtype, [&](auto zero) {
        using T = Element<decltype(zero)>;
        using Wrapping = Signless<decltype(zero)>;
        if (op == stave::OpId::scatter) merge(Latest(), BitsOf<T>());
        else if (op == stave::OpId::scatter_multiply) merge(Multiplying(), Wrapping());
        else if (op == stave::OpId::scatter_min) merge(Least(), T());
        else if (op == stave::OpId::scatter_max) merge(Greatest(), T());
        else merge(Adding(), Wrapping());
      });
  }
}

/// The CPU backend's result. 16-bit floats are computed as floats, and the result is rounded.
Buffer scattered_by_cpu(stave::OpId op, const GatherAttributes& attributes, const Buffer& x, const Buffer& indices,
                        const Buffer& updates, const Shape& shape) {
  Buffer sums(widened(x).dtype(), shape);
  run_on_cpu(op, attributes, {widened(x).view(), indices.view(), widened(updates).view()}, sums);
  return is_half_float(x.dtype()) ? rounded_to(x.dtype(), sums, shape) : sums;
}

template <class T>
void check_scatter(stave::OpId op, std::mt19937_64& random) {
  const bool rounds = op == stave::OpId::scatter_add || op == stave::OpId::scatter_multiply;
  constexpr Dtype dtype = stave::dtype_of<T>();
  for (const GatherCase& c : gather_cases())
    for (Index chunk : {Index{1} << 30, Index{4}}) {
      // Each chunk rounds its results.
      if (stave::is_half<T> && rounds && chunk == 4) continue;
      Buffer x(dtype, c.shape, c.strides), got(dtype, c.shape);
      fill_with_values<T>(x, random);
      Strides update_strides = contiguous_strides(c.out);
      if (c.out.size() > 1) update_strides[0] = -update_strides[0];
      Buffer updates(dtype, c.out, update_strides);
      fill_with_values<T>(updates, random);
      Buffer indices = indices_of(c, stave::int32, random);
      const GatherAttributes attributes(c.batch_dims);
      IndexFault fault;
      run_on_cpu(stave::OpId::copy, attributes, {x.view()}, got);
      scatter_on_host(op, attributes, indices.view(), updates.view(), got.view(), chunk, fault, chunk == 4);
      const Buffer expected = scattered_by_cpu(op, attributes, x, indices, updates, c.shape);
      EXPECT_EQ(fault.taken, 0u);
      for (Index i = 0; i < c.shape.elements(); ++i) {
        ASSERT_TRUE(stave_test::same(got.at<T>(i), expected.at<T>(i))) << c.name << " " << name_of(dtype) << " " << i;
      }
    }
}
TEST(Scatter, EqualsTheCpuBitForBit) {
  std::mt19937_64 random(2);
  using stave::OpId;
  for (const OpId op :
       {OpId::scatter, OpId::scatter_add, OpId::scatter_multiply, OpId::scatter_min, OpId::scatter_max}) {
    SCOPED_TRACE(record_of(op).name);
#define X(name, type) check_scatter<type>(op, random);
    STAVE_INTEGERS(X)
    STAVE_FLOATS(X)
#undef X
  }
  check_scatter<bool>(OpId::scatter, random);
}

/// Scatters of complex numbers are those of their parts, except for scatter_multiply.
template <class T>
void check_scatter_of_complex(stave::OpId op, std::mt19937_64& random) {
  using C = stave::ComplexElement<T>;
  constexpr Dtype dtype = stave::dtype_of<C>();
  const auto fill = [&](Buffer& buffer) {
    for (std::size_t i = 0; i < 2 * buffer.elements(); ++i)
      buffer.data<T>()[i] = static_cast<T>(static_cast<int>(random() % 201) - 100) / T(8);
  };
  for (const GatherCase& c : gather_cases()) {
    Buffer x(dtype, c.shape, c.strides), got(dtype, c.shape), expected(dtype, c.shape), updates(dtype, c.out);
    fill(x);
    fill(updates);
    Buffer indices = indices_of(c, stave::int32, random);
    const GatherAttributes attributes(c.batch_dims);
    IndexFault fault;
    run_on_cpu(stave::OpId::copy, attributes, {x.view()}, got);
    if (op == stave::OpId::scatter_multiply) {
      scatter_on_host(op, attributes, indices.view(), updates.view(), got.view(), 1 << 30, fault);
    } else {
      const stave_detail::PartsApart added(updates.view()), to(got.view());
      scatter_on_host(op, attributes, indices.view(), added.view, to.view, 1 << 30, fault);
    }
    run_on_cpu(op, attributes, {x.view(), indices.view(), updates.view()}, expected);
    EXPECT_EQ(fault.taken, 0u);
    expect_same(got, expected, std::string(c.name) + " " + name_of(dtype));
  }
}
TEST(Scatter, OfComplexNumbersEqualsTheCpu) {
  std::mt19937_64 random(6);
  for (const stave::OpId op : {stave::OpId::scatter, stave::OpId::scatter_add, stave::OpId::scatter_multiply}) {
    SCOPED_TRACE(record_of(op).name);
    check_scatter_of_complex<float>(op, random);
    check_scatter_of_complex<double>(op, random);
  }
}

/// The sums by parts: each place adds up its updates in parts of length `part`.
std::vector<float> in_parts(std::vector<float> to, const std::vector<std::int32_t>& places,
                            const std::vector<float>& updates, std::size_t part) {
  for (std::size_t place = 0; place < to.size(); ++place) {
    std::size_t count = 0;
    float sum = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] != static_cast<std::int32_t>(place)) continue;
      if (count > 0 && count % part == 0 && count > part) to[place] += std::exchange(sum, 0.f);
      (count++ < part ? to[place] : sum) += updates[i];
    }
    if (count > part) to[place] += sum;
  }
  return to;
}

/// Tests sums of T that are added in float and rounded once at the end.
template <class T>
void check_parts() {
  std::mt19937_64 random(4);
  for (const std::int32_t places : {1, 2, 3, 7, 40})
    for (const unsigned bits : {0u, 1u, 2u, 5u})
      for (const Index lanes : {1, 2, 31, 32, 33, 64, 65, 1000}) {
        constexpr Dtype dtype = stave::dtype_of<T>();
        Buffer indices(stave::int32, {lanes, 1}), updates(dtype, {lanes}), out(dtype, {places});
        std::vector<std::int32_t> index;
        std::vector<float> update, before;
        for (Index i = 0; i < lanes; ++i) {
          index.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(places)));
          update.push_back(static_cast<float>(T(static_cast<float>(random() >> 40) * 0x1.23p-20f - 7)));
        }
        for (std::int32_t i = 0; i < places; ++i) before.push_back(static_cast<float>(T(static_cast<float>(i) + 0.1f)));
        std::copy(index.begin(), index.end(), indices.data<std::int32_t>());
        for (std::size_t i = 0; i < update.size(); ++i) updates.data<T>()[i] = T(update[i]);
        for (std::size_t i = 0; i < before.size(); ++i) out.data<T>()[i] = T(before[i]);
        IndexFault fault;
        scatter_on_host(stave::OpId::scatter_add, GatherAttributes(0), indices.view(), updates.view(), out.view(),
                        1 << 20, fault, false, bits);

        const std::vector<float> expected = in_parts(before, index, update, std::size_t{1} << bits);
        for (std::int32_t i = 0; i < places; ++i)
          ASSERT_TRUE(stave_test::same(out.data<T>()[i], stave_test::rounded<T>(expected[static_cast<std::size_t>(i)])))
              << i << " of " << places << ", " << lanes << " updates in parts of " << (1 << bits);
      }
}
TEST(ScatterAdd, ManyUpdatesOfAnElementAreAddedInParts) {
  check_parts<float>();
  check_parts<stave::Float16>();
  check_parts<stave::BFloat16>();
}

/// With many updates of one place, scatter keeps the last, and scatter_max the largest,
/// wherever it is.
TEST(Scatter, ManyUpdatesOfAnElementAreMergedInOrder) {
  for (const unsigned bits : {0u, 1u, 3u, 10u})
    for (const Index lanes : {1, 2, 33, 1000}) {
      Buffer indices(stave::int32, {lanes, 1}), updates(stave::int16, {lanes});
      for (Index i = 0; i < lanes; ++i) indices.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
      for (Index i = 0; i < lanes; ++i)
        updates.data<std::int16_t>()[i] = static_cast<std::int16_t>(i * 7919 % 4001 - 2000);
      for (const auto op : {stave::OpId::scatter, stave::OpId::scatter_max}) {
        Buffer out(stave::int16, {3});
        std::vector<std::int16_t> expected(3, -3000);
        std::copy(expected.begin(), expected.end(), out.data<std::int16_t>());
        for (Index i = 0; i < lanes; ++i) {
          std::int16_t &place = expected[static_cast<std::size_t>(i % 3)], update = updates.data<std::int16_t>()[i];
          place = op == stave::OpId::scatter ? update : std::max(place, update);
        }
        IndexFault fault;
        scatter_on_host(op, GatherAttributes(0), indices.view(), updates.view(), out.view(), 1 << 20, fault, false,
                        bits);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out.data<std::int16_t>()[i], expected[i]) << lanes << " " << bits;
      }
    }
}

TEST(ScatterAdd, LongSumsAreSplitAmongThreads) {
  for (Index lanes : {Index{1}, Index{64}, Index{4096}, Index{1} << 20, Index{10000000}, most_sorted}) {
    const unsigned bits = scatter_part_bits(lanes);
    EXPECT_GE(bits, 6u);
    const Index within = Index{1} << bits, over = (lanes - 1) / within + 1;
    EXPECT_LE(std::min(lanes, within) + over, std::max<Index>(128, 4 * static_cast<Index>(std::sqrt(lanes))));
  }
}

template <class T>
void check_integers(std::mt19937_64& random) {
  constexpr Dtype dtype = stave::dtype_of<T>();
  for (const GatherCase& c : gather_cases()) {
    Buffer x(dtype, c.shape, c.strides), got(dtype, c.shape), expected(dtype, c.shape), updates(dtype, c.out);
    fill_with_values<T>(x, random);
    fill_with_values<T>(updates, random);
    Buffer indices = indices_of(c, stave::int32, random);
    const GatherAttributes attributes(c.batch_dims);
    run_on_cpu(stave::OpId::copy, attributes, {x.view()}, got);
    const SlicePlan plan = SlicePlan::gather(attributes, got.view(), updates.view(), indices.view(), sizeof(T));
    SliceLoop loop = plan.on_host();
    IndexFault fault;
    loop.fault = &fault;
    ASSERT_EQ(plan.unit(), static_cast<Index>(sizeof(T)));
    for_each_thread(plan.blocks(), [&](Position p) { add_slices<std::make_unsigned_t<T>>(loop, p); });
    run_on_cpu(stave::OpId::scatter_add, attributes, {x.view(), indices.view(), updates.view()}, expected);
    expect_same(got, expected, std::string(c.name) + " " + name_of(dtype));
  }
}
TEST(ScatterAdd, IntegersAreAddedAtomically) {
  std::mt19937_64 random(5);
  check_integers<std::uint32_t>(random);
  check_integers<std::int32_t>(random);
  check_integers<std::uint64_t>(random);
  check_integers<std::int64_t>(random);
}

struct SliceCase {
  const char* name;
  Shape shape;
  Strides strides;
  int batch_dims;
  Shape sizes;
};
TEST(DynamicSlice, ReadsAndUpdatesEqualTheCpu) {
  std::mt19937_64 random(3);
  for (const SliceCase& c :
       {SliceCase{"vector", {40}, {1}, 0, {16}}, SliceCase{"matrix", {9, 32}, {32, 1}, 0, {4, 8}},
        SliceCase{"transposed", {9, 32}, {1, 9}, 0, {4, 8}}, SliceCase{"batched", {3, 9, 32}, {288, 32, 1}, 1, {9, 5}},
        SliceCase{"whole", {2, 3}, {3, 1}, 0, {2, 3}}, SliceCase{"nothing of it", {5, 4}, {4, 1}, 0, {0, 2}},
        SliceCase{"rank 0", {}, {}, 0, {}}})
    for (Dtype dtype : {stave::uint8, stave::bfloat16, stave::float32, stave::int64}) {
      const DynamicSliceAttributes attributes(c.batch_dims, c.sizes);
      Shape part, starts_shape;
      for (int i = 0; i < c.batch_dims; ++i) {
        part.push_back(c.shape[static_cast<std::size_t>(i)]);
        starts_shape.push_back(c.shape[static_cast<std::size_t>(i)]);
      }
      part.append(c.sizes.begin(), c.sizes.end());
      starts_shape.push_back(c.sizes.size());
      Buffer x(dtype, c.shape, c.strides), starts(stave::int64, starts_shape);
      fill_bytes(x, random);
      std::vector<Index> low, high;
      for (std::size_t j = 0; j < c.sizes.size(); ++j) {
        const Index length = c.shape[static_cast<std::size_t>(c.batch_dims) + j];
        low.push_back(-length), high.push_back(-c.sizes[j]);
        if (c.sizes[j] == 0) high[j] = -1;
        if (j % 2 == 0) low[j] = 0, high[j] = length - c.sizes[j];
      }
      if (!low.empty()) fill_indices(starts, random, low, high);

      IndexFault fault;
      Buffer got(dtype, part), expected(dtype, part);
      move_on_host<true>(SlicePlan::dynamic(attributes, x.view(), got.view(), starts.view()), fault);
      run_on_cpu(stave::OpId::dynamic_slice, attributes, {x.view(), starts.view()}, expected);
      if (part.elements() > 0) expect_same(got, expected, c.name);

      Buffer update(dtype, part), whole(dtype, c.shape), expected_whole(dtype, c.shape);
      fill_bytes(update, random);
      run_on_cpu(stave::OpId::copy, attributes, {x.view()}, whole);
      move_on_host<false>(SlicePlan::dynamic(attributes, whole.view(), update.view(), starts.view()), fault);
      run_on_cpu(stave::OpId::dynamic_update_slice, attributes, {x.view(), update.view(), starts.view()},
                 expected_whole);
      expect_same(whole, expected_whole, c.name);
      EXPECT_EQ(fault.taken, 0u) << c.name;
    }
}

// ---- indices out of range ----------------------------------------------------------------------

void expect_fault(const IndexFault& fault, unsigned ticket, int axis, Index index, Index size) {
  EXPECT_EQ(fault.taken, ticket);
  EXPECT_EQ(fault.axis, axis);
  EXPECT_EQ(fault.index, index);
  EXPECT_EQ(fault.size, size);
}

TEST(Faults, OfGatherNameIndexAxisAndSize) {
  for (Index bad : {Index{4}, Index{-5}, Index{1} << 40, -(Index{1} << 62), std::numeric_limits<Index>::min(),
                    std::numeric_limits<Index>::max()}) {
    Buffer x(stave::float32, {2, 3, 4}), indices(stave::int64, {2, 1, 2}), out(stave::float32, {2, 1});
    for (int i = 0; i < 24; ++i) x.data<float>()[i] = static_cast<float>(i);
    const std::int64_t values[] = {1, 2, 0, bad};
    std::copy_n(values, 4, indices.data<std::int64_t>());
    out.data<float>()[1] = -1;
    IndexFault fault;
    move_on_host<true>(SlicePlan::gather(GatherAttributes(1), x.view(), out.view(), indices.view()), fault);
    expect_fault(fault, 77, 2, bad, 4);
    EXPECT_EQ(out.data<float>()[0], 6);
    EXPECT_EQ(out.data<float>()[1], -1);
  }
}
TEST(Faults, NegativeIndicesAreFaultsIfTheyDoNotWrap) {
  Buffer x(stave::float32, {3}), indices(stave::int32, {1, 1}), out(stave::float32, {1});
  indices.data<std::int32_t>()[0] = -1;
  IndexFault fault;
  move_on_host<true>(SlicePlan::gather(GatherAttributes(0, false), x.view(), out.view(), indices.view()), fault);
  expect_fault(fault, 77, 0, -1, 3);
}
TEST(Faults, EmptySlicesReportThem) {
  Buffer x(stave::float32, {3, 0}), indices(stave::int32, {1, 1}), out(stave::float32, {1, 0});
  indices.data<std::int32_t>()[0] = 3;
  IndexFault fault;
  move_on_host<true>(SlicePlan::gather(GatherAttributes(0), x.view(), out.view(), indices.view()), fault);
  expect_fault(fault, 77, 0, 3, 3);
}
TEST(Faults, ScatterAddAppliesTheOtherUpdates) {
  Buffer indices(stave::int32, {3, 1}), updates(stave::float32, {3}), out(stave::float32, {2});
  const std::int32_t values[] = {1, 2, 1};
  std::copy_n(values, 3, indices.data<std::int32_t>());
  for (int i = 0; i < 3; ++i) updates.data<float>()[i] = static_cast<float>(i + 1);
  out.data<float>()[0] = out.data<float>()[1] = 0;
  IndexFault fault;
  scatter_on_host(stave::OpId::scatter_add, GatherAttributes(0), indices.view(), updates.view(), out.view(), 8, fault);
  expect_fault(fault, 5, 0, 2, 2);
  EXPECT_EQ(out.data<float>()[0], 0);
  EXPECT_EQ(out.data<float>()[1], 4);
  EXPECT_TRUE(out.guards_are_whole());
}
TEST(Faults, DynamicSlicesReportThem) {
  Buffer x(stave::float32, {5, 6}), starts(stave::int64, {2}), out(stave::float32, {2, 3});
  const DynamicSliceAttributes attributes(0, {2, 3});
  for (Index bad : {Index{4}, Index{-7}, Index{-2}, std::numeric_limits<Index>::min()}) {
    starts.data<std::int64_t>()[0] = 3;
    starts.data<std::int64_t>()[1] = bad;
    IndexFault fault;
    move_on_host<true>(SlicePlan::dynamic(attributes, x.view(), out.view(), starts.view()), fault);
    expect_fault(fault, 77, 1, bad, 6);
    move_on_host<false>(SlicePlan::dynamic(attributes, x.view(), out.view(), starts.view()), fault);
    EXPECT_TRUE(x.guards_are_whole());
  }
}

TEST(SlicePlan, UsesTheLargestUnitThatDivides) {
  Buffer x(stave::float32, {16, 32}), indices(stave::int32, {3, 1}), out(stave::float32, {3, 32});
  EXPECT_EQ(SlicePlan::gather(GatherAttributes(0), x.view(), out.view(), indices.view()).unit(), 16);
  EXPECT_EQ(SlicePlan::gather(GatherAttributes(0), x.view(), out.view(), indices.view(), 4).unit(), 4);
  Buffer odd(stave::float32, {16, 31}), odd_out(stave::float32, {3, 31});
  EXPECT_EQ(SlicePlan::gather(GatherAttributes(0), odd.view(), odd_out.view(), indices.view()).unit(), 4);
  Buffer apart(stave::uint8, {16, 32}, {34, 1}), odd_rows(stave::uint8, {16, 32}, {35, 1}),
      bytes(stave::uint8, {3, 32});
  EXPECT_EQ(SlicePlan::gather(GatherAttributes(0), apart.view(), bytes.view(), indices.view()).unit(), 2);
  EXPECT_EQ(SlicePlan::gather(GatherAttributes(0), odd_rows.view(), bytes.view(), indices.view()).unit(), 1);
  Buffer whole(stave::float32, {2, 8, 8}), starts(stave::int64, {2, 2});
  const DynamicSliceAttributes attributes(1, {3, 8});
  auto unit = [&](const Strides& strides) {
    Buffer update(stave::float32, {2, 3, 8}, strides);
    return SlicePlan::dynamic(attributes, whole.view(), update.view(), starts.view()).unit();
  };
  EXPECT_EQ(unit({24, 8, 1}), 16);
  // The second lane's update is not aligned to 16 bytes.
  EXPECT_EQ(unit({26, 8, 1}), 8);
  EXPECT_EQ(unit({25, 8, 1}), 4);
  EXPECT_EQ(unit({24, 9, 1}), 4);
}

}  // namespace
}  // namespace stave_cuda
