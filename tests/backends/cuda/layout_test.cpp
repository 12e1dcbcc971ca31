// Tests the bodies of copies, fills and iota, executed on the host, against the CPU backend.
#include <gtest/gtest.h>

#include <map>

#include <stave/backends/cuda/kernels/layout.cuh>

#include "copies.h"
#include "cuda/layouts.h"

namespace stave_cuda {
namespace {

using stave::Shape;
using stave::Strides;
using CopyKind = CopyPlan::CopyKind;

// How often each kind of copy was used.
std::map<CopyKind, int> copies;

template <class T>
void copy_tiles_on_host(const CopyPlan& plan) {
  const TileLoop loop = plan.tiles(plan.tile_plan().on_host());
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) {
    Tile<T> tile;
    std::memset(&tile, 0x77, sizeof tile);
    for (unsigned t = 0; t < block_threads; ++t) read_tile<T>(loop, {block, t, block_threads}, tile);
    for (unsigned t = 0; t < block_threads; ++t) write_tile<T>(loop, {block, t, block_threads}, tile);
  }
}
template <class Unit>
void copy_units_on_host(const CopyPlan& plan) {
  const UnitLoop loop = plan.units(plan.unit_plan().on_host());
  for_each_thread(plan.blocks(), [&](Position p) { copy_units<Unit>(loop, p); });
}
CopyKind copy_on_host(Placed to, Placed from, std::span<const Index> shape, Index size) {
  const CopyPlan plan(to, from, shape, size);
  ++copies[plan.kind()];
  switch (plan.kind()) {
    case CopyKind::nothing: break;
    case CopyKind::flat: std::memcpy(to.data, from.data, static_cast<std::size_t>(plan.bytes())); break;
    case CopyKind::units:
      stave::visit_size(static_cast<std::size_t>(plan.unit()),
                        [&](auto unit) { copy_units_on_host<decltype(unit)>(plan); });
      break;
    case CopyKind::tiles:
      stave::visit_size(static_cast<std::size_t>(size),
                        [&](auto element) { copy_tiles_on_host<decltype(element)>(plan); });
  }
  return plan.kind();
}

void fill_bytes(Buffer& buffer, std::mt19937_64& random) {
  auto* bytes = buffer.data<std::uint8_t>();
  for (std::size_t i = 0; i < buffer.elements() * stave::size_of(buffer.dtype()); ++i)
    bytes[i] = static_cast<std::uint8_t>(random()) & (buffer.dtype() == stave::bool_ ? 1 : 255);
}

void expect_same(const Buffer& got, const Buffer& expected, const std::string& what) {
  View a = got.view(), b = expected.view();
  const std::size_t bytes = expected.elements() * stave::size_of(expected.dtype());
  EXPECT_EQ(std::memcmp(a.data, b.data, bytes), 0) << what;
  EXPECT_TRUE(got.guards_are_whole()) << what;
}

void run_on_cpu(stave::OpId op, const stave::Attributes* attributes, const std::vector<View>& in, const Buffer& out) {
  View view = out.view();
  stave::cpu_backend().run(record_of(op), attributes, in, {&view, 1});
}

void check_copy(stave::Dtype dtype, const Layout& layout, std::mt19937_64& random) {
  Buffer in(dtype, layout.shape, layout.strides, layout.misaligned_by), got(dtype, layout.shape),
      expected(dtype, layout.shape);
  fill_bytes(in, random);
  const Strides dense = contiguous_strides(layout.shape);
  const auto size = static_cast<Index>(stave::size_of(dtype));
  copy_on_host({got.view().data, dense}, {in.view().data, in.view().strides}, layout.shape, size);
  run_on_cpu(stave::OpId::copy, nullptr, {in.view()}, expected);
  if (layout.shape.elements() > 0) expect_same(got, expected, std::string(name_of(dtype)) + " " + layout.name);
}

TEST(Copy, EqualsTheCpuInEveryLayout) {
  std::mt19937_64 random(1);
  copies.clear();
  for (stave::Dtype dtype : {stave::bool_, stave::uint8, stave::float16, stave::uint32, stave::int64, stave::float64,
                             stave::complex64, stave::complex128}) {
    for (const auto& group : operand_layouts())
      for (const Layout& layout : group) check_copy(dtype, layout, random);
    for (const Layout& layout :
         {Layout{"transposed", {70, 45}, {1, 70}}, Layout{"transposed and reversed", {33, 64}, {-1, 40}},
          Layout{"batched transpose", {3, 2, 40, 33}, {2640, 1320, 1, 40}},
          Layout{"outer axis dense", {40, 3, 33}, {1, 1320, 40}}, Layout{"rows apart", {31, 64}, {96, 1}},
          Layout{"rows oddly apart", {31, 64}, {97, 1}}, Layout{"narrow transpose", {100, 3}, {1, 100}}})
      check_copy(dtype, layout, random);
  }
  EXPECT_GT(copies[CopyKind::nothing], 0);
  EXPECT_GT(copies[CopyKind::flat], 0);
  EXPECT_GT(copies[CopyKind::units], 0);
  EXPECT_GT(copies[CopyKind::tiles], 0);
}

TEST(Copy, CopiesElementsOfEverySize) {
  copies.clear();
  stave_test::check_copies_of_every_size(
      [](char* to, const Strides& dense, char* from, const Strides& strides, const Shape& shape, Index size) {
        copy_on_host({to, dense}, {from, strides}, shape, size);
      });
  EXPECT_GT(copies[CopyKind::units], 0);
  EXPECT_GT(copies[CopyKind::tiles], 0);
}

TEST(CopyPlan, UsesTheLargestUnitThatDivides) {
  alignas(64) static char memory[1 << 16];
  auto unit = [](const Shape& shape, const Strides& to, const Strides& from, Index size, int skip = 0) {
    return CopyPlan({memory, to}, {memory + (1 << 15) + skip, from}, shape, size).unit();
  };
  EXPECT_EQ(unit({8, 64}, {64, 1}, {96, 1}, 1), 16);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {72, 1}, 1), 8);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 1), 4);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {66, 1}, 1), 2);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {67, 1}, 1), 1);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 2), 8);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 16), 16);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {66, 1}, 4), 8);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 4), 16);
  EXPECT_EQ(unit({8, 63}, {63, 1}, {68, 1}, 4), 4);
  EXPECT_EQ(unit({8, 63}, {64, 1}, {68, 1}, 4), 4);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 4, 8), 8);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {68, 1}, 8), 16);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {0, 1}, 4), 16);
  EXPECT_EQ(unit({8, 64}, {64, 1}, {1, 0}, 4), 4);
}

