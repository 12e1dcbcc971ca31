// Recorder, second part: loops, and the functions of higher-order operations.
#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>
#include <stave/handlers/compile/recorder.h>

namespace stave_detail {

// ---- loops --------------------------------------------------------------------------------------
// The first two steps of a loop are recorded twice: by the outer recorder, like everything else,
// and each by a recorder of its own. If the two steps have equal programs, that program is the body
// of a loop, and the outer recorder forgets the steps.

namespace {

bool same_nodes(std::span<const Tensor> a, std::span<const Tensor> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.node_ptr() == y.node_ptr(); });
}

// Makes the body and the inputs of a loop. `values` holds the states, the stacks of rows, and the
// captured values, for which the body has inputs in this order. A state that each step returns
// unchanged becomes an input that is the same in all steps, so that its readers read one value, as
// they do in the steps themselves. This is not done for a loop with snapshots, because each
// snapshot begins with its own values.
class LoopMaker {
 public:
  LoopMaker(Program body, std::vector<Tensor> values, std::size_t states, std::size_t rows, bool finds_passed)
      : body_(std::move(body)), values_(std::move(values)), rows_(rows) {
    for (std::size_t k = 0; k < states; ++k) passed_.push_back(finds_passed && body_.inputs[k] == body_.outputs[k]);
    if (std::find(passed_.begin(), passed_.end(), false) == passed_.end()) passed_.assign(states, false);
  }

  /// Completes `loop` and returns its inputs.
  Inputs make(LoopAttributes& loop) {
    const std::vector<int> variables = std::move(body_.inputs);
    const std::vector<int> outputs = std::move(body_.outputs);
    body_.inputs = body_.outputs = {};
    Renaming renamed(body_);
    Inputs given;
    const auto give = [&](std::size_t i) {
      body_.inputs.push_back(variables[i]);
      given.push_back(values_[i]);
    };
    for (std::size_t k = 0; k < passed_.size(); ++k) {
      if (passed_[k]) continue;
      give(k);
      body_.outputs.push_back(outputs[k]);
    }
    loop.states = given.size();
    loop.rows = rows_;
    body_.outputs.insert(body_.outputs.end(), outputs.begin() + static_cast<std::ptrdiff_t>(passed_.size()),
                         outputs.end());
    for (std::size_t i = passed_.size(); i < values_.size(); ++i) give(i);
    for (std::size_t k = 0; k < passed_.size(); ++k) {
      if (!passed_[k]) continue;
      const auto same = std::find_if(given.begin() + static_cast<std::ptrdiff_t>(loop.states + loop.rows), given.end(),
                                     [&](const Tensor& x) { return x.node_ptr() == values_[k].node_ptr(); });
      if (same == given.end()) give(k);
      else renamed.set(variables[k], body_.inputs[static_cast<std::size_t>(same - given.begin())]);
    }
    for (Program::Instruction& step : body_.instructions) renamed.apply(step.inputs);
    renamed.apply(body_.outputs);
    loop.body = std::make_shared<const Program>(std::move(body_));
    return given;
  }

  /// Returns all states after the loop, including the unchanged ones.
  Outputs states_after(Outputs loop_states) const {
    Outputs all;
    Tensor* next = loop_states.begin();
    for (std::size_t k = 0; k < passed_.size(); ++k) all.push_back(passed_[k] ? values_[k] : std::move(*next++));
    return all;
  }

 private:
  Program body_;
  const std::vector<Tensor> values_;
  const std::size_t rows_;
  std::vector<bool> passed_;  // for each state, whether each step returns it unchanged
};

// Removes the results of a step or of a loop, which follow the states, and returns them.
Outputs take_results(Outputs& outputs, std::size_t states) {
  Outputs kept, results;
  for (std::size_t k = 0; k < outputs.size(); ++k) (k < states ? kept : results).push_back(std::move(outputs[k]));
  outputs = std::move(kept);
  return results;
}

}  // namespace

std::vector<Recorder::Mark> Recorder::marks() const {
  std::vector<Mark> marks;
  for (const Recorder* at = this; at; at = at->outer_)
    marks.push_back({at->program.instructions.size(), at->program.constants.size(), at->facts.guards.size(),
                     static_cast<int>(at->program.variables.size())});
  return marks;
}

bool Recorder::any_read_since(std::span<const Mark> marks) const {
  if (facts.too_long || facts.guards.size() > marks[0].guards) return true;
  if (has_read(std::span(program.instructions).subspan(marks[0].instructions))) return true;
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
        "{}: a value that the function of a loop computed left the function through a captured variable and is used "
        "later: it would be the value of an early step. Return it from the function",
        name_);
}

