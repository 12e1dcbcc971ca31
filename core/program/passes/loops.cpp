#include <algorithm>
#include <optional>

#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>

namespace stave_detail {

namespace {

// Joins each loop with a later loop that also computes its results (LoopAttributes::performs).
class Joiner {
 public:
  explicit Joiner(Program& program) : program_(program), renamed_(program), made_at_(program.variables.size(), -1) {
    for (std::size_t k = 0; k < steps().size(); ++k)
      for (const int output : steps()[k].outputs) made_at_[static_cast<std::size_t>(output)] = static_cast<int>(k);
  }

  void run() {
    for (std::size_t later = 0; later < steps().size(); ++later) {
      rename(steps()[later].inputs);
      const LoopAttributes* const loop = gone_[later] ? nullptr : loop_of(steps()[later]);
      if (!loop || !loop->also) continue;
      for (std::size_t first = 0; first < later; ++first)
        if (!gone_[first] && performs(*loop, later, first) && join(*loop, later, first)) break;
    }
    std::vector<Program::Instruction> kept;
    for (std::size_t k = 0; k < steps().size(); ++k)
      if (!gone_[k]) kept.push_back(std::move(steps()[k]));
    steps() = std::move(kept);
    rename(program_.outputs);
  }

 private:
  // Replaces variables by their new names. A variable may be renamed several times, because a loop
  // that replaced another may be replaced itself.
  template <class Variables>
  void rename(Variables& variables) const {
    for (auto& variable : variables)
      while (renamed_[variable] != variable) variable = renamed_[variable];
  }
  std::vector<Program::Instruction>& steps() { return program_.instructions; }

  bool performs(const LoopAttributes& loop, std::size_t later, std::size_t first) {
    const LoopAttributes* const other = loop_of(steps()[first]);
    if (!other || steps()[first].barrier != steps()[later].barrier || other->steps != loop.steps ||
        other->reverse != loop.reverse || !same_program(*other->body, *loop.also))
      return false;
    const auto& given = steps()[first].inputs;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (steps()[later].inputs[loop.also_inputs[i]] != given[i]) return false;
    return true;
  }

  // Replaces the first loop by the later one. If all inputs of the later loop are computed before
  // the first loop, the later loop moves to that place. Otherwise it stays in its own place, and no
  // instruction between the two may read results of the first loop. Returns false if one does.
  bool join(const LoopAttributes& loop, std::size_t later, std::size_t first) {
    const auto& inputs = steps()[later].inputs;
    const auto& outputs = steps()[first].outputs;
    const bool all_there = std::all_of(inputs.begin(), inputs.end(), [&](int input) {
      return made_at_[static_cast<std::size_t>(input)] < static_cast<int>(first);
    });
    const auto reads = [&](const Program::Instruction& step) {
      return std::any_of(step.inputs.begin(), step.inputs.end(),
                         [&](int input) { return std::find(outputs.begin(), outputs.end(), input) != outputs.end(); });
    };
    const auto begin = steps().begin();
    if (!all_there &&
        std::any_of(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(later), reads))
      return false;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      renamed_.set(outputs[i], steps()[later].outputs[loop.also_outputs[i]]);
    if (all_there) {
      steps()[first] = std::move(steps()[later]);
      for (const int output : steps()[first].outputs)
        made_at_[static_cast<std::size_t>(output)] = static_cast<int>(first);
      for (std::size_t k = first + 1; k < later; ++k) rename(steps()[k].inputs);
    }
    gone_[all_there ? later : first] = true;
    return true;
  }

  Program& program_;
  Renaming renamed_;
  // For each variable, the index of the instruction that computes it; -1: an input or a constant.
  std::vector<int> made_at_;
  std::vector<bool> gone_ = std::vector<bool>(program_.instructions.size());
};

using Mask = std::vector<bool>;

template <class List>
List where(const Mask& mask, const List& list) {
  List found;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i]) found.push_back(list[i]);
  return found;
}

// Returns for each input of the body whether these outputs, or operations that may throw, need it.
Mask needed_by(const Program& body, const Mask& outputs) {
  Mask needed(body.variables.size());
  const auto use = [&](int variable) { needed[static_cast<std::size_t>(variable)] = true; };
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) use(body.outputs[i]);
  for (auto step = body.instructions.rbegin(); step != body.instructions.rend(); ++step) {
    const bool runs = may_throw(*step) || std::any_of(step->outputs.begin(), step->outputs.end(), [&](int output) {
                        return bool(needed[static_cast<std::size_t>(output)]);
                      });
    if (runs) std::for_each(step->inputs.begin(), step->inputs.end(), use);
  }
  Mask inputs;
  for (const int input : body.inputs) inputs.push_back(needed[static_cast<std::size_t>(input)]);
  return inputs;
}

// Removes the outputs of a loop for which `outputs` is false, and the inputs and states that only
// these need. Does nothing if all inputs and outputs are needed.
void narrow(Program::Instruction& step, Mask outputs) {
  const LoopAttributes& loop = *loop_of(step);
  Mask inputs;
  for (bool grows = true; grows;) {
    grows = false;
    inputs = needed_by(*loop.body, outputs);
    for (std::size_t k = 0; k < loop.states; ++k) {
      if (inputs[k] && !outputs[k]) outputs[k] = grows = true;
      inputs[k] = outputs[k];
    }
  }
  const auto all = [](const Mask& mask) { return std::find(mask.begin(), mask.end(), false) == mask.end(); };
  if (all(inputs) && all(outputs)) return;
  const auto count = [&](std::size_t begin, std::size_t end) {
    return static_cast<std::size_t>(std::count(inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                                               inputs.begin() + static_cast<std::ptrdiff_t>(end), true));
  };
  const auto narrowed = make_intrusive<LoopAttributes>();
  narrowed->steps = loop.steps;
  narrowed->reverse = loop.reverse;
  narrowed->snapshots = loop.snapshots;
  narrowed->again = loop.again;
  narrowed->states = count(0, loop.states);
  narrowed->rows = count(loop.states, loop.states + loop.rows);
  Program body = *loop.body;
  body.inputs = where(inputs, body.inputs);
  body.outputs = where(outputs, body.outputs);
  narrowed->body = std::make_shared<const Program>(with_loops_narrowed(without_dead_code(std::move(body))));
  step.inputs = where(inputs, step.inputs);
  step.outputs = where(outputs, step.outputs);
  step.attributes = narrowed;
}

}  // namespace

Program with_loops_joined(Program program) {
  const auto joins = [](const Program::Instruction& step) {
    const LoopAttributes* const loop = loop_of(step);
    return loop && loop->also;
  };
  if (std::none_of(program.instructions.begin(), program.instructions.end(), joins)) return program;
  Joiner(program).run();
  return program;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Program with_loops_narrowed(Program program) {
  Mask used(program.variables.size());
  const auto use = [&](int variable) {
    if (variable >= 0) used[static_cast<std::size_t>(variable)] = true;
  };
  std::for_each(program.outputs.begin(), program.outputs.end(), use);
  for (auto step = program.instructions.rbegin(); step != program.instructions.rend(); ++step) {
    if (loop_of(*step)) {
      Mask outputs;
      for (const int output : step->outputs) outputs.push_back(used[static_cast<std::size_t>(output)]);
      narrow(*step, std::move(outputs));
    }
    std::for_each(step->inputs.begin(), step->inputs.end(), use);
  }
  return program;
}

}  // namespace stave
