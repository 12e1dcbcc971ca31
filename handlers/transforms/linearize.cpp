#include <stave/handlers/transforms/linearize.h>

#include <stave/core/ops/create.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

FlatLinearized linearize_flat(FlatFunction f, std::span<const Tensor> primals, InputNames names) {
  FlatVjp vjp = vjp_flat(f, primals, "linearize", names);
  FlatLinearized result;
  std::vector<Tensor> cotangents;  // zero cotangents of the outputs that have a derivative
  for (const Tensor& output : vjp.outputs) {
    result.linear.has_tangent_.push_back(is_inexact(output.dtype()));
    result.linear.zeros_.push_back(result.linear.has_tangent_.back() ? Tensor() : zeros_like(output));
    if (result.linear.has_tangent_.back()) cotangents.push_back(zeros_like(output));
  }
  FlatVjp transposed = vjp_flat(
      [&](std::span<const Tensor> given) {
        std::vector<Tensor> all;
        std::size_t next = 0;
        for (const bool has : result.linear.has_tangent_) all.push_back(has ? given[next++] : Tensor());
        const std::vector<Tensor> inputs = vjp.pullback.consume(all);
        return Outputs(inputs.begin(), inputs.end());
      },
      cotangents, "linearize");
  result.linear.transposed_ = std::move(transposed.pullback);
  result.outputs = std::move(vjp.outputs);
  return result;
}

std::vector<Tensor> FlatLinear::operator()(std::span<const Tensor> tangents) const {
  const std::vector<Tensor> found = transposed_(tangents);
  std::vector<Tensor> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < has_tangent_.size(); ++i) all.push_back(has_tangent_[i] ? found[next++] : zeros_[i]);
  return all;
}

}  // namespace stave
