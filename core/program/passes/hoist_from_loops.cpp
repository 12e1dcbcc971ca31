// Work that moves in front of loops: values that are the same in every step (loop-invariant code
// motion), and functions of rows. A loop that computes tanh(x) of its row x in each step takes a
// row of tanh(xs) instead, which one kernel computes for all steps.
//
// Only elementwise functions of rows move, whose results have the same bits for one row and for a
// stack. Cheap arithmetic on rows is computed in front of the loop if an expensive function needs
// its result, and in the loop if the rest of the step does.
#include <algorithm>

#include <stave/core/op/attributes.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/native_estimate.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

namespace stave {

namespace {

using namespace stave_detail;

// The new stacks of a loop may take this many bytes, or as many as its own stacks. Its new
// invariant arrays may take this many bytes.
constexpr std::uint64_t most_new_bytes = std::uint64_t{16} << 20;

enum class Moves { invariants, invariants_and_rows };

// One loop of a program.
class Hoisting {
 public:
  Hoisting(Program& program, Program::Instruction& step, Renaming& renamed, Moves what)
      : program_(program), step_(step), renamed_(renamed), loop_(*loop_of(step)), body_(*loop_.body),
        moves_rows_(what == Moves::invariants_and_rows && loop_.snapshots == 0 && !loop_.rematerializes),
        constant_(body_, nullptr), is_row_(body_), is_known_(body_), leaving_(body_), moves_(body_.instructions.size()),
        leaves_(moves_.size()), stays_(moves_.size()), outside_(body_, -1), repeated_(body_, -1) {
    for (std::size_t i = loop_.states; i < body_.inputs.size(); ++i)
      (i < end_of_rows() ? is_row_ : is_known_)[body_.inputs[i]] = true;
    for (const Program::Constant& constant : body_.constants) {
      is_known_[constant.variable] = true;
      constant_[constant.variable] = &constant.value;
    }
    find_moving();
    find_inputs();
  }

  /// Returns true if something moves, and the new arrays are small enough.
  bool pays() const { return std::find(leaves_.begin(), leaves_.end(), true) != leaves_.end() && fit(); }
  /// Returns the instructions that stand in front of the loop, and replaces the loop.
  std::vector<Program::Instruction> run() {
    for (std::size_t i = loop_.states; i < body_.inputs.size(); ++i) outside_[body_.inputs[i]] = step_.inputs[i];
    name_results();
    std::vector<Program::Instruction> in_front = instructions();
    replace_loop();
    return in_front;
  }

 private:
  std::size_t end_of_rows() const { return loop_.states + loop_.rows; }

  // Returns true if the instruction computes the same in every step. Functions of constants alone
  // stay: the body's passes fold them.
  bool is_invariant(const Program::Instruction& step) const {
    return !may_throw(step) && step.outputs.size() == 1 &&
           std::ranges::all_of(step.inputs, [&](int input) { return is_known_[input]; }) &&
           std::ranges::any_of(step.inputs, [&](int input) { return !constant_[input]; });
  }
  // Returns true if the instruction may be performed once on whole stacks, in front of the loop,
  // instead of on one row in each step.
  bool works_on_stacks(const Program::Instruction& step) const {
    return moves_rows_ && step.op->elementwise && !may_throw(step) &&
           std::ranges::all_of(step.inputs, [&](int input) { return is_row_[input] || is_known_[input]; });
  }

  // Finds the instructions that move: expensive invariant ones, expensive functions of rows, and
  // what these need. Views and cheap arithmetic that move stay in the loop as well if it reads
  // their results.
  void find_moving() {
    const auto& steps = body_.instructions;
    Mask can_move(steps.size());
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (steps[k].is_read() || steps[k].barrier != 0) continue;
      const bool invariant = is_invariant(steps[k]);
      can_move[k] = invariant || works_on_stacks(steps[k]);
      if (can_move[k]) (invariant ? is_known_ : is_row_)[steps[k].outputs[0]] = true;
    }
    PerVariable<bool> needed(body_);
    for (std::size_t k = steps.size(); k-- > 0;) {
      if (!can_move[k]) continue;
      const int result = steps[k].outputs[0];
      leaves_[k] = !steps[k].op->is_cheap() && !(is_row_[result] && is_small_stack(result));
      moves_[k] = leaves_[k] || needed[result];
      if (leaves_[k]) leaving_[result] = true;
      if (!moves_[k]) continue;
      for (const int input : steps[k].inputs) needed[input] = true;
    }
  }

