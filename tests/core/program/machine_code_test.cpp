// Native code in compiled functions: with the bits of kernels, whole loops, groups, and errors.
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/core/program/loop.h>
#include <stave/core/program/native_estimate.h>
#include <stave/stave.h>

#include "machine_code.h"
#include "matchers.h"

namespace stave_test {
namespace {

using namespace stave;
using stave_detail::same_bits;

// Expects that machine code and kernels give the same bits, for all tensors of a result.
template <class F, class... Xs>
void expect_bits_of_kernels(F f, const Xs&... xs) {
  const auto native = tensors_of(replayed(compile(f, {.native = Native::required}), xs...));
  const auto kernels = tensors_of(replayed(compile(f, {.native = Native::never}), xs...));
  ASSERT_EQ(native.size(), kernels.size());
  for (std::size_t k = 0; k < native.size(); ++k)
    EXPECT_TRUE(same_bits(native[k], kernels[k])) << native[k] << " by machine code, " << kernels[k] << " by kernels";
}

// ---- reductions: the kernels' order -------------------------------------------------------------

// Numbers of both signs and of very different sizes, whose sum depends on the order.
Tensor uneven(const Shape& shape, Dtype dtype, std::uint64_t seed) {
  const auto [a, b] = split<2>(Key(seed));
  return astype(normal(a, shape, float64) * exp(8 * normal(b, shape, float64)), dtype);
}

TEST(MachineCode, ReducesInTheOrderOfTheKernels) {
  NEEDS_NATIVE_CODE();
  std::vector<Shape> shapes;
  for (Index n = 1; n <= 64; ++n) shapes.push_back({n});
  for (const Shape& shape : {Shape{2, 3},
                             {3, 17},
                             {4, 4},
                             {4, 16},
                             {16, 4},
                             {5, 12},
                             {12, 5},
                             {1, 30},
                             {30, 1},
                             {3, 21},
                             {21, 3},
                             {8, 8},
                             {2, 32},
                             {32, 2},
                             {2, 3, 4},
                             {4, 2, 8},
                             {3, 1, 5},
                             {2, 2, 2, 2},
                             {4, 4, 4}})
    shapes.push_back(shape);
  std::uint64_t seed = 0;
  for (const Dtype dtype : {float64, float32})
    for (const Shape& shape : shapes) {
      const Tensor x = uneven(shape, dtype, ++seed);
      const auto rank = static_cast<unsigned>(shape.size());
      for (unsigned mask = 1; mask < 1u << rank; ++mask) {
        std::vector<int> axes;
        for (unsigned axis = 0; axis < rank; ++axis)
          if (mask >> axis & 1) axes.push_back(static_cast<int>(axis));
        SCOPED_TRACE(::testing::Message() << dtype << " " << shape << " mask " << mask);
        expect_bits_of_kernels([&](const Tensor& v) { return sum(v, axes); }, x);
        expect_bits_of_kernels([&](const Tensor& v) { return sum(v * v - 0.5 * v, axes); }, x);
        expect_bits_of_kernels([&](const Tensor& v) { return sum(transpose(v), axes); }, x);
        expect_bits_of_kernels([&](const Tensor& v) { return prod(v, axes); }, x);
        expect_bits_of_kernels([&](const Tensor& v) { return max(flip(v), axes) + min(v, axes); }, x);
      }
    }
}

TEST(MachineCode, ReducesInputsThatAreNotRowMajor) {
  NEEDS_NATIVE_CODE();
  const Tensor x = uneven({6, 10}, float64, 1);
  for (const Tensor& view :
       {transpose(x), x(slice(0, 6, 2)), x(slice(), slice(1, 9, 3)), broadcast_to(x(2), {4, 10})}) {
    expect_bits_of_kernels([](const Tensor& v) { return sum(v, 0); }, view);
    expect_bits_of_kernels([](const Tensor& v) { return sum(v); }, view);
    expect_bits_of_kernels([](const Tensor& v) { return prod(v); }, view);
    expect_bits_of_kernels([](const Tensor& v) { return prod(v, 1); }, view);
    expect_bits_of_kernels([](const Tensor& v) { return v * 2; }, view);
  }
}

TEST(MachineCode, LeavesInputsWithNegativeStridesToKernels) {
  NEEDS_NATIVE_CODE();
  const Tensor x = flip(arange(5.0));
  const auto f = [](const Tensor& v) { return v * 2 + 1; };
  EXPECT_THAT(replayed(compile(f), x), Equals(f(x)));
  EXPECT_THROW(replayed(compile(f, {.native = Native::required}), x), TransformError);
}

// ---- whole programs -----------------------------------------------------------------------------

TEST(MachineCode, RunsLoopsWithTheirDerivatives) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor end = loop(20, [&](const Tensor& s) { return tanh(matmul(w, s)) + 0.1 * s; })(x);
    return sum(end * end);
  };
  const Tensor x = normal(Key(1), {4}, float64), w = normal(Key(2), {4, 4}, float64);
  expect_bits_of_kernels(f, x, w);
  expect_bits_of_kernels(grad<0, 1>(f), x, w);
  expect_bits_of_kernels(vmap(grad(f), {.in_axes = {0, unmapped}}), normal(Key(3), {5, 4}, float64), w);
}

