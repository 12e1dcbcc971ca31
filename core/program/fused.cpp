#include <stave/core/program/fused.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include <stave/core/op/lost_derivatives.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

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
  for (const Region::Reduction& reduction : region->reductions())
    text += (shown++ ? " " : "") + std::string(reduction.op->name);
  return text + "}";
}

}  // namespace stave

namespace stave_detail {

namespace {

ReduceAttributes reduce_attributes(const Region::Reduction& reduction, int rank) {
  Shape axes;
  for (const Index axis : reduction.axes) axes.push_back(normalize_axis(axis, rank, reduction.op->name));
  return {std::move(axes), reduction.keepdims};
}

void infer(const Op& op, const Region& region, std::span<const Tensor> inputs, SmallVector<Abstract, 1>& outputs) {
  if (inputs.size() != region.inputs().size())
    fail<TransformError>("{}: its region has {} inputs, not {}", op.name, region.inputs().size(), inputs.size());
  const Shape& shape = inputs[0].shape();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (input.dtype() != region.inputs()[i])
      fail<DtypeError>("{}: input {} of its region is {}, not {} {}", op.name, i, region.inputs()[i], input.dtype(),
                       input.shape());
    if (input.shape() != shape)
      fail<ShapeError>("{}: inputs 0 and {} have the shapes {} and {}, which must be equal here", op.name, i, shape,
                       input.shape());
  }
  for (const int output : region.outputs()) {
    const Region::Reduction* const found = region.reduction(output);
    outputs.push_back({found ? infer_reduced(*found->op, shape, reduce_attributes(*found, shape.rank())) : shape,
                       region.dtype(output)});
  }
}

void infer_fused(const Call& call, SmallVector<Abstract, 1>& outputs) {
  infer(call.op(), *call.as<FusedAttributes>().region, call.inputs(), outputs);
}

// Returns true if an output may be written to the memory of this input. The CPU reads a tile of an
// input before it writes that tile of an output. But an input that is itself an output, or is
// reduced directly, is read after the steps of a tile, so its memory cannot be reused.
bool reuses_fused(const Attributes* attributes, std::size_t input) {
  const Region& region = *static_cast<const FusedAttributes*>(attributes)->region;
  return std::none_of(region.outputs().begin(), region.outputs().end(),
                      [&](int output) { return region.given(region.value_behind(output)) == static_cast<int>(input); });
}

// Counts one operation per element for each step that is not a number, and for each reduction.
std::uint64_t flops_fused(const Attributes* attributes, std::span<const Shape> inputs, const Shape&) {
  const Region& region = *static_cast<const FusedAttributes*>(attributes)->region;
  const auto& steps = region.steps();
  const auto computing = std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.op != nullptr; });
  return static_cast<std::uint64_t>(inputs[0].elements()) *
         (static_cast<std::uint64_t>(computing) + region.reductions().size());
}

// ---- derivatives --------------------------------------------------------------------------------
// The derivatives of the values of a region are regions too. The reductions in which a region ends
// are differentiated by their own rules.

// Returns the region without its reductions. Its outputs are the values before the reductions.
RegionPtr values_of(const Region& region) {
  return region.derived("values", [&] {
    const auto values = region.reopened();
    std::vector<int> outputs;
    for (const int output : region.outputs()) outputs.push_back(region.value_behind(output));
    values->set_outputs(std::move(outputs));
    return values;
  });
}

// Returns true if the output is a reduction whose derivative reads the value that is reduced and
// the output: prod, max or min of floats.
bool reads_values(const Region& region, int output) {
  const Region::Reduction* const found = region.reduction(output);
  return found && is_float(region.dtype(output)) && found->op->derivative == Derivative::rules;
}

// Returns, for each output for which reads_values() is true, the value that is reduced, then the
// output.
Outputs read_values(const Region& region, std::span<const Tensor> inputs) {
  const bool any_reads_values = std::any_of(region.outputs().begin(), region.outputs().end(),
                                            [&](int output) { return reads_values(region, output); });
  if (!any_reads_values) return {};
  const RegionPtr reading = region.derived("read values", [&] {
    const auto values = region.reopened();
    std::vector<int> outputs;
    for (const int output : region.outputs()) {
      if (!reads_values(region, output)) continue;
      const Region::Reduction& of = *region.reduction(output);
      outputs.push_back(of.value);
      outputs.push_back(values->reduce(*of.op, of.value, of.axes, of.keepdims));
    }
    values->set_outputs(std::move(outputs));
    return values;
  });
  return fused(reading, inputs);
}

