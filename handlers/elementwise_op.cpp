#include <stave/handlers/elementwise_op.h>

#include <stave/core/default_dtype.h>
#include <stave/core/fail.h>
#include <stave/core/ops/frontend.h>

namespace stave_detail {

Inputs fused_operands(const Op& op, std::span<Operand> operands) {
  const Tensor* first = nullptr;
  Dtype dtype = bool_;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_scalar()) continue;
    const Tensor& x = given(operands[i].tensor(), op.name, i);
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

RegionPtr recorded_for(const Op& op, std::span<const Tensor> inputs, std::map<std::vector<Dtype>, RegionPtr>& regions,
                       std::mutex& mutex, FlatFunction f) {
  std::vector<Dtype> dtypes;
  for (const Tensor& input : inputs) dtypes.push_back(input.dtype());
  std::vector<Dtype> key = dtypes;
  key.push_back(default_dtype());  // to which integers go
  {
    const std::lock_guard lock(mutex);
    if (const auto found = regions.find(key); found != regions.end()) return found->second;
  }
  RegionPtr region = record_region(op.name, f, dtypes);
  const std::lock_guard lock(mutex);
  return regions.emplace(std::move(key), std::move(region)).first->second;
}

}  // namespace stave_detail
