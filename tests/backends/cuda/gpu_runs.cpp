// Tests the CUDA backend on a GPU, for behaviour that execution on the host cannot show.
// Skipped with a message if there is no GPU.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <complex>
#include <thread>

#include <stave/backends/cuda/runtime.h>
#include <stave/stave.h>

#include "cuda/random_regions.h"

namespace {

using namespace stave;
using namespace stave_test;
using stave_cuda::NoWaiting;

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "no CUDA device can be used here: " << stave_cuda::why_none();
  }
  const Device gpu = cuda(0);
};

TEST_F(Gpu, TransfersOfEverySize) {
  for (Index n : {1, 3, 1000, 4096, 4097, 100000, 1 << 20, (1 << 20) + 1, 10000001}) {
    const Tensor x = arange(0, n, 1, int32), there = to(x, gpu);
    EXPECT_TRUE(array_equal(to(there, cpu), x)) << n;
    EXPECT_TRUE(array_equal(to(flip(there), cpu), flip(x))) << n;
  }
}

TEST_F(Gpu, ManySmallWritesInARowArriveInOrder) {
  std::vector<Tensor> written;
  for (int i = 0; i < 1000; ++i) written.push_back(from(std::vector{i, i + 1}, gpu));
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(written[static_cast<std::size_t>(i)].to_vector<std::int32_t>(), (std::vector{i, i + 1}));
}

TEST_F(Gpu, DoesNotWaitUntilAValueIsRead) {
  const Tensor x = to(uniform(Key(0), {64, 64}), gpu), w = to(uniform(Key(1), {64, 64}), gpu);
  const auto loss = [](const Tensor& v, const Tensor& y) {
    return mean(square(tanh(matmul(y, v)) - softmax(sort(cumulative_sum(y, 0), 1), -1)) + 1);
  };
  Tensor g = grad(loss)(w, x);  // loads kernels and libraries
  synchronize(gpu);
  {
    const NoWaiting none;
    for (int i = 0; i < 10; ++i) g = grad(loss)(w, x) + g * 0.5;
    g = g + uniform(Key(2, gpu), {64, 64});
    EXPECT_THROW(static_cast<void>(g(0, 0).item<float>()), Error);
    EXPECT_THROW(synchronize(gpu), Error);
  }
  EXPECT_TRUE(static_cast<bool>(all(isfinite(g))));
}

TEST_F(Gpu, WritesOfAnySizeDoNotWait) {
  // Loads the necessary kernels.
  const Tensor host = arange(0, 10'000'001, 1, int32), numbers = to(host, gpu);
  EXPECT_TRUE(array_equal(to(numbers, cpu), host));
  Tensor x = ones({1 << 24}, float32, gpu), written;
  std::vector<Tensor> small;
  {
    const NoWaiting none;
    for (int i = 0; i < 300; ++i) x = x * 1.5 - x * 0.5;  // keeps the queue busy
    written = to(host, gpu);
    for (int i = 0; i < 300; ++i) small.push_back(from(std::vector{i}, gpu));
  }
  EXPECT_TRUE(array_equal(to(written, cpu), host));
  for (int i = 0; i < 300; ++i) EXPECT_EQ(small[static_cast<std::size_t>(i)].item<std::int32_t>(), i);
  EXPECT_TRUE(static_cast<bool>(all(x == 1)));
}

TEST_F(Gpu, NumberOperandTakesNoMemory) {
  const Tensor x = to(tensor({1., 2., 3.}), gpu);
  const std::size_t before = memory_stats(gpu).live_bytes;
  const Tensor y = 2 - x * 3;
  EXPECT_LE(memory_stats(gpu).live_bytes, before + 3 * sizeof(float));
  EXPECT_EQ(y.to_vector<float>(), (std::vector{-1.f, -4.f, -7.f}));
}

