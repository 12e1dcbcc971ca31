// The driver of regions over a CUDA driver and a compiler that are made up: a text's code is the text itself, and to launch it runs what
// the host's compiler made of the same text (region_texts.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/fused.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/nvrtc.h>
#include <stave/backends/cuda/region_kernels.h>
#include <stave/backends/cuda/region_text.h>
#include <stave/stave.h>

#include "cuda/random_regions.h"
#include "cuda/region_kernels.h"
#include "separate_backend.h"

using namespace stave;

// ---- the driver and the compiler ---------------------------------------------------------------------------

namespace {

struct Launched {
  unsigned blocks, threads;
  CUstream stream;
};
struct MadeUp {
  std::mutex mutex;
  int device = 0, capability = 90;
  bool has_compiler = true, compiles = true, takes_code = true;
  stave_cuda::Nvrtc nvrtc{13000, {80, 90}};
  std::vector<std::string> compiled;  // for which target
  int loaded = 0, steps = 0, uploads = 0;
  std::vector<Launched> launches;
};
MadeUp made_up;
thread_local bool has_context = false;

const cudaStream_t the_stream = reinterpret_cast<cudaStream_t>(0x5);

/// By text.
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

// The other drivers: the CPU's.
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
void copy_strided(const Launch&, Placed to, Placed from, std::span<const Index> shape, Index size) {
  visit_size(static_cast<std::size_t>(size), [&](auto element) {
    using E = decltype(element);
    const Dtype dtype = sizeof(E) == 1 ? uint8 : sizeof(E) == 2 ? uint16 : sizeof(E) == 4 ? uint32 : uint64;
    const View in{from.data, dtype, shape, from.strides}, out{to.data, dtype, shape, to.strides};
    cpu_backend().run(op_copy, nullptr, {&in, 1}, {&out, 1});
  });
}

}  // namespace stave_cuda

// ---- the tests ---------------------------------------------------------------------------------------------

namespace {

using namespace stave_test;
using testing::ElementsAre, testing::IsEmpty;
namespace fs = std::filesystem;

/// Memory of which every byte is wrong until it is written.
struct HostScratch final : stave_cuda::Scratch {
  std::vector<std::unique_ptr<char[]>> blocks;
  std::size_t bytes = 0;
  void* allocate(std::size_t size) override {
    blocks.push_back(std::make_unique<char[]>(size + 256));
    std::memset(blocks.back().get(), 0xa5, size + 256);
    bytes += size;
    const auto address = (reinterpret_cast<std::uintptr_t>(blocks.back().get()) + 255) & ~std::uintptr_t{255};
    return reinterpret_cast<void*>(address);
  }
};

class FusedOnHost final : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  std::size_t scratch_bytes = 0;  // of the last region
  int regions = 0;

 protected:
  void compute(const Op& op, const Attributes* attributes, std::span<const View> in,
               std::span<const View> out) override {
    const auto* const fused = dynamic_cast<const FusedAttributes*>(attributes);
    if (!fused) return SeparateBackend::compute(op, attributes, in, out);
    HostScratch scratch;
    const stave_cuda::Launch launch{the_stream, 1, scratch, nullptr, 1};
    stave_cuda::run_fused(launch, *fused->region, in, out);
    scratch_bytes = scratch.bytes;
    ++regions;
  }
};

/// Each test has a folder of its own, and a device that nothing was compiled for.
class FusedOnDevice : public testing::Test {
 protected:
  FusedOnDevice() {
    static int devices = 0;
    made_up.device = ++devices;
    made_up.capability = 90;
    made_up.nvrtc.version = 13000;
    made_up.has_compiler = made_up.compiles = made_up.takes_code = true;
    std::string name = (fs::temp_directory_path() / "stave_fused.XXXXXX").string();
    folder = ::mkdtemp(name.data());
    ::setenv("STAVE_CACHE", folder.c_str(), 1);
    forget();
  }
  ~FusedOnDevice() override { fs::remove_all(folder); }
  void forget() {
    made_up.compiled.clear(), made_up.launches.clear();
    made_up.loaded = made_up.steps = made_up.uploads = 0;
  }
  /// As a process that finds what another one left on the disk.
  void start_anew() {
    made_up.device += 1000;
    forget();
  }

  fs::path folder;
  FusedOnHost backend{0};
};

Tensor moved(const Tensor& x) { return to(x, cuda(0)); }

