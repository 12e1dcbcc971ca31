// Tests the driver of Fourier transforms over a simulated cuFFT, which computes sums by definition
// on the host, where the driver says that lines lie. Results are compared with the CPU backend's.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <numbers>
#include <set>
#include <vector>

#include <stave/backends/cuda/cufft.h>
#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/fft.h>
#include <stave/backends/cuda/graph_recording.h>
#include <stave/backends/cuda/layout.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/fft.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/backend.h>

#include "cuda/host_runtime.h"
#include "cuda/host_scratch.h"

// ---- the library -------------------------------------------------------------------------------

namespace {

using stave::Index;

struct FftJob {
  Index n = 0, lines = 0;
  Index in_stride = 0, in_step = 0, out_stride = 0, out_step = 0;
  cudaDataType in{}, out{};
  bool allocates = true;
  void* stream = nullptr;
  void* work = nullptr;
};
struct FftLibrary {
  int alive = 0, made = 0, executed = 0;
  std::vector<FftJob*> jobs;
  cufftResult makes = CUFFT_SUCCESS, executes = CUFFT_SUCCESS;
} library;
constexpr std::size_t work_bytes = 1000;
const auto the_stream = reinterpret_cast<cudaStream_t>(0x7);

FftJob& job_of(cufftHandle handle) { return *library.jobs[static_cast<std::size_t>(handle)]; }

/// Transforms lines of numbers of type T. As cuFFT does, a transform to real numbers writes over
/// its input, and reads the imaginary parts of elements that equal their own conjugates.
template <class T>
void transform(const FftJob& job, void* in, void* out, int direction) {
  using C = std::complex<T>;
  using Wide = std::complex<long double>;
  const bool from_real = job.in == CUDA_R_32F || job.in == CUDA_R_64F;
  const bool to_real = job.out == CUDA_R_32F || job.out == CUDA_R_64F;
  const Index half = job.n / 2 + 1;
  std::vector<Wide> roots;
  for (Index k = 0; k < job.n; ++k)
    roots.push_back(std::polar(1.L, static_cast<long double>(direction) * 2 * std::numbers::pi_v<long double> *
                                        static_cast<long double>(k) / static_cast<long double>(job.n)));
  for (Index line = 0; line < job.lines; ++line) {
    std::vector<Wide> x;
    for (Index j = 0; j < (to_real ? half : job.n); ++j) {
      const Index at = line * job.in_step + j * job.in_stride;
      if (from_real) {
        x.emplace_back(static_cast<T*>(in)[at]);
      } else {
        C& z = static_cast<C*>(in)[at];
        x.emplace_back(z.real(), z.imag());
        if (to_real) z = C(77, 77);
      }
    }
    for (Index j = half; to_real && j < job.n; ++j) x.push_back(std::conj(x[static_cast<std::size_t>(job.n - j)]));
    for (Index k = 0; k < (from_real ? half : job.n); ++k) {
      Wide sum = 0;
      for (Index j = 0; j < job.n; ++j)
        sum += x[static_cast<std::size_t>(j)] * roots[static_cast<std::size_t>(j * k % job.n)];
      const Index at = line * job.out_step + k * job.out_stride;
      // A wrong imaginary part of an element that must be real shows in the result.
      if (to_real) static_cast<T*>(out)[at] = static_cast<T>(sum.real() + sum.imag());
      else static_cast<C*>(out)[at] = C(static_cast<T>(sum.real()), static_cast<T>(sum.imag()));
    }
  }
}

cufftResult make_plan(cufftHandle handle, int rank, long long* n, long long* in_embed, long long in_stride,
                      long long in_step, cudaDataType in, long long* out_embed, long long out_stride,
                      long long out_step, cudaDataType out, long long batch, std::size_t* work,
                      cudaDataType execution) {
  if (library.makes != CUFFT_SUCCESS) return library.makes;
  FftJob& job = job_of(handle);
  EXPECT_FALSE(job.allocates);
  const bool is_double = in == CUDA_R_64F || in == CUDA_C_64F;
  EXPECT_EQ(execution, is_double ? CUDA_C_64F : CUDA_C_32F);
  if (rank != 1 || *n < 2 || !in_embed || !out_embed || in_stride < 1 || out_stride < 1 || in_step < 1 ||
      out_step < 1 || batch < 1)
    return CUFFT_INVALID_VALUE;
  job.n = *n;
  job.lines = batch;
  job.in_stride = in_stride, job.in_step = in_step, job.out_stride = out_stride, job.out_step = out_step;
  job.in = in, job.out = out;
  *work = work_bytes;
  ++library.made;
  return CUFFT_SUCCESS;
}

cufftResult execute(cufftHandle handle, void* in, void* out, int direction) {
  if (library.executes != CUFFT_SUCCESS) return library.executes;
  const FftJob& job = job_of(handle);
  EXPECT_EQ(job.stream, the_stream);
  EXPECT_NE(job.work, nullptr);
  ++library.executed;
  const bool from_real = job.in == CUDA_R_32F || job.in == CUDA_R_64F;
  const bool to_real = job.out == CUDA_R_32F || job.out == CUDA_R_64F;
  EXPECT_TRUE(!from_real || direction == CUFFT_FORWARD);
  EXPECT_TRUE(!to_real || direction == CUFFT_INVERSE);
  if (job.in == CUDA_R_64F || job.in == CUDA_C_64F) transform<double>(job, in, out, direction);
  else transform<float>(job, in, out, direction);
  return CUFFT_SUCCESS;
}

}  // namespace

