// A GPU: the cost of an operation on the host, and its cost on the device beside the device's own
// copy and cuBLASLt. This file is built with the CUDA toolkit; its benchmarks are registered if
// there is a device.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "programs.h"

namespace {

using namespace stave_bench;

void require(bool succeeded, const char* what) {
  if (!succeeded) throw std::runtime_error(what);
}

const Device device = cuda(0);

// ---- the host -----------------------------------------------------------------------------------

// Less than the length of the device's queue; with more, the host would wait for the device.
constexpr int length = 200;

Tensor chain(const Tensor& x) {
  static const Tensor factor = to(tensor(1.0001f), device);
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y * factor;
  return y;
}

/// Measures the host's time for each operation of f, without the device's work.
template <class F>
void measure_host(benchmark::State& state, const F& f, const Tensor& on_host = tensor(1.f)) {
  const Tensor x = to(on_host, device);
  for (int i = 0; i < 3; ++i) f(x);
  for (auto _ : state) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    {
      auto result = f(x);
      benchmark::DoNotOptimize(result);
    }
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  count_operations(state, length);
}

void gpu_host_op(benchmark::State& state) { measure_host(state, chain); }
void gpu_host_grad(benchmark::State& state) { measure_host(state, grad(chain)); }
void gpu_host_vmap(benchmark::State& state) { measure_host(state, vmap(chain), ones({16})); }
void gpu_host_vmap_grad(benchmark::State& state) { measure_host(state, vmap(grad(chain)), ones({16})); }

// Small operations from end to end, measured in the same way as PyTorch's.

void gpu_scalar_chain(benchmark::State& state) {
  const Tensor x = to(tensor(1.f), device);
  measure_on(
      device, state, [&] { return chain(x); }, length);
}
void gpu_scalar_chain_grad(benchmark::State& state) {
  const Tensor x = to(tensor(1.f), device);
  const auto gradient = grad(chain);
  measure_on(
      device, state, [&] { return gradient(x); }, length);
}

// ---- memory -------------------------------------------------------------------------------------

constexpr Index count = Index{1} << 26, side = Index{1} << 13;
constexpr int repeats = 10;  // between two synchronizations with the device

/// Calls f() many times, so that the wait at the end is negligible.
template <class F>
void measure_stream(benchmark::State& state, F&& f) {
  measure_on(
      device, state,
      [&] {
        for (int i = 1; i < repeats; ++i) f();
        return f();
      },
      repeats);
}

void gpu_copy(benchmark::State& state) {
  const Tensor from = full({count}, 1.f, float32, device), into = full({count}, 2.f, float32, device);
  cudaStream_t stream;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "no stream");
  synchronize(device);
  measure(
      state,
      [&] {
        for (int i = 0; i < repeats; ++i)
          require(cudaMemcpyAsync(into.node().data(), from.node().data(), count * sizeof(float),
                                  cudaMemcpyDeviceToDevice, stream) == cudaSuccess,
                  "no copy");
        require(cudaStreamSynchronize(stream) == cudaSuccess, "the copy failed");
        return 0;
      },
      repeats);
  cudaStreamDestroy(stream);
}

Tensor matrix() { return to(scattered({side, side}), device); }

void gpu_add_large(benchmark::State& state) {
  const Tensor a = matrix(), b = matrix();
  measure_stream(state, [&] { return a + b; });
}
void gpu_broadcast_large(benchmark::State& state) {
  const Tensor a = matrix(), row = to(scattered({side}), device);
  measure_stream(state, [&] { return a + row; });
}
void gpu_sum_full(benchmark::State& state) {
  const Tensor x = matrix();
  measure_stream(state, [&] { return sum(x); });
}
void gpu_sum_inner(benchmark::State& state) {
  const Tensor x = matrix();
  measure_stream(state, [&] { return sum(x, 1); });
}
void gpu_sum_outer(benchmark::State& state) {
  const Tensor x = matrix();
  measure_stream(state, [&] { return sum(x, 0); });
}
void gpu_softmax(benchmark::State& state) {
  const Tensor x = matrix();
  measure_stream(state, [&] { return softmax(x); });
}

