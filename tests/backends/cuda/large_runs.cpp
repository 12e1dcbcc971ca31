// Tests the CUDA backend on a GPU at sizes that are too large to execute kernels on the host:
// more than 2^31 elements, long sorts and scans, more matrices than a grid dimension allows,
// several threads. Expected results come from the CPU or from a formula.
// Skipped with a message if there is no GPU, or not enough memory.
//
// With STAVE_LARGE_ON_HOST=1 the CPU computes the same at sizes a thousand times smaller,
// which tests the program itself without a GPU.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <stave/backends/cuda/runtime.h>
#include <stave/stave.h>

namespace {

using namespace stave;

const bool on_host = std::getenv("STAVE_LARGE_ON_HOST") != nullptr;
const Device place = on_host ? cpu : cuda(0);
const Index two_to_31 = Index{1} << (on_host ? 21 : 31);
const Index many = two_to_31 + 7;
const Index long_row = on_host ? 10'000 : 10'000'000;

constexpr Dtype dtypes[] = {
#define X(name, type) name,
    STAVE_REALS(X)
#undef X
};

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_host && !cuda_available()) GTEST_SKIP() << "no CUDA device can be used here: " << stave_cuda::why_none();
  }
  void TearDown() override {
    if (on_host || cuda_available()) release_cached_memory(place);
  }
};

/// Returns true if `bytes_each` bytes are free for each of `many` elements.
bool has_memory(Index bytes_each) {
  if (on_host) return true;
  std::size_t unused = 0, all = 0;
  const stave_cuda::CurrentDevice current(0);
  return cudaMemGetInfo(&unused, &all) == cudaSuccess && static_cast<Index>(unused) > bytes_each * many;
}
#define NEEDS_MEMORY(bytes_each) \
  if (!has_memory(bytes_each)) GTEST_SKIP() << "the device has no " << (bytes_each)*many / 1'000'000'000 << " GB free"

Tensor there(const Tensor& x) { return to(x, place); }
Tensor back(const Tensor& x) { return to(x, cpu); }
std::int64_t whole(const Tensor& x) { return astype(x, int64).item<std::int64_t>(); }

/// Pseudorandom numbers that are the same in every run, with ties; floats have both signs.
Tensor mixed(const Shape& shape, Dtype dtype, int seed = 0) {
  const Tensor x = uniform(Key(seed), shape, -1000, 1000, float64);
  if (dtype == bool_) return x > 0;
  return is_float(dtype) ? astype(round(x), dtype) : astype(floor(abs(x) / 4), dtype);
}

// ---- more than 2^31 elements -------------------------------------------------------------------

/// The bytes 0, 1, ... 250, repeated.
Tensor many_bytes() {
  const Index period = 251, periods = many / period;
  const Tensor row = astype(arange(0, period, 1, int32, place), uint8);
  return concat({reshape(broadcast_to(row, {periods, period}), {periods * period}), row(slice(0, many % period))});
}
std::int64_t byte_at(Index i) { return i % 251; }

std::vector<Index> ends() { return {0, 1, 250, two_to_31 - 1, two_to_31, two_to_31 + 1, many - 2, many - 1}; }

TEST_F(Large, ElementwiseResultsAreRight) {
  NEEDS_MEMORY(6);
  const Tensor x = many_bytes(), twice = x + x, odd = x(slice(1, none)) + 1, backwards = flip(x) + x;
  for (Index i : ends()) {
    EXPECT_EQ(whole(x(i)), byte_at(i)) << i;
    EXPECT_EQ(whole(twice(i)), 2 * byte_at(i) % 256) << i;
    EXPECT_EQ(whole(backwards(i)), (byte_at(i) + byte_at(many - 1 - i)) % 256) << i;
    EXPECT_EQ(whole(odd(std::max<Index>(i, 1) - 1)), byte_at(std::max<Index>(i, 1)) + 1) << i;
  }
}

