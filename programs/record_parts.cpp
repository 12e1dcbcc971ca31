// What a recorder keeps whole: loops, and functions that operations carry.
#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/programs/loop.h>
#include <stave/programs/recorder.h>

namespace stave_detail {

// ---- loops -------------------------------------------------------------------------------------------------
// The first two steps are recorded twice: here, as all else, and each by a recorder of its own. If these have the same, it is the
// body of a loop, and what was recorded here is forgotten.

namespace {

bool same_nodes(std::span<const Tensor> a, std::span<const Tensor> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.node_ptr() == y.node_ptr(); });
}

}  // namespace

std::vector<Recorder::Mark> Recorder::marks() const {
  std::vector<Mark> marks;
  for (const Recorder* at = this; at; at = at->outer_)
    marks.push_back({at->program.instructions.size(), at->program.constants.size(), at->left.turns.size(),
                     static_cast<int>(at->program.variables.size())});
  return marks;
}

bool Recorder::any_read_since(std::span<const Mark> marks) const {
  if (left.too_long || left.turns.size() > marks[0].turns) return true;
  const auto& steps = program.instructions;
  const auto is_read = [](const Program::Instruction& step) { return step.is_read(); };
  if (std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(marks[0].instructions), steps.end(), is_read))
    return true;
  return outer_ && outer_->any_read_since(marks.subspan(1));
}

void Recorder::forget_since(std::span<const Mark> marks) {
  const Mark mark = marks[0];
  program.instructions.resize(mark.instructions);
  program.constants.resize(mark.constants);
  for (Creation& creation : creations_)
    if (creation.variable >= mark.variables) creation.variable = -1;
  std::erase_if(constants_, [&](const auto& known) { return known.second >= mark.variables; });
  if (const int end = static_cast<int>(program.variables.size()); end > mark.variables)
    forgotten_.emplace_back(mark.variables, end);
  if (outer_) outer_->forget_since(marks.subspan(1));
}

void Recorder::check_stays(int variable) const {
  const auto holds = [&](const std::pair<int, int>& range) {
    return range.first <= variable && variable < range.second;
  };
  if (std::any_of(forgotten_.begin(), forgotten_.end(), holds))
    fail<TransformError>(
        "{}: a value that the function of a repeat computed left it through a captured variable, and is used: it is "
        "that of an "
        "early step. Return it from the function",
        name_);
}

// Takes a step, and gives what it captures; nothing if it cannot be that of a loop.
std::optional<std::vector<Tensor>> Recorder::record_step(FlatFunction step, Outputs& state) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : state) inputs.push_back(input(x, cpu));
  state = run(step, inputs);
  if (carries_ || left.asked || left.caught || left.too_long) return std::nullopt;
  std::vector<Tensor> captured = take_captured();
  if (!may_be_body(program)) return std::nullopt;
  const auto alike = [&](int a, int b) {
    const Program::Variable &x = program.variable(a), &y = program.variable(b);
    return x.shape == y.shape && x.dtype == y.dtype && x.device == y.device;
  };
  const auto end = program.inputs.end() - static_cast<std::ptrdiff_t>(captured.size());
  if (!std::equal(program.inputs.begin(), end, program.outputs.begin(), program.outputs.end(), alike))
    return std::nullopt;
  return captured;
}

Index Recorder::take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) {
  const bool any_empty = std::any_of(state.begin(), state.end(), [](const Tensor& x) { return !x.defined(); });
  if (left.too_long || state.empty() || any_empty) return n;
  const std::vector<Mark> before = marks();
  Inputs inputs(state.begin(), state.end());
  Recorder first(name_, calls_, Of::step, this), second(name_, calls_, Of::step, this);
  const auto captured = first.record_step(step, state);
  if (!captured || changes || any_read_since(before)) return n - 1;
  const auto again = second.record_step(step, state);
  if (!again || changes || any_read_since(before)) return n - 2;
  if (!same_nodes(*captured, *again) || !same_program(first.program, second.program)) return n - 2;
  const std::size_t states = state.size();
  Outputs begin(inputs.begin(), inputs.end());
  state = {};
  forget_since(before);
  const auto attributes = make_intrusive<LoopAttributes>();
  attributes->steps = n;
  attributes->states = states;
  attributes->snapshots = snapshots;
  attributes->body = std::make_shared<const Program>(std::move(first.program));
  inputs.append(captured->begin(), captured->end());
  try {
    state = perform_loop(attributes, std::move(inputs));
    return 0;
  } catch (const Error&) {  // which the function may catch in each step
    left.caught = true;
    state = std::move(begin);
    return n;
  }
}