// Returns the region of the tangents of the float outputs; `by` is as in tangents_of. For an output
// for which reads_values() is true, it returns the tangent of the value that is reduced, because
// the caller applies the JVP rule of that reduction.
RegionPtr tangent_region(const Region& region, const std::vector<bool>& by) {
  const RegionPtr of_values = tangents_of(*values_of(region), by);
  if (region.reductions().empty()) return of_values;
  const auto tangents = of_values->reopened();
  std::vector<int> outputs;
  for (const int output : region.outputs()) {
    if (!is_float(region.dtype(output))) continue;
    const Region::Reduction* const found = region.reduction(output);
    const int tangent = of_values->outputs()[outputs.size()];
    const bool is_summed = found && !reads_values(region, output);
    outputs.push_back(is_summed ? tangents->reduce(*found->op, tangent, found->axes, found->keepdims) : tangent);
  }
  tangents->set_outputs(std::move(outputs));
  return tangents;
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
  const Outputs found =
      fused(region.derived(mask_text("jvp", by), [&] { return tangent_region(region, by); }), std::move(inputs));
  const Outputs values = read_values(region, c.call.inputs());
  Outputs tangents;
  std::size_t next = 0, next_value = 0;
  for (std::size_t k = 0; k < c.outputs.size(); ++k) {
    const int output = region.outputs()[k];
    if (!is_float(c.outputs[k].dtype())) {
      tangents.push_back({});
    } else if (reads_values(region, output)) {
      const Region::Reduction& of = *region.reduction(output);
      const Tensor& value = values[next_value];
      const Call call(*of.op, {value}, make_intrusive<ReduceAttributes>(reduce_attributes(of, value.rank())));
      next_value += 2;
      tangents.push_back(of.op->jvp({call, c.outputs.subspan(k, 1), {&found[next++], 1}})[0]);
    } else {
      tangents.push_back(found[next++]);
    }
  }
  return tangents;
}

// Returns, for each output, the cotangent of its value before the reduction. If the output has no
// reduction, this is the cotangent of the output itself. Undefined cotangents stay undefined.
Outputs cotangents_of_values(const VjpContext& c, const Region& region) {
  const Outputs values = read_values(region, c.inputs);
  Outputs cotangents;
  std::size_t next = 0;
  for (std::size_t k = 0; k < c.cotangents.size(); ++k) {
    const int output = region.outputs()[k];
    const bool reads = reads_values(region, output);
    const std::size_t place = next;
    if (reads) next += 2;
    const Region::Reduction* const found = region.reduction(output);
    if (!found || !c.cotangents[k].defined()) {
      cotangents.push_back(c.cotangents[k]);
      continue;
    }
    const ReduceAttributes attributes = reduce_attributes(*found, c.shape(0).rank());
    const Abstract value{c.shape(0), region.dtype(output)};
    const std::span<const Tensor> read(values);
    const Tensor none;
    cotangents.push_back(found->op->vjp(
        {*found->op, &attributes, reads ? read.subspan(place, 1) : std::span(&none, 1),
         reads ? read.subspan(place + 1, 1) : std::span(&none, 1), std::span(&value, 1), c.cotangents.subspan(k, 1)},
        0));
  }
  return cotangents;
}

Tensor fused_vjp(const VjpContext& c, int input) {
  const Region& region = *c.as<FusedAttributes>().region;
  const Outputs cotangents = region.reductions().empty() ? Outputs(c.cotangents.begin(), c.cotangents.end())
                                                         : c.once([&] { return cotangents_of_values(c, region); });
  Inputs inputs(c.inputs);
  std::vector<bool> of;
  for (const Tensor& cotangent : cotangents) {
    of.push_back(cotangent.defined());
    if (cotangent.defined()) inputs.push_back(cotangent);
  }
  const std::string key = mask_text(fmt::format("vjp{}:", input).c_str(), of);
  return fused(region.derived(key, [&] { return cotangent_of(*values_of(region), input, of); }), std::move(inputs))[0];
}