TEST_F(Large, CopiesTransposesAndPadsAreRight) {
  NEEDS_MEMORY(6);
  const Tensor x = many_bytes(), turned = contiguous(flip(x));
  for (Index i : ends()) EXPECT_EQ(whole(turned(i)), byte_at(many - 1 - i)) << i;
  const Index rows = Index{1} << 10, columns = two_to_31 / rows;
  const Tensor transposed = contiguous(transpose(reshape(x(slice(0, two_to_31)), {rows, columns})));
  for (Index i : {Index{0}, Index{1}, columns / 2, columns - 1})
    for (Index j : {Index{0}, Index{33}, rows - 1}) EXPECT_EQ(whole(transposed(i, j)), byte_at(j * columns + i));
  const Tensor padded = pad(x, {{3, 5}}, 9);
  EXPECT_EQ(padded.size(), many + 8);
  for (Index i : ends()) EXPECT_EQ(whole(padded(i + 3)), byte_at(i)) << i;
  EXPECT_EQ(whole(padded(many + 7)), 9);
}

TEST_F(Large, ReductionsAreRight) {
  NEEDS_MEMORY(12);
  const Tensor x = many_bytes();
  EXPECT_EQ(whole(max(x)), 250);
  EXPECT_TRUE(static_cast<bool>(all(x <= 250)));
  const Tensor marked = dynamic_update_slice(x, there(full({1}, 255, uint8)), {many - 2});
  EXPECT_EQ(whole(argmax(marked)), many - 2);
  // The count is below 2^24, so float32 holds it exactly.
  EXPECT_EQ(whole(sum(astype(x == 0, float32))), (many + 250) / 251);
  const Tensor columns = sum(astype(reshape(x(slice(0, two_to_31)), {two_to_31 / 2, 2}) == 0, float32), 0);
  EXPECT_EQ(whole(sum(columns)), (two_to_31 + 250) / 251);
}

TEST_F(Large, CumulativeSumIsRight) {
  NEEDS_MEMORY(10);
  const Tensor x = cumulative_sum(ones({many}, uint32, place));
  for (Index i : ends()) EXPECT_EQ(whole(x(i)), i + 1) << i;
}

TEST_F(Large, IndexingIsRight) {
  NEEDS_MEMORY(12);
  const std::vector<Index> at = ends();
  std::vector<std::int64_t> indices(at.begin(), at.end());
  indices.push_back(-1);
  const Tensor x = many_bytes(), taken = take(x, from(indices, place));
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_EQ(whole(taken(static_cast<Index>(i))), byte_at(at[i]));
  EXPECT_EQ(whole(taken(-1)), byte_at(many - 1));
  EXPECT_EQ(whole(dynamic_slice(x, {many - 5}, {5})(4)), byte_at(many - 1));
  const auto count = static_cast<Index>(indices.size());
  for (const Dtype dtype : {uint8, bfloat16, float32}) {
    const Tensor sums = scatter_add(zeros({many}, dtype, place), reshape(from(indices, place), {count, 1}),
                                    ones({count}, dtype, place));
    EXPECT_EQ(whole(sums(many - 1)), 2) << name_of(dtype);
    EXPECT_EQ(whole(sums(two_to_31)), 1) << name_of(dtype);
    EXPECT_EQ(whole(sums(two_to_31 - 2)), 0) << name_of(dtype);
  }
  EXPECT_THROW(take(x, from(std::vector<std::int64_t>{many}, place)).to_vector<std::uint8_t>(), IndexError);
}

TEST_F(Large, UniformNumbersHaveTheirRangeAndMean) {
  NEEDS_MEMORY(6);
  const Tensor x = uniform(Key(1, place), {many});
  EXPECT_GE(min(x).item<float>(), 0);
  EXPECT_LT(max(x).item<float>(), 1);
  EXPECT_NEAR(mean(x).item<float>(), 0.5, 1e-2);
}

// ---- long sorts and scans ----------------------------------------------------------------------

