#include <algorithm>
#include <optional>

#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

namespace stave_detail {

namespace {

// Removes each loop whose outputs a later loop also computes (LoopAttributes::performs).
class Joiner {
 public:
  explicit Joiner(Program& program) : program_(program), renamed_(program), producers_(producers(program)) {}

  void run() {
    for (std::size_t later = 0; later < steps().size(); ++later) {
      renamed_.apply(steps()[later].inputs);
      const LoopAttributes* const loop = loop_of(steps()[later]);
      if (!loop || !loop->also_body) continue;
      for (std::size_t first = 0; first < later; ++first)
        if (kept_[first] && performs(*loop, later, first) && join(*loop, later, first)) break;
    }
    compact(program_, kept_);
    renamed_.apply(program_.outputs);
  }

 private:
  std::vector<Program::Instruction>& steps() { return program_.instructions; }

  bool performs(const LoopAttributes& loop, std::size_t later, std::size_t first) {
    const LoopAttributes* const other = loop_of(steps()[first]);
    if (!other || steps()[first].barrier != steps()[later].barrier || other->steps != loop.steps ||
        other->reverse != loop.reverse || !same_program(*other->body, *loop.also_body))
      return false;
    const auto& given = steps()[first].inputs;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (steps()[later].inputs[loop.also_inputs[i]] != given[i]) return false;
    return true;
  }

  // Replaces the first loop by the later one. If all inputs of the later loop are computed before
  // the first loop, the later loop moves to the place of the first. Otherwise it stays in its own
  // place; this is impossible, and join() returns false, if an instruction between the two reads
  // outputs of the first loop.
  bool join(const LoopAttributes& loop, std::size_t later, std::size_t first) {
    const auto& inputs = steps()[later].inputs;
    const auto& outputs = steps()[first].outputs;
    const bool inputs_come_first = std::all_of(inputs.begin(), inputs.end(),
                                               [&](int input) { return producers_[input] < static_cast<int>(first); });
    const auto reads = [&](const Program::Instruction& step) {
      return std::any_of(step.inputs.begin(), step.inputs.end(),
                         [&](int input) { return std::find(outputs.begin(), outputs.end(), input) != outputs.end(); });
    };
    const auto begin = steps().begin();
    if (!inputs_come_first &&
        std::any_of(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(later), reads))
      return false;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      renamed_.set(outputs[i], steps()[later].outputs[loop.also_outputs[i]]);
    if (inputs_come_first) {
      steps()[first] = std::move(steps()[later]);
      for (const int output : steps()[first].outputs) producers_[output] = static_cast<int>(first);
      for (std::size_t k = first + 1; k < later; ++k) renamed_.apply(steps()[k].inputs);
    }
    kept_[inputs_come_first ? later : first] = false;
    return true;
  }

  Program& program_;
  Renaming renamed_;
  PerVariable<int> producers_;
  Mask kept_ = Mask(program_.instructions.size(), true);
};

// Returns for each input of the body whether these outputs, or operations that may throw, need it.
Mask needed_by(const Program& body, const Mask& outputs) {
  const Reached needed = reach(body, select(outputs, body.outputs), Direction::backward, [&](std::size_t k) {
    return may_throw(body.instructions[k]) ? Flow::begins : Flow::passes;
  });
  return needed.variables.at(body.inputs);
}

// Removes the outputs of a loop for which `outputs` is false, except states that the other outputs,
// or operations that may throw, need in a later step. Removes the inputs that are then not needed,
// too. Does nothing if all are needed.
void narrow(Program::Instruction& step, Mask outputs) {
  const LoopAttributes& loop = *loop_of(step);
  Mask inputs = reached_in_all_steps(loop, outputs, [&](const Mask& needed) { return needed_by(*loop.body, needed); });
  std::copy_n(outputs.begin(), loop.states, inputs.begin());
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
  narrowed->rematerializes = loop.rematerializes;
  narrowed->states = count(0, loop.states);
  narrowed->rows = count(loop.states, loop.states + loop.rows);
  Program body = *loop.body;
  body.inputs = select(inputs, body.inputs);
  body.outputs = select(outputs, body.outputs);
  narrowed->body = std::make_shared<const Program>(with_loops_narrowed(without_dead_code(std::move(body))));
  const std::vector<int> inputs_left = select(inputs, step.inputs), outputs_left = select(outputs, step.outputs);
  step.inputs = {inputs_left.begin(), inputs_left.end()};
  step.outputs = {outputs_left.begin(), outputs_left.end()};
  step.attributes = narrowed;
}

}  // namespace

Program with_loops_joined(Program program) {
  const auto joins = [](const Program::Instruction& step) {
    const LoopAttributes* const loop = loop_of(step);
    return loop && loop->also_body;
  };
  if (std::none_of(program.instructions.begin(), program.instructions.end(), joins)) return program;
  Joiner(program).run();
  return program;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Program with_loops_narrowed(Program program) {
  PerVariable<bool> used(program);
  for (const int output : program.outputs)
    if (output >= 0) used[output] = true;
  for (auto step = program.instructions.rbegin(); step != program.instructions.rend(); ++step) {
    if (loop_of(*step)) narrow(*step, used.at(step->outputs));
    for (const int input : step->inputs) used[input] = true;
  }
  return program;
}

}  // namespace stave
