#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

namespace stave {

Program without_dead_code(Program program) {
  std::vector<bool> used(program.variables.size());
  const auto use = [&](int variable) {
    if (variable >= 0) used[static_cast<std::size_t>(variable)] = true;
  };
  const auto is_used = [&](int variable) { return used[static_cast<std::size_t>(variable)]; };
  for (const int output : program.outputs) use(output);
  std::vector<bool> is_needed(program.instructions.size());
  for (std::size_t k = program.instructions.size(); k-- > 0;) {
    const Program::Instruction& step = program.instructions[k];
    bool needed = step.is_read() || stave_detail::may_throw(step);
    for (const int output : step.outputs) needed |= is_used(output);
    if (!needed) continue;
    for (const int input : step.inputs) use(input);
    is_needed[k] = true;
  }
  stave_detail::Compaction kept(program);
  for (std::size_t k = 0; k < is_needed.size(); ++k)
    if (is_needed[k]) kept.keep(program.instructions[k]);
  kept.end();
  std::erase_if(program.constants, [&](const Program::Constant& constant) { return !is_used(constant.variable); });
  return program;
}

}  // namespace stave
