// The program of one lane. LaneBuilder walks a program once, finds the axis of lanes of each
// variable, and appends the instructions of one lane to another program. The rules of operations
// are in lane_rules.cpp.
#include <stave/core/program/lanes.h>

#include <algorithm>

#include <fmt/ranges.h>

#include <stave/core/ops/layout.h>
#include <stave/core/program/lane_rules.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/lower.h>

namespace stave_detail {

std::string LanesAttributes::str() const { return fmt::format("{} lanes", lanes); }
std::string LaneReduction::str() const {
  return fmt::format("axes=[{}] of a lane", fmt::join(axes.begin(), axes.end(), ","));
}

namespace {

// The first entry along an axis, which stays as an axis of length 1.
Tensor entry(const Tensor& x, int axis) {
  const Shape zeros = all_equal(x.shape().size(), 0), ones = all_equal(x.shape().size(), 1);
  Shape lengths = x.shape();
  lengths[static_cast<std::size_t>(axis)] = 1;
  return apply(op_slice, {x}, make_intrusive<SliceAttributes>(zeros, lengths, ones));
}

// The operation exists in programs that a backend compiles; nothing performs it.
const Op op_lanes{.name = "lanes"};

}  // namespace

const LanesAttributes* lanes_of(const Program& program) {
  if (program.instructions.size() != 1 || program.instructions[0].op != &op_lanes) return nullptr;
  return static_cast<const LanesAttributes*>(program.instructions[0].attributes.get());
}

// ---- the builder --------------------------------------------------------------------------------

LaneBuilder::LaneBuilder(const Program& all, Index lanes)
    : all_(all), lanes_(lanes), axes_(all, no_axis), names_(all, -1), strides_(all) {
  for (const auto& [variable, value] : all.constants) add_constant(variable, value);
}

int LaneBuilder::guess(int variable) const {
  const Shape& shape = all_.variable(variable).shape;
  const auto found = std::find(shape.begin(), shape.end(), lanes_);
  return found == shape.end() ? no_axis : static_cast<int>(found - shape.begin());
}

Shape LaneBuilder::of_lane(const Shape& shape, int axis) {
  Shape rest;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (static_cast<int>(k) != axis) rest.push_back(shape[k]);
  return rest;
}

void LaneBuilder::add_input(int variable, int axis, Strides strides) {
  set(variable, axis, one_.add_variable(of_lane(all_.variable(variable).shape, axis), all_.variable(variable).dtype));
  strides_[variable] = std::move(strides);
  one_.inputs.push_back(names_[variable]);
}

// If all entries of a constant along the axis of lanes are equal, each lane has this entry as a
// constant. Other constants with such an axis become inputs of the program of one lane.
void LaneBuilder::add_constant(int variable, const Tensor& value) {
  const UnderFrame past_all_handlers(nullptr);
  const int axis = value.size() > 0 ? guess(variable) : no_axis;
  if (axis == no_axis) {
    set(variable, no_axis, one_.add_variable(value.shape(), value.dtype()));
    strides_[variable] = value.node().strides;
    one_.constants.push_back({names_[variable], value});
    return;
  }
  const Tensor first = entry(value, axis);
  const bool repeats_lanes = value.strides()[static_cast<std::size_t>(axis)] == 0;
  if (!repeats_lanes && !same_bits(value, broadcast_to(first, value.shape())))
    return add_input(variable, axis, value.node().strides);
  const Shape shape = of_lane(value.shape(), axis);
  set(variable, axis, one_.add_variable(shape, value.dtype()));
  strides_[variable] = value.node().strides;
  one_.constants.push_back({names_[variable], is_one_number(value) ? broadcast_to(one_number(value), shape)
                                                                   : contiguous(reshape(first, shape))});
}

void LaneBuilder::set(int variable, int axis, int name) {
  axes_[variable] = axis;
  names_[variable] = name;
}

int LaneBuilder::emit(const Op& op, AttributesPtr attributes, std::initializer_list<int> inputs, Shape shape,
                      Dtype dtype) {
  return emit(op, std::move(attributes), std::span<const int>(inputs.begin(), inputs.size()), std::move(shape), dtype);
}
int LaneBuilder::emit(const Op& op, AttributesPtr attributes, std::span<const int> inputs, Shape shape, Dtype dtype) {
  Program::Instruction step{&op, std::move(attributes)};
  step.inputs.append(inputs.begin(), inputs.end());
  step.outputs.push_back(one_.add_variable(std::move(shape), dtype));
  const int output = step.outputs[0];
  one_.instructions.push_back(std::move(step));
  return output;
}

// The strides of an output as kernels compute it. The strides of a view are those that the
// operation's own rule gives.
Strides LaneBuilder::strides_of_output(const Program::Instruction& step, std::size_t k) const {
  const Program::Variable& result = all_.variable(step.outputs[k]);
  if (is_view(step)) {
    const Program::Variable& from = all_.variable(step.inputs[0]);
    const Tensor layout = layout_tensor(from.dtype, cpu, from.shape, strides_[step.inputs[0]]);
    const Tensor found = step.op->view(Call(*step.op, Inputs{layout}, step.attributes));
    if (found.defined()) return found.node().strides;
  }
  return contiguous_strides(result.shape);
}

bool LaneBuilder::add(const Program::Instruction& step) {
  const std::size_t instructions = one_.instructions.size(), variables = one_.variables.size();
  const Estimate before = cost_;
  const bool is_known = !step.is_read() && std::all_of(step.inputs.begin(), step.inputs.end(),
                                                       [&](int input) { return names_[input] >= 0; });
  bool fits = is_known && !has_complex(all_, step) && lane_rule(*this, step);
  for (std::size_t k = instructions; fits && k < one_.instructions.size(); ++k) {
    const Program::Instruction& it = one_.instructions[k];
    if (loop_of(it)) continue;  // The rule of a loop has added the costs of its body.
    if (const std::optional<Estimate> cost = estimate(one_, it))
      cost_ += {time_of_block(one_, it), 0, cost->instructions};
    else fits = false;
  }
  if (fits) {
    for (std::size_t k = 0; k < step.outputs.size(); ++k) strides_[step.outputs[k]] = strides_of_output(step, k);
    return true;
  }
  one_.instructions.resize(instructions);
  one_.variables.resize(variables);
  cost_ = before;
  for (const int output : step.outputs) names_[output] = -1;
  return false;
}

bool LaneBuilder::is_broadcast(int variable, int axis) const {
  return strides_[variable][static_cast<std::size_t>(axis)] == 0;
}

Program LaneBuilder::finish(std::span<const int> outputs) {
  for (const int output : outputs) one_.outputs.push_back(names_[output]);
  return std::move(one_);
}

// ---- whole programs -----------------------------------------------------------------------------

LaneAnalysis find_lanes(const Program& program, std::span<const Strides> strides, Index lanes) {
  LaneBuilder builder(program, lanes);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    builder.add_input(program.inputs[i], builder.guess(program.inputs[i]), strides[i]);
  LaneAnalysis found{lanes, {}, {}, {}};
  for (const Program::Instruction& step : program.instructions) {
    const Estimate before = builder.cost();
    std::optional<Estimate>& estimate = found.estimates.emplace_back();
    if (builder.add(step)) {
      // Values that are the same for all lanes are computed once, before the lanes.
      const bool has_lanes = std::any_of(step.outputs.begin(), step.outputs.end(),
                                         [&](int output) { return builder.axis(output) != no_axis; });
      if (!has_lanes || is_view(step)) continue;
      estimate = builder.cost();
      estimate->native -= before.native;
      estimate->instructions -= before.instructions;
      estimate->kernels = time_of_kernels(program, step);
      found.kernels += estimate->kernels;
      continue;
    }
    // A kernel computes the outputs. A view of some of the lanes cannot be part of the program of
    // one lane.
    if (!step.is_read() && !is_view(step))
      for (const int output : step.outputs)
        builder.add_input(output, builder.guess(output), contiguous_strides(program.variable(output).shape));
  }
  for (std::size_t variable = 0; variable < program.variables.size(); ++variable)
    found.axes.push_back(builder.axis(static_cast<int>(variable)));
  found.are_inputs.assign(program.variables.size(), false);
  for (const auto& [variable, value] : program.constants)
    found.are_inputs[static_cast<std::size_t>(variable)] = builder.is_input(variable);
  return found;
}

std::optional<LaneAnalysis> find_lanes(const Program& program, std::span<const Strides> strides) {
  constexpr std::size_t most_candidates = 4;
  std::vector<Index> candidates;
  const auto consider = [&](Index length) {
    if (length >= least_lanes && candidates.size() < most_candidates &&
        std::find(candidates.begin(), candidates.end(), length) == candidates.end())
      candidates.push_back(length);
  };
  for (std::size_t axis = 0; axis < 2; ++axis)
    for (const std::vector<int>* const variables : {&program.outputs, &program.inputs})
      for (const int variable : *variables)
        if (variable >= 0 && axis < program.variable(variable).shape.size())
          consider(program.variable(variable).shape[axis]);
  std::optional<LaneAnalysis> best;
  for (const Index lanes : candidates) {
    LaneAnalysis found = find_lanes(program, strides, lanes);
    if (found.kernels > (best ? best->kernels : 0)) best = std::move(found);
  }
  return best;
}

std::optional<Program> one_lane(const Program& program, std::span<const Strides> strides, Index lanes,
                                std::span<const int> input_axes) {
  LaneBuilder builder(program, lanes);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    builder.add_input(program.inputs[i], input_axes[i], strides[i]);
  for (const Program::Instruction& step : program.instructions)
    if (!builder.add(step)) return {};
  const IntrusivePtr<LanesAttributes> attributes(new LanesAttributes);
  attributes->lanes = lanes;
  attributes->input_axes.assign(input_axes.begin(), input_axes.end());
  Program result;
  Program::Instruction call{&op_lanes, attributes};
  for (const int input : program.inputs) {
    const Program::Variable& it = program.variable(input);
    result.inputs.push_back(result.add_variable(it.shape, it.dtype));
    call.inputs.push_back(result.inputs.back());
  }
  for (const int output : program.outputs) {
    if (builder.axis(output) == no_axis) return {};
    attributes->output_axes.push_back(builder.axis(output));
    const Program::Variable& it = program.variable(output);
    result.outputs.push_back(result.add_variable(it.shape, it.dtype));
    call.outputs.push_back(result.outputs.back());
  }
  attributes->body = builder.finish(program.outputs);
  result.instructions.push_back(std::move(call));
  return result;
}

}  // namespace stave_detail
