#include <stave/backends/cuda/fused.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/reduce.h>
#include <stave/backends/cuda/region_kernels.h>
#include <stave/backends/cuda/region_plan.h>
#include <stave/backends/cuda/region_text.h>
#include <stave/core/op/op.h>

namespace stave_cuda {

using stave::OpId, stave::Region, stave::View;

namespace {

/// Runs the region as one kernel. Returns false if that is not possible.
bool run_as_kernel(const Launch& on, const Region& region, std::span<const View> inputs,
                   std::span<const View> written) {
  if (region.has_complex()) return false;
  const RegionKernel& kernel = region_kernel(region);
  if (!kernel.function) return false;
  std::vector<View> laid_out(inputs.begin(), inputs.end());
  std::vector<stave::Strides> dense(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].shape.size() > 1) lay_out(on, laid_out[i], dense[i]);
  RegionPlan plan(region, laid_out, written);
  if (plan.argument_bytes() > kernel.most_argument_bytes) return false;
  std::vector<void*> arguments = plan.on_device(on);
  launch(kernel, plan.blocks(), on.stream, arguments);
  return true;
}

/// Runs the steps of a region one after another. A written value goes to its place in `written`.
/// Any other value goes to scratch memory, where values with the same slot share a block, one after
/// the other.
class Steps {
 public:
  Steps(const Launch& launch, const Region& region, std::span<const View> inputs, std::span<const View> written)
      : launch_(launch), region_(region), written_(written), written_values_(written_values(region)),
        values_(inputs.begin(), inputs.end()), dense_(contiguous_strides(stave::Shape(inputs[0].shape))),
        still_(dense_), slots_(static_cast<std::size_t>(region.slot_count())) {
    std::fill(still_.begin(), still_.end(), 0);
    std::vector<std::size_t> bytes(slots_.size());
    auto value = static_cast<int>(inputs.size());
    for (const Region::Step& step : region.steps())
      if (const bool elsewhere = place_of(value++) < written.size(); step.op && !elsewhere)
        bytes[slot(step)] = std::max(bytes[slot(step)], stave::size_of(step.dtype));
    const auto elements = static_cast<std::size_t>(stave::Shape(inputs[0].shape).elements());
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (bytes[i] > 0) slots_[i] = launch.scratch.allocate(bytes[i] * elements);
  }

  void run() {
    for (const Region::Step& step : region_.steps()) {
      if (step.op) run_step(step);
      else values_.push_back({const_cast<stave::Bytes16*>(&step.bytes), step.dtype, values_[0].shape, still_, true});
    }
    for (std::size_t k = 0; k < written_.size(); ++k)
      if (const View& value = values_[static_cast<std::size_t>(written_values_[k])]; value.data != written_[k].data)
        run_copy(launch_, value, written_[k]);
  }

 private:
  static std::size_t slot(const Region::Step& step) { return static_cast<std::size_t>(step.slot); }
  /// Returns the index of a value among the written values, or their number if it is not written.
  std::size_t place_of(int value) const {
    return static_cast<std::size_t>(std::find(written_values_.begin(), written_values_.end(), value) -
                                    written_values_.begin());
  }

  void run_step(const Region::Step& step) {
    std::vector<View> operands;
    for (const int operand : step.operands) operands.push_back(values_[static_cast<std::size_t>(operand)]);
    const std::size_t place = place_of(static_cast<int>(values_.size()));
    void* const to = place < written_.size() ? written_[place].data : slots_[slot(step)];
    const View made{to, step.dtype, values_[0].shape, dense_};
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
  const std::span<const View> written_;
  const std::vector<int> written_values_;
  std::vector<View> values_;
  stave::Strides dense_, still_;
  std::vector<void*> slots_;
};

void reduce(const Launch& launch, const Region::Reduction& reduction, const View& value, const View& out) {
  stave::Shape axes;
  for (const Index axis : reduction.axes) axes.push_back(axis + std::ssize(value.shape));
  run_reduce(launch, reduction.op->id, axes, value, out);
}

}  // namespace

void run_fused(const Launch& launch, const Region& region, std::span<const View> inputs,
               std::span<const View> outputs) {
  const std::vector<int> values = written_values(region);
  const stave::Shape shape(inputs[0].shape);
  const stave::Strides dense = contiguous_strides(shape);
  const auto elements = static_cast<std::size_t>(shape.elements());
  std::vector<View> written;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (!region.reduction(region.outputs()[k])) written.push_back(outputs[k]);
  for (std::size_t k = written.size(); k < values.size(); ++k) {
    const stave::Dtype dtype = region.dtype(values[k]);
    written.push_back({launch.scratch.allocate(elements * stave::size_of(dtype)), dtype, shape, dense});
  }
  if (elements > 0 && !written.empty() && !run_as_kernel(launch, region, inputs, written))
    Steps(launch, region, inputs, written).run();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Region::Reduction* const reduction = region.reduction(region.outputs()[k]);
    if (!reduction) continue;
    const auto place = std::find(values.begin(), values.end(), reduction->value) - values.begin();
    const bool is_input = place == std::ssize(values);
    reduce(launch, *reduction,
           is_input ? inputs[static_cast<std::size_t>(reduction->value)] : written[static_cast<std::size_t>(place)],
           outputs[k]);
  }
}

}  // namespace stave_cuda
