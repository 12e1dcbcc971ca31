// Gathering, scattering and random numbers, on every backend.
#include "conformance.h"

namespace {

using namespace conformance;

STAVE_ON_BACKENDS(Indexing);

// ---- indexing -----------------------------------------------------------------------------------

/// Returns the result of a scatter for one element and one update.
template <class C>
C combined(OpId op, C x, C update) {
  switch (op) {
    case OpId::scatter_add: return static_cast<C>(x + update);
    case OpId::scatter_multiply: return static_cast<C>(x * update);
    case OpId::scatter_min: return std::min(x, update);
    case OpId::scatter_max: return std::max(x, update);
    default: return update;
  }
}

template <class T, class I>
void check_gather(Lay lay, OpId scatter) {
  // x [batch 2, indexed 4 x 5, rest 3], indices [batch 2, positions 6 x 2, coordinates 2]
  Shape x_shape{2, 4, 5, 3}, index_shape{2, 6, 2, 2}, out_shape{2, 6, 2, 3};
  Array<T> x = random_array<T>(x_shape, lay);
  Array<I> indices = make<I>(index_shape, lay, [](Index i) {
    Index length = i % 2 == 0 ? 4 : 5;
    return static_cast<I>(static_cast<Index>(rng()() % static_cast<std::uint64_t>(2 * length)) - length);
  });
  GatherAttributes attributes(1);
  std::vector<T> got = run<T>(OpId::gather, &attributes, {x.view(), indices.view()}, out_shape);
  Array<T> updates = random_array<T>(out_shape, lay);
  std::vector<Computed<T>> scattered;  // 16-bit floats are computed as floats
  for (const T value : x.values()) scattered.push_back(value);
  for (Index b = 0; b < 2; ++b)
    for (Index a = 0; a < 12; ++a)
      for (Index r = 0; r < 3; ++r) {
        Index i = static_cast<Index>(indices.at((b * 12 + a) * 2)),
              j = static_cast<Index>(indices.at((b * 12 + a) * 2 + 1));
        Index from = ((b * 4 + (i + 4) % 4) * 5 + (j + 5) % 5) * 3 + r, to = (b * 12 + a) * 3 + r;
        ASSERT_EQ(got[static_cast<std::size_t>(to)], x.at(from));
        const auto place = static_cast<std::size_t>(from);
        scattered[place] = combined<Computed<T>>(scatter, scattered[place], updates.at(to));
      }
  std::vector<T> expected;
  for (const auto value : scattered) expected.push_back(static_cast<T>(value));
  ASSERT_EQ(run<T>(scatter, &attributes, {x.view(), indices.view(), updates.view()}, x_shape), expected);
}
TEST_P(Indexing, GatherAndScatter) {
  for (Lay lay : lays) {
    check_gather<bool, std::int32_t>(lay, OpId::scatter);
    for (OpId scatter :
         {OpId::scatter, OpId::scatter_add, OpId::scatter_multiply, OpId::scatter_min, OpId::scatter_max}) {
      SCOPED_TRACE(record_of(scatter).name);
      check_gather<float, std::int32_t>(lay, scatter);
      check_gather<double, std::int64_t>(lay, scatter);
      check_gather<std::uint8_t, std::int64_t>(lay, scatter);
      check_gather<std::int64_t, std::int32_t>(lay, scatter);
      check_gather<Float16, std::int32_t>(lay, scatter);
      check_gather<std::int16_t, std::int64_t>(lay, scatter);
    }
  }
}
/// Enough rows for several threads; many rows go to the same place.
TEST_P(Indexing, ManyRowsScatterInTheirOrder) {
  const Index rows = 3000, width = 48, places = 7;
  const Shape shape{places, width};
  Array<float> x = random_array<float>(shape, Lay::contiguous);
  Array<float> updates = random_array<float>(Shape{rows, width}, Lay::permuted);
  Array<std::int32_t> indices = make<std::int32_t>(Shape{rows, 1}, Lay::contiguous, [&](Index) {
    return static_cast<std::int32_t>(rng()() % static_cast<std::uint64_t>(places));
  });
  GatherAttributes attributes(0);
  for (OpId scatter : {OpId::scatter, OpId::scatter_max}) {
    std::vector<float> expected = x.values();
    for (Index i = 0; i < rows * width; ++i) {
      const auto place = static_cast<std::size_t>(indices.at(i / width) * width + i % width);
      expected[place] = combined<float>(scatter, expected[place], updates.at(i));
    }
    ASSERT_EQ(run<float>(scatter, &attributes, {x.view(), indices.view(), updates.view()}, shape), expected);
  }
}
TEST_P(Indexing, IndicesOutOfRangeThrow) {
  Array<float> x = random_array<float>(Shape{3, 5}, Lay::contiguous);
  GatherAttributes attributes(0);
  auto error_of = [&](std::int32_t i, std::int32_t j) -> std::string {
    Array<std::int32_t> indices = of<std::int32_t>(Shape{2, 2}, {0, 0, i, j});
    try {
      run<float>(OpId::gather, &attributes, {x.view(), indices.view()}, Shape{2});
    } catch (const IndexError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of(2, 7).find("gather: index 7 is out of range for axis 1 with size 5"), 0u);
  EXPECT_EQ(error_of(-4, 0).find("gather: index -4 is out of range for axis 0 with size 3"), 0u);
  EXPECT_EQ(error_of(-3, -5), "none");
}
TEST_P(Indexing, AnIndexOutOfRangeWritesNowhere) {
  Array<float> x = random_array<float>(Shape{3, 5}, Lay::contiguous);
  GatherAttributes attributes(0);
  Array<std::int32_t> indices = of<std::int32_t>(Shape{1, 1}, {3});
  Array<float> updates = random_array<float>(Shape{1, 5}, Lay::contiguous);
  EXPECT_THROW(run<float>(OpId::scatter_add, &attributes, {x.view(), indices.view(), updates.view()}, x.shape),
               IndexError);
  if (!on_cpu()) return;
  Array<float> out = x;
  const std::vector<float> before = out.values();
  const View to = out.view();
  EXPECT_THROW(
      cpu_backend().run(op_scatter_add, &attributes, std::vector<View>{x.view(), indices.view(), updates.view()},
                        std::span<const View>(&to, 1)),
      IndexError);
  EXPECT_EQ(out.values(), before) << "checked before anything is written";
}

// ---- random numbers -----------------------------------------------------------------------------

TEST_P(Indexing, RandomNumbersEqualJax) {  // jax 0.10.2, jax.random under key(42)
  Array<std::uint32_t> key = of<std::uint32_t>(Shape{2}, {0, 42});
  using U = std::vector<std::uint32_t>;
  RandomAttributes seven(Shape{7}), many(Shape{3, 1000});
  EXPECT_EQ(run<std::uint32_t>(OpId::random_bits, &seven, {key.view()}, seven.shape),
            (U{2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904, 321304473}));
  U bits = run<std::uint32_t>(OpId::random_bits, &many, {key.view()}, many.shape);
  EXPECT_EQ(U(bits.end() - 5, bits.end()), (U{2828704044, 1944701104, 651332480, 2248241362, 1786430667}));

  UniformAttributes single(Shape{5}, float32, 0, 1), range(Shape{5}, float32, -3, 7), wide(Shape{5}, float64, 0, 1),
      wide_range(Shape{5}, float64, -3, 7);
  EXPECT_EQ(run<float>(OpId::random_uniform, &single, {key.view()}, Shape{5}),
            (std::vector<float>{0x1.f47048p-2f, 0x1.5c0e6p-1f, 0x1.3b87fp-1f, 0x1.1f3d8p-1f, 0x1.cd75c8p-2f}));
  EXPECT_EQ(run<float>(OpId::random_uniform, &range, {key.view()}, Shape{5}),
            (std::vector<float>{0x1.e318b4p+0f, 0x1.e623fp+1f, 0x1.94d3d8p+1f, 0x1.4e19cp+1f, 0x1.81a674p+0f}));
  EXPECT_EQ(run<double>(OpId::random_uniform, &wide, {key.view()}, Shape{5}),
            (std::vector<double>{0x1.b4f8123c40884p-2, 0x1.ebd996d6e8400p-7, 0x1.25f641d41e71ap-1, 0x1.75aad28c6a974p-1,
                                 0x1.60275dc7869dap-1}));
  EXPECT_EQ(run<double>(OpId::random_uniform, &wide_range, {key.view()}, Shape{5}),
            (std::vector<double>{0x1.446c2d96a154ap+0, -0x1.6cc9801b9aed8p+1, 0x1.5ee7a4924c1c1p+1,
                                 0x1.1315872f853d1p+2, 0x1.f0626a72d08a1p+1}));

  Array<std::uint32_t> data = of<std::uint32_t>(Shape{}, {7});
  EXPECT_EQ(run<std::uint32_t>(OpId::fold_in, nullptr, {key.view(), data.view()}, Shape{2}),
            (U{2547012911, 1371500959}));
  Array<std::uint32_t> counts = of<std::uint32_t>(Shape{3}, {0, 1, 2});
  Strides repeated{0, 1};
  Shape keys_shape{3, 2};
  View keys{key.base(), uint32, keys_shape, repeated};
  EXPECT_EQ(run<std::uint32_t>(OpId::fold_in, nullptr, {keys, counts.view()}, Shape{3, 2}),
            (U{1832780943, 270669613, 64467757, 2916123636, 2465931498, 255383827}));

  auto permutation = [&](Index n) {
    RandomAttributes attributes(Shape{n});
    return run<std::int32_t>(OpId::random_permutation, &attributes, {key.view()}, Shape{n});
  };
  EXPECT_EQ(permutation(10), (std::vector<std::int32_t>{7, 4, 2, 5, 3, 6, 8, 9, 0, 1}));
  std::vector<std::int32_t> large = permutation(5000), larger = permutation(200000);
  EXPECT_EQ(std::vector<std::int32_t>(large.begin(), large.begin() + 5),
            (std::vector<std::int32_t>{3825, 3150, 2972, 2921, 1203}));
  EXPECT_EQ(std::vector<std::int32_t>(larger.end() - 5, larger.end()),
            (std::vector<std::int32_t>{58536, 2861, 65421, 150124, 9679}));
  EXPECT_TRUE(permutation(0).empty());
  EXPECT_EQ(permutation(1), std::vector<std::int32_t>{0});
}
TEST_P(Indexing, BatchOfKeysEqualsALoop) {
  Array<std::uint32_t> keys =
      make<std::uint32_t>(Shape{3, 2}, Lay::permuted, [](Index i) { return static_cast<std::uint32_t>(i * i); });
  RandomAttributes shape(Shape{30000});
  std::vector<std::uint32_t> all = run<std::uint32_t>(OpId::random_bits, &shape, {keys.view()}, Shape{3, 30000});
  for (Index i = 0; i < 3; ++i) {
    Array<std::uint32_t> key = of<std::uint32_t>(Shape{2}, {keys.at(2 * i), keys.at(2 * i + 1)});
    EXPECT_EQ(std::vector<std::uint32_t>(all.begin() + i * 30000, all.begin() + (i + 1) * 30000),
              run<std::uint32_t>(OpId::random_bits, &shape, {key.view()}, shape.shape));
  }
}

}  // namespace