// The 700 parameters are read in slices. If two of them overlap, the sums of the cotangents are
// changed in place in each step, and else after the loop.
TEST(MachineCode, RunsLoopsWhoseParametersAreLarge) {
  NEEDS_NATIVE_CODE();
  const Tensor parameters = uneven({10, 70}, float64, 5) / 1e4, start = uneven({7}, float64, 6) / 1e4;
  for (const Index column : {30, 14}) {
    const auto last = [column](const Tensor& w, const Tensor& s) {
      return sum(loop(5, [w, column](const Tensor& state) {
        const Tensor rows = reshape(w(3), {10, 7}), inner = w(slice(2, 9), slice(column, column + 7));
        return tanh(state * rows(2) + rows(9) * w(0, slice(0, 7)) + sum(inner, 1) * w(7, slice(7)));
      })(s));
    };
    expect_bits_of_kernels(grad(last), parameters, start);
    expect_bits_of_kernels(grad<0, 1>(last), parameters, start);
  }
}

// Kernels spend most of their time on the arrays themselves there, of which a region has a hundred.
TEST(MachineCode, PaysForLoopsOfManySmallArrays) {
  using Tensors = std::vector<Tensor>;
  // A diagonal LSTM of six layers, each with a hidden state, a cell and eight vectors of weights.
  const auto loss = [](const Tensors& weights, const Tensor& start, const Tensor& xs) {
    const auto step = [=](const Tensor& state, const Tensor& input) {
      Tensor x = input;
      Tensors next;
      for (std::size_t k = 0; k < 12; k += 2) {
        const Tensor* const w = &weights[4 * k];
        const Tensor hidden = state(static_cast<Index>(k)), cell = state(static_cast<Index>(k + 1));
        const Tensor forget = sigmoid(x * w[0] + w[1]), in = sigmoid(hidden * w[2] + w[3]);
        next.push_back(sigmoid(x * w[4] + w[5]));
        next.push_back(cell * forget + in * tanh(hidden * w[6] + w[7]));
        x = next[k] = next[k] * tanh(next[k + 1]);
      }
      return std::pair(stack(next), x);
    };
    return sum(square(scan(step)(start, xs).second));
  };
  Tensors weights;
  for (std::uint64_t k = 0; k < 48; ++k) weights.push_back(normal(Key(k), {14}, float64));
  const Tensor start = normal(Key(100), {12, 14}, float64), xs = normal(Key(101), {100, 14}, float64);
  const Program p = optimized(with_calls_inlined(trace(grad(loss))(weights, start, xs)));
  std::size_t loops = 0;
  for (const Program::Instruction& step : p.instructions) {
    if (!stave_detail::loop_of(step)) continue;
    const std::optional<stave_detail::Estimate> time = stave_detail::estimate(p, step);
    ASSERT_TRUE(time);
    EXPECT_LT(time->native, time->kernels);
    ++loops;
  }
  EXPECT_EQ(loops, 2u);
}

TEST(MachineCode, RunsTheMatricesOfAFilter) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& p, const Tensor& z) {
    const Tensor h = eye(4, float64)(slice(0, 2)), s = matmul(matmul(h, p), transpose(h)) + 0.1 * eye(2, float64);
    const Tensor k = transpose(solve(s, matmul(h, p)));
    return concat({matmul(k, z), sum(matmul(eye(4, float64) - matmul(k, h), p), 1)});
  };
  const Tensor a = normal(Key(4), {4, 4}, float64), p = matmul(a, transpose(a)) + eye(4, float64);
  expect_bits_of_kernels(f, p, normal(Key(5), {2}, float64));
}

// ---- groups beside kernels ----------------------------------------------------------------------

