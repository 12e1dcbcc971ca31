// Reductions and matrix products, on every backend.
#include <complex>

#include "conformance.h"

namespace {

using namespace conformance;

STAVE_ON_BACKENDS(Reductions);

// ---- reductions ---------------------------------------------------------------------------------

struct Subset {
  // The reduced axes, and the shape of the result.
  Shape axes, out;
};
std::vector<Subset> subsets(const Shape& shape) {
  std::vector<Subset> all;
  for (unsigned bits = 0; bits < 1u << shape.size(); ++bits) {
    Subset subset;
    for (unsigned i = 0; i < shape.size(); ++i)
      (bits >> i & 1 ? subset.axes.push_back(i) : subset.out.push_back(shape[i]));
    all.push_back(subset);
  }
  return all;
}
/// Returns the values that reduce to each output, in row-major order of both.
template <class T>
std::vector<std::vector<T>> groups(Array<T>& x, const Subset& subset) {
  std::vector<std::vector<T>> all(static_cast<std::size_t>(subset.out.elements()));
  for (Index i = 0; i < x.shape.elements(); ++i) {
    Index out = 0, step = 1, rest = i;
    for (std::size_t d = x.shape.size(); d-- > 0;) {
      Index position = rest % x.shape[d];
      rest /= x.shape[d];
      if (std::find(subset.axes.begin(), subset.axes.end(), static_cast<Index>(d)) != subset.axes.end()) continue;
      out += position * step;
      step *= x.shape[d];
    }
    all[static_cast<std::size_t>(out)].push_back(x.at(i));
  }
  return all;
}
template <class T>
void check_reductions(const Shape& shape, Lay lay) {
  Array<T> x = random_array<T>(shape, lay);
  for (const Subset& subset : subsets(shape)) {
    ReduceAttributes attributes(subset.axes, false);
    auto all = groups(x, subset);
    auto reduced = [&](OpId op) { return run<T>(op, &attributes, {x.view()}, subset.out); };
    std::vector<T> sum = reduced(OpId::sum), largest = reduced(OpId::max), least = reduced(OpId::min), prod;
    bool small = all.empty() || all[0].size() < 16;
    if (small) prod = reduced(OpId::prod);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Real total = 0, absolute = 0, product = 1;
      for (T v : all[i]) {
        const Real term = static_cast<Real>(v);
        total += term, absolute += std::abs(term), product *= term;
      }
      expect_near<T>(sum[i], total, absolute);
      if (small && std::abs(product) < (std::is_same_v<T, Float16> ? 6e4L : 1e18L))
        expect_near<T>(prod[i], product, std::abs(product) * 8);
      ASSERT_EQ(largest[i], *std::max_element(all[i].begin(), all[i].end()));
      ASSERT_EQ(least[i], *std::min_element(all[i].begin(), all[i].end()));
    }
    if (subset.axes.size() != 1 && subset.axes.size() != shape.size()) continue;
    std::vector<std::int32_t> first = run<std::int32_t>(OpId::argmax, &attributes, {x.view()}, subset.out);
    std::vector<std::int64_t> lowest = run<std::int64_t>(OpId::argmin, &attributes, {x.view()}, subset.out);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(first[i], std::max_element(all[i].begin(), all[i].end()) - all[i].begin());
      ASSERT_EQ(lowest[i], std::min_element(all[i].begin(), all[i].end()) - all[i].begin());
    }
  }
}
template <class... T>
void check_reductions_in_every_layout(const Shape& shape) {
  for (Lay lay : lays) (check_reductions<T>(shape, lay), ...);
}
TEST_P(Reductions, ReductionsOverEverySubsetOfAxes) {
  for (const Shape& shape :
       {Shape{3, 5, 4, 7}, Shape{17, 1, 33, 3}, Shape{2, 20, 3, 70}, Shape{600, 3}, Shape{3, 600}, Shape{1}})
    check_reductions_in_every_layout<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t,
                                     std::int16_t, std::uint64_t, Float16, BFloat16>(shape);
}
// Kernels treat several short rows as a long one, and rows may be left over.
TEST_P(Reductions, ManyShortRows) {
  for (const Shape& shape : {Shape{3, 1000, 2}, Shape{2, 301, 3}, Shape{4, 131, 2, 1}, Shape{113, 5}, Shape{90, 17},
                             Shape{300, 12}, Shape{128, 2}, Shape{2, 140, 64}})
    check_reductions_in_every_layout<float, double, std::int32_t, std::int64_t, std::uint8_t, Float16>(shape);
}
template <class T>
void check_products_of_short_rows(std::vector<T> factors) {
  for (Index rows : {128, 301, 1000}) {
    Array<T> x = make<T>(Shape{rows, 3}, Lay::contiguous,
                         [&](Index i) { return factors[static_cast<std::size_t>(i * i + i / 7) % factors.size()]; });
    std::vector<T> expected(3, T(1));
    for (Index i = 0; i < 3 * rows; ++i) expected[static_cast<std::size_t>(i % 3)] *= x.at(i);
    ReduceAttributes attributes(Shape{0}, false);
    EXPECT_EQ(run<T>(OpId::prod, &attributes, {x.view()}, Shape{3}), expected);
  }
}
TEST_P(Reductions, ProductsOfManyShortRows) {  // The factors have exact products.
  check_products_of_short_rows<float>({2, -.5, 1, -1, .5, -2, 1});
  check_products_of_short_rows<double>({2, -.5, 1, -1, .5, -2, 1});
  check_products_of_short_rows<std::uint32_t>({3, 5, 7, 1, 9});
  check_products_of_short_rows<std::complex<float>>({{0, 1}, {1, 0}, {0, -1}, {-1, 0}, {0, 1}});
  check_products_of_short_rows<std::complex<double>>({{0, 1}, {1, 0}, {0, -1}, {-1, 0}, {0, 1}});
}
TEST_P(Reductions, LargeReductionsAreSplitAndMerged) {
  for (const Shape& shape : {Shape{200001}, Shape{70001, 3}, Shape{3, 70001}, Shape{1500, 100}})
    for (Lay lay : {Lay::contiguous, Lay::permuted}) {
      check_reductions<float>(shape, lay);
      check_reductions<double>(shape, lay);
      check_reductions<std::int32_t>(shape, lay);
    }
}
TEST_P(Reductions, AllAndAny) {
  Shape shape{5, 6, 70};
  for (Lay lay : lays)
    for (const Subset& subset : subsets(shape)) {
      Array<bool> x = make<bool>(shape, lay, [](Index) { return rng()() % 50 != 0; });
      ReduceAttributes attributes(subset.axes, false);
      std::vector<bool> all = run<bool>(OpId::all, &attributes, {x.view()}, subset.out);
      std::vector<bool> any = run<bool>(OpId::any, &attributes, {x.view()}, subset.out);
      auto values = groups(x, subset);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(all[i], std::find(values[i].begin(), values[i].end(), false) == values[i].end());
        ASSERT_EQ(any[i], std::find(values[i].begin(), values[i].end(), true) != values[i].end());
      }
    }
}
TEST_P(Reductions, EmptyReductions) {
  Array<float> x = make<float>(Shape{0, 3}, Lay::contiguous, [](Index) { return 0.f; });
  Array<bool> b = make<bool>(Shape{0, 3}, Lay::contiguous, [](Index) { return false; });
  ReduceAttributes rows(Shape{0}, false);
  EXPECT_EQ(run<float>(OpId::sum, &rows, {x.view()}, Shape{3}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run<float>(OpId::prod, &rows, {x.view()}, Shape{3}), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(run<bool>(OpId::all, &rows, {b.view()}, Shape{3}), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(run<bool>(OpId::any, &rows, {b.view()}, Shape{3}), (std::vector<bool>{false, false, false}));
}
TEST_P(Reductions, MaxAndMinPropagateNan) {
  for (Index n : {5, 100, 3000}) {
    std::vector<float> x(static_cast<std::size_t>(n), 1.f);
    x[0] = INFINITY;
    x[3] = x[4] = NAN;
    Array<float> a = of<float>(Shape{n}, x), column = of<float>(Shape{n, 1}, x);
    ReduceAttributes all(Shape{0}, false);
    for (OpId op : {OpId::max, OpId::min}) EXPECT_TRUE(std::isnan(run<float>(op, &all, {a.view()}, Shape{})[0]));
    for (OpId op : {OpId::argmax, OpId::argmin}) {
      EXPECT_EQ(run<std::int64_t>(op, &all, {a.view()}, Shape{})[0], 3);
      Strides repeated{1, 0};
      View wide{a.base(), float32, column.shape, repeated};
      EXPECT_EQ(run<std::int64_t>(op, &all, {wide}, Shape{1})[0], 3);
    }
  }
}
TEST_P(Reductions, SumsAreAccurate) {
  auto constant = [](const Shape& shape, float value, const Shape& axes, const Shape& out) {
    std::vector<float> one(static_cast<std::size_t>(shape.elements()), value);
    Strides strides = dense(shape);
    ReduceAttributes attributes(axes, false);
    return run<float>(OpId::sum, &attributes, {View{one.data(), float32, shape, strides}}, out)[0];
  };
  EXPECT_EQ(constant(Shape{1 << 25}, 1, Shape{0}, Shape{}), 0x1p25f);
  Real tenth = static_cast<Real>(0.1f);
  EXPECT_NEAR(constant(Shape{1 << 24}, 0.1f, Shape{0}, Shape{}), tenth * 0x1p24L, 1e-7L * 0x1p24L);
  EXPECT_NEAR(constant(Shape{1 << 22, 4}, 0.1f, Shape{0}, Shape{4}), tenth * 0x1p22L, 1e-7L * 0x1p22L);
  EXPECT_NEAR(constant(Shape{1 << 13, 1 << 11}, 0.1f, Shape{0}, Shape{1 << 11}), tenth * 0x1p13L, 1e-7L * 0x1p13L);
  std::vector<double> d(1 << 20, 0.1);
  Shape shape{1 << 20}, matrix{1 << 18, 4};
  ReduceAttributes all(Shape{0}, false);
  Array<double> a = of<double>(shape, d), b = of<double>(matrix, d);
  Real exact = static_cast<Real>(0.1) * (1 << 20);
  EXPECT_NEAR(run<double>(OpId::sum, &all, {a.view()}, Shape{})[0], exact, 2e-16L * exact);
  EXPECT_NEAR(run<double>(OpId::sum, &all, {b.view()}, Shape{4})[0], exact / 4, 2e-16L * exact / 4);
}

// ---- matmul -------------------------------------------------------------------------------------

template <class T>
void check_matmul(const Shape& batch, Index m, Index k, Index n, Lay a_lay, Lay b_lay) {
  Shape a_shape = batch, b_shape = batch, out = batch;
  a_shape.append(&m, &m + 1), a_shape.push_back(k);
  b_shape.append(&k, &k + 1), b_shape.push_back(n);
  out.push_back(m), out.push_back(n);
  Array<T> a = random_array<T>(a_shape, a_lay), b = random_array<T>(b_shape, b_lay);
  std::vector<T> got = run<T>(OpId::matmul, nullptr, {a.view(), b.view()}, out), x = a.values(), y = b.values();
  for (Index t = 0; t < batch.elements(); ++t)
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        Real sum = 0, scale = 0;
        for (Index p = 0; p < k; ++p) {
          Real term = static_cast<Real>(x[static_cast<std::size_t>((t * m + i) * k + p)]) *
                      static_cast<Real>(y[static_cast<std::size_t>((t * k + p) * n + j)]);
          sum += term;
          scale += std::abs(term);
        }
        expect_near<T>(got[static_cast<std::size_t>((t * m + i) * n + j)], sum, 4 * scale);
        if (testing::Test::HasFatalFailure())
          FAIL() << m << "x" << k << "x" << n << " layouts " << int(a_lay) << int(b_lay);
      }
}
TEST_P(Reductions, Matmul) {
  const Index sizes[][3] = {{1, 1, 1}, {3, 4, 5}, {1, 7, 9},    {9, 7, 1},   {20, 1, 30}, {16, 16, 16},
                            {5, 0, 4}, {0, 3, 2}, {17, 33, 40}, {1, 40, 30}, {30, 40, 1}, {70, 65, 80}};
  for (const auto& s : sizes)
    for (const Shape& batch : {Shape{}, Shape{3}, Shape{2, 3}})
      for (Lay a_lay : lays)
        for (Lay b_lay : lays) {
          check_matmul<float>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<double>(batch, s[0], s[1], s[2], a_lay, b_lay);
          if (s[0] * s[1] * s[2] > 30000) continue;
          check_matmul<std::int32_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<std::int64_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<std::uint8_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<std::int16_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<Float16>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<BFloat16>(batch, s[0], s[1], s[2], a_lay, b_lay);
        }
}

}  // namespace
