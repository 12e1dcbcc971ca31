#include <algorithm>

#include <stave/core/program/flops.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/program.h>

namespace stave_detail {

bool is_view(const Program::Instruction& step) { return !step.is_read() && step.op->view && step.op->id != OpId::to; }

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

std::uint64_t flops_of(const Program& program, const Program::Instruction& step) {
  SmallVector<Shape, 3> inputs;
  for (const int input : step.inputs) inputs.push_back(program.variable(input).shape);
  return stave_detail::flops_of(*step.op, step.attributes.get(), inputs, program.variable(step.outputs[0]).shape)
      .value_or(0);
}

}  // namespace

ProgramCost cost_of(const Program& program) {
  ProgramCost total;
  const auto at = [](int variable) { return static_cast<std::size_t>(variable); };
  const std::vector<int> last = last_reads(program);
  std::vector<int> base(program.variables.size());  // the variable in whose storage a variable lies
  // the last instruction that reads each storage
  std::vector<int> reader(program.variables.size(), -1);
  for (std::size_t v = 0; v < base.size(); ++v) base[v] = static_cast<int>(v);
  for (const auto& step : program.instructions)
    if (is_view(step)) base[at(step.outputs[0])] = base[at(step.inputs[0])];
  for (std::size_t v = 0; v < base.size(); ++v) reader[at(base[v])] = std::max(reader[at(base[v])], last[v]);
  std::vector<bool> is_number(program.variables.size());
  for (const auto& [variable, value] : program.constants) is_number[at(variable)] = is_one_number(value);
  // the bytes that are freed after each instruction
  std::vector<std::uint64_t> freed(program.instructions.size() + 1);
  std::uint64_t live = 0;
  const auto make_room = [&](const Program::Instruction& step, std::size_t k) {
    for (const int output : step.outputs) {
      const std::uint64_t bytes = program.variable(output).bytes();
      live += bytes;
      freed[std::max(k, static_cast<std::size_t>(std::max(reader[at(output)], 0)))] += bytes;
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
      make_room(step, k);
      total.peak_bytes = std::max(total.peak_bytes, live + body.peak_bytes);
    } else if (!step.is_read() && !is_view(step)) {
      ++total.operations;
      if (!step.outputs.empty() && !step.op->is_higher_order) total.flops += flops_of(program, step);
      for (const int input : step.inputs)
        if (!is_number[at(base[at(input)])])
          total.bytes += std::min(program.variable(input).bytes(), program.variable(base[at(input)]).bytes());
      for (const int output : step.outputs) total.bytes += program.variable(output).bytes();
      make_room(step, k);
      total.peak_bytes = std::max(total.peak_bytes, live);
    }
    live -= freed[k];
  }
  return total;
}

}  // namespace stave