TEST(CopyPlan, SupportsMoreThan31BitsOfIndices) {
  const Shape shape{1 << 17, 1 << 16};
  const Strides dense = contiguous_strides(shape), across{1, 1 << 17};
  const CopyPlan plan({nullptr, dense}, {nullptr, across}, shape, 4);
  EXPECT_EQ(plan.kind(), CopyKind::tiles);
  EXPECT_EQ(plan.blocks(), 1u << 23);
  const Offsets<4> last = plan.tile_plan().on_host()(plan.blocks() - 1);
  EXPECT_EQ(last[0], (Index{131072} - 32) * 65536 + 65536 - 32);
  EXPECT_EQ(last[1], Index{131072} - 32 + (Index{65536} - 32) * 131072);
  EXPECT_EQ(last[2], 131072 - 32);
  EXPECT_EQ(last[3], 65536 - 32);
}

template <class T>
void check_iota(stave::Scalar start, stave::Scalar step) {
  for (Index n : {Index{0}, Index{1}, Index{700}}) {
    const stave::IotaAttributes attributes(n, stave::dtype_of<T>(), start, step);
    Buffer got(attributes.dtype, {n}), expected(attributes.dtype, {n});
    const IotaLoop loop = iota_loop(attributes, got.view());
    // The type that the kernels use.
    using Written = std::conditional_t<std::is_same_v<T, bool>, bool, Signless<T>>;
    for_each_thread((static_cast<std::uint64_t>(n) + block_threads - 1) / block_threads,
                    [&](Position p) { iota<Written>(loop, p); });
    run_on_cpu(stave::OpId::iota, &attributes, {}, expected);
    if (n > 0) expect_same(got, expected, name_of(attributes.dtype));
    for (Index i = 0; i < n; ++i)
      if constexpr (stave::is_half<T>) {
        const double exact = start.floating + static_cast<double>(i) * step.floating;
        ASSERT_TRUE(stave_test::same(got.at<T>(i), stave_test::rounded<T>(exact))) << i;
      }
  }
}
TEST(Iota, EqualsTheCpuInEveryDtype) {
  check_iota<bool>(0, 1);
  check_iota<std::uint8_t>(250, 3);
  check_iota<std::uint32_t>(5, -1);
  check_iota<std::int32_t>(-7, 3);
  check_iota<std::int64_t>((Index{1} << 60) + 1, -12345);
  check_iota<std::int8_t>(-100, 7);
  check_iota<std::int16_t>(32000, 100);
  check_iota<std::uint16_t>(3, -1000);
  check_iota<std::uint64_t>(Index{-2}, (Index{1} << 60) + 7);  // starts at 2^64 - 2
  check_iota<stave::Float16>(2049 + 0x1p-40, 1);
  check_iota<stave::BFloat16>(0.1, 0.7);
  check_iota<float>(0.1, 0.3);
  check_iota<double>(-1e300, 1e297);
}

