#include <algorithm>

#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/program.h>

namespace stave {

using namespace stave_detail;

namespace {

std::uint64_t flops_of(const Program& program, const Program::Instruction& step) {
  SmallVector<Shape, 3> inputs;
  for (const int input : step.inputs) inputs.push_back(program.variable(input).shape);
  return step.op->flops_of(step.attributes.get(), inputs, program.variable(step.outputs[0]).shape).value_or(0);
}

}  // namespace

ProgramCost cost_of(const Program& program) {
  ProgramCost total;
  const PerVariable<int> last = last_reads(program);
  Renaming base(program);  // the variable in whose storage a variable lies
  for (const auto& step : program.instructions)
    if (is_view(step)) base.set(step.outputs[0], base[step.inputs[0]]);
  PerVariable<int> reader(program, -1);  // the last instruction that reads each storage
  for (int v = 0; v < last.size(); ++v) reader[base[v]] = std::max(reader[base[v]], last[v]);
  PerVariable<bool> is_number(program);
  for (const auto& [variable, value] : program.constants) is_number[variable] = is_one_number(value);
  // The bytes that are freed after each instruction.
  std::vector<std::uint64_t> freed(program.instructions.size() + 1);
  std::uint64_t live = 0;
  const auto allocate_outputs = [&](const Program::Instruction& step, std::size_t k) {
    for (const int output : step.outputs) {
      const std::uint64_t bytes = program.variable(output).bytes();
      live += bytes;
      freed[std::max(k, static_cast<std::size_t>(std::max(reader[output], 0)))] += bytes;
    }
  };
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const auto& step = program.instructions[k];
    if (const LoopAttributes* const loop = loop_of(step)) {
      const ProgramCost body = cost_of(*loop->body);
      const auto times = static_cast<std::uint64_t>(loop->steps);
      total.operations += loop->steps * body.operations;
      total.bytes += times * body.bytes;
      total.flops += times * body.flops;
      allocate_outputs(step, k);
      total.peak_bytes = std::max(total.peak_bytes, live + body.peak_bytes);
    } else if (!step.is_read() && !is_view(step)) {
      ++total.operations;
      if (!step.outputs.empty() && !step.op->is_higher_order) total.flops += flops_of(program, step);
      for (const int input : step.inputs)
        if (!is_number[base[input]])
          total.bytes += std::min(program.variable(input).bytes(), program.variable(base[input]).bytes());
      for (const int output : step.outputs) total.bytes += program.variable(output).bytes();
      allocate_outputs(step, k);
      total.peak_bytes = std::max(total.peak_bytes, live);
    }
    live -= freed[k];
  }
  return total;
}

}  // namespace stave
