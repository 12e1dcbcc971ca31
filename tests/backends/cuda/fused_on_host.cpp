#include "cuda/fused_on_host.h"

#include <cuda.h>

#include <cstring>
#include <map>
#include <memory>

#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/fused.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/reduce.h>
#include <stave/backends/cuda/region_text.h>
#include <stave/core/effects/error.h>
#include <stave/core/program/fused.h>

#include "cuda/host_scratch.h"
#include "cuda/random_regions.h"
#include "cuda/region_kernels.h"

using namespace stave;
using stave_test::made_up, stave_test::MadeUp;

MadeUp stave_test::made_up;

// ---- the driver and the compiler ---------------------------------------------------------------

namespace {

thread_local bool has_context = false;

/// The host functions of the kernels, by kernel text.
const std::map<std::string, stave_test::RegionKernel>& kernels_by_text() {
  static const auto* const found = [] {
    auto* made = new std::map<std::string, stave_test::RegionKernel>;
    const auto regions = stave_test::regions_of_tests();
    for (std::size_t i = 0; i < regions.size(); ++i)
      made->emplace(stave_cuda::region_text(*regions[i]), stave_test::region_kernels[i]);
    return made;
  }();
  return *found;
}

CUresult load(CUmodule* module, const void* image) {
  const std::lock_guard lock(made_up.mutex);
  if (!has_context) return CUDA_ERROR_INVALID_CONTEXT;
  ++made_up.loaded;
  const std::string code = static_cast<const char*>(image);
  const auto found = kernels_by_text().find(code.substr(code.find('\n') + 1));
  if (!made_up.takes_code || found == kernels_by_text().end()) return CUDA_ERROR_INVALID_IMAGE;
  return *module = reinterpret_cast<CUmodule>(found->second), CUDA_SUCCESS;
}
CUresult function_of(CUfunction* function, CUmodule module, const char* name) {
  if (std::string(name) != "region") return CUDA_ERROR_NOT_FOUND;
  return *function = reinterpret_cast<CUfunction>(module), CUDA_SUCCESS;
}
CUresult launch_on_host(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                        unsigned threads_z, unsigned shared, CUstream stream, void** arguments, void** extra) {
  const std::lock_guard lock(made_up.mutex);
  if (!has_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (y * z * threads_y * threads_z != 1 || shared || extra) return CUDA_ERROR_INVALID_VALUE;
  made_up.launches.push_back({x, threads, stream});
  for (std::uint64_t thread = std::uint64_t{x} * threads; thread-- > 0;)
    reinterpret_cast<stave_test::RegionKernel>(function)(thread, arguments);
  return CUDA_SUCCESS;
}
CUresult context(CUcontext* found) {
  return *found = reinterpret_cast<CUcontext>(std::uintptr_t{has_context}), CUDA_SUCCESS;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) { return *device = made_up.device, cudaSuccess; }
cudaError_t cudaFree(void* memory) { return has_context = true, memory ? cudaErrorInvalidValue : cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return ""; }
const char* cudaGetErrorName(cudaError_t) { return ""; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrComputeCapabilityMajor ? made_up.capability / 10 : made_up.capability % 10;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  ++made_up.uploads;
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  static const std::map<std::string, void*> functions{{"cuModuleLoadData", reinterpret_cast<void*>(load)},
                                                      {"cuModuleGetFunction", reinterpret_cast<void*>(function_of)},
                                                      {"cuLaunchKernel", reinterpret_cast<void*>(launch_on_host)},
                                                      {"cuCtxGetCurrent", reinterpret_cast<void*>(context)}};
  *function = functions.at(name);
  return *found = cudaDriverEntryPointSuccess, cudaSuccess;
}
}

namespace stave_cuda {

const Nvrtc* nvrtc() { return made_up.has_compiler ? &made_up.nvrtc : nullptr; }
std::string target_of(const Nvrtc&, int capability) { return "sm_" + std::to_string(capability); }
std::string compile(const Nvrtc&, const std::string& text, const std::string& target) {
  const std::lock_guard lock(made_up.mutex);
  made_up.compiled.push_back(target);
  if (!made_up.compiles) throw Error("it does not compile");
  return target + "\n" + text;
}
std::vector<std::string> compiled_with(const Nvrtc& nvrtc, const std::string& target) {
  return {target, std::to_string(nvrtc.version)};
}

// The CPU backend in place of the other drivers.
void run_elementwise(const Launch&, OpId op, std::span<const View> inputs, const View& out) {
  ++made_up.steps;
  cpu_backend().run(record_of(op), nullptr, inputs, {&out, 1});
}
void run_where(const Launch&, const View& condition, const View& x, const View& y, const View& out) {
  const View inputs[] = {condition, x, y};
  ++made_up.steps;
  cpu_backend().run(op_where, nullptr, inputs, {&out, 1});
}
void run_astype(const Launch&, const View& in, const View& out) {
  const DtypeAttributes dtype(out.dtype);
  ++made_up.steps;
  cpu_backend().run(op_astype, &dtype, {&in, 1}, {&out, 1});
}
void run_copy(const Launch&, const View& in, const View& out) {
  cpu_backend().run(op_copy, nullptr, {&in, 1}, {&out, 1});
}
void run_reduce(const Launch&, OpId op, const Shape& axes, const View& in, const View& out) {
  const ReduceAttributes attributes(axes, in.shape.size() == out.shape.size());
  ++made_up.reductions;
  cpu_backend().run(record_of(op), &attributes, {&in, 1}, {&out, 1});
}
void copy_strided(const Launch&, Placed to, Placed from, std::span<const Index> shape, Index size) {
  visit_size(static_cast<std::size_t>(size), [&](auto element) {
    using E = decltype(element);
    const Dtype dtype = sizeof(E) == 1 ? uint8 : sizeof(E) == 2 ? uint16 : sizeof(E) == 4 ? uint32 : uint64;
    const View in{from.data, dtype, shape, from.strides}, out{to.data, dtype, shape, to.strides};
    cpu_backend().run(op_copy, nullptr, {&in, 1}, {&out, 1});
  });
}

}  // namespace stave_cuda

// ---- the device --------------------------------------------------------------------------------

namespace stave_test {

namespace {}  // namespace

void FusedOnHost::compute(const Op& op, const Attributes* attributes, std::span<const View> in,
                          std::span<const View> out) {
  const auto* const fused = dynamic_cast<const FusedAttributes*>(attributes);
  if (!fused) return SeparateBackend::compute(op, attributes, in, out);
  HostScratch scratch;
  scratch.pattern = 0xa5;
  const stave_cuda::Launch launch{the_stream, 1, scratch, nullptr, 1};
  stave_cuda::run_fused(launch, *fused->region, in, out);
  scratch_bytes = scratch.bytes;
  ++regions;
}

}  // namespace stave_test