  // Returns true if a stack of these rows is so small that machine code computes it as fast in the
  // loop.
  bool is_small_stack(int row) const {
    return body_.variable(row).shape.elements() * loop_.steps <= most_native_elements;
  }

  // Returns true for the result of a leaving function of rows. A stack of such results is computed
  // in front of the loop.
  bool is_new_stack(int variable) const { return variable >= 0 && leaving_[variable] && is_row_[variable]; }

  // Finds the instructions that stay in the loop, and the new inputs of its body: results of
  // leaving instructions that the staying ones, or the outputs of the body, read.
  void find_inputs() {
    PerVariable<bool> is_read(body_);
    const auto read = [&](int variable) {
      if (variable < 0 || is_read[variable]) return;
      is_read[variable] = true;
      if (leaving_[variable]) (is_row_[variable] ? stacks_ : invariants_).push_back(variable);
    };
    for (std::size_t i = 0; i < body_.outputs.size(); ++i)
      if (i < loop_.states || !is_new_stack(body_.outputs[i])) read(body_.outputs[i]);
    const auto& steps = body_.instructions;
    for (std::size_t k = steps.size(); k-- > 0;) {
      stays_[k] = !moves_[k] || (!leaves_[k] && is_read[steps[k].outputs[0]]);
      if (!stays_[k]) continue;
      for (const int input : steps[k].inputs) read(input);
    }
  }

  // Returns true if the new arrays are small enough.
  bool fit() const {
    const auto bytes = [&](int variable) { return body_.variable(variable).bytes(); };
    std::uint64_t given = 0, added = 0;
    for (std::size_t i = loop_.states; i < end_of_rows(); ++i) given += bytes(body_.inputs[i]);
    for (std::size_t i = loop_.states; i < body_.outputs.size(); ++i) given += bytes(body_.outputs[i]);
    for (const int variable : stacks_) added += bytes(variable);
    std::uint64_t invariants = 0;
    for (const int variable : invariants_) invariants += bytes(variable);
    const auto steps = static_cast<std::uint64_t>(loop_.steps);
    return invariants <= most_new_bytes && (added <= given || added <= most_new_bytes / steps);
  }

  // A new stack that the loop returned as an output gets the variable of that output.
  void name_results() {
    for (std::size_t i = loop_.states; i < body_.outputs.size(); ++i) {
      const int variable = body_.outputs[i];
      if (!is_new_stack(variable)) continue;
      int& found = outside_[variable];
      if (found < 0) found = step_.outputs[i];
      else renamed_.set(step_.outputs[i], found);
    }
  }

  // Returns the variable of the program that stands for a variable of the body.
  int outside(int variable) {
    int& found = outside_[variable];
    if (found >= 0) return found;
    const Program::Variable& type = body_.variable(variable);
    found = program_.add_variable(type.shape, type.dtype, type.device);
    program_.constants.push_back({found, *constant_[variable]});
    return found;
  }

  Shape stack_shape(int row) const {
    Shape shape = body_.variable(row).shape;
    shape.insert(shape.begin(), loop_.steps);
    return shape;
  }

  // Returns a stack that repeats a value which is the same in every step.
  int repeated(int variable, std::vector<Program::Instruction>& in_front) {
    int& found = repeated_[variable];
    if (found >= 0) return found;
    const Shape shape = stack_shape(variable);
    Program::Instruction step{&op_broadcast_to, make_intrusive<ShapeAttributes>(shape)};
    step.inputs.push_back(outside(variable));
    found = program_.add_variable(shape, body_.variable(variable).dtype, body_.variable(variable).device);
    step.outputs.push_back(found);
    in_front.push_back(std::move(step));
    return found;
  }