TEST_F(Gpu, ConstantTakesNoMemoryUntilAKernelReadsIt) {
  const Tensor x = to(arange(0., 1000.), gpu);
  const std::size_t before = memory_stats(gpu).live_bytes, each = 4000;
  const auto [y, dy] = jvp([](const Tensor& v) { return 3. * v + where(v > 10., 2., v); }, x, x);
  EXPECT_EQ(memory_stats(gpu).live_bytes, before + 2 * each);
  const Tensor host = to(x, cpu);
  EXPECT_TRUE(array_equal(to(y, cpu), 3. * host + where(host > 10., 2., host)));
  EXPECT_TRUE(array_equal(to(dy, cpu), 3. * host + where(host > 10., 0., host)));
  const Tensor rate = tensor(0.5, float64, gpu), row = broadcast_to(rate, {1000});
  EXPECT_EQ((sum(row) + rate).item<double>(), 500.5);
  EXPECT_EQ(matmul(row, row).item<double>(), 250);
  EXPECT_EQ(row.to_vector<double>(), std::vector<double>(1000, 0.5));
}

// Two custom operations: one copies on the given stream, one has no kernel for devices.
TEST_F(Gpu, RunsUserDefinedOperations) {
  Op op{
      .name = "copied",
      .infer = [](const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); },
      .derivative = Derivative::linear,
      .vjp = [](const VjpContext& c, int) { return c.ct(); },
      .batch = batch_elementwise,
      .cpu = [](const Attributes*, std::span<const View>, std::span<const View>) {}};
  const Op on_cpu = define_op(op);
  op.cuda = [](void* stream, const Attributes*, std::span<const View> in, std::span<const View> out) {
    std::size_t bytes = size_of(in[0].dtype);
    for (const Index length : in[0].shape) bytes *= static_cast<std::size_t>(length);
    cudaMemcpyAsync(out[0].data, in[0].data, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
  };
  const Op copied = define_op(op);
  const Tensor x = uniform(Key(3), {300, 200}), there = to(x, gpu);
  EXPECT_TRUE(array_equal(to(apply(copied, {permute_dims(sin(there), {1, 0})}), cpu),
                          to(permute_dims(sin(there), {1, 0}), cpu)));
  EXPECT_NO_THROW(check_op(copied, {{.inputs = {there}}, {.inputs = {tensor(2., float64, gpu)}}}));
  EXPECT_THROW(apply(on_cpu, {there}), DeviceError);
}

// From the fourth call on, compiled programs run as CUDA graphs.
TEST_F(Gpu, CompiledProgramsEqualTheirFunctions) {
  const auto step = [](const Tensor& w, const Tensor& x) {
    const auto loss = [&](const Tensor& v) {
      return mean(square(tanh(matmul(x, v)) - softmax(cumulative_sum(x, 0), -1)));
    };
    return w - 0.1 * grad(loss)(w);
  };
  const Tensor x = to(uniform(Key(0), {64, 64}), gpu), start = to(uniform(Key(1), {64, 64}), gpu);
  const auto compiled = compile(step);
  Tensor w = start, replayed = start;
  for (int i = 0; i < 10; ++i) {
    w = step(w, x);
    replayed = compiled(replayed, x);
  }
  EXPECT_TRUE(array_equal(to(replayed, cpu), to(w, cpu)));
  {
    const NoWaiting none;
    for (int i = 0; i < 10; ++i) replayed = compiled(replayed, x);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Tensor mine = start * t, plain = start * t;
      for (int i = 0; i < 50; ++i) {
        mine = compiled(mine, x);
        plain = step(plain, x);
      }
      EXPECT_TRUE(array_equal(to(mine, cpu), to(plain, cpu)));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Gpu, CompiledProgramsReportIndicesOutOfRangeEachTime) {
  const auto f = compile([](const Tensor& a, const Tensor& at) { return take(a * 2., at, 0) + 1.; });
  const Tensor a = to(arange(3.), gpu), good = to(tensor({0, 2}), gpu), bad = to(tensor({0, 7}), gpu);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(array_equal(to(f(a, good), cpu), tensor({1., 5.})));
    EXPECT_THROW(f(a, bad).to_vector<float>(), IndexError);
  }
}

