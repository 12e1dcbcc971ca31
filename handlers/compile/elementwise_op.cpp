#include <stave/handlers/compile/elementwise_op.h>

#include <algorithm>
#include <utility>

#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

Inputs fused_operands(const Op& op, std::span<Operand> operands) {
  const Tensor* first = nullptr;
  Dtype dtype = bool_;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_scalar()) continue;
    const Tensor& x = require_defined(operands[i].tensor(), op.name, i);
    dtype = first ? promote(dtype, x.dtype()) : x.dtype();
    if (!first) first = &x;
  }
  const Device device = first ? first->device() : cpu;
  Inputs inputs;
  for (Operand& x : operands) {
    const Dtype own = !x.is_scalar() ? x.tensor().dtype() : first ? x.scalar().with(dtype) : x.scalar().alone();
    inputs.push_back(as_tensor(std::move(x), own, nullptr, device));
  }
  return inputs;
}

RecordedRegions::~RecordedRegions() {
  for (const Entry* at = first_.load(); at;) delete std::exchange(at, at->next);
}

const RecordedRegions::Entry* RecordedRegions::look_up(std::span<const Tensor> inputs, Dtype floats) const {
  const auto same = [](Dtype dtype, const Tensor& input) { return dtype == input.dtype(); };
  const Entry* at = first_.load(std::memory_order_acquire);
  while (at && (at->floats != floats ||
                !std::equal(at->dtypes.begin(), at->dtypes.end(), inputs.begin(), inputs.end(), same)))
    at = at->next;
  return at;
}

namespace {

RegionPtr with_loops(const Region& region, std::span<const Loop> loops) {
  const auto copy = region.reopened();
  copy->set_outputs(region.outputs());
  copy->set_loops(loops);
  return copy;
}

}  // namespace

const RegionPtr& RecordedRegions::find(const Op& op, std::span<const Tensor> inputs, FlatFunction f,
                                       std::span<const Loop> loops) {
  const Dtype floats = default_dtype();
  if (const Entry* const found = look_up(inputs, floats)) return found->region;
  SmallVector<Dtype, 8> dtypes;
  for (const Tensor& input : inputs) dtypes.push_back(input.dtype());
  RegionPtr region = record_region(op.name, f, dtypes);
  if (!loops.empty()) region = with_loops(*region, loops);
  const std::lock_guard lock(mutex_);
  if (const Entry* const found = look_up(inputs, floats)) return found->region;
  const auto* const made = new Entry{std::move(dtypes), floats, std::move(region), first_.load()};
  first_.store(made, std::memory_order_release);
  return made->region;
}

}  // namespace stave_detail
