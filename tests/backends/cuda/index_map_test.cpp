// Tests plans and index maps against plain arithmetic on positions.
#include <stave/backends/cuda/index_map.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace stave_cuda {
namespace {

using stave::Shape;
using stave::Strides;

/// An operand's offset of the element with this row-major index.
Index offset_of(Index index, const Shape& shape, const Strides& strides) {
  Index offset = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    offset += index % shape[i] * strides[i];
    index /= shape[i];
  }
  return offset;
}

struct Case {
  Shape shape;
  Strides a, b, c;
};

/// Dense strides for a permutation of the axes; some axes are broadcast, reversed or have gaps.
Strides random_strides(const Shape& shape, std::mt19937& random) {
  std::vector<std::size_t> order(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  Strides strides = shape;
  Index step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
    if (random() % 4 == 0) step += static_cast<Index>(random() % 5);
  }
  for (Index& stride : strides) {
    if (random() % 5 == 0) stride = 0;
    if (random() % 5 == 0) stride = -stride;
  }
  return strides;
}

void expect_map(const Case& c, const std::vector<Index>& indices) {
  IndexPlan<3> plan(c.shape, {std::span<const Index>(c.a), std::span<const Index>(c.b), std::span<const Index>(c.c)});
  EXPECT_EQ(plan.elements(), c.shape.elements());
  IndexMap<3> map = plan.on_host();
  for (Index index : indices) {
    Offsets<3> offsets = map(static_cast<std::uint64_t>(index));
    ASSERT_EQ(offsets[0], offset_of(index, c.shape, c.a)) << "index " << index << " of " << c.shape.str() << c.a.str();
    ASSERT_EQ(offsets[1], offset_of(index, c.shape, c.b)) << "index " << index << " of " << c.shape.str() << c.b.str();
    ASSERT_EQ(offsets[2], offset_of(index, c.shape, c.c)) << "index " << index << " of " << c.shape.str() << c.c.str();
  }
}

TEST(IndexMap, EqualsPlainArithmetic) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    Shape shape;
    std::size_t rank = random() % 7;
    for (std::size_t i = 0; i < rank; ++i) shape.push_back(static_cast<Index>(random() % 6 + (random() % 8 != 0)));
    Case c{shape, contiguous_strides(shape), random_strides(shape, random), random_strides(shape, random)};
    std::vector<Index> indices;
    for (Index i = 0; i < shape.elements(); ++i) indices.push_back(i);
    expect_map(c, indices);
  }
}

TEST(IndexMap, SupportsMoreAxesThanItHolds) {
  Shape shape;
  for (int i = 0; i < 15; ++i) shape.push_back(i % 5 == 4 ? 3 : 2);
  Strides dense = contiguous_strides(shape), reversed = dense;
  Index step = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    reversed[i] = step;
    step *= shape[i];
  }
  std::vector<Index> indices;
  for (Index i = 0; i < shape.elements(); ++i) indices.push_back(i);
  expect_map({shape, dense, reversed, dense}, indices);
  IndexPlan<2> plan(shape, {std::span<const Index>(dense), std::span<const Index>(reversed)});
  EXPECT_EQ(plan.axes().size(), 15u);
}

TEST(IndexMap, SupportsMoreThan31BitsOfIndices) {
  std::mt19937_64 random(2);
  for (Shape shape : {Shape{70000, 50000}, Shape{3, 1 << 20, 1031, 2}, Shape{Index{1} << 33}, Shape{2147483647},
                      Shape{46341, 46341}, Shape{2, 2147483647, 2}}) {
    Strides dense = contiguous_strides(shape), back = dense, across = dense;
    for (Index& stride : back) stride = -stride;
    std::reverse(across.begin(), across.end());
    std::vector<Index> indices{0, 1, shape.elements() / 2, shape.elements() - 1};
    for (int i = 0; i < 2000; ++i)
      indices.push_back(static_cast<Index>(random() % static_cast<std::uint64_t>(shape.elements())));
    expect_map({shape, dense, back, across}, indices);
    IndexPlan<1> plan(shape, {std::span<const Index>(dense)});
    EXPECT_EQ(plan.wide(), shape.elements() > 2147483647) << shape.str();
  }
}

// Few elements that are far apart: 32 bits hold each index but not each offset.
TEST(IndexMap, UsesWideOffsetsWhenNeeded) {
  Shape shape{3, 4};
  Strides far{Index{1} << 31, -5}, near{4, 1};
  std::vector<Index> indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  expect_map({shape, near, far, near}, indices);
  EXPECT_TRUE(IndexPlan<1>(shape, {std::span<const Index>(far)}).wide());
  EXPECT_FALSE(IndexPlan<1>(shape, {std::span<const Index>(near)}).wide());
}