TEST_F(Gpu, ForkedChildGetsAnErrorForDevices) {
  const Tensor x = ones({3}, float32, gpu);
  synchronize(gpu);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool told = !cuda_available();
    try {
      static_cast<void>(x + x);
      told = false;
    } catch (const DeviceError& error) {
      told &= std::string(error.what()).find("this process is a child of fork()") != std::string::npos;
    }
    _exit(told ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(sum(x).item<float>(), 3);
}

Tensor complex_numbers(std::uint64_t seed, const Shape& shape, Dtype dtype) {
  const Dtype parts = real_of(dtype);
  return stave::complex(normal(Key(seed), shape, parts), normal(Key(seed + 100), shape, parts));
}

TEST_F(Gpu, LinearAlgebraEqualsTheCpuForSmallAndLargeMatrices) {
  for (const Dtype dtype : {float32, float64, complex64, complex128})
    for (const Shape& shape : {Shape{3, 3}, {1000, 3, 3}, {7, 32, 32}, {5, 33, 33}, {2, 400, 400}}) {
      const double bound = real_of(dtype) == float64 ? 1e-9 : 3e-3;
      const Index n = shape.back();
      const Tensor x = is_complex(dtype) ? complex_numbers(1, shape, dtype) : normal(Key(1), shape, dtype);
      const Tensor hermitian = (x + conj_transpose(x)) / 2;
      const Tensor a = matmul(x, conj_transpose(x)) / static_cast<double>(n) + eye(n, dtype), b = sum(x, -1, keepdims);
      const auto close = [&](const Tensor& got, const Tensor& expected, const char* what) {
        EXPECT_TRUE(allclose(to(got, cpu), expected, bound, bound)) << what << " " << shape.str() << name_of(dtype);
      };
      const auto same = [&](auto f, const Tensor& of, const char* what) { close(f(to(of, gpu)), f(of), what); };
      same([](const Tensor& y) { return cholesky(y); }, a, "cholesky");
      same([&](const Tensor& y) { return solve(y, to(b, y.device())); }, a, "solve");
      same([&](const Tensor& y) { return triangular_solve(y, to(b, y.device()), {.transpose = true}); }, a,
           "triangular_solve");
      same([](const Tensor& y) { return slogdet(y).first; }, x, "the sign of det");
      same([](const Tensor& y) { return slogdet(y).second; }, a, "slogdet");
      same([](const Tensor& y) { return abs(qr(y).second); }, a, "qr");
      same([](const Tensor& y) { return eigvalsh(y); }, hermitian, "eigvalsh");
      same([](const Tensor& y) { return svdvals(y); }, x, "svdvals");
      same([](const Tensor& y) { return expm(y / 100); }, x, "expm");
      same([&](const Tensor& y) { return lstsq(y(ellipsis, slice(0, 2)), to(b, y.device())); }, x, "lstsq");
      const auto [w, v] = eigh(to(hermitian, gpu));
      close(matmul(v * expand_dims(w, -2), conj_transpose(v)), hermitian, "eigh");
      for (const Tensor& y : {x, x(ellipsis, slice(0, 2)), x(ellipsis, slice(0, 2), slice())}) {
        const auto [u, s, vh] = svd(to(y, gpu), {.full_matrices = false});
        close(matmul(u * expand_dims(s, -2), vh), y, "svd");
        const auto [q, r] = qr(to(y, gpu));
        close(matmul(q, r), y, "q r");
      }
    }
}

TEST_F(Gpu, DerivativesOfComplexFactorizationsEqualTheCpu) {
  for (const Shape& shape : {Shape{4, 4}, {3, 40, 40}}) {
    const Tensor x = complex_numbers(2, shape, complex128);
    const auto same = [&](const char* what, auto f) {
      const auto loss = [&](const Tensor& y) { return sum(square(real(f(y)))); };
      EXPECT_TRUE(allclose(to(grad(loss)(to(x, gpu)), cpu), grad(loss)(x), 1e-7, 1e-7)) << what << shape.str();
    };
    const double n = static_cast<double>(shape.back());
    same("cholesky", [&](const Tensor& y) {
      return cholesky(matmul(y, conj_transpose(y)) + eye(shape.back(), complex128, y.device()));
    });
    same("solve", [&](const Tensor& y) { return solve(y + n * eye(shape.back(), complex128, y.device()), y); });
    same("eigvalsh", [](const Tensor& y) { return eigvalsh(y); });
    same("svdvals", [](const Tensor& y) { return svdvals(y); });
    same("slogdet", [](const Tensor& y) { return slogdet(y).second; });
  }
}

TEST_F(Gpu, AttentionAndItsGradientEqualTheCpu) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const bool causal : {false, true}) {
      const double bound = dtype == float64 ? 1e-11 : dtype == float32 ? 1e-4 : dtype == float16 ? 1e-2 : 6e-2;
      const Tensor q = normal(Key(1), {2, 3, 300, 64}, dtype), k = normal(Key(2), {2, 1, 190, 64}, dtype),
                   v = normal(Key(3), {2, 3, 190, 130}, dtype), mask = uniform(Key(4), {300, 190}) < 0.8;
      const auto loss = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
        const Tensor out = scaled_dot_product_attention(x, y, z, {.mask = to(mask, x.device()), .causal = causal});
        return sum(sin(astype(out, promote(dtype, float32))));
      };
      const auto close = [&](const Tensor& got, const Tensor& expected, const char* what) {
        EXPECT_TRUE(allclose(astype(to(got, cpu), float64), astype(expected, float64), bound, bound))
            << what << name_of(dtype);
      };
      const Tensor q1 = to(q, gpu), k1 = to(k, gpu), v1 = to(v, gpu);
      close(scaled_dot_product_attention(q1, k1, v1), scaled_dot_product_attention(q, k, v), "means");
      close(grad<0>(loss)(q1, k1, v1), grad<0>(loss)(q, k, v), "of q");
      close(grad<1>(loss)(q1, k1, v1), grad<1>(loss)(q, k, v), "of k");
      close(grad<2>(loss)(q1, k1, v1), grad<2>(loss)(q, k, v), "of v");
    }
}

