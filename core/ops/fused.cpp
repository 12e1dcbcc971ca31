#include <stave/core/ops/fused.h>

#include <map>
#include <memory>
#include <mutex>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>

namespace stave {

using namespace stave_detail;

std::string FusedAttributes::str() const {
  std::string text = "{";
  std::size_t shown = 0;
  for (const Region::Step& step : region->steps()) {
    if (!step.op) continue;
    if (shown++ == 8) {
      text += " ...";
      break;
    }
    text += (shown > 1 ? " " : "") + std::string(step.op->name);
  }
  return text + "}";
}

}  // namespace stave

namespace stave_detail {

namespace {

void infer_fused(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Region& region = *call.as<FusedAttributes>().region;
  if (call.inputs().size() != region.inputs().size())
    fail<TransformError>("{}: its region has {} inputs, not {}", call.op().name, region.inputs().size(),
                         call.inputs().size());
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    const Tensor& input = call.input(i);
    if (input.dtype() != region.inputs()[i])
      fail<DtypeError>("{}: input {} of its region is {}, not {} {}", call.op().name, i, region.inputs()[i],
                       input.dtype(), input.shape());
    if (input.shape() != call.input(0).shape())
      fail<ShapeError>("{}: inputs 0 and {} have the shapes {} and {}, which must be one here", call.op().name, i,
                       call.input(0).shape(), input.shape());
  }
  for (const int output : region.outputs()) outputs.push_back({call.input(0).shape(), region.dtype(output)});
}

std::string mask_text(const char* kind, const std::vector<bool>& mask) {
  std::string text = kind;
  for (const bool bit : mask) text += bit ? '1' : '0';
  return text;
}

Outputs fused_jvp(const JvpContext& c) {
  const Region& region = *c.as<FusedAttributes>().region;
  Inputs inputs(c.call.inputs());
  std::vector<bool> by;
  for (std::size_t i = 0; i < c.tangents.size(); ++i) {
    by.push_back(c.has(i));
    if (c.has(i)) inputs.push_back(c.tangents[i]);
  }
  const Outputs found = fused(region.derived(mask_text("jvp", by), [&] { return tangents_of(region, by); }), inputs);
  Outputs tangents;
  std::size_t next = 0;
  for (const Tensor& output : c.outputs) tangents.push_back(is_float(output.dtype()) ? found[next++] : Tensor());
  return tangents;
}

Tensor fused_vjp(const VjpContext& c, int input) {
  const Region& region = *c.as<FusedAttributes>().region;
  Inputs inputs(c.inputs);
  std::vector<bool> of;
  for (const Tensor& cotangent : c.cotangents) {
    of.push_back(cotangent.defined());
    if (cotangent.defined()) inputs.push_back(cotangent);
  }
  const std::string key = mask_text(fmt::format("vjp{}:", input).c_str(), of);
  return fused(region.derived(key, [&] { return cotangent_of(region, input, of); }), inputs)[0];
}

}  // namespace

const Op& fused_op(std::string_view name) {
  static std::mutex mutex;
  static auto& records = *new std::map<std::string, Op, std::less<>>;  // outlive all that was computed by them
  const std::lock_guard lock(mutex);
  auto found = records.find(name);
  if (found == records.end()) {
    found = records.emplace(name, Op{}).first;
    found->second = Op{.name = found->first.c_str(),
                       .infer = infer_fused,
                       .reads = {~ValueSet::outputs, ~ValueSet::outputs},
                       .jvp = fused_jvp,
                       .vjp = fused_vjp,
                       .batch = batch_elementwise,
                       .cpu = run_fused,
                       .takes_strides = true};
  }
  return found->second;
}

Outputs perform_steps(const Region& region, std::span<const Tensor> inputs) {
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  for (const Region::Step& step : region.steps()) {
    Inputs operands;
    for (const int operand : step.operands) operands.push_back(values[static_cast<std::size_t>(operand)]);
    if (!step.op) values.push_back(constant(step.number, step.dtype, inputs[0].shape(), inputs[0].device()));
    else if (step.op->id == OpId::astype) values.push_back(astype(operands[0], step.dtype));
    else if (step.op->id == OpId::stop_gradient) values.push_back(stop_gradient(operands[0]));
    else values.push_back(apply_elementwise(*step.op, operands));
  }
  Outputs outputs;
  for (const int output : region.outputs()) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

Outputs fused(const Op& op, const RegionPtr& region, std::span<const Tensor> inputs) {
  if (inputs.empty()) fail<TransformError>("{}: a region without inputs has no shape", op.name);
  check_given(inputs, op.name);
  Shape shape = inputs[0].shape();
  for (const Tensor& input : inputs) shape = broadcast_shapes(shape, input.shape(), op.name);
  Inputs broadcast;
  for (const Tensor& input : inputs) broadcast.push_back(broadcast_quietly(input, shape));
  Call call(op, std::move(broadcast), make_intrusive<FusedAttributes>(region));
  if (inputs[0].device() != cpu) return perform_steps(*region, call.inputs());
  return perform(std::move(call));
}

}  // namespace stave_detail

namespace stave {

Outputs fused(const RegionPtr& region, std::span<const Tensor> inputs) {
  static const Op& op = fused_op("fused");
  return stave_detail::fused(op, region, inputs);
}

}  // namespace stave
