// Tests the driver of regions on a simulated device (fused_on_host.h): random regions against their
// steps on the CPU, the number of launches, and the number of compilations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <stave/backends/cuda/region_text.h>
#include <stave/stave.h>

#include "cuda/fused_on_host.h"
#include "cuda/random_regions.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre, testing::IsEmpty;
namespace fs = std::filesystem;

/// Each test has its own cache folder, and a device for which nothing was compiled yet.
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
    made_up.loaded = made_up.steps = made_up.reductions = made_up.uploads = 0;
  }
  /// Simulates a new process, which finds the files that another one left on disk.
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
/// A tensor in one of several layouts; some are broadcast.
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
    ASSERT_EQ(found[k].shape(), expected[k].shape());
    ASSERT_TRUE(is_same(to(found[k], cpu), expected[k])) << region->str();
  }
}

/// The regions without reductions, each of whose steps gives the same bits on every platform.
std::vector<RegionPtr> exact_regions() {
  auto regions = regions_of_tests();
  regions.pop_back();
  regions.erase(regions.begin() + 1, regions.begin() + 1 + real_dtype_count);
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
  // Axes that do not fit a kernel's parameters are uploaded.
  EXPECT_GT(made_up.uploads, 0);
}

TEST_F(FusedOnDevice, RunsItsStepsWithoutACompiler) {
  made_up.has_compiler = false;
  Random random(6);
  auto regions = regions_of_tests();
  regions.pop_back();  // it has reductions
  for (const RegionPtr& region : regions) expect_steps(region, random_inputs(random, *region, one_of(random, shapes)));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_GT(made_up.steps, 0);
}
TEST_F(FusedOnDevice, FreesStepsAfterTheirLastRead) {
  made_up.has_compiler = false;
  const IntrusivePtr<Region> region(new Region({float32}));
  int value = 0;
  for (int i = 0; i < 50; ++i) value = region->add(op_square, {value});
  region->set_outputs({value});
  fused(region, {moved(ones({1000}))});
  EXPECT_EQ(made_up.steps, 50);
  EXPECT_LE(backend.scratch_bytes, 2 * 4000u);
}
TEST_F(FusedOnDevice, RunsItsStepsIfTheTextDoesNotCompile) {
  made_up.compiles = false;
  Random random(7);
  const RegionPtr region = exact_regions().back();
  for (int i = 0; i < 3; ++i) expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_EQ(made_up.compiled.size(), 1u);  // compiled only once
}
TEST_F(FusedOnDevice, RunsItsStepsIfTheDriverRefusesTheCode) {
  made_up.takes_code = false;
  Random random(8);
  const RegionPtr region = exact_regions().back();
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
  EXPECT_TRUE(fs::is_empty(folder));
}
TEST_F(FusedOnDevice, RunsItsStepsIfAKernelHasTooManyArguments) {
  Random random(9);
  const RegionPtr region = sum_of_inputs();
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_EQ(made_up.launches.size(), 1u);
  start_anew();
  made_up.nvrtc.version = 12000;
  expect_steps(region, random_inputs(random, *region, {5}));
  EXPECT_THAT(made_up.launches, IsEmpty());
}
TEST_F(FusedOnDevice, EmptyRegionIsNoLaunch) {
  Random random(10);
  for (const bool has_compiler : {true, false}) {
    made_up.has_compiler = has_compiler;
    const RegionPtr region = exact_regions().back();
    EXPECT_EQ(fused(region, random_inputs(random, *region, {0, 3}))[0].shape(), Shape({0, 3}));
  }
  EXPECT_THAT(made_up.launches, IsEmpty());
}
// The kernel writes the value that a reduction reads: once if several reductions read it,
// and not again if it is also an output or an input.
TEST_F(FusedOnDevice, ReductionsReadWhatTheKernelWrote) {
  Random random(14);
  const RegionPtr region = region_with_reductions();
  for (const Shape& shape : std::vector<Shape>{{3, 4}, {7, 1, 30}, {8, 64}}) {
    forget();
    expect_steps(region, random_inputs(random, *region, shape));
    EXPECT_EQ(made_up.launches.size(), 1u);
    EXPECT_EQ(made_up.reductions, 5);
    EXPECT_EQ(backend.scratch_bytes, static_cast<std::size_t>(shape.elements()) * 4);
  }
  made_up.has_compiler = false;
  start_anew();
  expect_steps(region, random_inputs(random, *region, {8, 64}));
  EXPECT_EQ(made_up.reductions, 5);
  EXPECT_EQ(made_up.steps, 2);
}
TEST_F(FusedOnDevice, ReductionsOfEmptyArraysNeedNoLaunch) {
  const IntrusivePtr<Region> region(new Region({float32}));
  region->set_outputs({region->reduce(op_sum, region->add(op_square, {0}), {-1})});
  const Outputs found = fused(region, {moved(zeros({3, 0}))});
  EXPECT_TRUE(array_equal(to(found[0], cpu), zeros({3})));
  EXPECT_THAT(made_up.launches, IsEmpty());
}