TEST_F(Gpu, MatrixErrorIsThrownAtTheNextRead) {
  for (const auto& [n, dtype] : {std::pair<Index, Dtype>{3, float32}, {40, float32}, {3, complex64}, {40, complex64}}) {
    const Tensor good = eye(n, dtype), matrices = to(stack({good, good, -good, -good}), gpu);
    Tensor l = cholesky(matrices);
    {
      const NoWaiting none;
      l = cholesky(matrices);
    }
    try {
      real(l).to_vector<float>();
      FAIL();
    } catch (const LinalgError& error) {
      EXPECT_EQ(std::string(error.what()).find("cholesky: matrix [2] of the stack [4] is not positive definite"), 0u);
    }
    // The error is reported only once.
    EXPECT_TRUE(static_cast<bool>(all(isfinite(cholesky(to(good, gpu))))));
    EXPECT_TRUE(static_cast<bool>(all(isnan(cholesky(matrices, {.nan_if_indefinite = true})[3]))));
  }
}

TEST_F(Gpu, IndexOutOfRangeIsThrownAtTheNextRead) {
  const Tensor x = to(arange(5), gpu);
  const Tensor taken = take(x, to(tensor({0, 7}), gpu));
  try {
    taken.to_vector<std::int32_t>();
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_EQ(std::string(error.what()).find("gather: index 7 is out of range for axis 0 with size 5"), 0u);
  }
  // The error is reported only once.
  EXPECT_EQ(take(x, to(tensor({1, -1}), gpu)).to_vector<std::int32_t>(), (std::vector{1, 4}));
  static_cast<void>(dynamic_slice(x, {3}, {4}));
  EXPECT_THROW(synchronize(gpu), IndexError);
  EXPECT_NO_THROW(synchronize(gpu));
}

TEST_F(Gpu, MemoryIsReusedWhileKernelsStillReadIt) {
  const Tensor x = ones({1 << 22}, float32, gpu);
  Tensor sum = x;
  // Temporaries are freed before the kernels that read them have run.
  for (int i = 0; i < 200; ++i) sum = sum + x * 2 - x;
  EXPECT_TRUE(static_cast<bool>(all(sum == 201)));
}

