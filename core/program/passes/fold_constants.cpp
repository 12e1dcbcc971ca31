#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/note.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr std::uint64_t most_bytes = 64 << 10;

// Returns true for a `full` whose array is not an output of the program. It becomes a constant that
// repeats one number and takes no array, whereas an output of the program needs an array.
bool is_number(const Program& program, const Program::Instruction& step) {
  return step.op->id == OpId::full &&
         std::find(program.outputs.begin(), program.outputs.end(), step.outputs[0]) == program.outputs.end();
}

bool may_fold(const Program& program, const Program::Instruction& step) {
  if (step.is_read() || may_throw(step) || step.op->id == OpId::copy) return false;
  std::uint64_t bytes = 0;
  for (const int output : step.outputs) bytes += program.variable(output).bytes();
  return bytes <= most_bytes;
}

}  // namespace

Program with_constants_folded(Program program) {
  PerVariable<Tensor> known(program);
  for (const auto& [variable, value] : program.constants)
    if (live_notes(value) == 0 && value.node().storage) known[variable] = value;
  UnderFrame past_all_handlers(nullptr);
  Compaction kept(program);
  for (Program::Instruction& step : program.instructions) {
    Outputs values;
    if (!step.is_read() && is_number(program, step)) {
      const auto& full = static_cast<const FullAttributes&>(*step.attributes);
      values.push_back(constant(full.value, full.dtype, full.shape, full.device));
    } else if (may_fold(program, step) &&
               std::all_of(step.inputs.begin(), step.inputs.end(), [&](int x) { return known[x].defined(); })) {
      Inputs inputs;
      for (const int input : step.inputs) inputs.push_back(known[input]);
      values = perform(Call(*step.op, std::move(inputs), step.attributes));
    } else {
      kept.keep(step);
      continue;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      known[step.outputs[i]] = values[i];
      program.constants.push_back({step.outputs[i], values[i]});
    }
  }
  kept.end();
  return program;
}

}  // namespace stave
