// softmax, log_softmax and logsumexp, on every backend.
#include "conformance.h"

namespace {

using namespace conformance;

STAVE_ON_BACKENDS(Softmax);

constexpr Real inf = std::numeric_limits<Real>::infinity();

/// A type with more digits, in which `expected` computes one row by the definition.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, Real>;
template <class W>
std::vector<W> expected(const std::vector<W>& x, bool logarithm) {
  W max = -std::numeric_limits<W>::infinity(), sum = 0;
  for (W v : x) max = std::max(max, v);
  for (W v : x) sum += std::exp(v - max);
  std::vector<W> y;
  for (W v : x) y.push_back(logarithm ? v - max - std::log(sum) : std::exp(v - max) / sum);
  return y;
}

/// logsumexp of one row. If an element is NaN, so is the result.
template <class W>
W expected_sum(const std::vector<W>& x) {
  W max = -std::numeric_limits<W>::infinity(), rest = -1;
  for (W v : x) max = std::max(max, v);
  for (W v : x) rest += v == max ? 1 : std::exp(v - max);
  return max + std::log1p(rest);
}

template <class T>
constexpr Wider<T> ulp = std::numeric_limits<T>::epsilon();
constexpr double doubles = std::numeric_limits<double>::epsilon();
// CUDA documents an error of up to 2 ulps for its exponentials (see
// conformance_function_test.cpp).
int rounding() { return on_cuda() ? 8 : 4; }

/// Rounding occurs in x - max, which makes its exponential wrong by |x - max| / 2 ulp, in the
/// exponential, and in the result. The logarithm for the largest element is the sum of the other
/// elements' weights, which have the same error. A sum is off by an ulp of double.
template <class T>
Wider<T> tolerance_of(Wider<T> exact, bool logarithm) {
  const Wider<T> least = std::numeric_limits<T>::denorm_min(), size = std::abs(exact) + least;
  return (rounding() + std::abs(std::log(size)) / 2) * ulp<T> * size + (logarithm ? 2 * doubles : least);
}
/// The sum of a row is rounded once more, when its largest element is added to the logarithm.
template <class T>
Wider<T> tolerance_of_sum(Wider<T> exact, Wider<T> largest) {
  const Wider<T> logarithm = exact - largest;
  return ulp<T> * std::abs(exact) + rounding() * ulp<T> * logarithm + 4 * doubles * std::min<Wider<T>>(1, logarithm) +
         std::numeric_limits<T>::denorm_min();
}

template <class T>
void expect_close(T got, Wider<T> exact, Wider<T> tolerance) {
  if (std::isnan(exact)) ASSERT_TRUE(std::isnan(got)) << got;
  else if (std::isinf(exact)) ASSERT_EQ(got, static_cast<T>(exact));
  else ASSERT_LE(std::abs(static_cast<Wider<T>>(got) - exact), tolerance) << got << " for " << exact;
}

template <class T>
void check(Array<T>& x, int axis) {
  const auto along = static_cast<std::size_t>(axis);
  Index inner = 1;
  for (std::size_t d = along + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  const Index n = x.shape[along];
  const std::vector<T> values = x.values();
  const AxisAttributes attributes(axis);
  Shape reduced = x.shape;
  reduced[along] = 1;
  const std::vector<T> sums = run<T>(OpId::logsumexp, &attributes, {x.view()}, reduced);
  const std::vector<T> got[] = {run<T>(OpId::softmax, &attributes, {x.view()}, x.shape),
                                run<T>(OpId::log_softmax, &attributes, {x.view()}, x.shape)};
  for (Index row = 0; row < x.shape.elements() / n; ++row) {
    const auto place = [&](Index i) { return static_cast<std::size_t>((row / inner * n + i) * inner + row % inner); };
    std::vector<Wider<T>> elements;
    for (Index i = 0; i < n; ++i) elements.push_back(static_cast<Wider<T>>(values[place(i)]));
    const Wider<T> sum = expected_sum(elements), largest = *std::max_element(elements.begin(), elements.end());
    expect_close<T>(sums[static_cast<std::size_t>(row)], sum, tolerance_of_sum<T>(sum, largest));
    for (bool logarithm : {false, true}) {
      const std::vector<Wider<T>> exact = expected(elements, logarithm);
      for (Index i = 0; i < n; ++i) {
        const Wider<T> y = exact[static_cast<std::size_t>(i)];
        expect_close<T>(got[logarithm][place(i)], y, tolerance_of<T>(y, logarithm));
        if (testing::Test::HasFatalFailure())
          FAIL() << x.shape.str() << " strides " << x.strides.str() << " axis " << axis << " row " << row << " element "
                 << i << (logarithm ? " log" : "");
      }
    }
  }
}

template <class T>
void check_every_axis(const Shape& shape, Lay lay) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    Array<T> x = random_array<T>(shape, lay);
    check(x, axis);
    if (testing::Test::HasFatalFailure()) FAIL() << "layout " << static_cast<int>(lay);
  }
}