// Records one step, and returns the values that it captures. Returns nothing if the step cannot be
// the body of a loop. `state` becomes the next state, followed by the step's results.
std::optional<std::vector<Tensor>> Recorder::record_step(FlatFunction step, Outputs& state, const Outputs& row) {
  const std::size_t states = state.size();
  std::vector<Tensor> inputs;
  for (const Tensor& x : state) inputs.push_back(input(x, cpu));
  for (const Tensor& x : row) inputs.push_back(input(x, cpu));
  state = run(step, inputs);
  if (has_higher_order_ || facts.has_unrecorded_effect || facts.caught || facts.too_long) return std::nullopt;
  std::vector<Tensor> captured = take_captured();
  if (!may_be_body(program)) return std::nullopt;
  const auto alike = [&](int a, int b) {
    const Program::Variable &x = program.variable(a), &y = program.variable(b);
    return x.shape == y.shape && x.dtype == y.dtype && x.device == y.device;
  };
  const bool keeps_types =
      program.outputs.size() >= states &&
      std::equal(program.outputs.begin(), program.outputs.begin() + static_cast<std::ptrdiff_t>(states),
                 program.inputs.begin(), alike);
  if (!keeps_types) return std::nullopt;
  return captured;
}

Index Recorder::handle(RecordLoop& loop) {
  const UnderFrame at_loop(loop.performer);
  const Index n = loop.n;
  Outputs& state = loop.state;
  const bool any_empty = std::any_of(state.begin(), state.end(), [](const Tensor& x) { return !x.defined(); });
  const std::size_t states = state.size();
  if (facts.too_long || states + loop.stacks.size() == 0 || any_empty) return n;
  const std::vector<Mark> before = marks();
  Outputs begin = state;
  const StackRows rows(loop.stacks);
  const auto row = [&](Index i) { return rows(loop.reverse ? n - 1 - i : i); };
  Recorder first(name_, calls_, Kind::step, *this), second(name_, calls_, Kind::step, *this);
  const auto captured = first.record_step(loop.step, state, row(0));
  Outputs first_results = take_results(state, states);
  if (!captured || loop.changes || any_read_since(before)) return loop.results.add_row(std::move(first_results)), n - 1;
  const auto again = second.record_step(loop.step, state, row(1));
  Outputs second_results = take_results(state, states);
  if (!again || loop.changes || any_read_since(before) || !same_nodes(*captured, *again) ||
      !same_program(first.program, second.program)) {
    loop.results.add_row(std::move(first_results));
    loop.results.add_row(std::move(second_results));
    return n - 2;
  }
  state = first_results = second_results = {};
  forget_since(before);
  const auto attributes = make_intrusive<LoopAttributes>();
  attributes->steps = n;
  attributes->reverse = loop.reverse;
  attributes->snapshots = loop.snapshots;
  std::vector<Tensor> values(begin.begin(), begin.end());
  values.insert(values.end(), loop.stacks.begin(), loop.stacks.end());
  values.insert(values.end(), captured->begin(), captured->end());
  LoopMaker maker(std::move(first.program), std::move(values), states, loop.stacks.size(), loop.snapshots == 0);
  Inputs inputs = maker.make(*attributes);
  try {
    Outputs outputs = perform_loop(attributes, std::move(inputs));
    loop.results.add_stacks(take_results(outputs, attributes->states));
    state = maker.states_after(std::move(outputs));
    return 0;
  } catch (const Error&) {
    // The function of a step may catch this error itself, so the steps are performed one by one.
    facts.caught = true;
    state = std::move(begin);
    return n;
  }
}

// ---- functions of higher-order operations -------------------------------------------------------

namespace {

// Records the functions of one call as programs. Each program has the captured values of all
// functions as inputs, in one order.
class Rules {
 public:
  Rules(const char* name, Recorder& outer, Recording& facts) : name_(name), outer_(outer), facts_(facts) {}

  Outputs record(std::shared_ptr<const Program>& to, int orders, FlatFunction f, std::span<const Tensor> given) {
    Recorder& rule = *rules_.emplace_back(
        std::make_unique<Recorder>(name_, HigherOrderCalls::kept, Recorder::Kind::carried, outer_, orders));
    targets_.push_back(&to);
    std::vector<Tensor> inputs;
    for (const Tensor& x : given) inputs.push_back(rule.input(x, cpu));
    Outputs outputs = rule.run(f, inputs);
    facts_.unanswered.insert(rule.facts.unanswered.begin(), rule.facts.unanswered.end());
    facts_.has_unrecorded_effect |= rule.facts.has_unrecorded_effect;
    facts_.caught |= rule.facts.caught;
    facts_.too_long |= rule.facts.too_long;
    facts_.keeps_rules |= rule.facts.keeps_rules;
    return outputs;
  }

