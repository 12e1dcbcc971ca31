#include <stave/core/program/rules.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/recorder.h>

namespace stave_detail {

// ---- notes --------------------------------------------------------------------------------------

void VariableNote::labelled(const NamePtr& name) const {
  if (variable >= 0 && notes->recorder) notes->recorder->labelled(variable, name);
}
void VariableNote::was_read(const Tensor& x) const {
  if (variable >= 0 && notes->recorder) notes->recorder->read(variable, x);
}

Tensor VariableNotes::put(Tensor x, int variable, int creation) {
  auto value = std::make_shared<const char>();
  if (variable >= 0) values.emplace_back(variable, value);
  return notes.put(std::move(x), {this, variable, creation, std::move(value)});
}

std::vector<int> VariableNotes::living() const {
  std::vector<int> variables;
  for (const auto& [variable, value] : values)
    if (!value.expired()) variables.push_back(variable);
  std::sort(variables.begin(), variables.end());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  return variables;
}

// ---- rules --------------------------------------------------------------------------------------

namespace {

// Returns a tensor with the properties of x. If x has lanes, they are those of one lane.
Tensor value_like(const Tensor& x) {
  const Tensor all = observed(x);
  return all.size() == 0 && x.size() > 0 ? zeros(x.shape(), x.dtype(), x.device()) : example_of(x);
}

}  // namespace

RecordedRules::RecordedRules(const FunctionAttributes& functions, std::size_t outputs)
    : functions_(functions), outputs_(outputs) {
  functions_.function = functions_.again = nullptr;
  functions_.saves = nullptr;
  functions_.log = nullptr;
  functions_.received.clear();
}

bool RecordedRules::keeps_functions() const {
  return functions_.batch || std::any_of(function_roles.begin(), function_roles.end(),
                                         [&](FunctionRole role) { return functions_[role] && !program_of(role); });
}

const Program* RecordedRules::program_of(FunctionRole role) const {
  for (const Rule& rule : rules_)
    if (rule.role == role) return rule.program.get();
  return nullptr;
}

bool RecordedRules::equals(const RecordedRules& other) const {
  if (this == &other) return true;
  const std::scoped_lock lock(mutex_, other.mutex_);
  if (keeps_functions() || other.keeps_functions()) return false;
  return outputs_ == other.outputs_ &&
         std::all_of(function_roles.begin(), function_roles.end(), [&](FunctionRole role) {
           const Program *const a = program_of(role), *const b = other.program_of(role);
           return a == b || (a && b && same_program(*a, *b));
         });
}

std::vector<std::shared_ptr<const Program>> RecordedRules::programs() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Program>> found;
  for (const Rule& rule : rules_)
    if (rule.program) found.push_back(rule.program);
  return found;
}

int RecordedRules::number_of(const Tensor& x) const {
  bool is_other = false;
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const VariableNote* const note = captured[i].notes->find(x);
    if (!note || note->variable < 0) continue;
    if (note->variable == captured[i].variable) return static_cast<int>(i);
    is_other = true;
  }
  if (is_other)
    fail<TransformError>(
        "{}: a rule uses a value ({} {}) that the recorded function computed after the call, and that the program does "
        "not pass to the rule: pass it as an argument",
        functions_.name, x.dtype(), x.shape());
  return -1;
}

void RecordedRules::add_to(FunctionAttributes& call, const Inputs& values) const {
  for (const FunctionRole role : function_roles)
    if (functions_[role])
      call[role] = [self = shared_from_this(), role, values](const FunctionInputs& given) {
        return self->run(role, given, values);
      };
}

RecordedRules::Rule& RecordedRules::rule(FunctionRole role, const FunctionInputs& given) const {
  const std::lock_guard lock(mutex_);
  for (Rule& it : rules_)
    if (it.role == role && it.lanes == given.lanes && std::ranges::equal(it.batched, given.batched)) return it;
  return rules_.emplace_back(Rule{role, given.lanes, {given.batched.begin(), given.batched.end()}});
}

FunctionResults RecordedRules::run(FunctionRole role, const FunctionInputs& given, const Inputs& values) const {
  std::shared_ptr<const Program> program;
  {
    const std::lock_guard lock(mutex_);
    Rule& used = rule(role, given);
    if (!used.program && !used.stays_function) record(used, given);
    program = used.program;
  }
  if (!program) return functions_.run(role, given);
  Inputs all = given.flat();
  all.append(values.begin(), values.end());
  Outputs found = (*program)(all);
  const bool has_more = role == FunctionRole::forward || role == FunctionRole::tangents;
  const std::size_t count = has_more ? outputs_ : found.size();
  return FunctionResults::split(std::move(found), count);
}

// Records a rule on examples, without any handlers. A rule that a program cannot represent, for
// example because it reads a value or performs an effect, stays a C++ function. A rule that uses
// captured values is recorded in any case, because these values differ between replays.
void RecordedRules::record(Rule& rule, const FunctionInputs& given) const {
  UnderFrame past_all_handlers(nullptr);
  Recorder recorder(functions_.name, *this);
  std::vector<Tensor> inputs;
  for (const Tensor& x : given.flat()) inputs.push_back(recorder.input(value_like(x), cpu));
  try {
    recorder.run([&](std::span<const Tensor> xs) { return functions_.run(rule.role, given.with(xs)).flat(); }, inputs);
  } catch (...) {
    if (recorder.uses_captured()) throw;
    rule.stays_function = true;
    return;
  }
  inputs.clear();
  const bool uses_captured = recorder.uses_captured();
  recorder.take_captured_of(*this);
  Recording recording = recorder.take_recording();
  const bool holds_all = !has_read(recording.program.instructions) && !recording.has_unrecorded_effect &&
                         !recording.caught && !recording.too_long && !recording.captures_traced &&
                         recording.unanswered.empty();
  rule.stays_function = !holds_all && !uses_captured;
  if (rule.stays_function) return;
  if (recording.too_long) fail_too_long();
  rule.program = std::make_shared<const Program>(std::move(recording.program));
}

// ---- closing calls ------------------------------------------------------------------------------

void close_calls(Program& program, const std::shared_ptr<const VariableNotes>& notes, std::vector<OpenCall>& calls,
                 const CapturedVariables& outside) {
  if (calls.empty()) return;
  const std::vector<int> living = notes->living();
  for (OpenCall& call : calls) {
    Program::Instruction& step = program.instructions[call.instruction];
    RecordedFunctions& functions = *call.functions;
    const std::size_t arguments = step.inputs.size() - functions.captured;
    CapturedVariables added = outside;
    for (const int variable : living)
      if (variable < call.variables) added.push_back({{notes, variable, program.variable(variable)}, variable});
    if (RecordedRules* const rules = functions.rules.get(); rules && rules->keeps_functions()) {
      for (std::size_t i = arguments; i < step.inputs.size(); ++i)
        rules->captured.push_back({notes, step.inputs[i], program.variable(step.inputs[i])});
      for (const auto& [value, variable] : added) rules->captured.push_back(value);
    }
    for (const auto& [value, variable] : added) step.inputs.push_back(variable);
    functions.captured += added.size();
    for (OpenProgram& inside : call.programs) {
      CapturedVariables given;
      for (const auto& [value, variable] : added) {
        const int input = inside.program->add_variable(value.type.shape, value.type.dtype, value.type.device);
        inside.program->inputs.push_back(input);
        given.emplace_back(value, input);
      }
      close_calls(*inside.program, inside.notes, inside.calls, given);
    }
  }
}

}  // namespace stave_detail