TEST_F(Large, LongSortsEqualTheCpuInEveryDtype) {
  for (const Dtype dtype : dtypes) {
    const Tensor x = mixed({long_row}, dtype), y = there(x);
    EXPECT_TRUE(array_equal(back(sort(y)), sort(x))) << name_of(dtype);
    // Both sorts are stable.
    EXPECT_TRUE(array_equal(back(argsort(y)), argsort(x))) << name_of(dtype);
    EXPECT_TRUE(array_equal(back(sort(y, 0, {.descending = true})), sort(x, 0, {.descending = true})))
        << name_of(dtype);
    const Tensor rows = reshape(x, {long_row / 1000, 1000});
    EXPECT_TRUE(array_equal(back(sort(there(rows), 0)), sort(rows, 0))) << name_of(dtype);
    EXPECT_TRUE(array_equal(back(sort(there(rows), 1)), sort(rows, 1))) << name_of(dtype);
  }
}

bool agree(const Tensor& got, const Tensor& expected) {
  const Dtype dtype = expected.dtype();
  if (!is_float(dtype)) return array_equal(back(got), expected);
  const double tolerance = dtype == bfloat16 ? 2e-2 : dtype == float16 ? 2e-3 : dtype == float32 ? 1e-5 : 1e-12;
  return allclose(back(got), expected, tolerance, tolerance);
}

TEST_F(Large, LongScansEqualTheCpuInEveryDtype) {
  for (const Dtype dtype : dtypes)
    for (const Shape& shape : {Shape{long_row}, Shape{long_row / 1000, 1000}})
      for (Index axis = 0; axis < shape.rank(); ++axis) {
        const bool inexact = is_float(dtype);
        const Tensor x = inexact ? astype(uniform(Key(3), shape, 0, 1, float64), dtype) : mixed(shape, dtype);
        const auto what = [&] { return std::string(name_of(dtype)) + shape.str() + " along " + std::to_string(axis); };
        EXPECT_TRUE(agree(cumulative_sum(there(x), axis), cumulative_sum(x, axis))) << what();
        const Tensor factors = inexact ? 1 + (x - 0.5) * 1e-3 : x;
        EXPECT_TRUE(agree(cumulative_prod(there(factors), axis), cumulative_prod(factors, axis))) << what();
        if (!inexact) continue;
        const Tensor a = x * 0.9;
        EXPECT_TRUE(agree(linear_recurrence(there(a), there(x), axis), linear_recurrence(a, x, axis))) << what();
      }
}

TEST_F(Large, ManyUpdatesOfFewElementsAreRightAndRepeatable) {
  const Tensor places = astype(mixed({long_row, 1}, int32) % 3, int64);
  for (const Dtype dtype : dtypes) {
    if (dtype == bool_) continue;
    const Tensor updates = mixed({long_row}, dtype, 1), zero = zeros({3}, dtype);
    const auto sums = [&] { return back(scatter_add(there(zero), there(places), there(updates))); };
    const Tensor got = sums();
    EXPECT_TRUE(array_equal(got, sums())) << name_of(dtype) << ": two runs differ";
    if (!is_float(dtype)) {
      EXPECT_TRUE(array_equal(got, scatter_add(zero, places, updates))) << name_of(dtype);
      continue;
    }
    // The updates are whole numbers.
    const Tensor exact = scatter_add(zeros({3}, int64), places, astype(updates, int64));
    const double tolerance = dtype == bfloat16 ? 2e-2 : 2e-3;
    EXPECT_TRUE(allclose(astype(got, float64), astype(astype(exact, dtype), float64), tolerance, 1)) << name_of(dtype);
  }
}

// ---- many matrices -----------------------------------------------------------------------------