TEST_F(Gpu, MemoryIsCountedAndReleased) {
  release_cached_memory(gpu);
  const std::size_t before = memory_stats(gpu).live_bytes;
  {
    const Tensor x = zeros({1 << 20}, float32, gpu);
    EXPECT_EQ(memory_stats(gpu).live_bytes, before + (4 << 20));
  }
  EXPECT_EQ(memory_stats(gpu).live_bytes, before);
  EXPECT_GE(memory_stats(gpu).cached_bytes, std::size_t{4 << 20});
  release_cached_memory(gpu);
  EXPECT_EQ(memory_stats(gpu).cached_bytes, 0u);
}

TEST_F(Gpu, TooMuchMemoryIsAClearError) {
  const Tensor kept = ones({1000}, float32, gpu);
  EXPECT_THROW(zeros({Index{1} << 43}, float32, gpu), DeviceError);
  try {
    zeros({Index{1} << 43}, float32, gpu);
  } catch (const DeviceError& error) {
    EXPECT_EQ(std::string(error.what())
                  .find("zeros: cuda:0: out of memory: 32768.0 GiB (35184372088832 bytes) are requested"),
              0u)
        << error.what();
  }
  EXPECT_EQ(sum(kept).item<float>(), 1000);
}

TEST_F(Gpu, ThreadsShareADevice) {
  const auto work = [&](int seed) {
    Tensor x = full({1000}, seed, float32, gpu);
    for (int i = 0; i < 200; ++i) x = x + seed;
    EXPECT_TRUE(static_cast<bool>(all(x == 201 * seed)));
    for (int i = 0; i < 50; ++i) EXPECT_EQ((x + i)(3).item<float>(), static_cast<float>(201 * seed + i));
  };
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Gpu, MatmulInEveryLayoutEqualsTheCpu) {
  const Key key(3);
  const Tensor a = uniform(fold_in(key, 0), {3, 33, 65}, -1, 1, float64),
               b = uniform(fold_in(key, 1), {3, 65, 40}, -1, 1, float64);
  const std::vector<Tensor> lefts = {a,
                                     matrix_transpose(contiguous(matrix_transpose(a))),
                                     flip(a, 1),
                                     flip(a, 0),
                                     broadcast_to(a[0], {3, 33, 65}),
                                     broadcast_to(a(ellipsis, slice(0, 1)), {3, 33, 65})};
  const std::vector<Tensor> rights = {b, matrix_transpose(contiguous(matrix_transpose(b))), flip(b, 2),
                                      broadcast_to(b[1], {3, 65, 40})};
  for (const Tensor& left : lefts)
    for (const Tensor& right : rights) {
      const Tensor expected = matmul(left, right);
      // Dense on the device, except for broadcast operands.
      const auto there = [&](const Tensor& x) { return to(x, gpu); };
      EXPECT_TRUE(allclose(to(matmul(there(left), there(right)), cpu), expected, 1e-12, 1e-12));
      EXPECT_TRUE(allclose(to(matmul(flip(there(flip(left, 1)), 1), flip(there(flip(right, 2)), 2)), cpu), expected,
                           1e-12, 1e-12));
      EXPECT_TRUE(allclose(
          to(matmul(matrix_transpose(there(matrix_transpose(left))), matrix_transpose(there(matrix_transpose(right)))),
             cpu),
          expected, 1e-12, 1e-12));
      EXPECT_TRUE(allclose(to(matmul(there(astype(left, float32)), there(astype(right, float32))), cpu),
                           astype(expected, float32), 1e-4, 1e-5));
    }
}