TEST(MachineCode, GroupsOfMachineCodeAlternateWithKernels) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& x, const Tensor& a) {
    const Tensor mean = sum(x) / 1000, b = a * mean + sin(a);       // a kernel, then a group
    const Tensor y = x * sum(b) + mean;                             // a kernel
    return sum(y * y) + max(b) + sum(y(slice(10, 14)) * a) * b(1);  // both
  };
  const Tensor x = normal(Key(6), {1000}, float64), a = normal(Key(7), {4}, float64);
  for (const Native native : {Native::automatic, Native::never})
    EXPECT_THAT(replayed(compile(f, {.native = native}), x, a), Equals(f(x, a)));
  const auto derivative = grad<0, 1>(f);
  const auto [dx, da] = replayed(compile(derivative), x, a);
  const auto [dx_plain, da_plain] = replayed(compile(derivative, {.native = Native::never}), x, a);
  EXPECT_TRUE(same_bits(dx, dx_plain));
  EXPECT_TRUE(same_bits(da, da_plain));
}

TEST(MachineCode, RequiredNamesTheOperationWithoutMachineCode) {
  NEEDS_NATIVE_CODE();
  const auto f = compile([](const Tensor& x) { return eigh(matmul(x, x)).first; }, {.native = Native::required});
  try {
    replayed(f, eye(3, float64));
    FAIL() << "it does not throw";
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("eigh"));
  }
}

// ---- errors, threads ----------------------------------------------------------------------------

TEST(MachineCode, ThrowsTheErrorsOfTheOperations) {
  NEEDS_NATIVE_CODE();
  const auto f =
      compile([](const Tensor& a, const Tensor& b) { return solve(a, b) + 1; }, {.native = Native::required});
  const Tensor b = ones({2}, float64);
  EXPECT_THAT(replayed(f, eye(2, float64), b), Equals(tensor({2.0, 2.0}, float64)));
  std::string expected;
  try {
    solve(zeros({2, 2}, float64), b);
  } catch (const Error& error) {
    expected = error.what();
  }
  ASSERT_NE(expected, "");
  for (int k = 0; k < 2; ++k) {
    try {
      f(zeros({2, 2}, float64), b);
      ADD_FAILURE() << "it does not throw";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(expected));
    }
  }
  const auto pick = compile([](const Tensor& x, const Tensor& i) { return dynamic_slice(x, {i}, {2}) * 2; },
                            {.native = Native::required});
  EXPECT_THAT(replayed(pick, arange(5.0), tensor(3)), Equals(tensor({6.0, 8.0})));
  EXPECT_THROW(pick(arange(5.0), tensor(4)), IndexError);
}

// Code that pays only after many runs is made then, while other threads run the kernels.
TEST(MachineCode, ReplacesKernelsAfterManyRuns) {
  const auto f = [](const Tensor& x) { return sum(x * sin(x)) + x(0) * x(1) - max(x); };
  const auto compiled = compile(f);
  const Tensor start = arange(6.0);
  replayed(compiled, start);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int k = 0; k < 3; ++k)
    threads.emplace_back([&, k] {
      const Tensor x = start + k, expected = f(x);
      for (int i = 0; i < 3000; ++i) wrong += !same_bits(compiled(x), expected);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MachineCodeDeathTest, ExplanationsSayWhatIsMachineCode) {
  // compile reads this once in a process; each death test starts a process that begins here.
  setenv("STAVE_EXPLAIN", "1", 1);
  NEEDS_NATIVE_CODE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto explain = [](const auto& f, Native native, const Tensor& x) {
    replayed(compile(f, {.name = "ik", .native = native}), x);
    std::exit(0);
  };
  const auto wave = [](const Tensor& x) { return sin(x) * x; };
  const auto loop_of_waves = [&](const Tensor& x) { return loop(1000, wave)(x); };
  const auto is = [](const char* line) { return std::string("stave: compile\\(ik\\): ") + line + "\n"; };
  const testing::ExitedWithCode succeeds(0);
  EXPECT_EXIT(explain(wave, Native::required, tensor(1.)), succeeds, is("machine code of an operation"));
  EXPECT_EXIT(explain(loop_of_waves, Native::automatic, tensor(1.)), succeeds, is("machine code of an operation"));
  if (native_setting() == "check") return;  // whether or not it pays
  EXPECT_EXIT(explain([](const Tensor& x) { return matmul(x, x) * x; }, Native::automatic, ones({3, 3})), succeeds,
              is("machine code of 2 operations pays after [0-9]+ calls, and is made then"));
}

TEST(MachineCode, RunsInSeveralThreads) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& x) { return sum(loop(200, [](const Tensor& s) { return s + 0.01 * sin(s); })(x)); };
  const auto compiled = compile(f, {.native = Native::required});
  replayed(compiled, zeros({3}, float64));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      const Tensor x = full({3}, 0.1 + k, float64), expected = f(x);
      for (int i = 0; i < 100; ++i) wrong += !same_bits(compiled(x), expected);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace stave_test