TEST_P(Softmax, EqualsTheDefinitionAlongEveryAxis) {
  for (const Shape& shape : {Shape{3, 5, 4, 7}, Shape{17, 1, 33, 3}, Shape{2, 20, 3, 70}, Shape{600, 3}, Shape{3, 600},
                             Shape{300, 16}, Shape{300, 17}, Shape{40, 130}, Shape{5, 1000, 9}, Shape{1}})
    for (Lay lay : lays) {
      check_every_axis<float>(shape, lay);
      check_every_axis<double>(shape, lay);
      if (HasFatalFailure()) return;
    }
}

// Long rows are split, columns are computed in tiles, and some arrays are transposed on the way.
TEST_P(Softmax, LargeArraysEqualTheDefinition) {
  for (const Shape& shape : {Shape{150001}, Shape{3, 70001}, Shape{70001, 3}, Shape{5001, 40}, Shape{40, 5001}})
    for (Lay lay : {Lay::contiguous, Lay::permuted}) {
      check_every_axis<float>(shape, lay);
      check_every_axis<double>(shape, lay);
      if (HasFatalFailure()) return;
    }
}

/// Checks softmax of random rows of n elements, where row 1 holds `value` instead, along each axis
/// of a matrix.
template <class T>
void check_row(Index n, const std::function<Real(Index)>& value) {
  for (int axis : {0, 1}) {
    const Index rows = n > 10000 ? 2 : 20;
    const Shape shape = axis == 0 ? Shape{n, rows} : Shape{rows, n};
    Array<T> x = make<T>(shape, Lay::contiguous, [&](Index i) {
      const Index row = axis == 0 ? i % rows : i / n, at = axis == 0 ? i / rows : i % n;
      return row == 1 ? static_cast<T>(value(at)) : random_value<T>();
    });
    check(x, axis);
  }
}

// An element of -inf has the weight 0. A row of -inf only, or with a +inf or NaN, is NaN, and no
// other row is. PyTorch and JAX do the same. logsumexp is NaN only if an element is.
TEST_P(Softmax, InfinitiesAndNanGiveTheirLimits) {
  for (Index n : {1, 3, 40, 700, 70000}) {
    const std::vector<std::function<Real(Index)>> rows = {
        [](Index) { return -inf; },
        [=](Index i) { return i == n - 1 ? 2 : -inf; },
        [=](Index i) { return i == 0 ? -3 : -inf; },
        [=](Index i) { return i < n / 2 ? -inf : 1; },
        [=](Index i) { return i == n / 2 ? inf : 1; },
        [=](Index i) { return i == 0 ? std::numeric_limits<Real>::quiet_NaN() : -inf; },
        [=](Index i) { return i == n - 1 ? std::numeric_limits<Real>::quiet_NaN() : 1; },
        [](Index) { return std::numeric_limits<Real>::quiet_NaN(); },
        [](Index i) { return i % 2 ? inf : -inf; }};
    for (const auto& row : rows) {
      check_row<float>(n, row);
      check_row<double>(n, row);
      if (HasFatalFailure()) FAIL() << "rows of " << n << ", " << &row - rows.data();
    }
  }
}

TEST_P(Softmax, NeitherOverflowsNorUnderflows) {
  for (Index n : {4, 50, 3000, 70000})
    for (double size : {80., 100., 1000., 1e30}) {
      check_row<float>(n, [=](Index i) { return static_cast<float>(i % 2 ? size : -size); });
      check_row<double>(n, [=](Index i) { return i % 2 ? size : -size; });
      check_row<float>(
          n, [=](Index i) { return static_cast<float>(-size * static_cast<double>(i) / static_cast<double>(n)); });
      if (HasFatalFailure()) FAIL() << n << " elements of " << size;
    }
}

