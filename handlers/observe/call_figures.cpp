#include <stave/handlers/observe/call_figures.h>

#include <stave/core/op/notation.h>

namespace stave_detail {

std::uint64_t bytes_read(const Call& call) {
  const auto inputs = call.inputs();
  if (call.op().id != OpId::gather && call.op().id != OpId::dynamic_slice) return bytes_of(inputs);
  std::uint64_t bytes = bytes_of(inputs.subspan(1));
  for (const Abstract& output : call.abstract_outputs())
    bytes += static_cast<std::uint64_t>(output.shape.elements()) * static_cast<std::uint64_t>(size_of(output.dtype));
  return bytes;
}

std::optional<std::uint64_t> flops_of(const Call& call) {
  const auto outputs = call.abstract_outputs();
  if (outputs.empty()) return std::nullopt;
  SmallVector<Shape, 3> shapes;
  for (const Tensor& input : call.inputs()) shapes.push_back(input.shape());
  return call.op().flops_of(call.attributes(), shapes, outputs[0].shape);
}

}  // namespace stave_detail