// ---- products -----------------------------------------------------------------------------------

constexpr Index n = 4096;

void gpu_matmul(benchmark::State& state) {
  const Tensor a = to(scattered({n, n}), device), b = to(scattered({n, n}), device);
  measure_stream(state, [&] { return matmul(a, b); });
}
// This is registered only in a process that enables TF32.
void gpu_matmul_tf32(benchmark::State& state) { gpu_matmul(state); }

/// Calls cuBLASLt directly, with the first algorithm that its heuristic proposes.
void cublaslt(benchmark::State& state, cublasComputeType_t type) {
  const Tensor a = to(scattered({n, n}), device), b = to(scattered({n, n}), device), c = zeros({n, n}, float32, device);
  constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  const Tensor workspace = zeros({static_cast<Index>(workspace_bytes)}, uint8, device);
  synchronize(device);
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t layout;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found;
  int results = 0;
  require(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cublasLtCreate");
  cublasLtMatmulDescCreate(&product, type, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, n, n, n);
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                       sizeof workspace_bytes);
  cublasLtMatmulAlgoGetHeuristic(handle, product, layout, layout, layout, layout, preference, 1, &found, &results);
  require(results == 1, "cuBLASLt knows no algorithm");
  const float one = 1, zero = 0;
  measure(
      state,
      [&] {
        for (int i = 0; i < repeats; ++i)  // column-major: b^T a^T = (a b)^T
          require(cublasLtMatmul(handle, product, &one, b.node().data(), layout, a.node().data(), layout, &zero,
                                 c.node().data(), layout, c.node().data(), layout, &found.algo, workspace.node().data(),
                                 workspace_bytes, nullptr) == CUBLAS_STATUS_SUCCESS,
                  "cublasLtMatmul");
        require(cudaStreamSynchronize(nullptr) == cudaSuccess, "the product failed");
        return 0;
      },
      repeats);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(product);
  cublasLtDestroy(handle);
}
void gpu_cublaslt(benchmark::State& state) { cublaslt(state, CUBLAS_COMPUTE_32F); }
void gpu_cublaslt_tf32(benchmark::State& state) { cublaslt(state, CUBLAS_COMPUTE_32F_FAST_TF32); }

// ---- programs -----------------------------------------------------------------------------------

void gpu_mlp_step(benchmark::State& state) { measure_mlp_step(state, device); }
void gpu_per_example(benchmark::State& state) { measure_per_example(state, gradients_by_vmap, device); }

const bool registered = [] {
  if (!cuda_available()) return false;
  const char* text = std::getenv("STAVE_TF32");
  const bool tf32 = text && std::string_view(text) == "1";
  const auto add = [](const char* name, void (*measured)(benchmark::State&)) {
    return benchmark::RegisterBenchmark(name, measured);
  };
#define STAVE_HOST(name) add(#name, name)->UseManualTime();
#define STAVE_DEVICE(name) add(#name, name)->UseRealTime();
  STAVE_HOST(gpu_host_op)
  STAVE_HOST(gpu_host_grad)
  STAVE_HOST(gpu_host_vmap)
  STAVE_HOST(gpu_host_vmap_grad)
  STAVE_DEVICE(gpu_scalar_chain)
  STAVE_DEVICE(gpu_scalar_chain_grad)
  STAVE_DEVICE(gpu_copy)
  STAVE_DEVICE(gpu_add_large)
  STAVE_DEVICE(gpu_broadcast_large)
  STAVE_DEVICE(gpu_sum_full)
  STAVE_DEVICE(gpu_sum_inner)
  STAVE_DEVICE(gpu_sum_outer)
  STAVE_DEVICE(gpu_softmax)
  if (tf32) STAVE_DEVICE(gpu_matmul_tf32)
  else STAVE_DEVICE(gpu_matmul)
  STAVE_DEVICE(gpu_cublaslt)
  STAVE_DEVICE(gpu_cublaslt_tf32)
  STAVE_DEVICE(gpu_mlp_step)
  STAVE_DEVICE(gpu_per_example)
#undef STAVE_HOST
#undef STAVE_DEVICE
  return true;
}();

}  // namespace