TEST_F(Large, LargeBatchOfSmallProductsEqualsTheCpu) {
  const Index batch = on_host ? 70 : 70'000;
  for (const Dtype dtype : dtypes) {
    if (dtype == bool_) continue;
    const Tensor a = mixed({batch, 4, 4}, dtype, 1), b = mixed({batch, 4, 4}, dtype, 2), c = matmul(a, b);
    EXPECT_TRUE(agree(matmul(there(a), there(b)), c)) << name_of(dtype);
    EXPECT_TRUE(agree(matmul(matrix_transpose(there(contiguous(matrix_transpose(a)))), there(b)), c)) << name_of(dtype);
    EXPECT_TRUE(agree(matmul(there(a), matrix_transpose(there(contiguous(matrix_transpose(b))))), c)) << name_of(dtype);
    EXPECT_TRUE(agree(matmul(there(a[0]), there(b)), matmul(a[0], b))) << name_of(dtype);
    EXPECT_TRUE(agree(matmul(there(a), there(b[0])), matmul(a, b[0]))) << name_of(dtype);
  }
}

// ---- several threads ---------------------------------------------------------------------------

// Each thread has its own work. One of them uses indices out of range, and the others see no error.
TEST_F(Large, FourThreadsMayShareTheDevice) {
  const auto work = [](int seed) {
    const Tensor x = mixed({on_host ? 1000 : 300'000}, float32, seed), y = there(x);
    const Tensor w = mixed({64, 64}, float64, seed) * 1e-3;
    const Tensor sorted = sort(x), sums = cumulative_sum(abs(x)), power = matmul(w, matmul(w, w));
    for (int i = 0; i < (on_host ? 2 : 30); ++i) {
      EXPECT_TRUE(array_equal(back(sort(y)), sorted)) << seed;
      EXPECT_TRUE(agree(cumulative_sum(abs(y)), sums)) << seed;
      EXPECT_TRUE(agree(matmul(there(w), matmul(there(w), there(w))), power)) << seed;
      EXPECT_TRUE(agree(y * 2 + 1, x * 2 + 1)) << seed;
      const Tensor g = grad([](const Tensor& v) { return sum(square(v)); })(y);
      EXPECT_TRUE(agree(g, x * 2)) << seed;
      const Tensor index = there(from(std::vector{0, seed == 3 ? 1 << 30 : 1}));
      if (seed == 3) {
        EXPECT_THROW(back(take(y, index)), IndexError);
      } else {
        EXPECT_TRUE(array_equal(back(take(y, index)), x(slice(0, 2)))) << seed;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
}

// ---- where memory is not aligned ---------------------------------------------------------------

TEST_F(Large, SlicesAtOddOffsetsEqualTheCpu) {
  const Index n = on_host ? 1001 : 1'000'001;
  for (const Dtype dtype : dtypes) {
    const Tensor x = mixed({n}, dtype, 1), z = mixed({n}, dtype, 2), y = there(x), u = there(z);
    for (Index begin : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33})
      for (Index cut : {0, 1, 3}) {
        const auto part = [&](const Tensor& t) { return t(slice(begin, t.shape(0) - cut)); };
        const auto every_other = [&](const Tensor& t) { return t(slice(begin, none, 2)); };
        const auto what = [&] { return std::string(name_of(dtype)) + " from " + std::to_string(begin); };
        EXPECT_TRUE(array_equal(back(part(y)), part(x))) << what();
        EXPECT_TRUE(array_equal(back(contiguous(every_other(y))), every_other(x))) << what();
        EXPECT_TRUE(array_equal(back(maximum(part(y), part(u))), maximum(part(x), part(z)))) << what();
        EXPECT_TRUE(array_equal(back(part(y) == part(flip(u))), part(x) == part(flip(z)))) << what();
        EXPECT_TRUE(array_equal(back(concat({part(y), part(u)})), concat({part(x), part(z)}))) << what();
        EXPECT_TRUE(array_equal(back(max(part(y))), max(part(x)))) << what();
        EXPECT_TRUE(agree(sum(part(abs(y))), sum(part(abs(x))))) << what();
        EXPECT_TRUE(array_equal(back(cumulative_sum(part(y)(slice(0, 100)))), cumulative_sum(part(x)(slice(0, 100)))))
            << what();
      }
  }
}

}  // namespace