// The values of all steps count as dependent on all inputs.
Outputs fused_depends(const DependsContext& c) {
  const Tensor all = depends_elementwise(c)[0];
  const Region& region = *c.as<FusedAttributes>().region;
  Outputs outputs;
  for (const int output : region.outputs()) {
    const Region::Reduction* const found = region.reduction(output);
    if (!found) outputs.push_back(all);
    else
      outputs.push_back(
          reshape(c.sets.unite_over(all, reduce_attributes(*found, all.rank()).axes), c.output(outputs.size()).shape));
  }
  return outputs;
}

}  // namespace

const Op& fused_op(std::string_view name) {
  static std::mutex mutex;
  // The map is never freed, since recorded operations may point to its records.
  static auto& records = *new std::map<std::string, Op, std::less<>>;
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
                       .depends = fused_depends,
                       .cpu = run_fused,
                       .takes_strides = true,
                       .reuses = reuses_fused,
                       .flops = flops_fused};
  }
  return found->second;
}

// Each value is released after the last step that reads it.
Outputs perform_steps(const Region& region, std::span<const Tensor> inputs) {
  const Shape shape = inputs[0].shape();
  const Device device = inputs[0].device();
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  std::vector<int> reads(values.size() + region.steps().size());
  for (const Region::Step& step : region.steps())
    for (const int operand : step.operands) ++reads[static_cast<std::size_t>(operand)];
  for (const int output : region.outputs()) ++reads[static_cast<std::size_t>(region.value_behind(output))];
  for (const Region::Step& step : region.steps()) {
    Inputs operands;
    for (const int operand : step.operands) {
      Tensor& value = values[static_cast<std::size_t>(operand)];
      operands.push_back(--reads[static_cast<std::size_t>(operand)] == 0 ? std::move(value) : value);
    }
    if (!step.op) values.push_back(constant(step.number, step.dtype, shape, device));
    else if (step.op->id == OpId::astype) values.push_back(astype(operands[0], step.dtype));
    else if (step.op->id == OpId::stop_gradient) values.push_back(stop_gradient(operands[0]));
    else if (step.op->elementwise) values.push_back(apply_elementwise(*step.op, operands));
    else values.push_back(apply(*step.op, std::move(operands)));
  }
  Outputs outputs;
  for (const int output : region.outputs()) {
    const Tensor& value = values[static_cast<std::size_t>(region.value_behind(output))];
    const Region::Reduction* const found = region.reduction(output);
    outputs.push_back(
        !found ? value
               : apply(*found->op, {value}, make_intrusive<ReduceAttributes>(reduce_attributes(*found, value.rank()))));
  }
  return outputs;
}

Outputs fused(const Op& op, const RegionPtr& region, Inputs inputs) {
  if (inputs.empty()) fail<TransformError>("{}: a region without inputs has no shape", op.name);
  check_defined(inputs, op.name);
  const bool have_one_shape = std::all_of(inputs.begin() + 1, inputs.end(),
                                          [&](const Tensor& input) { return input.shape() == inputs[0].shape(); });
  if (!have_one_shape) {
    Shape shape = inputs[0].shape();
    for (const Tensor& input : inputs) shape = broadcast_shapes(shape, input.shape(), op.name);
    for (Tensor& input : inputs) input = broadcast_quietly(input, shape);
  }
  if ((!current || !current->nearest) && answered_outside == 0) {
    SmallVector<Abstract, 1> outputs;
    infer(op, *region, inputs, outputs);
    return run_without_call(op, FusedAttributes(region), inputs, outputs);
  }
  Call call(op, std::move(inputs), make_intrusive<FusedAttributes>(region));
  return perform(std::move(call));
}

}  // namespace stave_detail

namespace stave {

Outputs fused(const RegionPtr& region, Inputs inputs) {
  static const Op& op = fused_op("fused");
  return stave_detail::fused(op, region, std::move(inputs));
}

}  // namespace stave
