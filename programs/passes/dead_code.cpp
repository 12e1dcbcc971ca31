#include <stave/programs/passes/passes.h>

namespace stave {

Program without_dead_code(Program program) {
  std::vector<bool> used(program.variables.size());
  const auto use = [&](int variable) {
    if (variable >= 0) used[static_cast<std::size_t>(variable)] = true;
  };
  const auto is_used = [&](int variable) { return used[static_cast<std::size_t>(variable)]; };
  for (const int output : program.outputs) use(output);
  std::vector<Program::Instruction> kept;
  for (auto step = program.instructions.rbegin(); step != program.instructions.rend(); ++step) {
    bool needed = step->is_read() || stave_detail::may_throw(*step);
    for (const int output : step->outputs) needed |= is_used(output);
    if (!needed) continue;
    for (const int input : step->inputs) use(input);
    kept.push_back(std::move(*step));
  }
  program.instructions.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(program.constants, [&](const Program::Constant& constant) { return !is_used(constant.variable); });
  return program;
}

}  // namespace stave
