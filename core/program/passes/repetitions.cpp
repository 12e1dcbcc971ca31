#include <bit>
#include <functional>
#include <utility>

#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

namespace stave {

using namespace stave_detail;

namespace {

std::size_t hash_of(const Program::Instruction& step) {
  std::size_t hash = std::hash<const Op*>()(step.op) ^ (step.barrier * 0x9e3779b97f4a7c15u);
  for (const int input : step.inputs) hash = (hash ^ static_cast<std::size_t>(input)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

}  // namespace

Program without_repetitions(Program program) {
  Renaming renamed(program);
  // A hash table of the kept instructions other than reads. An entry is 1 + the index of a kept
  // instruction, or 0 for none. last[hash] is the last kept instruction with this hash. before[k]
  // is the last one with the same hash that was kept before instruction k.
  std::vector<std::size_t> last(std::bit_ceil(2 * program.instructions.size() + 1)),
      before(program.instructions.size());
  Compaction kept(program);
  for (Program::Instruction& step : program.instructions) {
    renamed.apply(step.inputs);
    const Program::Instruction* first = nullptr;
    const std::size_t hash = hash_of(step) & (last.size() - 1);
    if (!step.is_read())
      for (std::size_t at = last[hash]; at > 0 && !first; at = before[at - 1])
        if (compute_the_same(program.instructions[at - 1], step)) first = &program.instructions[at - 1];
    if (first) {
      for (std::size_t i = 0; i < step.outputs.size(); ++i) renamed.set(step.outputs[i], first->outputs[i]);
      continue;
    }
    const bool is_read = step.is_read();
    kept.keep(step);
    if (!is_read) before[kept.count() - 1] = std::exchange(last[hash], kept.count());
  }
  kept.end();
  renamed.apply(program.outputs);
  return program;
}

}  // namespace stave