// ---- functions that are carried ----------------------------------------------------------------------------

namespace {

// The functions of one call, as programs. What they capture are inputs of all, in one order.
class Rules {
 public:
  Rules(const char* name, Recorder& outer, Recording& left) : name_(name), outer_(outer), left_(left) {}

  Outputs record(std::shared_ptr<const Program>& to, FlatFunction f, std::span<const Tensor> given) {
    Recorder& rule =
        *rules_.emplace_back(std::make_unique<Recorder>(name_, CarriedCalls::kept, Recorder::Of::carried, &outer_));
    targets_.push_back(&to);
    std::vector<Tensor> inputs;
    for (const Tensor& x : given) inputs.push_back(rule.input(x, cpu));
    Outputs outputs = rule.run(f, inputs);
    for (const EffectType* type : rule.left.unasked) outer_.unasked(*type);
    left_.asked |= rule.left.asked;
    left_.caught |= rule.left.caught;
    left_.too_long |= rule.left.too_long;
    return outputs;
  }

  /// The captured values, as variables of the outer program.
  std::vector<int> end() {
    std::vector<int> captured;
    std::vector<std::vector<int>> of_rule;
    for (const auto& rule : rules_) {
      of_rule.emplace_back();
      for (const Tensor& value : rule->take_captured()) of_rule.back().push_back(outer_.variable_of(value));
      for (const int variable : of_rule.back())
        if (std::find(captured.begin(), captured.end(), variable) == captured.end()) captured.push_back(variable);
    }
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      Program& program = rules_[r]->program;
      for (const int variable : captured) {
        const auto at = std::find(of_rule[r].begin(), of_rule[r].end(), variable);
        const bool used = at != of_rule[r].end();
        const Program::Variable& outer = outer_.program.variable(variable);
        program.inputs.push_back(used ? rules_[r]->captured()[static_cast<std::size_t>(at - of_rule[r].begin())]
                                      : program.add_variable(outer.shape, outer.dtype, outer.device));
      }
      *targets_[r] = std::make_shared<const Program>(std::move(program));
    }
    return captured;
  }

 private:
  const char* const name_;
  Recorder& outer_;
  Recording& left_;
  std::vector<std::unique_ptr<Recorder>> rules_;
  std::vector<std::shared_ptr<const Program>*> targets_;
};

Outputs zeros_of(std::span<const Tensor> xs) {
  Outputs zeros;
  for (const Tensor& x : xs) zeros.push_back(zeros_like(x));
  return zeros;
}

}  // namespace

Outputs Recorder::handle_carrying(Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  const auto inputs = call.inputs();
  if (calls_ == CarriedCalls::inlined) return with(*this, [&] { return functions.run(functions.function, inputs); });
  const auto recorded = make_intrusive<RecordedFunctions>();
  recorded->name = functions.name;
  recorded->runs_again = functions.runs_again;
  recorded->saves = functions.saves;
  Rules rules(name_, *this, left);
  Outputs outputs = rules.record(
      recorded->function, [&](auto xs) { return functions.run(functions.function, xs); }, inputs);
  recorded->outputs = outputs.size();
  if (functions.again)
    rules.record(
        recorded->again, [&](auto xs) { return functions.run(functions.again, xs); }, inputs);
  if (functions.forward) {
    const auto forward = [&](std::span<const Tensor> xs) {
      Forward both = functions.run(functions.forward, xs);
      Outputs all = std::move(both.outputs);
      all.append(both.residuals.begin(), both.residuals.end());
      return all;
    };
    const Outputs all = rules.record(recorded->forward, forward, inputs);
    Outputs given(all.begin() + outputs.size(), all.end());
    for (const Tensor& zero : zeros_of(outputs)) given.push_back(zero);
    rules.record(
        recorded->backward, [&](auto xs) { return functions.run(functions.backward, xs); }, given);
  }
  if (functions.tangents) {
    Outputs given(inputs.begin(), inputs.end());
    for (const Tensor& zero : zeros_of(inputs)) given.push_back(zero);
    rules.record(
        recorded->tangents, [&](auto xs) { return functions.run(functions.tangents, xs); }, given);
  }
  if (left.too_long) return outputs;
  Program::Instruction step{&call.op(), recorded};
  for (const Tensor& input : inputs) step.inputs.push_back(variable_of(input));
  const std::vector<int> captured = rules.end();
  recorded->captured = captured.size();
  for (const int variable : captured) step.inputs.push_back(variable);
  return add(std::move(step), std::move(outputs));
}

}  // namespace stave_detail