// Execution on the host cannot test the device's own conversion instructions.
template <class T>
void expect_conversions(const Device& gpu) {
  std::vector<T> every;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    every.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
  const Dtype dtype = dtype_of<T>();
  const Tensor x = from(every), wide = astype(x, float32);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return static_cast<bool>(all(logical_or(a == b, logical_and(isnan(a), isnan(b)))));
  };
  EXPECT_TRUE(same(to(astype(to(x, gpu), float32), cpu), wide)) << name_of(dtype);
  for (const double factor : {1., 1 + 0x1p-12, 1 - 0x1p-12, 1 + 0x1p-9, 1 + 0x1p-8, 0.75, 0x1p-13, 0x1p13}) {
    const Tensor y = wide * factor;
    EXPECT_TRUE(same(to(astype(to(y, gpu), dtype), cpu), astype(y, dtype))) << name_of(dtype) << " by " << factor;
  }
  for (const Dtype other : {int8, uint8, int16, uint16, int64, uint64})
    EXPECT_TRUE(array_equal(to(astype(to(x, gpu), other), cpu), astype(x, other)))
        << name_of(dtype) << " to " << name_of(other);
}
TEST_F(Gpu, FloatsOf16BitsConvertAsOnTheCpu) {
  expect_conversions<Float16>(gpu);
  expect_conversions<BFloat16>(gpu);
}

// Sums of so many ones that, if partial sums were rounded to the dtype, adding one more would have
// no effect.
TEST_F(Gpu, MatmulOf16BitsAccumulatesInFloat) {
  for (const Dtype dtype : {float16, bfloat16}) {
    EXPECT_EQ(matmul(ones({4, 8192}, dtype, gpu), ones({8192, 4}, dtype, gpu))(1, 2).item<float>(), 8192);
    const Tensor a = uniform(Key(1), {3, 33, 65}, -1, 1, dtype), b = uniform(Key(2), {3, 65, 40}, -1, 1, dtype);
    const Tensor expected = matmul(astype(a, float32), astype(b, float32));
    const Tensor got = astype(to(matmul(to(a, gpu), to(b, gpu)), cpu), float32);
    EXPECT_TRUE(allclose(got, expected, dtype == float16 ? 0x1p-10 : 0x1p-7, 1e-5)) << name_of(dtype);
  }
}

// TF32 would round the factors to 11 of their 24 bits. Every sum here is exact in float32.
TEST_F(Gpu, MatmulOfFloatsIsInFullPrecision) {
  const Tensor x = full({256, 256}, 1 + 0x1p-12, float32, gpu), y = full({256, 256}, 1 + 0x1p-23, float32, gpu);
  EXPECT_EQ(matmul(x, ones({256, 256}, float32, gpu))(0, 0).item<float>(), 256 + 0x1p-4);
  EXPECT_EQ(matmul(y, eye(256, 256, 0, float32, gpu))(0, 0).item<float>(), 1 + 0x1p-23);
}

// A region of exact steps gives the same bits as on the CPU: by the kernel that NVRTC compiles,
// or without NVRTC by the kernels of the steps.
TEST_F(Gpu, RegionsEqualTheirStepsBitForBit) {
  Random random(17);
  for (int round = 0; round < 40; ++round) {
    std::vector<Dtype> dtypes;
    for (Index n = pick(random, 1, 10); n > 0; --n) dtypes.push_back(one_of(random, every_dtype));
    const RegionPtr region = exact_region(random, dtypes, pick(random, 1, 30));
    const Shape shape = one_of<Shape>(random, {{}, {5}, {1001}, {33, 64}, {7, 1, 63}, {1000, 1000}});
    std::vector<Tensor> here, there;
    for (const Dtype dtype : dtypes) {
      const Tensor numbers = normal(Key(static_cast<std::uint64_t>(random())), shape) * 2;
      here.push_back(is_float(dtype)  ? astype(numbers, dtype)
                     : dtype == bool_ ? numbers > 0
                                      : astype(abs(numbers) * 20, dtype));
      there.push_back(to(here.back(), gpu));
      if (shape.rank() > 1 && pick(random, 0, 2) == 0)
        for (Tensor* x : {&here.back(), &there.back()}) *x = flip(*x, {0});
    }
    const Outputs expected = stave_detail::perform_steps(*region, here), got = fused(region, there);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const Tensor a = to(got[k], cpu), b = expected[k];
      ASSERT_TRUE(static_cast<bool>(all((a == b) | ((a != a) & (b != b))))) << region->str();
    }
  }
}

