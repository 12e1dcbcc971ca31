// Tests the code that NVRTC compiles from the texts of regions, also for GPUs that are not present.
// Skipped if there is no NVRTC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/backends/cuda/nvrtc.h>
#include <stave/backends/cuda/region_plan.h>
#include <stave/backends/cuda/region_text.h>
#include <stave/core/effects/error.h>

#include "cuda/random_regions.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::Region, stave::View;
using testing::HasSubstr, testing::Not;

#define STAVE_NEEDS_NVRTC() \
  if (!nvrtc())             \
  GTEST_SKIP() << "NVRTC cannot be loaded here (install the toolkit's libnvrtc, or pip's nvidia-cuda-nvrtc)"

class Compiles : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nvrtc, Compiles, testing::Values("sm_80", "sm_90"),
                         [](const auto& p) { return std::string(p.param); });

void expect_code(const Region& region, const std::string& target) {
  const std::string code = compile(*nvrtc(), region_text(region), target);
  EXPECT_EQ(code.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_THAT(code, HasSubstr(".text.region"));
}

TEST_P(Compiles, EveryOperation) {
  STAVE_NEEDS_NVRTC();
  for (const stave::Dtype dtype : {stave::bfloat16, stave::float32}) expect_code(*every_operation(dtype), GetParam());
}
TEST_P(Compiles, RandomRegions) {
  STAVE_NEEDS_NVRTC();
  const auto regions = regions_of_tests();
  for (std::size_t i = 0; i < 8; ++i) expect_code(*regions[regions.size() - 1 - i], GetParam());
}

// The largest argument size that a plan admits is one that a kernel's parameters can have.
TEST_P(Compiles, TheLargestNumberOfInputs) {
  STAVE_NEEDS_NVRTC();
  const auto bytes_of = [](int inputs) {
    const stave::Shape one{1};
    const std::vector<View> in(static_cast<std::size_t>(inputs), View{nullptr, stave::float32, one, one});
    return RegionPlan(*sum_of_inputs(inputs), in, {in.data(), 1}).argument_bytes();
  };
  int most = 100;
  while (bytes_of(most + 1) <= most_argument_bytes(*nvrtc())) ++most;
  expect_code(*sum_of_inputs(most), GetParam());
  EXPECT_THROW(compile(*nvrtc(), region_text(*sum_of_inputs(most + 1)), GetParam()), stave::Error);
}

std::string ptx_of(const Region& region) { return compile(*nvrtc(), region_text(region), "compute_80"); }

TEST(Nvrtc, CompilesEveryOperationInEveryDtype) {
  STAVE_NEEDS_NVRTC();
  for (const stave::Dtype dtype : every_dtype) EXPECT_THAT(ptx_of(*every_operation(dtype)), HasSubstr(".entry region"));
}

// Compiled with the same rounding options as the library's own kernels (cuda.cmake).
TEST(Nvrtc, RoundsEachOperationSeparately) {
  STAVE_NEEDS_NVRTC();
  const stave::IntrusivePtr<Region> region(new Region({stave::float32, stave::float32}));
  const int product = region->add(stave::op_multiply, {0, 1}), sum = region->add(stave::op_add, {product, 0});
  const int quotient = region->add(stave::op_divide, {sum, 1}), root = region->add(stave::op_sqrt, {quotient});
  region->set_outputs({region->add(stave::op_astype, {root}, stave::float16)});
  const std::string ptx = ptx_of(*region);
  EXPECT_THAT(ptx, Not(HasSubstr("fma.")));
  for (const char* instruction : {"mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32", "cvt.rn.f16.f32"})
    EXPECT_THAT(ptx, HasSubstr(instruction));
  EXPECT_THAT(ptx, Not(HasSubstr(".ftz")));
}
TEST(Nvrtc, ReadsAndWritesSixteenBytesAtOnce) {
  STAVE_NEEDS_NVRTC();
  const stave::IntrusivePtr<Region> region(new Region({stave::float32}));
  region->set_outputs({region->add(stave::op_square, {0})});
  const std::string ptx = ptx_of(*region);
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4.f32"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4.f32"));
  // All values of a thread are in registers.
  EXPECT_THAT(ptx, Not(HasSubstr(".local")));
}

TEST(Nvrtc, ErrorNamesWhatIsWrong) {
  STAVE_NEEDS_NVRTC();
  try {
    compile(*nvrtc(), "int region = nobody;", "sm_80");
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("NVRTC does not compile the text of a region for sm_80"));
    EXPECT_THAT(error.what(), HasSubstr("nobody"));
  }
}

TEST(Nvrtc, TargetsTheDeviceOrAnOlderVirtualArchitecture) {
  const Nvrtc known{12040, {50, 80, 86, 90}};
  EXPECT_EQ(target_of(known, 90), "sm_90");
  EXPECT_EQ(target_of(known, 80), "sm_80");
  EXPECT_EQ(target_of(known, 89), "compute_86");
  EXPECT_EQ(target_of(known, 120), "compute_90");
  EXPECT_EQ(target_of(known, 37), "");
}

}  // namespace
}  // namespace stave_cuda