// A float accumulator would stop at 2^24, and a double accumulator would lose a digit or two.
TEST_P(Softmax, SumsAreAccurate) {
  const AxisAttributes first(0), last(1);
  const Index n = Index{3} << 23;
  const std::vector<float> zeros(static_cast<std::size_t>(n));
  Array<float> row = of<float>(Shape{1, n}, zeros);
  for (float y : run<float>(OpId::softmax, &last, {row.view()}, row.shape)) ASSERT_EQ(y, 1 / static_cast<float>(n));
  const Shape columns{n / 16, 16};
  Array<float> column = of<float>(columns, zeros);
  for (float y : run<float>(OpId::softmax, &first, {column.view()}, columns))
    ASSERT_EQ(y, 1 / static_cast<float>(columns[0]));

  for (const Shape& shape : {Shape{1, 1 << 20}, Shape{1 << 20, 1}, Shape{1 << 16, 16}}) {
    const int axis = shape[0] == 1;
    Array<double> x = make<double>(shape, Lay::contiguous, [&](Index i) { return i < shape[1 - axis] ? 0. : -1; });
    if (axis == 1) x = make<double>(shape, Lay::contiguous, [](Index i) { return i == 0 ? 0. : -1; });
    const Real exact = 1 / (1 + static_cast<Real>(shape[static_cast<std::size_t>(axis)] - 1) * std::exp(Real(-1)));
    const AxisAttributes& along = axis == 1 ? last : first;
    ASSERT_NEAR(run<double>(OpId::softmax, &along, {x.view()}, shape)[0], exact, 4e-16L * exact) << shape.str();
  }
}

// A sum rounded to a float makes all elements of a row wrong by the same factor. This happens only
// without a fused multiply-add.
TEST_P(Softmax, WeightsAddUpToOne) {
  const bool rounds = !on_cuda() && (stave_cpu::kernels().isa == std::string("sse2") ||
                                     stave_cpu::kernels().isa == std::string("portable"));
  for (const Shape& shape : {Shape{20, 4000}, Shape{4000, 20}, Shape{3, 70000}}) {
    const int axis = shape[0] < shape[1];
    std::uniform_real_distribution<float> values(0, 1);
    Array<float> x = make<float>(shape, Lay::contiguous, [&](Index) { return values(rng()); });
    const AxisAttributes attributes(axis);
    const std::vector<float> y = run<float>(OpId::softmax, &attributes, {x.view()}, shape);
    std::vector<double> sums(static_cast<std::size_t>(shape[static_cast<std::size_t>(1 - axis)]));
    for (Index i = 0; i < shape.elements(); ++i)
      sums[static_cast<std::size_t>(axis == 1 ? i / shape[1] : i % shape[1])] += y[static_cast<std::size_t>(i)];
    for (double sum : sums) EXPECT_NEAR(sum, 1, rounds ? 6.5e-8 : 4e-9) << shape.str();
  }
}

// If nearly all the weight is on one element, its logarithm is -log(1 + rest), where 1 + rest
// rounds to 1 in float.
TEST_P(Softmax, LogSoftmaxIsAccurateNearZero) {
  Array<float> x = of<float>(Shape{2}, {0, 20});
  const AxisAttributes axis(0);
  const std::vector<float> y = run<float>(OpId::log_softmax, &axis, {x.view()}, x.shape);
  EXPECT_NEAR(y[1], -2.0611536900435727e-09, 1e-15);  // PyTorch, float64
  EXPECT_NEAR(y[0], -20.000000002061153, 2e-6);
}

// log(1 + exp(-40)), which is lost if the logarithm of the rounded sum is taken.
TEST_P(Softmax, LogsumexpKeepsSmallTerms) {
  const Real exact = std::log1p(std::exp(Real(-40)));
  for (Index n : {2, 40, 70000})
    for (int axis : {0, 1}) {
      const Shape shape = axis == 0 ? Shape{n, 9} : Shape{3, n};
      const Index rows = shape[static_cast<std::size_t>(1 - axis)];
      const auto value = [&](Index i) {
        const Index at = axis == 0 ? i / rows : i % n;
        return at == 0 ? 0. : at == n - 1 ? -40 : -1e4;
      };
      Array<double> x = make<double>(shape, Lay::contiguous, value);
      Array<float> y = make<float>(shape, Lay::contiguous, [&](Index i) { return static_cast<float>(value(i)); });
      const AxisAttributes attributes(axis);
      const Shape reduced = axis == 0 ? Shape{1, 9} : Shape{3, 1};
      for (double got : run<double>(OpId::logsumexp, &attributes, {x.view()}, reduced))
        ASSERT_NEAR(got, exact, 1e-15L * exact);
      for (float got : run<float>(OpId::logsumexp, &attributes, {y.view()}, reduced))
        ASSERT_NEAR(got, exact, 5e-7L * exact);
    }
}

TEST_P(Softmax, AcceptsEmptyArrays) {
  Array<float> x = make<float>(Shape{0, 3}, Lay::contiguous, [](Index) { return 0.f; });
  const AxisAttributes axis(1);
  EXPECT_TRUE(run<float>(OpId::softmax, &axis, {x.view()}, x.shape).empty());
}

}  // namespace