// ---- complex numbers and Fourier transforms ----------------------------------------------------

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  const double bound = real_of(expected.dtype()) == float64 ? 1e-12 : 2e-5;
  EXPECT_EQ(got.dtype(), expected.dtype()) << what;
  EXPECT_TRUE(allclose(to(got, cpu), expected, bound, bound)) << what << " of " << name_of(expected.dtype());
}

TEST_F(Gpu, ComplexFunctionsEqualTheCpu) {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"sqrt", [](const Tensor& z) { return sqrt(z); }},       {"rsqrt", [](const Tensor& z) { return rsqrt(z); }},
      {"square", [](const Tensor& z) { return square(z); }},   {"exp", [](const Tensor& z) { return exp(z); }},
      {"exp2", [](const Tensor& z) { return exp2(z); }},       {"expm1", [](const Tensor& z) { return expm1(z); }},
      {"log", [](const Tensor& z) { return log(z); }},         {"log2", [](const Tensor& z) { return log2(z); }},
      {"log10", [](const Tensor& z) { return log10(z); }},     {"log1p", [](const Tensor& z) { return log1p(z); }},
      {"sin", [](const Tensor& z) { return sin(z); }},         {"cos", [](const Tensor& z) { return cos(z); }},
      {"tan", [](const Tensor& z) { return tan(z); }},         {"asin", [](const Tensor& z) { return asin(z); }},
      {"acos", [](const Tensor& z) { return acos(z); }},       {"atan", [](const Tensor& z) { return atan(z); }},
      {"sinh", [](const Tensor& z) { return sinh(z); }},       {"cosh", [](const Tensor& z) { return cosh(z); }},
      {"tanh", [](const Tensor& z) { return tanh(z); }},       {"asinh", [](const Tensor& z) { return asinh(z); }},
      {"acosh", [](const Tensor& z) { return acosh(z); }},     {"atanh", [](const Tensor& z) { return atanh(z); }},
      {"sigmoid", [](const Tensor& z) { return sigmoid(z); }}, {"conj", [](const Tensor& z) { return conj(z); }},
      {"abs", [](const Tensor& z) { return abs(z); }},         {"real", [](const Tensor& z) { return real(z); }},
      {"imag", [](const Tensor& z) { return imag(z); }},
  };
  for (const Dtype dtype : {complex64, complex128}) {
    const Tensor z = complex_numbers(1, {70, 33}, dtype), there = to(z, gpu);
    for (const auto& [name, f] : functions) {
      expect_close(f(there), f(z), name);
      expect_close(f(flip(matrix_transpose(there), 0)), f(flip(matrix_transpose(z), 0)), name);
    }
    const Tensor w = complex_numbers(2, {33}, dtype), w_there = to(w, gpu);
    expect_close(there * w_there + there / w_there - w_there, z * w + z / w - w, "arithmetic");
    expect_close(pow(there, w_there), pow(z, w), "pow");
    EXPECT_TRUE(array_equal(to(there == w_there, cpu), z == w));
    EXPECT_TRUE(array_equal(to(astype(there, bool_), cpu), astype(z, bool_)));
    expect_close(astype(to(arange(5), gpu), dtype), astype(arange(5), dtype), "astype");
  }
}