extern "C" {
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t) {
  for (std::size_t i = 0; i < height; ++i) std::memset(static_cast<char*>(to) + i * pitch, value, width);
  return cudaSuccess;
}
}

namespace stave_cuda {

const CuFft& cufft() {
  static const CuFft functions{
      .Create =
          [](cufftHandle* handle) {
            ++library.alive;
            library.jobs.push_back(new FftJob);
            *handle = static_cast<cufftHandle>(library.jobs.size() - 1);
            return CUFFT_SUCCESS;
          },
      .Destroy =
          [](cufftHandle handle) {
            --library.alive;
            delete std::exchange(library.jobs[static_cast<std::size_t>(handle)], nullptr);
            return CUFFT_SUCCESS;
          },
      .SetAutoAllocation = [](cufftHandle handle,
                              int allocates) { return job_of(handle).allocates = allocates, CUFFT_SUCCESS; },
      .SetStream = [](cufftHandle handle,
                      cudaStream_t stream) { return job_of(handle).stream = stream, CUFFT_SUCCESS; },
      .SetWorkArea = [](cufftHandle handle, void* work) { return job_of(handle).work = work, CUFFT_SUCCESS; },
      .XtMakePlanMany = make_plan,
      .XtExec = execute,
  };
  return functions;
}
void check(cufftResult status, const char* what) {
  if (status != CUFFT_SUCCESS) throw stave::Error(what);
}

Recording* Recording::current() noexcept { return nullptr; }

// The CPU's kernels in place of the device's.

void run_copy(const Launch&, const stave::View& in, const stave::View& out) {
  stave::cpu_backend().run(stave::op_copy, nullptr, {&in, 1}, {&out, 1});
}
void copy_strided(const Launch&, Placed to, Placed from, std::span<const Index> shape, Index size) {
  Index count = 1;
  for (const Index length : shape) count *= length;
  for (Index i = 0; i < count; ++i) {
    Index rest = i, to_at = 0, from_at = 0;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      to_at += rest % shape[axis] * to.strides[axis];
      from_at += rest % shape[axis] * from.strides[axis];
    }
    std::memcpy(static_cast<char*>(to.data) + to_at * size, static_cast<char*>(from.data) + from_at * size,
                static_cast<std::size_t>(size));
  }
}
void run_elementwise(const Launch&, stave::OpId op, std::span<const stave::View> inputs, const stave::View& out) {
  stave::cpu_backend().run(record_of(op), nullptr, inputs, {&out, 1});
}
void run_astype(const Launch&, const stave::View& in, const stave::View& out) {
  const stave::DtypeAttributes dtype(out.dtype);
  stave::cpu_backend().run(stave::op_astype, &dtype, {&in, 1}, {&out, 1});
}

}  // namespace stave_cuda

// ---- tests -------------------------------------------------------------------------------------

namespace {

using namespace stave;
using stave_test::HostScratch;

/// Performs fft, rfft or irfft by the driver. `length` is that of the signal.
Tensor by_driver(const Op& op, const Tensor& x, int axis, Index length, bool inverse, double scale) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = &op == &op_rfft ? length / 2 + 1 : length;
  const bool is_to_real = &op == &op_irfft;
  const Dtype dtype = is_to_real ? real_of(x.dtype()) : complex_of(x.dtype());
  const Tensor out = is_to_real ? full(shape, 99, dtype) : astype(full(shape, 99, real_of(dtype)), dtype);
  HostScratch scratch;
  const stave_cuda::Launch launch{the_stream, 1, scratch, nullptr, 1};
  const auto attributes = make_intrusive<FftAttributes>(axis, length, inverse, scale);
  stave_cuda::run_fft(launch, *attributes, x.node().view(), out.node().view());
  return out;
}
Tensor by_cpu(const Op& op, const Tensor& x, int axis, Index length, bool inverse, double scale) {
  return apply(op, {x}, make_intrusive<FftAttributes>(axis, length, inverse, scale));
}

Tensor numbers(const Shape& shape, Dtype dtype) {
  if (!is_complex(dtype)) return normal(Key(1), shape, dtype);
  return stave::complex(normal(Key(1), shape, real_of(dtype)), normal(Key(2), shape, real_of(dtype)));
}

