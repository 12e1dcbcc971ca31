#include <functional>
#include <unordered_map>

#include <stave/programs/passes/passes.h>

namespace stave {

using namespace stave_detail;

namespace {

std::size_t hash_of(const Program::Instruction& step) {
  std::size_t hash = std::hash<const Op*>()(step.op) ^ (step.epoch * 0x9e3779b97f4a7c15u);
  for (const int input : step.inputs) hash = (hash ^ static_cast<std::size_t>(input)) * 0x100000001b3u;
  return hash;
}

}  // namespace

Program without_repetitions(Program program) {
  Renaming renamed(program);
  std::unordered_multimap<std::size_t, std::size_t> seen;  // by hash, the place in `kept`
  std::vector<Program::Instruction> kept;
  for (Program::Instruction& step : program.instructions) {
    renamed.apply(step.inputs);
    const Program::Instruction* first = nullptr;
    const std::size_t hash = hash_of(step);
    if (!step.is_read())
      for (auto [at, end] = seen.equal_range(hash); at != end && !first; ++at)
        if (compute_the_same(kept[at->second], step)) first = &kept[at->second];
    if (first) {
      for (std::size_t i = 0; i < step.outputs.size(); ++i) renamed.set(step.outputs[i], first->outputs[i]);
      continue;
    }
    if (!step.is_read()) seen.emplace(hash, kept.size());
    kept.push_back(std::move(step));
  }
  program.instructions = std::move(kept);
  renamed.apply(program.outputs);
  return program;
}

}  // namespace stave
