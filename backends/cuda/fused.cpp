#include <stave/backends/cuda/fused.h>

#include <algorithm>
#include <vector>

#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/region_kernels.h>
#include <stave/backends/cuda/region_plan.h>
#include <stave/core/op.h>

namespace stave_cuda {

using stave::OpId, stave::Region, stave::View;

namespace {

/// False: it cannot be one.
bool run_as_kernel(const Launch& on, const Region& region, std::span<const View> inputs,
                   std::span<const View> outputs) {
  const RegionKernel& kernel = region_kernel(region);
  if (!kernel.function) return false;
  std::vector<View> laid_out(inputs.begin(), inputs.end());
  std::vector<stave::Strides> dense(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].shape.size() > 1) lay_out(on, laid_out[i], dense[i]);
  RegionPlan plan(region, laid_out, outputs);
  if (plan.argument_bytes() > kernel.most_argument_bytes) return false;
  std::vector<void*> arguments = plan.on_device(on);
  launch(kernel, plan.blocks(), on.stream, arguments);
  return true;
}

/// Its values, one after another: each in the output that it is, or in scratch memory, by the region's slots.
class Steps {
 public:
  Steps(const Launch& launch, const Region& region, std::span<const View> inputs, std::span<const View> outputs)
      : launch_(launch), region_(region), outputs_(outputs), values_(inputs.begin(), inputs.end()),
        dense_(contiguous_strides(stave::Shape(outputs[0].shape))), still_(dense_),
        slots_(static_cast<std::size_t>(region.slots())) {
    std::fill(still_.begin(), still_.end(), 0);
    std::vector<std::size_t> bytes(slots_.size());
    for (const Region::Step& step : region.steps())
      if (step.op) bytes[slot(step)] = std::max(bytes[slot(step)], stave::size_of(step.dtype));
    const auto elements = static_cast<std::size_t>(stave::Shape(outputs[0].shape).elements());
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (bytes[i] > 0) slots_[i] = launch.scratch.allocate(bytes[i] * elements);
  }

  void run() {
    for (const Region::Step& step : region_.steps()) {
      if (step.op) run_step(step);
      else values_.push_back({const_cast<stave::Bytes16*>(&step.bytes), step.dtype, outputs_[0].shape, still_, true});
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (const View& value = values_[static_cast<std::size_t>(region_.outputs()[k])]; value.data != outputs_[k].data)
        run_copy(launch_, value, outputs_[k]);
  }

 private:
  static std::size_t slot(const Region::Step& step) { return static_cast<std::size_t>(step.slot); }

  void run_step(const Region::Step& step) {
    std::vector<View> operands;
    for (const int operand : step.operands) operands.push_back(values_[static_cast<std::size_t>(operand)]);
    const auto value = static_cast<int>(values_.size());
    const auto written = std::find(region_.outputs().begin(), region_.outputs().end(), value);
    void* const to = written == region_.outputs().end()
                         ? slots_[slot(step)]
                         : outputs_[static_cast<std::size_t>(written - region_.outputs().begin())].data;
    const View made{to, step.dtype, outputs_[0].shape, dense_};
    switch (step.op->id) {
      case OpId::where: run_where(launch_, operands[0], operands[1], operands[2], made); break;
      case OpId::astype: run_astype(launch_, operands[0], made); break;
      case OpId::stop_gradient: run_copy(launch_, operands[0], made); break;
      default: run_elementwise(launch_, step.op->id, operands, made);
    }
    values_.push_back(made);
  }

  const Launch& launch_;
  const Region& region_;
  const std::span<const View> outputs_;
  std::vector<View> values_;
  stave::Strides dense_, still_;
  std::vector<void*> slots_;
};

}  // namespace

void run_fused(const Launch& launch, const Region& region, std::span<const View> inputs,
               std::span<const View> outputs) {
  if (outputs.empty() || stave::Shape(outputs[0].shape).elements() == 0) return;
  if (!run_as_kernel(launch, region, inputs, outputs)) Steps(launch, region, inputs, outputs).run();
}

}  // namespace stave_cuda