  std::vector<Program::Instruction> instructions() {
    std::vector<Program::Instruction> in_front;
    for (std::size_t k = 0; k < body_.instructions.size(); ++k) {
      if (!moves_[k]) continue;
      Program::Instruction step = body_.instructions[k];
      const int result = step.outputs[0];
      const bool is_stack = is_row_[result];
      for (int& input : step.inputs) input = is_stack && is_known_[input] ? repeated(input, in_front) : outside(input);
      int& found = outside_[result];
      if (found < 0) {
        const Program::Variable& type = body_.variable(result);
        found = program_.add_variable(is_stack ? stack_shape(result) : type.shape, type.dtype, type.device, type.label);
      }
      step.outputs[0] = found;
      in_front.push_back(std::move(step));
    }
    for (Program::Instruction& step : in_front) {
      step.barrier = step_.barrier;
      if (!step.scopes) step.scopes = step_.scopes;
    }
    return in_front;
  }

  void replace_loop() {
    Program body = body_;
    const auto end = static_cast<std::ptrdiff_t>(end_of_rows());
    body.inputs.insert(body.inputs.begin() + end, stacks_.begin(), stacks_.end());
    body.inputs.insert(body.inputs.end(), invariants_.begin(), invariants_.end());
    compact(body, stays_);
    std::vector<int> inputs(step_.inputs.begin(), step_.inputs.end()), outputs;
    const std::vector<int> stacks = outside_.at(stacks_), invariants = outside_.at(invariants_);
    inputs.insert(inputs.begin() + end, stacks.begin(), stacks.end());
    inputs.insert(inputs.end(), invariants.begin(), invariants.end());
    body.outputs.clear();
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      if (i >= loop_.states && is_new_stack(body_.outputs[i])) continue;
      body.outputs.push_back(body_.outputs[i]);
      outputs.push_back(step_.outputs[i]);
    }
    const auto made = make_intrusive<LoopAttributes>();
    made->steps = loop_.steps;
    made->reverse = loop_.reverse;
    made->states = loop_.states;
    made->rows = loop_.rows + stacks_.size();
    made->snapshots = loop_.snapshots;
    made->rematerializes = loop_.rematerializes;
    made->runs_kernels = loop_.runs_kernels;
    made->body = std::make_shared<const Program>(std::move(body));
    step_.inputs = {inputs.begin(), inputs.end()};
    step_.outputs = {outputs.begin(), outputs.end()};
    step_.attributes = made;
  }

  Program& program_;
  Program::Instruction& step_;
  Renaming& renamed_;
  const IntrusivePtr<const Attributes> keeps_loop_ = step_.attributes;
  const LoopAttributes& loop_;
  const Program& body_;
  const bool moves_rows_;
  PerVariable<const Tensor*> constant_;  // null for a variable that is not a constant
  PerVariable<bool> is_row_;             // rows, and functions of rows
  PerVariable<bool> is_known_;           // values that are the same in every step
  PerVariable<bool> leaving_;            // results of instructions that leave the loop
  Mask moves_, leaves_, stays_;
  std::vector<int> stacks_, invariants_;  // new inputs of the body
  // Variables of the program, or -1: those that stand for variables of the body, and stacks that
  // repeat them.
  PerVariable<int> outside_, repeated_;
};

}  // namespace

Program with_work_hoisted_from_loops(Program program) {
  const auto may_have = [](const Program::Instruction& step) {
    const LoopAttributes* const loop = loop_of(step);
    return loop && loop->steps > 1;
  };
  if (std::none_of(program.instructions.begin(), program.instructions.end(), may_have)) return program;
  Renaming renamed(program);
  std::vector<Program::Instruction> steps = std::move(program.instructions), placed;
  for (Program::Instruction& step : steps) {
    renamed.apply(step.inputs);
    for (const Moves what : {Moves::invariants_and_rows, Moves::invariants}) {
      if (!may_have(step)) break;
      Hoisting hoisting(program, step, renamed, what);
      if (!hoisting.pays()) continue;
      for (Program::Instruction& in_front : hoisting.run()) placed.push_back(std::move(in_front));
      break;
    }
    placed.push_back(std::move(step));
  }
  renamed.apply(program.outputs);
  program.instructions = std::move(placed);
  return program;
}

}  // namespace stave
