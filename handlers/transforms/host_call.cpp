// A host_call is an operation whose batching rule is made of host_calls (custom_vmap). The handlers
// outside of vmap see these, and treat them like any host_call.
#include <stave/handlers/transforms/host_call.h>

#include <stave/core/op/higher_order_answer.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

namespace {

void check_results(const Outputs& outputs, const std::vector<Abstract>& expected) {
  if (outputs.size() != expected.size())
    fail<TransformError>("host_call: the function returned {} tensors, but {} were declared", outputs.size(),
                         expected.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) fail<TransformError>("host_call: result {} of the function is an empty Tensor", i);
    if (outputs[i].shape() != expected[i].shape)
      fail<ShapeError>("host_call: result {} of the function has shape {}, but {} was declared", i, outputs[i].shape(),
                       expected[i].shape);
    if (outputs[i].dtype() != expected[i].dtype)
      fail<DtypeError>("host_call: result {} of the function is {}, but {} was declared", i, outputs[i].dtype(),
                       expected[i].dtype);
  }
}

// Calls the function outside of all handlers.
Outputs run_on_host(const HostCall& host, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    check_not_differentiated(input.node(), "host_call",
                             "the derivative of the called function is not known: give it one by custom_vjp or "
                             "custom_jvp, or write stop_gradient(x) for the argument");
    check_not_escaped(input.node());
    notify_read(input);
  }
  const UnderFrame below_all(nullptr);
  std::vector<Tensor> arrays;
  for (const Tensor& input : inputs) arrays.push_back(contiguous(to(view_of(input), cpu)));
  Outputs outputs = host.function(arrays);
  check_results(outputs, host.results);
  const Device device = inputs.empty() ? cpu : inputs[0].device();
  for (Tensor& output : outputs) output = to(std::move(output), device);
  return outputs;
}

Abstract with_lanes(Abstract one, Index lanes) {
  one.shape.insert(one.shape.begin(), lanes);
  return one;
}

Outputs one_by_one(const HostCall& host, const FunctionInputs& given) {
  const auto inputs = given.inputs;
  std::vector<std::vector<Tensor>> results(host.results.size());
  for (Index lane = 0; lane < given.lanes; ++lane) {
    Inputs of_lane;
    for (std::size_t i = 0; i < inputs.size(); ++i) of_lane.push_back(given.batched[i] ? inputs[i](lane) : inputs[i]);
    const Outputs outputs = host_call_flat(host, std::move(of_lane));
    for (std::size_t i = 0; i < outputs.size(); ++i) results[i].push_back(outputs[i]);
  }
  Outputs stacked;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Abstract all = with_lanes(host.results[i], given.lanes);
    stacked.push_back(given.lanes == 0 ? zeros(all.shape, all.dtype, inputs[0].device()) : stack(results[i]));
  }
  return stacked;
}

Outputs all_at_once(const HostCall& host, const FunctionInputs& given) {
  HostCall for_lanes = host;
  for (Abstract& result : for_lanes.results) result = with_lanes(std::move(result), given.lanes);
  Inputs all;
  for (std::size_t i = 0; i < given.inputs.size(); ++i)
    all.push_back(given.batched[i] ? given.inputs[i] : broadcast_lanes(given.inputs[i], given.lanes));
  return host_call_flat(for_lanes, std::move(all));
}

}  // namespace

Outputs host_call_flat(const HostCall& host, Inputs inputs) {
  FunctionAttributes functions;
  functions.name = "host_call";
  const auto announced = std::make_shared<HigherOrderResults>();
  SmallVector<HigherOrderResults::Result, 1> results;
  for (const Abstract& result : host.results) results.push_back({result, std::nullopt});
  announced->set(std::move(results));
  functions.results = announced;
  functions.function = [host](const FunctionInputs& given) { return run_on_host(host, given.inputs); };
  functions.batch = [host](const FunctionInputs& given) {
    const bool at_once = host.options.vmap_method == VmapMethod::broadcast_all;
    return (at_once ? all_at_once : one_by_one)(host, given);
  };
  return call_function(std::move(functions), std::move(inputs));
}

}  // namespace stave_detail
