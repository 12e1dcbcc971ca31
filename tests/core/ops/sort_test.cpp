// Sorting: the order of NaN, -0 and equal elements, rows of all lengths against
// std::stable_sort, and the texts of errors. table/rows_sort.cpp tests values
// and derivatives in every dtype and layout.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <stave/stave.h>

#include "matchers.h"

namespace sort_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;

using T = const Tensor&;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// jax.numpy.argsort gives these positions for the same array in both directions.
TEST(Sort, NanIsTheLargestAndZerosAreEqual) {
  for (const Dtype dtype : {float32, float64}) {
    const Tensor x = tensor({1., nan, -0., 0., 3., nan, 1., 0., -0.}, dtype);
    EXPECT_THAT(argsort(x), Equals(tensor({2, 3, 7, 8, 0, 6, 4, 1, 5})));
    EXPECT_THAT(argsort(x, 0, {.descending = true}), Equals(tensor({1, 5, 4, 0, 6, 2, 3, 7, 8})));
    EXPECT_EQ(sort(x).str(), "[-0.  0.  0. -0.  1.  1.  3. nan nan]");
    EXPECT_EQ(sort(x, 0, {.descending = true}).str(), "[nan nan  3.  1.  1. -0.  0.  0. -0.]");
  }
  EXPECT_EQ(sort(tensor({inf, -inf, nan, 1e-45, -1e-45})).str(), "[   -inf -1.e-45  1.e-45     inf     nan]");
}

TEST(Sort, SortsAlongEachAxis) {
  const Tensor x = tensor({{3, 1, 2}, {0, 5, 1}});
  EXPECT_THAT(sort(x), Equals(tensor({{1, 2, 3}, {0, 1, 5}})));
  EXPECT_THAT(sort(x, 0), Equals(tensor({{0, 1, 1}, {3, 5, 2}})));
  EXPECT_THAT(sort(x, -1, {.descending = true}), Equals(tensor({{3, 2, 1}, {5, 1, 0}})));
  EXPECT_THAT(argsort(x), Equals(tensor({{1, 2, 0}, {0, 2, 1}})));
  EXPECT_THAT(take_along_axis(x, argsort(x, 0), 0), Equals(sort(x, 0)));
  EXPECT_THAT(sort(tensor({true, false, true})), Equals(tensor({false, true, true})));
}

// ---- every length, against the standard library -------------------------------------------------

template <class E>
std::vector<E> random_elements(std::size_t n, int spread, std::mt19937_64& engine) {
  std::vector<E> values(n);
  for (E& value : values) {
    if constexpr (!std::is_integral_v<E>) {
      using C = Computed<E>;
      const auto kind = engine() % 16;
      value = E(static_cast<C>(static_cast<std::int64_t>(engine()) >> (64 - spread)) / 8);
      if (kind == 0) value = E(-C(0));
      if (kind == 1) value = E(std::copysign(std::numeric_limits<C>::quiet_NaN(), engine() % 2 ? C(1) : C(-1)));
      if (kind == 2) value = engine() % 2 ? E(inf) : E(-inf);
    } else {
      value = static_cast<E>(static_cast<std::int64_t>(engine()) >> (64 - spread));
    }
  }
  return values;
}

template <class E>
std::vector<std::int32_t> expected_order(const std::vector<E>& x, bool descending) {
  std::vector<std::int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t i, std::int32_t j) {
    E a = x[static_cast<std::size_t>(i)], b = x[static_cast<std::size_t>(j)];
    if (descending) std::swap(a, b);
    return b != b ? a == a : a < b;
  });
  return order;
}

template <class E>
bool same_bits(const std::vector<E>& a, const std::vector<E>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(E)) == 0;
}

template <class E>
void check_lengths() {
  std::mt19937_64 engine(7);
  for (const std::size_t n : {1, 2, 3, 63, 64, 65, 255, 256, 257, 511, 512, 513, 20000})
    for (const int spread : {3, 12, 40, 64})  // bits: few bits give many equal elements
      for (const bool descending : {false, true}) {
        const std::vector<E> x = random_elements<E>(n, spread, engine);
        const std::vector<std::int32_t> order = expected_order(x, descending);
        std::vector<E> sorted;
        for (const std::int32_t i : order) sorted.push_back(x[static_cast<std::size_t>(i)]);
        const Tensor t = from(x);
        const std::string where = std::to_string(n) + " of spread " + std::to_string(spread);
        EXPECT_TRUE(same_bits(sort(t, 0, {.descending = descending}).to_vector<E>(), sorted)) << where;
        EXPECT_TRUE(same_bits(argsort(t, 0, {.descending = descending}).to_vector<std::int32_t>(), order)) << where;
      }
}

TEST(Sort, IsStableAtEveryLength) {
#define X(name, type) check_lengths<type>();
  STAVE_INTEGERS(X)
  STAVE_FLOATS(X)
#undef X
}

TEST(Sort, ManyRowsInParallelEqualRowsSortedAlone) {
  const Tensor x = normal(Key(3), {300, 1000});
  const Tensor rows = sort(x), columns = sort(matrix_transpose(x), 0);
  EXPECT_TRUE(array_equal(columns, matrix_transpose(rows)));
  for (const Index i : {0, 150, 299}) EXPECT_TRUE(array_equal(rows(i), sort(x(i))));
}

// ---- derivatives, dtypes ------------------------------------------------------------------------

TEST(Sort, EqualElementsDoNotShareTheDerivative) {
  const Tensor x = tensor({2., 1., 2., 1.}), weights = tensor({1., 2., 3., 4.});
  EXPECT_THAT(grad([&](T t) { return sum(sort(t) * weights); })(x), Equals(tensor({3., 1., 4., 2.})));
  EXPECT_THAT(jvp([](T t) { return sort(t, 0, {.descending = true}); }, x, weights).second,
              Equals(tensor({1., 3., 2., 4.})));
}

TEST(Argsort, GivesInt64BeyondTheRangeOfInt32) {
  const Tensor x = broadcast_to(tensor({1}, uint8), {1, std::int64_t{1} << 31});
  const auto along = [](int axis) { return make_intrusive<SortAttributes>(axis, false); };
  EXPECT_EQ(Call(op_argsort, {x}, along(1)).abstract_outputs()[0].dtype, int64);
  EXPECT_EQ(Call(op_argsort, {x}, along(0)).abstract_outputs()[0].dtype, int32);
}

TEST(Sort, ErrorsNameFunctionAndAxis) {
  EXPECT_EQ(message_of<IndexError>([] { sort(tensor(1.)); }), "sort: axis -1 is out of range for rank 0");
  EXPECT_EQ(message_of<IndexError>([] { argsort(ones({2, 3}), 2); }), "argsort: axis 2 is out of range for rank 2");
}

}  // namespace sort_test