TEST_F(Gpu, ComplexArraysAreMovedSummedAndMultiplied) {
  for (const Dtype dtype : {complex64, complex128}) {
    const Tensor z = complex_numbers(3, {40, 300}, dtype), there = to(z, gpu);
    const auto same = [&](auto f, const char* what) { expect_close(f(there), f(z), what); };
    same([](const Tensor& x) { return sum(x, 0); }, "sum");
    same([](const Tensor& x) { return mean(matrix_transpose(x), 0); }, "mean");
    same([](const Tensor& x) { return prod(x / abs(x), 1); }, "prod");
    same([](const Tensor& x) { return cumulative_sum(x, 1); }, "cumulative_sum");
    same([](const Tensor& x) { return cumulative_prod(x / abs(x), 1); }, "cumulative_prod");
    same([](const Tensor& x) { return linear_recurrence(x / abs(x) * 0.9, x, 1); }, "linear_recurrence");
    same([](const Tensor& x) { return contiguous(matrix_transpose(x)); }, "transpose");
    same([](const Tensor& x) { return concat({x, flip(x, 1)}, 0); }, "concat");
    same([](const Tensor& x) { return where(real(x) > 0, x, conj(x)); }, "where");
    same([](const Tensor& x) { return full_like(x, std::complex<double>(1, -2)) + x; }, "full");
    const Tensor rows = tensor({3, 1, 3, 39}), rows_there = to(rows, gpu);
    expect_close(take(there, rows_there, 0), take(z, rows, 0), "take");
    const auto loss = [](const Tensor& x, const Tensor& at) { return sum(square(abs(take(x, at, 0)))); };
    expect_close(grad<0>(loss)(there, rows_there), grad<0>(loss)(z, rows), "an add-scatter");
  }
}

TEST_F(Gpu, ComplexMatmulEqualsTheCpu) {
  for (const Dtype dtype : {complex64, complex128})
    for (const Shape& batch : {Shape{}, Shape{5}, Shape{2, 3}}) {
      Shape left = batch, right = batch;
      for (const Index n : {33, 65}) left.push_back(n);
      for (const Index n : {65, 40}) right.push_back(n);
      const Tensor a = complex_numbers(4, left, dtype), b = complex_numbers(5, right, dtype);
      const Tensor a1 = to(a, gpu), b1 = to(b, gpu);
      const double bound = dtype == complex128 ? 1e-11 : 1e-4;
      EXPECT_TRUE(allclose(to(matmul(a1, b1), cpu), matmul(a, b), bound, bound));
      EXPECT_TRUE(allclose(to(matmul(conj(matrix_transpose(b1)), matrix_transpose(a1)), cpu),
                           matmul(conj(matrix_transpose(b)), matrix_transpose(a)), bound, bound));
    }
  // Schur forms have no kernel for CUDA in any dtype.
  EXPECT_THROW(schur(to(astype(eye(3), complex64), gpu)), DeviceError);
}

TEST_F(Gpu, FourierTransformsEqualTheCpu) {
  for (const Dtype dtype : {float32, float64})
    for (const Shape& shape : {Shape{1}, Shape{8}, Shape{97}, Shape{5, 64}, Shape{20, 3, 20}, Shape{3, 1000}}) {
      const Tensor x = normal(Key(6), shape, dtype), there = to(x, gpu);
      const Tensor z = complex_numbers(7, shape, complex_of(dtype)), z_there = to(z, gpu);
      const double bound = dtype == float64 ? 1e-11 : 1e-4;
      for (int axis = 0; axis < shape.rank(); ++axis)
        for (const FftNorm norm : {FftNorm::backward, FftNorm::ortho}) {
          const FftOptions options{.axis = axis, .norm = norm};
          const auto same = [&](auto f, const Tensor& here, const Tensor& other, const char* what) {
            EXPECT_TRUE(allclose(to(f(other, options), cpu), f(here, options), bound, bound))
                << what << shape.str() << " axis " << axis << name_of(dtype);
          };
          same(fft, z, z_there, "fft");
          same(ifft, z, z_there, "ifft");
          same(rfft, x, there, "rfft");
          same(ihfft, x, there, "ihfft");
          if (shape[static_cast<std::size_t>(axis)] < 2) continue;
          same(irfft, z, z_there, "irfft");
          same(hfft, z, z_there, "hfft");
        }
      const auto loss = [](const Tensor& y) { return sum(square(abs(rfft(y)))); };
      EXPECT_TRUE(allclose(to(grad(loss)(there), cpu), grad(loss)(x), bound * 100, bound * 100));
    }
  // A program with a transform is replayed without a graph.
  const Tensor x = to(normal(Key(8), {4, 64}), gpu);
  const auto compiled = compile([](const Tensor& y) { return irfft(rfft(y) * 2.); });
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(allclose(to(compiled(x), cpu), to(2. * x, cpu), 1e-4, 1e-4));
}

}  // namespace