void fill_on_host(const Buffer& out, const Pattern& pattern) {
  const FillLoop loop{out.view().data, out.elements() * stave::size_of(out.dtype()), pattern};
  for_each_thread((loop.bytes + 16 * block_threads - 1) / (16 * block_threads),
                  [&](Position p) { fill_pattern(loop, p); });
}
TEST(Full, EqualsTheCpuInEveryDtype) {
  for (int d = 0; d < stave::dtype_count; ++d)
    for (Index n : {Index{1}, Index{15}, Index{16}, Index{5001}}) {
      const auto dtype = static_cast<stave::Dtype>(d);
      const stave::Scalar value = is_complex(dtype)       ? stave::Scalar(stave::ComplexElement<double>(-2.75, 0.1))
                                  : is_float(dtype)       ? stave::Scalar(-2.75)
                                  : dtype == stave::bool_ ? stave::Scalar(true)
                                                          : stave::Scalar(-3);
      const stave::FullAttributes attributes({n}, dtype, value);
      Buffer got(dtype, {n}), expected(dtype, {n});
      fill_on_host(got, pattern_of(dtype, attributes.value));
      run_on_cpu(stave::OpId::full, &attributes, {}, expected);
      expect_same(got, expected, name_of(dtype));
    }
}

TEST(Pad, EqualsTheCpuForStepsOfBothSigns) {
  std::mt19937_64 random(2);
  for (stave::Dtype dtype :
       {stave::uint8, stave::bfloat16, stave::float32, stave::int64, stave::complex64, stave::complex128})
    for (const stave::PadAttributes& attributes :
         {stave::PadAttributes({9, 40}, {2, 3}, {1, 1}, 7), stave::PadAttributes({20, 70}, {14, 1}, {-3, 2}, -1),
          stave::PadAttributes({4, 33}, {0, 32}, {1, -1}, 0)}) {
      const Shape shape{4, 33};
      Buffer in(dtype, shape, {1, 4}), got(dtype, attributes.shape), expected(dtype, attributes.shape);
      fill_bytes(in, random);
      fill_on_host(got, pattern_of(dtype, attributes.value));
      const PadPlace place(attributes, got.view());
      copy_on_host({place.data, place.strides}, {in.view().data, in.view().strides}, shape,
                   static_cast<Index>(stave::size_of(dtype)));
      run_on_cpu(stave::OpId::pad, &attributes, {in.view()}, expected);
      expect_same(got, expected, std::string(name_of(dtype)) + attributes.str());
    }
}

}  // namespace
}  // namespace stave_cuda
