// Tests the bodies of random operations, executed on the host: they must give the bits of the CPU
// backend, and published values of Threefry and JAX.
#include <gtest/gtest.h>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/backends/cuda/kernels/random.cuh>

#include "cuda/on_host.h"

namespace stave_cuda {
namespace {

using stave::Shape;

void run_on_cpu(stave::OpId op, const stave::Attributes* attributes, const std::vector<View>& in, const Buffer& out) {
  View view = out.view();
  stave::cpu_backend().run(record_of(op), attributes, in, {&view, 1});
}
void expect_same(const Buffer& got, const Buffer& expected) {
  const std::size_t bytes = expected.elements() * stave::size_of(expected.dtype());
  EXPECT_EQ(std::memcmp(got.view().data, expected.view().data, bytes), 0);
  EXPECT_TRUE(got.guards_are_whole());
}

/// Keys in several layouts for a batch.
std::vector<Buffer> keys_of(const Shape& batch) {
  std::vector<Buffer> keys;
  Shape shape = batch;
  shape.push_back(2);
  stave::Strides dense = contiguous_strides(shape), back = dense, same = dense;
  for (Index& stride : back) stride = -2 * stride;
  for (std::size_t i = 0; i + 1 < same.size(); ++i) same[i] = 0;
  std::mt19937_64 random(1);
  for (const stave::Strides& strides : {dense, back, same}) {
    keys.emplace_back(stave::uint32, shape, strides);
    for (std::size_t i = 0; i < keys.back().elements(); ++i)
      keys.back().data<std::uint32_t>()[i] = static_cast<std::uint32_t>(random());
  }
  return keys;
}

// The vectors of Random123's file kat_vectors for threefry2x32 with 20 rounds:
// counter, key, result.
TEST(Threefry, KnownAnswers) {
  auto expect = [](Words x, Words key, Words result) {
    const Words got = threefry(key, x);
    EXPECT_EQ(got.w0, result.w0);
    EXPECT_EQ(got.w1, result.w1);
  };
  expect({0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe});
  expect({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7});
  expect({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0});
}

TEST(FoldIn, EqualsTheCpu) {
  for (const Buffer& keys : keys_of({3, 5})) {
    Buffer data(stave::uint32, {3, 5}, {1, 3}), got(stave::uint32, {3, 5, 2}), expected(stave::uint32, {3, 5, 2});
    for (std::uint32_t i = 0; i < 15; ++i) data.data<std::uint32_t>()[i] = i * 0x9e3779b9u;
    const KeyPlan plan(keys.view());
    const IndexPlan<1> places(data.view().shape, {data.view().strides});
    const FoldLoop loop{plan.with(plan.lead().on_host()), data.data<std::uint32_t>(), places.on_host(), 15,
                        got.data<std::uint32_t>()};
    for_each_thread(1, [&](Position p) { fold_in(loop, p); });
    run_on_cpu(stave::OpId::fold_in, nullptr, {keys.view(), data.view()}, expected);
    expect_same(got, expected);
  }
}

template <class Draw>
void check_draw(stave::OpId op, const stave::Attributes& attributes, stave::Dtype dtype, double low, double high) {
  for (const Buffer& keys : keys_of({2, 3})) {
    const Shape shape{2, 3, 7, 11};
    Buffer got(dtype, shape), expected(dtype, shape);
    const KeyPlan plan(keys.view());
    const DrawLoop loop{plan.with(plan.lead().on_host()), 462, Divider(77), got.view().data, low, high};
    for_each_thread(blocks_for(462), [&](Position p) { draw<Draw>(loop, p); });
    run_on_cpu(op, &attributes, {keys.view()}, expected);
    expect_same(got, expected);
  }
}
TEST(Draw, BitsAndFloatsEqualTheCpu) {
  const Shape each{7, 11};
  check_draw<DrawBits>(stave::OpId::random_bits, stave::RandomAttributes(each), stave::uint32, 0, 0);
  for (auto [low, high] :
       {std::pair(0.0, 1.0), std::pair(-0.1, 0.7), std::pair(3.0, 3.0), std::pair(-1e30, 1e30), std::pair(1.0, 0.5)}) {
#define X(name, type)                                                                                                \
  check_draw<DrawUniform<type>>(stave::OpId::random_uniform, stave::UniformAttributes(each, stave::name, low, high), \
                                stave::name, low, high);
    STAVE_FLOATS(X)
#undef X
  }
}
// Counters that exceed 32 bits.
TEST(Draw, UsesTheHighWordOfTheCounter) {
  const Words key{1, 2}, got = words_at(key, (std::uint64_t{5} << 32) + 9), expected = threefry(key, {5, 9});
  EXPECT_EQ(got.w0, expected.w0);
  EXPECT_EQ(got.w1, expected.w1);
}
/// The expected numbers are those of jax.random.uniform(jax.random.key(7), (n,), minval=low,
/// maxval=high).
template <class T, std::size_t n>
void expect_uniform(const BitsOf<T> (&expected)[n], double low = 0, double high = 1) {
  const std::uint32_t words[] = {0, 7};
  const Shape shape{2};
  const stave::Strides strides{1};
  const KeyPlan plan({const_cast<std::uint32_t*>(words), stave::uint32, shape, strides});
  T got[n];
  const DrawLoop loop{plan.with(plan.lead().on_host()), n, Divider(n), got, low, high};
  for_each_thread(1, [&](Position p) { draw<DrawUniform<T>>(loop, p); });
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(__builtin_bit_cast(BitsOf<T>, got[i]), expected[i]) << i;
}
TEST(Draw, UniformEqualsJax) {
  using stave::Float16, stave::BFloat16;
  expect_uniform<float>({0x3f2c9128, 0x3f79807e, 0x3e9b0e50, 0x3ee34e88});
  expect_uniform<Float16>({0x3120, 0x37e0, 0x3130, 0x3450, 0x3638, 0x38da, 0x3268, 0x3aaa});
  expect_uniform<Float16>({0x2738, 0x34b4, 0x27a0, 0x2f68, 0x32c1, 0x362a, 0x2bb4, 0x3888}, -0.1, 0.7);
  expect_uniform<Float16>({0x38e7, 0x3eb3, 0x38f4, 0x3bb4, 0x3d60, 0x4015, 0x39ed, 0x4188}, 0.1, 3.3);
  expect_uniform<BFloat16>({0x3d20, 0x0000, 0x3f2a, 0x3e40, 0x3f06, 0x3ed4, 0x3eb0, 0x3ed4});
  expect_uniform<BFloat16>({0xbd8d, 0xbdcd, 0x3edd, 0x3d4e, 0x3ea4, 0x3e6e, 0x3e34, 0x3e6e}, -0.1, 0.7);
  expect_uniform<BFloat16>({0x3e66, 0x3dcd, 0x400e, 0x3f34, 0x3fe4, 0x3fb7, 0x3f9a, 0x3fb7}, 0.1, 3.3);
}

/// Runs the steps of the backend's driver, with the standard library's sort instead of CUB's.
void permute_on_host(const Buffer& keys, Buffer& out, Index rows, Index length, Index at_once) {
  const KeyPlan plan(keys.view());
  const auto most = static_cast<std::size_t>(at_once * length);
  std::vector<std::uint32_t> key(most), position(most), order(most);
  std::vector<std::int32_t> a(most), b(most);
  for (Index first = 0; first < rows; first += at_once) {
    PermutationLoop loop{plan.with(plan.lead().on_host())};
    loop.first_row = static_cast<std::uint64_t>(first);
    loop.elements = static_cast<std::uint64_t>(std::min(at_once, rows - first) * length);
    loop.length = Divider(length);
    loop.key = key.data(), loop.position = position.data(), loop.order = order.data(), loop.from = nullptr;
    auto each = [&](auto body) { for_each_thread(blocks_for(loop.elements), [&](Position p) { body(loop, p); }); };
    auto sort = [&] {
      std::vector<std::size_t> by_key(loop.elements);
      for (std::size_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
      std::stable_sort(by_key.begin(), by_key.end(), [&](auto i, auto j) { return key[i] < key[j]; });
      for (std::size_t i = 0; i < by_key.size(); ++i) order[i] = position[by_key[i]];
    };
    for (loop.rounds_done = 0; loop.rounds_done != stave::permutation_rounds(length); ++loop.rounds_done) {
      each(draw_sort_keys);
      sort();
      each(take_rows);
      sort();
      loop.to = loop.rounds_done % 2 == 0 ? a.data() : b.data();
      each(move_elements);
      loop.from = loop.to;
    }
    std::copy_n(loop.from, loop.elements, out.data<std::int32_t>() + first * length);
  }
}
TEST(Permutation, EqualsTheCpu) {
  for (Index length : {Index{2}, Index{5}, Index{63}, Index{3000}})
    for (Index at_once : {Index{1}, Index{4}, Index{6}})
      for (const Buffer& keys : keys_of({2, 3})) {
        Buffer got(stave::int32, {2, 3, length}), expected(stave::int32, {2, 3, length});
        permute_on_host(keys, got, 6, length, at_once);
        const stave::RandomAttributes attributes(Shape{length});
        run_on_cpu(stave::OpId::random_permutation, &attributes, {keys.view()}, expected);
        expect_same(got, expected);
      }
}
TEST(Permutation, RowsOfAPassFit32Bits) {
  EXPECT_EQ(rows_at_once(10, 100), 10);
  EXPECT_EQ(rows_at_once(10, Index{1} << 29), 2);
  EXPECT_EQ(rows_at_once(10, 2147483647), 1);
}

}  // namespace
}  // namespace stave_cuda
