#include "table/place.h"

#include <string_view>

#include <stave/core/effects/error.h>
#include <stave/core/ops/transfer.h>

namespace table {

Outputs AtPlace::handle(Call& call) {
  Outputs outputs = at_place(call);
  if (call.op().is_higher_order || call.op().id == OpId::to || call.inputs().empty()) return outputs;
  for (Tensor& output : outputs)
    if (output.device() != call.input(0).device()) output = to(output, call.input(0).device());
  return outputs;
}

Outputs AtPlace::at_place(Call& call) {
  if (call.op().id == OpId::to || call.op().is_higher_order) return perform(std::move(call));
  if (call.op().id == OpId::full) {
    const auto& full = call.as<FullAttributes>();
    return perform(call.with_attributes(make_intrusive<FullAttributes>(full.shape, full.dtype, full.value, place())));
  }
  if (call.op().id == OpId::iota) {
    const auto& iota = call.as<IotaAttributes>();
    return perform(
        call.with_attributes(make_intrusive<IotaAttributes>(iota.length, iota.dtype, iota.start, iota.step, place())));
  }
  Inputs inputs;
  for (const Tensor& input : call.inputs()) inputs.push_back(input.device() == place() ? input : to(input, place()));
  try {
    return perform(call.with_inputs(std::move(inputs)));
  } catch (const DeviceError& error) {
    return on_cpu(call, error);
  }
}

// Repeats a call on the CPU if the error says that there is no kernel.
Outputs AtPlace::on_cpu(Call& call, const DeviceError& error) {
  if (std::string_view(error.what()).find("it has no kernel") == std::string_view::npos) throw;
  without_kernel_.insert(call.op().name);
  Inputs inputs;
  for (const Tensor& input : call.inputs()) inputs.push_back(input.device() == cpu ? input : to(input, cpu));
  return perform(call.with_inputs(std::move(inputs)));
}

}  // namespace table