  /// Returns the captured values as variables of the outer program, and the functions as programs
  /// whose calls do not have their captured values yet (OpenCall, core/program/rules.h).
  std::pair<std::vector<int>, std::vector<OpenProgram>> end() {
    std::vector<int> captured;
    std::vector<OpenProgram> open;
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
      open.push_back(rules_[r]->take_open());
      *targets_[r] = open.back().program;
    }
    return {std::move(captured), std::move(open)};
  }

 private:
  const char* const name_;
  Recorder& outer_;
  Recording& facts_;
  std::vector<std::unique_ptr<Recorder>> rules_;
  std::vector<std::shared_ptr<const Program>*> targets_;
};

Outputs zeros_of(std::span<const Tensor> xs) {
  Outputs zeros;
  for (const Tensor& x : xs) zeros.push_back(zeros_like(x));
  return zeros;
}

}  // namespace

Outputs Recorder::handle_higher_order(Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  const FunctionInputs inputs = call.inputs();
  if (calls_ == HigherOrderCalls::inlined)
    return with(*this, [&] { return functions.run(FunctionRole::function, inputs); });
  const auto recorded = make_intrusive<RecordedFunctions>();
  recorded->name = functions.name;
  recorded->rematerializes = functions.rematerializes;
  recorded->saves = functions.saves;
  Rules rules(name_, *this, facts);
  const auto record = [&](FunctionRole role, std::shared_ptr<const Program>& to, int orders,
                          const FunctionInputs& given) {
    std::size_t count = 0;
    const auto flat = [&](std::span<const Tensor> xs) {
      FunctionResults results = functions.run(role, given.with(xs));
      count = results.size();
      return std::move(results).flat();
    };
    Outputs all = rules.record(to, orders, flat, given.flat());
    return FunctionResults::split(std::move(all), count);
  };
  Outputs outputs = record(FunctionRole::function, recorded->function, orders_, inputs);
  if (functions.again) record(FunctionRole::again, recorded->again, orders_, inputs);
  if (functions.has_derivative_rule() || functions.batch)
    recorded->rules = std::make_shared<RecordedRules>(functions, outputs.size());
  const auto record_rule = [&](FunctionRole role, const FunctionInputs& given) {
    return record(role, recorded->rules->rule(role, given).program, orders_ - 1, given);
  };
  if (functions.forward && orders_ > 0) {
    const FunctionResults forward = record_rule(FunctionRole::forward, inputs);
    record_rule(FunctionRole::backward, {forward.more, zeros_of(outputs)});
  }
  if (functions.tangents && orders_ > 0) record_rule(FunctionRole::tangents, {inputs.inputs, zeros_of(inputs.inputs)});
  if (facts.too_long) return outputs;
  Program::Instruction step{&call.op(), recorded};
  for (const Tensor& input : inputs.inputs) step.inputs.push_back(variable_of(input));
  auto [captured, programs] = rules.end();
  recorded->captured = captured.size();
  for (const int variable : captured) step.inputs.push_back(variable);
  const bool keeps_rules = recorded->rules && recorded->rules->keeps_functions();
  const bool any_open = std::any_of(programs.begin(), programs.end(), [](const auto& it) { return !it.calls.empty(); });
  facts.keeps_rules |= recorded->rules && recorded->rules->has_derivative() && orders_ == 0;
  if (keeps_rules || any_open)
    open_.push_back(
        {program.instructions.size(), static_cast<int>(program.variables.size()), recorded, std::move(programs)});
  return add(std::move(step), std::move(outputs));
}

// ---- calls whose rules are not recorded yet -----------------------------------------------------

OpenProgram Recorder::take_open() { return {std::make_shared<Program>(std::move(program)), home_, std::move(open_)}; }

void Recorder::close() {
  if (!facts.too_long) close_calls(program, home_, open_, {});
  open_.clear();
  home_->values.clear();  // rules may own the notes, but do not need the values
}

void Recorder::take_captured_of(const RecordedRules& rules) {
  std::vector<int> variables(rules.captured.size(), -1);
  const std::vector<Tensor> values = take_captured();
  for (std::size_t i = 0; i < values.size(); ++i)
    variables[static_cast<std::size_t>(rules.number_of(values[i]))] = captured_[i];
  CapturedVariables outside;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const RecordedRules::Captured& value = rules.captured[i];
    const int variable =
        variables[i] >= 0 ? variables[i] : program.add_variable(value.type.shape, value.type.dtype, value.type.device);
    program.inputs.push_back(variable);
    outside.emplace_back(value, variable);
  }
  if (!facts.too_long) close_calls(program, home_, open_, outside);
  open_.clear();
  home_->values.clear();
}

}  // namespace stave_detail