Tensor random_values(Random& random, Dtype dtype, const Shape& shape) {
  const Tensor numbers = normal(Key(static_cast<std::uint64_t>(random())), shape, float32) * 2;
  return is_float(dtype) ? astype(numbers, dtype) : dtype == bool_ ? numbers > 0 : astype(abs(numbers) * 20, dtype);
}
/// In one of many layouts, or to be broadcast.
Tensor random_input(Random& random, Dtype dtype, const Shape& shape) {
  if (shape.rank() == 0) return moved(random_values(random, dtype, shape));
  switch (pick(random, 0, 4)) {
    case 0: {
      Shape turned(shape), axes;
      std::reverse(turned.begin(), turned.end());
      for (Index axis = shape.rank(); axis-- > 0;) axes.push_back(axis);
      return permute_dims(moved(random_values(random, dtype, turned)), axes);
    }
    case 1: return flip(moved(random_values(random, dtype, shape)), {pick(random, 0, shape.rank() - 1)});
    case 2: {
      Shape row(shape);
      row[0] = 1;
      return broadcast_to(moved(random_values(random, dtype, row)), shape);
    }
    default: return moved(random_values(random, dtype, shape));
  }
}
std::vector<Tensor> random_inputs(Random& random, const Region& region, const Shape& shape) {
  std::vector<Tensor> inputs;
  for (const Dtype dtype : region.inputs()) inputs.push_back(random_input(random, dtype, shape));
  return inputs;
}

bool is_same(const Tensor& a, const Tensor& b) { return all((a == b) | ((a != a) & (b != b))).item<bool>(); }
void expect_steps(const RegionPtr& region, const std::vector<Tensor>& inputs) {
  const Outputs found = fused(region, inputs);
  std::vector<Tensor> here;
  for (const Tensor& input : inputs) here.push_back(to(input, cpu));
  const Outputs expected = stave_detail::perform_steps(*region, here);
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].device(), cuda(0));
    ASSERT_TRUE(is_same(to(found[k], cpu), expected[k])) << region->str();
  }
}

/// Those of which each step gives the same bits everywhere.
std::vector<RegionPtr> exact_regions() {
  auto regions = regions_of_tests();
  regions.erase(regions.begin() + 1, regions.begin() + 1 + dtype_count);
  return regions;
}

const std::vector<Shape> shapes = {{}, {1}, {5}, {3, 4}, {8, 64}, {7, 1, 30}, {2, 3, 2, 2, 3, 2, 2, 2}};

TEST_F(FusedOnDevice, IsOneLaunch) {
  Random random(5);
  int regions = 0;
  for (const RegionPtr& region : exact_regions()) {
    const Shape& shape = one_of(random, shapes);
    expect_steps(region, random_inputs(random, *region, shape));
    const auto lanes = static_cast<unsigned>(stave_cuda::region_lanes(*region));
    const auto elements = static_cast<unsigned>(shape.elements());
    ASSERT_EQ(made_up.launches.size(), static_cast<std::size_t>(++regions));
    EXPECT_EQ(made_up.launches.back().threads, 256u);
    EXPECT_EQ(made_up.launches.back().blocks, (elements + 256 * lanes - 1) / (256 * lanes));
    EXPECT_EQ(made_up.launches.back().stream, the_stream);
  }
  EXPECT_EQ(made_up.steps, 0);
  EXPECT_EQ(made_up.compiled, std::vector<std::string>(made_up.compiled.size(), "sm_90"));
  EXPECT_GT(made_up.uploads, 0);  // of axes beyond those that a kernel's parameters hold
}

TEST_F(FusedOnDevice, IsItsStepsWithoutACompiler) {
  made_up.has_compiler = false;
  Random random(6);
  for (const RegionPtr& region : regions_of_tests())
    expect_steps(region, random_inputs(random, *region, one_of(random, shapes)));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_GT(made_up.steps, 0);
}
TEST_F(FusedOnDevice, KeepsOnlyTheStepsThatAreStillRead) {
  made_up.has_compiler = false;
  const IntrusivePtr<Region> region(new Region({float32}));
  int value = 0;
  for (int i = 0; i < 50; ++i) value = region->add(op_square, {value});
  region->set_outputs({value});
  fused(region, {moved(ones({1000}))});
  EXPECT_EQ(made_up.steps, 50);
  EXPECT_LE(backend.scratch_bytes, 2 * 4000u);
}
TEST_F(FusedOnDevice, IsItsStepsIfTheTextDoesNotCompile) {
  made_up.compiles = false;
  Random random(7);
  const RegionPtr region = exact_regions().back();
  for (int i = 0; i < 3; ++i) expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_EQ(made_up.compiled.size(), 1u);  // tried once
}
TEST_F(FusedOnDevice, IsItsStepsIfTheDriverRefusesTheCode) {
  made_up.takes_code = false;
  Random random(8);
  const RegionPtr region = exact_regions().back();
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_TRUE(fs::is_empty(folder));
}
TEST_F(FusedOnDevice, IsItsStepsIfAKernelHasNoRoomForItsArguments) {
  Random random(9);
  const RegionPtr region = sum_of_inputs();
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_EQ(made_up.launches.size(), 1u);
  start_anew();
  made_up.nvrtc.version = 12000;
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
}
TEST_F(FusedOnDevice, OfNoElementsIsNoLaunch) {
  Random random(10);
  for (const bool has_compiler : {true, false}) {
    made_up.has_compiler = has_compiler;
    const RegionPtr region = exact_regions().back();
    EXPECT_EQ(fused(region, random_inputs(random, *region, {0, 3}))[0].shape(), Shape({0, 3}));
  }
  EXPECT_THAT(made_up.launches, IsEmpty());
}
TEST_F(FusedOnDevice, CopiesWhatIsScatteredInMemoryFirst) {
  const RegionPtr region = sum_of_inputs();
  Random random(11);
  std::vector<Tensor> inputs(20, moved(random_values(random, float32, {600, 500})));
  inputs[3] = matrix_transpose(moved(random_values(random, float32, {500, 600})));
  expect_steps(region, inputs);
  EXPECT_EQ(backend.scratch_bytes, 600 * 500 * 4u);
  EXPECT_EQ(made_up.launches.size(), 1u);
}

