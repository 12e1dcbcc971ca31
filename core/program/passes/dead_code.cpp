#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

namespace stave {

using namespace stave_detail;

Program without_dead_code(Program program) {
  const Reached needed = reach(program, program.outputs, Direction::backward, [&](std::size_t k) {
    const Program::Instruction& step = program.instructions[k];
    return step.is_read() || may_throw(step) ? Flow::begins : Flow::passes;
  });
  compact(program, needed.instructions);
  std::erase_if(program.constants, [&](const auto& constant) { return !needed.variables[constant.variable]; });
  return program;
}

}  // namespace stave