TEST(Divider, QuotientsAreExactAtEdgeCases) {
  std::mt19937 random(3);
  std::vector<Index> divisors{1,          2,         3, 5, 7, 10, 641, 65535, 65536, 65537, 1 << 30, (1 << 30) + 1,
                              2147483646, 2147483647};
  for (int i = 0; i < 200; ++i) divisors.push_back(static_cast<Index>(random() >> (1 + random() % 31)) + 1);
  for (Index d : divisors) {
    Divider divider(d);
    std::vector<Index> numbers{
        0, 1, d - 1, d, 2 * d - 1, 2 * d, 2147483647, 2147483647 / d * d, 2147483647 / d * d - 1};
    for (int i = 0; i < 50; ++i) numbers.push_back(static_cast<Index>(random() >> 1));
    for (Index n : numbers) {
      if (n < 0 || n > 2147483647) continue;
      EXPECT_EQ(divider.narrow(static_cast<std::uint32_t>(n)), n / d) << n << " / " << d;
      EXPECT_EQ(divider.wide(static_cast<std::uint64_t>(n)), static_cast<std::uint64_t>(n / d)) << n << " / " << d;
    }
  }
}

TEST(Divider, WideQuotientsAreExactAtEdgeCases) {
  std::mt19937_64 random(4);
  constexpr std::uint64_t top = (std::uint64_t{1} << 63) - 1;
  std::vector<Index> divisors{1, 2, 3, 7, 2147483648, 4294967297, Index{1} << 62, static_cast<Index>(top)};
  for (int i = 0; i < 200; ++i) divisors.push_back(static_cast<Index>(random() >> (1 + random() % 63)) + 1);
  for (Index d : divisors) {
    Divider divider(d);
    const auto u = static_cast<std::uint64_t>(d);
    std::vector<std::uint64_t> numbers{0, 1, u - 1, u, top, top / u * u, top / u * u - 1};
    for (int i = 0; i < 50; ++i) numbers.push_back(random() >> 1);
    for (std::uint64_t n : numbers)
      if (n <= top) {
        EXPECT_EQ(divider.wide(n), n / u) << n << " / " << d;
      }
  }
}

TEST(IndexPlan, MergesAxesThatAllOperandsAllow) {
  Shape shape{2, 1, 3, 4};
  Strides dense = contiguous_strides(shape), row{0, 0, 0, 1}, column{3, 9, 1, 0}, scalar{0, 0, 0, 0};
  auto axes = [&](const Strides& a, const Strides& b) {
    return merged_axes<2>(shape, {std::span<const Index>(a), std::span<const Index>(b)});
  };
  EXPECT_EQ(axes(dense, dense), (LoopAxes<2>{{24, {1, 1}}}));
  EXPECT_EQ(axes(dense, scalar), (LoopAxes<2>{{24, {1, 0}}}));
  EXPECT_EQ(axes(dense, row), (LoopAxes<2>{{6, {4, 0}}, {4, {1, 1}}}));
  EXPECT_EQ(axes(dense, column), (LoopAxes<2>{{6, {4, 1}}, {4, {1, 0}}}));
  EXPECT_EQ(axes(row, column), (LoopAxes<2>{{6, {0, 1}}, {4, {1, 0}}}));
}

TEST(IndexPlan, DetectsContiguousAndScalarOperands) {
  Shape shape{4, 6};
  Strides dense{6, 1}, scalar{0, 0}, row{0, 1}, across{1, 4};
  IndexPlan<3> flat(shape,
                    {std::span<const Index>(dense), std::span<const Index>(scalar), std::span<const Index>(dense)});
  EXPECT_TRUE(flat.is_contiguous(0) && flat.is_contiguous(2) && !flat.is_contiguous(1));
  EXPECT_TRUE(flat.is_scalar(1) && !flat.is_scalar(0));
  IndexPlan<2> mixed(shape, {std::span<const Index>(row), std::span<const Index>(across)});
  EXPECT_FALSE(mixed.is_contiguous(0) || mixed.is_contiguous(1) || mixed.is_scalar(0) || mixed.is_scalar(1));
  IndexPlan<1> empty(Shape{3, 0, 2}, {std::span<const Index>(dense)});
  EXPECT_EQ(empty.elements(), 0);
}

TEST(IndexPlan, OneElementAndRankZero) {
  Shape none, ones{1, 1};
  Strides odd{7, -9};
  IndexPlan<1> rank0(none, {std::span<const Index>(none)}), single(ones, {std::span<const Index>(odd)});
  EXPECT_EQ(rank0.elements(), 1);
  EXPECT_EQ(single.elements(), 1);
  EXPECT_TRUE(rank0.is_contiguous(0) && rank0.is_scalar(0) && single.is_contiguous(0));
  EXPECT_EQ(rank0.on_host()(0)[0], 0);
  EXPECT_EQ(single.on_host()(0)[0], 0);
}

}  // namespace
}  // namespace stave_cuda