// ---- compiled once -----------------------------------------------------------------------------------------

class CompiledOnce : public FusedOnDevice {
 protected:
  void perform() { expect_steps(region, random_inputs(random, *region, {5})); }
  fs::path file() const { return fs::directory_iterator(folder)->path(); }

  Random random{12};
  const RegionPtr region = exact_regions().back();
};

TEST_F(CompiledOnce, InAProcess) {
  for (int i = 0; i < 5; ++i) perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.loaded, 1);
  EXPECT_EQ(made_up.launches.size(), 5u);
}
TEST_F(CompiledOnce, ByThreadsAtOnce) {
  const auto inputs = random_inputs(random, *region, {5});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {  // none has a context yet
      for (int k = 0; k < 20; ++k) expect_steps(region, inputs);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.launches.size(), 160u);
}
TEST_F(CompiledOnce, ForTheNextProcess) {
  perform();
  start_anew();
  perform();
  EXPECT_THAT(made_up.compiled, IsEmpty());
  EXPECT_EQ(made_up.loaded, 1);
  EXPECT_EQ(made_up.launches.size(), 1u);
}
TEST_F(CompiledOnce, ForEachArchitecture) {
  perform();
  start_anew();
  made_up.capability = 80;
  perform();
  EXPECT_THAT(made_up.compiled, ElementsAre("sm_80"));
}
TEST_F(CompiledOnce, ByEachCompiler) {
  perform();
  start_anew();
  made_up.nvrtc.version = 12090;
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
}
TEST_F(CompiledOnce, ButAgainIfTheFileIsDamaged) {
  perform();
  std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary).seekp(100) << "damage";
  start_anew();
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  start_anew();
  perform();  // what was there is replaced
  EXPECT_THAT(made_up.compiled, IsEmpty());
}
TEST_F(CompiledOnce, ButAgainIfTheDriverRefusesWhatWasKept) {
  perform();
  start_anew();
  made_up.takes_code = false;
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.loaded, 2);
}
TEST_F(CompiledOnce, WhereNothingCanBeWritten) {
  ::setenv("STAVE_CACHE", "/proc/nowhere", 1);
  for (int i = 0; i < 5; ++i) perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.launches.size(), 5u);
}

// ---- under handlers ----------------------------------------------------------------------------------------

TEST_F(FusedOnDevice, IsAnOperationUnderHandlers) {
  struct Count final : Handler {
    std::map<std::string, int> operations;
    Outputs handle(Call& call) override {
      ++operations[call.op().name];
      return stave::perform(std::move(call));
    }
  };
  const RegionPtr region = exact_regions().back();
  Random random(13);
  const auto inputs = random_inputs(random, *region, {5});
  Count count;
  with(count, [&] { return fused(region, inputs)[0]; });
  EXPECT_EQ(count.operations["fused"], 1);
  EXPECT_EQ(made_up.launches.size(), 1u);
}
TEST_F(FusedOnDevice, HasDerivativesThatAreRegions) {
  const auto f = elementwise_op("f", [](const Tensor& x, const Tensor& y) { return sin(x) * y + x; });
  const Tensor x = normal(Key(1), {3, 4}), y = normal(Key(2), {4});
  const auto slope = [&](const Tensor& row) { return grad([&](const Tensor& at) { return sum(f(at, row)); }); };
  EXPECT_TRUE(array_equal(to(slope(moved(y))(moved(x)), cpu), slope(y)(x)));
  EXPECT_EQ(backend.regions, 2);  // itself, and its cotangent
  const auto curvature = [&](const Tensor& row) { return grad([&](const Tensor& at) { return sum(slope(row)(at)); }); };
  EXPECT_TRUE(array_equal(to(curvature(moved(y))(moved(x)), cpu), curvature(y)(x)));
  const auto rows = [&](const Tensor& at, const Tensor& row) {
    return vmap([&](const Tensor& one) { return f(one, row); })(at);
  };
  EXPECT_TRUE(array_equal(to(rows(moved(x), moved(y)), cpu), rows(x, y)));
}

}  // namespace