TEST_F(FusedOnDevice, CopiesScatteredInputsFirst) {
  const RegionPtr region = sum_of_inputs();
  Random random(11);
  std::vector<Tensor> inputs(20, moved(random_values(random, float32, {600, 500})));
  inputs[3] = matrix_transpose(moved(random_values(random, float32, {500, 600})));
  expect_steps(region, inputs);
  EXPECT_EQ(backend.scratch_bytes, 600 * 500 * 4u);
  EXPECT_EQ(made_up.launches.size(), 1u);
}

// ---- compiled once -----------------------------------------------------------------------------

class CompiledOnce : public FusedOnDevice {
 protected:
  void perform() { expect_steps(region, random_inputs(random, *region, {5})); }
  fs::path file() const { return fs::directory_iterator(folder)->path(); }

  Random random{12};
  const RegionPtr region = exact_regions().back();
};

TEST_F(CompiledOnce, PerProcess) {
  for (int i = 0; i < 5; ++i) perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.loaded, 1);
  EXPECT_EQ(made_up.launches.size(), 5u);
}
TEST_F(CompiledOnce, ByConcurrentThreads) {
  const auto inputs = random_inputs(random, *region, {5});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    // No thread has a context yet.
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) expect_steps(region, inputs);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.launches.size(), 160u);
}
TEST_F(CompiledOnce, AcrossProcesses) {
  perform();
  start_anew();
  perform();
  EXPECT_THAT(made_up.compiled, IsEmpty());
  EXPECT_EQ(made_up.loaded, 1);
  EXPECT_EQ(made_up.launches.size(), 1u);
}
TEST_F(CompiledOnce, PerArchitecture) {
  perform();
  start_anew();
  made_up.capability = 80;
  perform();
  EXPECT_THAT(made_up.compiled, ElementsAre("sm_80"));
}
TEST_F(CompiledOnce, PerCompilerVersion) {
  perform();
  start_anew();
  made_up.nvrtc.version = 12090;
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
}
TEST_F(CompiledOnce, RecompiledIfTheFileIsDamaged) {
  perform();
  std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary).seekp(100) << "damage";
  start_anew();
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  start_anew();
  // The damaged file was replaced.
  perform();
  EXPECT_THAT(made_up.compiled, IsEmpty());
}
TEST_F(CompiledOnce, RecompiledIfTheDriverRefusesTheCachedCode) {
  perform();
  start_anew();
  made_up.takes_code = false;
  perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.loaded, 2);
}
TEST_F(CompiledOnce, InMemoryIfTheCacheIsUnwritable) {
  ::setenv("STAVE_CACHE", "/proc/nowhere", 1);
  for (int i = 0; i < 5; ++i) perform();
  EXPECT_EQ(made_up.compiled.size(), 1u);
  EXPECT_EQ(made_up.launches.size(), 5u);
}

// ---- under handlers ----------------------------------------------------------------------------

TEST_F(FusedOnDevice, HandlersSeeOneOperation) {
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
TEST_F(FusedOnDevice, DerivativesAreRegions) {
  const auto f = elementwise_op("f", [](const Tensor& x, const Tensor& y) { return sin(x) * y + x; });
  const Tensor x = normal(Key(1), {3, 4}), y = normal(Key(2), {4});
  const auto slope = [&](const Tensor& row) { return grad([&](const Tensor& at) { return sum(f(at, row)); }); };
  EXPECT_TRUE(array_equal(to(slope(moved(y))(moved(x)), cpu), slope(y)(x)));
  EXPECT_EQ(backend.regions, 2);  // the region, and the one of its cotangent
  const auto curvature = [&](const Tensor& row) { return grad([&](const Tensor& at) { return sum(slope(row)(at)); }); };
  EXPECT_TRUE(array_equal(to(curvature(moved(y))(moved(x)), cpu), curvature(y)(x)));
  const auto rows = [&](const Tensor& at, const Tensor& row) {
    return vmap([&](const Tensor& one) { return f(one, row); })(at);
  };
  EXPECT_TRUE(array_equal(to(rows(moved(x), moved(y)), cpu), rows(x, y)));
}

}  // namespace
