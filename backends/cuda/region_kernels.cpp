#include <stave/backends/cuda/region_kernels.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <stave/backends/cuda/code_cache.h>
#include <stave/backends/cuda/driver.h>
#include <stave/backends/cuda/launch.h>
#include <stave/backends/cuda/nvrtc.h>
#include <stave/backends/cuda/region_input.h>
#include <stave/backends/cuda/region_text.h>
#include <stave/core/effects/error.h>

namespace stave_cuda {

namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// Makes a context current on this thread, if there is none. The functions of the CUDA driver API
/// require one. The call of the runtime API makes one current.
void expect_context() {
  CUcontext context = nullptr;
  if (modules()->CtxGetCurrent(&context) != CUDA_SUCCESS || !context) check(cudaFree(nullptr), "a context");
}

CUfunction function_in(const std::string& code) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (modules()->ModuleLoadData(&module, code.c_str()) != CUDA_SUCCESS) return nullptr;
  return modules()->ModuleGetFunction(&function, module, "region") == CUDA_SUCCESS ? function : nullptr;
}

/// Loads the function from the disk cache, if its code is there and the CUDA driver accepts it.
/// Otherwise compiles it.
CUfunction make_function(const Nvrtc& nvrtc, const std::string& text, const std::string& target) {
  Hash key;
  for (const std::string& part : compiled_with(nvrtc, target)) key.add(part);
  key.add(text);
  const std::filesystem::path folder = code_folder();
  if (const auto kept = read_code(folder, key))
    if (const CUfunction function = function_in(*kept)) return function;
  const std::string code = compile(nvrtc, text, target);
  const CUfunction function = function_in(code);
  if (function) write_code(folder, key, code);
  return function;
}

RegionKernel make_kernel(const stave::Region& region, int device) {
  const Nvrtc* const compiler = nvrtc();
  if (!compiler || !modules()) return {};
  expect_context();
  const int capability =
      attribute(cudaDevAttrComputeCapabilityMajor, device) * 10 + attribute(cudaDevAttrComputeCapabilityMinor, device);
  const std::string target = target_of(*compiler, capability);
  if (target.empty()) return {};
  try {
    return {make_function(*compiler, region_text(region), target), most_argument_bytes(*compiler)};
  } catch (const stave::Error&) {  // A compiler error; the region then runs step by step.
    return {};
  }
}

const Modules* find_modules() {
  auto found = std::make_unique<Modules>();
#define X(name) \
  if (find_driver_function(found->name, "cu" #name); !found->name) return nullptr;
  STAVE_MODULES(X)
#undef X
  return found.release();
}

}  // namespace

const Modules* modules() {
  static const Modules* const found = find_modules();
  return found;
}

const RegionKernel& region_kernel(const stave::Region& region) {
  struct Entry {
    std::mutex making;  // CMakeLists.txt says why this is not std::call_once.
    std::optional<RegionKernel> kernel;
  };
  static auto* const entries =
      // This map is never destroyed, like the state of the devices (runtime.h).
      new std::map<std::pair<int, std::string>, Entry>;
  static auto* const mutex = new std::mutex;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::pair<int, std::string> key(device, region_signature(region));
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(*mutex);
    entry = &(*entries)[std::move(key)];
  }
  const std::lock_guard lock(entry->making);
  if (!entry->kernel) entry->kernel = make_kernel(region, device);
  return *entry->kernel;
}

void launch(const RegionKernel& kernel, unsigned blocks, cudaStream_t stream, std::span<void*> arguments) {
  expect_context();
  const CUresult status = modules()->LaunchKernel(kernel.function, blocks, 1, 1, region_threads, 1, 1, 0, stream,
                                                  arguments.data(), nullptr);
  // Errors have the same numbers in the driver API and in the runtime API.
  check(static_cast<cudaError_t>(status), "fused");
}

}  // namespace stave_cuda
