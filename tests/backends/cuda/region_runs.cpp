// Tests the text of regions' kernels, compiled by the host's compiler and executed on the host,
// against the CPU backend's kernels of the single steps: bit for bit where IEEE arithmetic
// determines the result, else within a few ulp.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <stave/backends/cuda/region_plan.h>
#include <stave/backends/cuda/region_text.h>

#include "cuda/layouts.h"
#include "cuda/random_regions.h"
#include "cuda/region_kernels.h"

namespace stave_cuda {
namespace {

using namespace stave_test;
using stave::Dtype, stave::OpId, stave::Region;

void run_on_cpu(const stave::Op& op, std::span<const View> in, const View& out) {
  const stave::DtypeAttributes dtype(out.dtype);
  const stave::Op& moves = op.id == OpId::stop_gradient ? stave::op_copy : op;
  stave::cpu_backend().run(moves, op.id == OpId::astype ? &dtype : nullptr, in, {&out, 1});
}

/// All values of the region, each in row-major order.
std::vector<Buffer> values_by_steps(const Region& region, const std::vector<Buffer>& inputs,
                                    const stave::Shape& shape) {
  std::vector<Buffer> values(inputs);
  for (const Region::Step& step : region.steps()) {
    std::vector<View> operands;
    for (const int operand : step.operands) operands.push_back(values[static_cast<std::size_t>(operand)].view());
    const Buffer made(step.dtype, shape);
    if (step.op) {
      run_on_cpu(*step.op, operands, made.view());
    } else {
      stave::Strides still(shape);
      for (Index& stride : still) stride = 0;
      const View number{const_cast<stave::Bytes16*>(&step.bytes), step.dtype, shape, still};
      run_on_cpu(stave::op_copy, {&number, 1}, made.view());
    }
    values.push_back(made);
  }
  return values;
}

/// The largest difference in ulp of a value, and the size of its terms if it is a difference
/// of terms.
std::pair<double, double> tolerance(const Region& region, int value) {
  if (value < static_cast<int>(region.inputs().size()) || !region.step(value).op) return {0, 0};
  const Region::Step& step = region.step(value);
  const Dtype dtype = region.dtype(step.operands.back());
  if (!is_function(*step.op, dtype)) return {0, 0};
  const OpId op = step.op->id;
  const bool differs = op == OpId::lgamma || op == OpId::digamma || op == OpId::logaddexp;
  return {is_half_float(dtype) ? 1 : 4, differs ? 4 : 0};
}

void expect_steps(const Region& region, RegionKernel kernel, const std::vector<Layout>& layouts, Random& random) {
  const stave::Shape& shape = layouts[0].shape;
  std::vector<Buffer> inputs, outputs;
  std::string what;
  for (const Dtype dtype : region.inputs()) {
    const Layout& layout = one_of(random, layouts);
    inputs.emplace_back(dtype, shape, layout.strides, layout.misaligned_by);
    stave::visit_real_dtype(dtype, [&](auto zero) { fill_with_values<decltype(zero)>(inputs.back(), random); });
    what += std::string(layout.name) + ", ";
  }
  const std::vector<int> written = written_values(region);
  for (const int value : written) outputs.emplace_back(region.dtype(value), shape);
  std::vector<View> in, out;
  for (const Buffer& input : inputs) in.push_back(input.view());
  for (const Buffer& output : outputs) out.push_back(output.view());

  RegionPlan plan(region, in, out);
  const std::vector<void*> arguments = plan.on_host();
  for_each_thread(
      plan.blocks(), [&](Position p) { kernel(p.block * p.threads + p.thread, arguments.data()); }, region_threads);

  const std::vector<Buffer> expected = values_by_steps(region, inputs, shape);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const int value = written[k];
    const auto [ulps, terms] = tolerance(region, value);
    stave::visit_real_dtype(outputs[k].dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (Index i = 0; i < shape.elements(); ++i) {
        const T got = outputs[k].at<T>(i), wanted = expected[static_cast<std::size_t>(value)].at<T>(i);
        ASSERT_TRUE(close(got, wanted, ulps, terms))
            << what << "output " << k << ", element " << i << " is " << +got << ", expected " << +wanted << "\n"
            << region.str();
      }
    });
    ASSERT_TRUE(outputs[k].guards_are_whole()) << what << "wrote outside of output " << k;
  }
}

