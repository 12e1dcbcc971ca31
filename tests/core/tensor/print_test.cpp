// Printing. The expected texts are those of NumPy 2.4, each by str() of the expression beside it
// (f4 is np.float32). Further tests cover texts without a counterpart in NumPy.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/vmap.h>

namespace {

using namespace stave;

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

Tensor range(Index count, Dtype dtype, const Shape& shape) { return reshape(arange(0, count, 1, dtype), shape); }

struct Golden {
  const char* numpy;
  Tensor value;
  std::string text;
};

void expect_numpy(const std::vector<Golden>& rows) {
  for (const Golden& row : rows) EXPECT_EQ(row.value.str(), row.text) << "of " << row.numpy;
}

TEST(Print, NumbersOfRankZero) {
  expect_numpy({
      {"np.array(f4(0.1))", tensor(0.1), "0.1"},
      {"np.array(f4(-3))", tensor(-3.0), "-3.0"},
      {"np.array(f4(1e6))", tensor(1e6), "1e+06"},
      {"np.array(np.pi)", tensor(3.141592653589793, float64), "3.141592653589793"},
      {"np.array(2.5e-7)", tensor(2.5e-7, float64), "2.5e-07"},
      {"np.array(1e15)", tensor(1e15, float64), "1000000000000000.0"},
      {"np.array(f4('nan'))", tensor(nan), "nan"},
      {"np.array(-np.inf)", tensor(-inf, float64), "-inf"},
      {"np.array(-7)", tensor(-7), "-7"},
      {"np.array(np.uint8(200))", tensor(200, uint8), "200"},
      {"np.array(np.uint64(18446744073709551615))", tensor(18446744073709551615u), "18446744073709551615"},
      {"np.array(np.int8(-128))", tensor(-128, int8), "-128"},
      {"np.array(np.float16(0.1))", tensor(0.1, float16), "0.1"},
      {"np.array(np.float16(2000))", tensor(2000, float16), "2e+03"},
      {"np.array(np.float16(65504))", tensor(65504, float16), "6.55e+04"},
      {"np.array(np.float16(1 / 3))", tensor(1. / 3, float16), "0.3333"},
      {"np.array(True)", tensor(true), "True"},
  });
}

TEST(Print, IntegersAndBools) {
  expect_numpy({
      {"np.array([7, -12, 300], np.int32)", tensor({7, -12, 300}), "[  7 -12 300]"},
      {"np.array([1, 255], np.uint8)", tensor({1, 255}, uint8), "[  1 255]"},
      {"np.array([True, False])", tensor({true, false}), "[ True False]"},
  });
}

TEST(Print, Floats) {
  expect_numpy({
      {"np.array([-1.5, 2.25, 10], f4)", tensor({-1.5, 2.25, 10.}), "[-1.5   2.25 10.  ]"},
      {"np.array([0.001, 0.5, 0.123456789], f4)", tensor({0.001, 0.5, 0.123456789}),
       "[0.001      0.5        0.12345679]"},
      {"np.array([-0.0, 1], f4)", tensor({-0.0, 1.}), "[-0.  1.]"},
      {"np.array([1, np.nan, -np.inf, np.inf], f4)", tensor({1., nan, -inf, inf}), "[  1.  nan -inf  inf]"},
      {"np.array([np.nan])", tensor({nan}, float64), "[nan]"},
      {"np.array([0.1, 0.2, 1 / 3], np.float16)", tensor({0.1, 0.2, 1. / 3}, float16), "[0.1    0.2    0.3333]"},
      {"np.array([65504, 3], np.float16)", tensor({65504, 3}, float16), "[6.55e+04 3.00e+00]"},
  });
}

TEST(Print, ScientificNotation) {
  expect_numpy({
      {"np.array([1e-10, -1.5, 2e20], f4)", tensor({1e-10, -1.5, 2e20}), "[ 1.0e-10 -1.5e+00  2.0e+20]"},
      {"np.array([1e-100, 1])", tensor({1e-100, 1.}, float64), "[1.e-100 1.e+000]"},
      {"np.array([np.nan, 1e-5], f4)", tensor({nan, 1e-5}), "[   nan 1.e-05]"},
      // Values on both sides of each bound for exponents: greatest >= 1e6 (float64: 1e8),
      // least < 1e-4, and greatest / least > 1000.
      {"np.array([999999, 1e5], f4)", tensor({999999., 1e5}), "[999999. 100000.]"},
      {"np.array([1e6, 1e5], f4)", tensor({1e6, 1e5}), "[1.e+06 1.e+05]"},
      {"np.array([1e6, 1e5])", tensor({1e6, 1e5}, float64), "[1000000.  100000.]"},
      {"np.array([1e8, 1e6])", tensor({1e8, 1e6}, float64), "[1.e+08 1.e+06]"},
      {"np.array([1e-4, 0], f4)", tensor({1e-4, 0.}), "[0.0001 0.    ]"},
      {"np.array([9e-5, 0], f4)", tensor({9e-5, 0.}), "[9.e-05 0.e+00]"},
      {"np.array([1, 1000], f4)", tensor({1., 1000.}), "[   1. 1000.]"},
      {"np.array([1, 1001], f4)", tensor({1., 1001.}), "[1.000e+00 1.001e+03]"},
  });
}

TEST(Print, Float64HasEightDigitsAfterThePoint) {
  expect_numpy({
      {"np.array([np.pi, 1/3, 2])", tensor({3.141592653589793, 1. / 3, 2.}, float64),
       "[3.14159265 0.33333333 2.        ]"},
      {"np.array([np.pi, 1/3, -1e-3])", tensor({3.141592653589793, 1. / 3, -1e-3}, float64),
       "[ 3.14159265e+00  3.33333333e-01 -1.00000000e-03]"},
  });
}

TEST(Print, SeveralAxes) {
  expect_numpy({
      {"np.array([[1, 2.5, 3], [-40, 5, 6]], f4)", tensor({{1., 2.5, 3.}, {-40., 5., 6.}}),
       "[[  1.    2.5   3. ]\n"
       " [-40.    5.    6. ]]"},
      {"np.arange(12, dtype=np.int32).reshape(2, 2, 3)", range(12, int32, {2, 2, 3}),
       "[[[ 0  1  2]\n"
       "  [ 3  4  5]]\n"
       "\n"
       " [[ 6  7  8]\n"
       "  [ 9 10 11]]]"},
      {"np.arange(6, dtype=np.int32).reshape(2, 3).T", transpose(range(6, int32, {2, 3})),
       "[[0 3]\n"
       " [1 4]\n"
       " [2 5]]"},
  });
}

TEST(Print, Empty) {
  expect_numpy({
      {"np.zeros(0, f4)", zeros({0}), "[]"},
      {"np.zeros((2, 0, 3), f4)", zeros({2, 0, 3}), "[]"},
  });
}

TEST(Print, LongLinesAreBroken) {
  expect_numpy({
      {"np.arange(30, dtype=f4) / 8", arange(0, 30, 1, float32) / 8,
       "[0.    0.125 0.25  0.375 0.5   0.625 0.75  0.875 1.    1.125 1.25  1.375\n"
       " 1.5   1.625 1.75  1.875 2.    2.125 2.25  2.375 2.5   2.625 2.75  2.875\n"
       " 3.    3.125 3.25  3.375 3.5   3.625]"},
      // The widest line that fits, of 74 columns, and a line that would be too wide.
      {"np.arange(50) % 10", remainder(arange(50), 10),
       "[0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n"
       " 7 8 9 0 1 2 3 4 5 6 7 8 9]"},
      {"np.arange(10, 60)", arange(10, 60),
       "[10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33\n"
       " 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57\n"
       " 58 59]"},
  });
}

TEST(Print, MoreThanAThousandElementsAreSummarised) {
  expect_numpy({
      {"np.arange(1001, dtype=np.int32)", range(1001, int32, {1001}), "[   0    1    2 ...  998  999 1000]"},
      {"np.arange(2000, dtype=f4).reshape(40, 50) / 4", range(2000, float32, {40, 50}) / 4,
       "[[0.0000e+00 2.5000e-01 5.0000e-01 ... 1.1750e+01 1.2000e+01 1.2250e+01]\n"
       " [1.2500e+01 1.2750e+01 1.3000e+01 ... 2.4250e+01 2.4500e+01 2.4750e+01]\n"
       " [2.5000e+01 2.5250e+01 2.5500e+01 ... 3.6750e+01 3.7000e+01 3.7250e+01]\n"
       " ...\n"
       " [4.6250e+02 4.6275e+02 4.6300e+02 ... 4.7425e+02 4.7450e+02 4.7475e+02]\n"
       " [4.7500e+02 4.7525e+02 4.7550e+02 ... 4.8675e+02 4.8700e+02 4.8725e+02]\n"
       " [4.8750e+02 4.8775e+02 4.8800e+02 ... 4.9925e+02 4.9950e+02 4.9975e+02]]"},
      // A short axis is printed completely. Elements that are left out do not influence the format.
      {"np.where(np.arange(1200) == 700, 30, 0).reshape(2, 600)", reshape(where(arange(1200) == 700, 30, 0), {2, 600}),
       "[[0 0 0 ... 0 0 0]\n"
       " [0 0 0 ... 0 0 0]]"},
  });
}

TEST(Print, ReadsOnlyShownElements) {
  const Tensor huge = broadcast_to(tensor({1, 2, 3, 4}), {Index(1) << 40, 4});
  EXPECT_EQ(huge.str(), "[[1 2 3 4]\n [1 2 3 4]\n [1 2 3 4]\n ...\n [1 2 3 4]\n [1 2 3 4]\n [1 2 3 4]]");
}

TEST(Print, ToAStream) {
  std::ostringstream out;
  out << "x = " << tensor({1, 2}) << "!";
  EXPECT_EQ(out.str(), "x = [1 2]!");
}

TEST(Print, AnEmptyTensorThrows) { EXPECT_THROW(Tensor().str(), TransformError); }

// ---- under transforms ---------------------------------------------------------------------------

struct CountOps : Handler {
  int count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

TEST(Print, PerformsNoOperations) {
  const Tensor x = transpose(range(6, float32, {2, 3})), large = range(4000, float32, {40, 100});
  CountOps count;
  with(count, [&] { return x.str() + large.str(); });
  EXPECT_EQ(count.count, 0);
}

TEST(Print, UnderGradTheValueIsShown) {
  std::string seen;
  const auto f = [&](const Tensor& x) {
    const Tensor y = x * x;
    seen = y.str();
    return sum(y);
  };
  EXPECT_EQ(grad(f)(tensor({1., 2., 3.})).str(), "[2. 4. 6.]");
  EXPECT_EQ(seen, "[1. 4. 9.]");
}

TEST(Print, AnotherThreadMayPrintAValueUnderGrad) {
  std::string seen;
  const auto f = [&](const Tensor& x) {
    std::thread([&] { seen = x.str(); }).join();
    return sum(x);
  };
  grad(f)(tensor({1., 2.}));
  EXPECT_EQ(seen, "[1. 2.]");
}

TEST(Print, UnderVmapAllLanesAreShown) {
  std::vector<std::string> seen;
  const auto f = [&](const Tensor& row) {
    seen.push_back(row.str());
    seen.push_back(sum(row).str());
    return row;
  };
  vmap(f)(tensor({{1., 2., 3.}, {4., 5., 6.}}));
  EXPECT_EQ(seen[0], "vmap lanes of [3] float32:\n[[1. 2. 3.]\n [4. 5. 6.]]");
  EXPECT_EQ(seen[1], "vmap lanes of [] float32: [ 6. 15.]");
}

TEST(Print, UnderNestedVmapLanesOfLanesAreShown) {
  std::string seen;
  const auto inner = [&](const Tensor& x) {
    seen = x.str();
    return x;
  };
  const auto outer = [&](const Tensor& row) { return vmap(inner)(row); };
  vmap(outer)(tensor({{1, 2}, {3, 4}}));
  EXPECT_EQ(seen, "vmap lanes of [] int32:\nvmap lanes of [2] int32:\n[[1 2]\n [3 4]]");
}

TEST(Print, ShapesDtypesAndDevices) {
  const Tensor x = zeros({2, 3}, float64);
  std::ostringstream out;
  out << x.shape() << " " << x.strides() << " " << tensor(1).shape() << " " << x.dtype() << " " << x.device();
  EXPECT_EQ(out.str(), "[2,3] [3,1] [] float64 cpu");
}

TEST(Print, EscapedValueThrows) {
  Tensor escaped;
  const auto f = [&](const Tensor& row) {
    escaped = row * 1;
    return row;
  };
  vmap(f)(tensor({{1., 2.}, {3., 4.}}));
  EXPECT_THROW(escaped.str(), TransformError);
}

}  // namespace