/// Views of the same elements in other layouts.
std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> all = {x, flip(x, -1), contiguous(repeat(x, 2, -1))(ellipsis, slice(none, none, 2))};
  if (x.rank() > 1) {
    all.push_back(moveaxis(contiguous(moveaxis(x, 0, -1)), -1, 0));
    all.push_back(flip(x, 0));
    all.push_back(broadcast_to(x(slice(0, 1)), x.shape()));
  }
  if (x.rank() > 2) all.push_back(moveaxis(contiguous(moveaxis(x, 0, 1)), 1, 0));
  return all;
}

void check_transforms(const Shape& shape, Dtype parts) {
  const double tolerance = parts == float32 ? 2e-5 : 1e-13;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Index n = shape[static_cast<std::size_t>(axis)];
    for (const bool inverse : {false, true})
      for (const double scale : {1., 0.25}) {
        const auto check = [&](const Op& op, const Tensor& x, Index length) {
          for (const Tensor& view : layouts(x))
            EXPECT_TRUE(allclose(by_driver(op, view, axis, length, inverse, scale),
                                 by_cpu(op, view, axis, length, inverse, scale), tolerance, tolerance * 10))
                << op.name << " " << shape.str() << view.strides().str() << " axis " << axis << " length " << length
                << (inverse ? " inverse" : "");
        };
        check(op_fft, numbers(shape, complex_of(parts)), n);
        check(op_rfft, numbers(shape, parts), n);
        for (const Index length : {2 * n - 2, 2 * n - 1})
          if (length > 0) check(op_irfft, numbers(shape, complex_of(parts)), length);
      }
  }
}

TEST(Fft, EqualsTheCpuInEveryLayout) {
  for (const Dtype parts : {float32, float64})
    for (const Shape& shape : {Shape{8}, Shape{7}, Shape{2}, Shape{1}, Shape{5, 6}, Shape{3, 1, 4}, Shape{3, 4, 5},
                               Shape{20, 3, 20}, Shape{2, 18, 3, 2}})
      check_transforms(shape, parts);
}

TEST(Fft, TransformsOverTheInput) {
  const Tensor x = numbers({4, 6}, complex128), expected = by_cpu(op_fft, x, 1, 6, false, 0.5);
  const Tensor copy = contiguous(x + 0);
  HostScratch scratch;
  const stave_cuda::Launch launch{the_stream, 1, scratch, nullptr, 1};
  const auto attributes = make_intrusive<FftAttributes>(1, 6, false, 0.5);
  stave_cuda::run_fft(launch, *attributes, copy.node().view(), copy.node().view());
  EXPECT_TRUE(allclose(copy, expected, 1e-13, 1e-12));
}

TEST(Fft, AnEmptyBatchTakesNoCall) {
  const int executed = library.executed;
  EXPECT_EQ(by_driver(op_fft, numbers({0, 4}, complex64), 1, 4, false, 1).size(), 0);
  EXPECT_EQ(library.executed, executed);
}

TEST(Fft, UsesOneCallForABatch) {
  const int executed = library.executed;
  by_driver(op_fft, numbers({50, 8}, complex64), 1, 8, false, 1);
  EXPECT_EQ(library.executed, executed + 1);
  by_driver(op_fft, numbers({50, 8}, complex64), 0, 50, false, 1);
  EXPECT_EQ(library.executed, executed + 2);
  // The lines of the middle axis are copied, because 50 calls would take longer.
  by_driver(op_fft, numbers({50, 4, 50}, complex64), 1, 4, false, 1);
  EXPECT_EQ(library.executed, executed + 3);
}

TEST(Fft, PlansAreKeptUpToABound) {
  const Tensor x = numbers({3, 11}, complex64);
  by_driver(op_fft, x, 1, 11, false, 1);
  const int made = library.made;
  for (int i = 0; i < 5; ++i) by_driver(op_fft, x, 1, 11, i % 2, 1);  // one plan for both signs
  EXPECT_EQ(library.made, made);
  for (Index n = 2; n < 150; ++n) by_driver(op_rfft, numbers({n}, float32), 0, n, false, 1);
  EXPECT_LE(library.alive, 64);
  by_driver(op_fft, x, 1, 11, false, 1);
  EXPECT_GT(library.made, made + 148);
}

TEST(Fft, ErrorsOfTheLibraryLeaveNoPlan) {
  const Tensor x = numbers({13, 3}, complex64);
  const int alive = library.alive;
  library.makes = CUFFT_INVALID_SIZE;
  EXPECT_THROW(by_driver(op_fft, x, 0, 13, false, 1), Error);
  EXPECT_EQ(library.alive, alive);
  library.makes = CUFFT_SUCCESS;
  library.executes = CUFFT_EXEC_FAILED;
  EXPECT_THROW(by_driver(op_fft, x, 0, 13, false, 1), Error);
  library.executes = CUFFT_SUCCESS;
}

}  // namespace