TEST(RegionText, EqualsItsSteps) {
  const std::vector<stave::RegionPtr> regions = regions_of_tests();
  ASSERT_EQ(regions.size(), region_kernels.size());
  Random random(31);
  for (std::size_t i = 0; i < regions.size(); ++i)
    for (const std::vector<Layout>& layouts : operand_layouts()) {
      SCOPED_TRACE(i);
      expect_steps(*regions[i], region_kernels[i], layouts, random);
      if (testing::Test::HasFatalFailure()) return;
    }
}

stave::RegionPtr region_of(stave::Scalar number, stave::Dtype dtype) {
  stave::IntrusivePtr<Region> region(new Region({dtype, dtype}));
  const int product = region->add(stave::op_multiply, {0, 1});
  region->set_outputs({region->add(stave::op_add, {product, region->add(number, dtype)})});
  return region;
}

TEST(RegionText, DoesNotDependOnConstants) {
  const auto one = region_of(1, stave::float32), two = region_of(2, stave::float32),
             wide = region_of(2, stave::float64);
  EXPECT_EQ(region_text(*one), region_text(*two));
  EXPECT_EQ(region_signature(*one), region_signature(*two));
  EXPECT_NE(region_text(*one), region_text(*wide));
  EXPECT_NE(region_signature(*one), region_signature(*wide));
}
TEST(RegionText, DiffersExactlyIfTheSignatureDiffers) {
  std::map<std::string, std::string> texts;
  for (const stave::RegionPtr& region : regions_of_tests()) {
    const auto [known, added] = texts.emplace(region_signature(*region), region_text(*region));
    EXPECT_TRUE(added || known->second == region_text(*region));
  }
  std::set<std::string> distinct;
  for (const auto& [signature, text] : texts) distinct.insert(text);
  EXPECT_EQ(distinct.size(), texts.size());
}

TEST(RegionPlan, ClassifiesMemoryAccess) {
  alignas(16) static float memory[4096];
  const auto region = region_of(1, stave::float32);
  const auto neighbours = [&](const stave::Shape& shape, const stave::Strides& strides, int skip = 0) {
    const stave::Strides dense = contiguous_strides(shape);
    const View in[] = {{memory + skip, stave::float32, shape, strides}, {memory, stave::float32, shape, dense}};
    const View out{memory, stave::float32, shape, dense};
    return RegionPlan(*region, in, {&out, 1}).input(0).neighbours;
  };
  EXPECT_EQ(neighbours({1001}, {1}), Neighbours::flat);
  EXPECT_EQ(neighbours({8, 63}, {63, 1}), Neighbours::flat);
  EXPECT_EQ(neighbours({1001}, {1}, 1), Neighbours::scattered);  // misaligned
  EXPECT_EQ(neighbours({1001}, {0}, 1), Neighbours::broadcast);
  EXPECT_EQ(neighbours({}, {}, 1), Neighbours::broadcast);
  EXPECT_EQ(neighbours({8, 64}, {0, 1}), Neighbours::packed);      // a broadcast row
  EXPECT_EQ(neighbours({8, 64}, {1, 0}), Neighbours::broadcast);   // a broadcast column
  EXPECT_EQ(neighbours({8, 64}, {68, 1}), Neighbours::packed);     // rows with gaps between them
  EXPECT_EQ(neighbours({8, 64}, {66, 1}), Neighbours::scattered);  // rows that start between vectors
  // The elements of one thread are in two rows.
  EXPECT_EQ(neighbours({8, 63}, {0, 1}), Neighbours::scattered);
  EXPECT_EQ(neighbours({8, 63}, {1, 0}), Neighbours::scattered);
  EXPECT_EQ(neighbours({8, 64}, {1, 8}), Neighbours::scattered);  // transposed
  EXPECT_EQ(neighbours({64}, {-1}), Neighbours::scattered);
}

}  // namespace
}  // namespace stave_cuda
