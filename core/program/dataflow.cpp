#include <stave/core/program/dataflow.h>

#include <algorithm>

namespace stave_detail {

namespace {

// Finds what the sweep reaches. A variable v for which carries(v) is false is reached only as a
// seed.
template <class FlowOf, class Carries>
Reached sweep(const Program& program, std::span<const int> seeds, Direction direction, FlowOf flow, Carries carries) {
  const auto& steps = program.instructions;
  Reached reached{PerVariable<bool>(program), Mask(steps.size())};
  for (const int seed : seeds)
    if (seed >= 0) reached.variables[seed] = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t k = direction == Direction::forward ? i : steps.size() - 1 - i;
    std::span<const int> near = steps[k].inputs, far = steps[k].outputs;
    if (direction == Direction::backward) std::swap(near, far);
    const Flow part = flow(k);
    const auto is_reached = [&](int variable) -> bool { return reached.variables[variable]; };
    if (part == Flow::stops || (part == Flow::passes && std::none_of(near.begin(), near.end(), is_reached))) continue;
    reached.instructions[k] = true;
    for (const int variable : far)
      if (carries(variable)) reached.variables[variable] = true;
  }
  return reached;
}

}  // namespace

PerVariable<int> producers(const Program& program) {
  PerVariable<int> found(program, -1);
  for (std::size_t k = 0; k < program.instructions.size(); ++k)
    for (const int output : program.instructions[k].outputs) found[output] = static_cast<int>(k);
  return found;
}

PerVariable<int> read_counts(const Program& program) {
  PerVariable<int> counts(program);
  for (const Program::Instruction& step : program.instructions)
    for (const int input : step.inputs) ++counts[input];
  for (const int output : program.outputs)
    if (output >= 0) ++counts[output];
  return counts;
}

PerVariable<int> last_reads(const Program& program) {
  PerVariable<int> last(program, -1);
  for (std::size_t k = 0; k < program.instructions.size(); ++k)
    for (const int input : program.instructions[k].inputs) last[input] = static_cast<int>(k);
  for (const int output : program.outputs)
    if (output >= 0) last[output] = static_cast<int>(program.instructions.size());
  return last;
}

Reached reach(const Program& program, std::span<const int> seeds, Direction direction,
              FunctionRef<Flow(std::size_t)> flow) {
  return sweep(program, seeds, direction, flow, [](int) { return true; });
}

Reached reach(const Program& program, std::span<const int> seeds, Direction direction) {
  return reach(program, seeds, direction, [](std::size_t) { return Flow::passes; });
}

PerVariable<bool> reach_derivatives(const Program& program, std::span<const int> seeds, Direction direction) {
  const auto flow = [&](std::size_t k) {
    const Op* const op = program.instructions[k].op;
    return !op || op->derivative == Derivative::zero ? Flow::stops : Flow::passes;
  };
  const auto is_differentiable = [&](int variable) { return is_inexact(program.variable(variable).dtype); };
  return sweep(program, seeds, direction, flow, is_differentiable).variables;
}

}  // namespace stave_detail
