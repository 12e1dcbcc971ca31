#include <stave/core/program/flops.h>

#include <algorithm>

#include <stave/core/program/fused.h>

namespace stave_detail {

std::optional<std::uint64_t> flops_of(const Op& op, const Attributes* attributes, std::span<const Shape> inputs,
                                      const Shape& output) {
  const auto elements = [](const Shape& shape) { return static_cast<std::uint64_t>(shape.elements()); };
  switch (op.id) {
    case OpId::matmul: return 2 * elements(output) * static_cast<std::uint64_t>(inputs[0].back());
    case OpId::convolution: {  // the shape of the weights: [groups, o, c, windows...]
      const auto out = static_cast<std::uint64_t>(inputs[1][0] * inputs[1][1]);
      return out ? 2 * elements(output) * (elements(inputs[1]) / out) : 0;
    }
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min: return elements(inputs[0]);
    case OpId::full:
    case OpId::iota:
    case OpId::astype:
    case OpId::stop_gradient:
    case OpId::copy:
    case OpId::reshape:
    case OpId::permute_dims:
    case OpId::broadcast_to:
    case OpId::slice:
    case OpId::pad:
    case OpId::concat:
    case OpId::gather:
    case OpId::scatter:
    case OpId::dynamic_slice:
    case OpId::dynamic_update_slice:
    case OpId::to: return 0;
    default: break;
  }
  if (const auto* fused = dynamic_cast<const FusedAttributes*>(attributes)) {
    const auto& steps = fused->region->steps();
    const auto computing = std::count_if(steps.begin(), steps.end(), [](const auto& it) { return it.op != nullptr; });
    return elements(inputs[0]) * (static_cast<std::uint64_t>(computing) + fused->region->reductions().size());
  }
  if (op.elementwise) return elements(output);
  return std::nullopt;
}

}  // namespace stave_detail
