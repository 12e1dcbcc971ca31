#include <stave/programs/record.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_set>

#include <stave/core/carried.h>
#include <stave/core/default_dtype.h>
#include <stave/core/effects/controller.h>
#include <stave/core/epoch.h>
#include <stave/core/fail.h>
#include <stave/core/label.h>
#include <stave/core/ops/create.h>
#include <stave/core/print.h>
#include <stave/core/read_storage.h>
#include <stave/handlers/repeat.h>
#include <stave/programs/loop.h>

namespace stave_detail {

namespace {

constexpr std::size_t most_instructions = std::size_t{1} << 20;

class Recorder;

// What a recorder notes on a value: which variable it is; or that it is created of nothing, which becomes an instruction when
// something that depends on the inputs uses it.
struct Recorded {
  Recorder* recorder = nullptr;
  int variable = -1;
  int creation = -1;
  void labelled(const NamePtr& name) const;
  void was_read(const Tensor& x) const;
};

class Recorder final : public Handler, public KeepsLoops {
 public:
  // Of what: a function; one that an operation carries; a step of a loop, which `outer` records as well. A step is recorded above the
  // transforms that stand around the loop, and what it computes goes on to them.
  enum class Of : std::uint8_t { function, carried, step };
  Recorder(const char* name, CarriedCalls calls, Of what = Of::function, Recorder* outer = nullptr)
      : Handler(all_effects), notes(name), name_(name), calls_(calls), what_(what), outer_(outer) {}

  // An empty one is a variable that nothing reads, on the device of the others.
  Tensor input(const Tensor& x, Device device) {
    if (!x.defined()) {
      program.inputs.push_back(program.add_variable({}, bool_, device));
      return x;
    }
    const int variable = program.add_variable(x.shape(), x.dtype(), x.device(), label_of(x.node()));
    program.inputs.push_back(variable);
    return notes.put(clone_node(x), {this, variable});
  }

  /// f at the inputs, under this.
  Outputs run(FlatFunction f, std::span<const Tensor> inputs) {
    Outputs outputs = notes.run([&] { return with(*this, [&] { return f(inputs); }); });
    for (Tensor& output : outputs) {
      if (!left.too_long) program.outputs.push_back(output.defined() ? variable_of(output) : -1);
      output = notes.strip(std::move(output));
    }
    return outputs;
  }

  Outputs handle(Call& call) override {
    const auto inputs = call.inputs();
    if (left.too_long) return pass_on(call);
    if (program.instructions.size() >= most_instructions) {
      left.too_long = true;
      program = {};
      return pass_on(call);
    }
    if (call.op().carries_functions && what_ == Of::step) {  // transforms below have rules for it
      carries_ = true;
      return pass_on(call);
    }
    if (call.op().carries_functions) return handle_carrying(call);
    if (inputs.empty()) {
      creations_.push_back({&call.op(), call.attributes_ptr(), -1});
      Outputs outputs = pass_on(call);
      if (outputs.size() != 1) return outputs;
      outputs[0] = notes.put(std::move(outputs[0]), {this, -1, static_cast<int>(creations_.size()) - 1});
      return outputs;
    }
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return depends(x); })) return pass_on(call);
    Program::Instruction step{&call.op(), call.attributes_ptr()};
    for (const Tensor& input : inputs) step.inputs.push_back(variable_of(input));
    return add(std::move(step), pass_on(call));
  }
  // An effect that comes by is answered outside.
  void* handling(const EffectType& effect) override {
    left.asked |= effect.remembering && !(effect == effect_type<WhichFloat>() || effect == effect_type<MayCancel>());
    return nullptr;
  }
  std::string describe() const override { return name_; }
  bool discreet() const noexcept override { return true; }
  bool only_observes() const noexcept override { return what_ == Of::step; }

  Index take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) override;

  void labelled(int variable, const NamePtr& label) {
    if (left.too_long) return;
    program.variables[static_cast<std::size_t>(variable)].label = label;
  }
  void read(int variable, const Tensor& x) {
    if (left.too_long) return;
    check_stays(variable);
    if (!read_.insert(variable).second) return;
    Program::Instruction step{nullptr, nullptr};
    step.inputs.push_back(variable);
    step.met = observed(x);
    step.epoch = epoch();
    program.instructions.push_back(std::move(step));
  }

  /// The one that x is; a new constant, if it is none yet.
  int variable_of(const Tensor& x) {
    if (!x.defined()) fail<TransformError>("{}: an operation is given an empty Tensor", name_);
    const Recorded* const found = notes.find(x);
    if (!found) return constant(x);
    if (found->variable < 0) return created(found->creation, x);
    check_stays(found->variable);
    return found->variable;
  }

  /// The values that this one's constants are, though they are none. They become inputs of a step, in this order.
  std::vector<Tensor> take_captured() {
    std::vector<Tensor> values;
    std::erase_if(program.constants, [&](const Program::Constant& constant) {
      if (!is_captured(constant.value)) return false;
      values.push_back(constant.value);
      captured_.push_back(constant.variable);
      return true;
    });
    if (what_ == Of::step) program.inputs.insert(program.inputs.end(), captured_.begin(), captured_.end());
    return values;
  }
  const std::vector<int>& captured() const { return captured_; }

  Notes<Recorded> notes;
  Program program;
  Recording left;  // of which what was left out is said here

 private:
  Outputs pass_on(Call& call) {
    try {
      return perform(std::move(call));
    } catch (...) {
      left.caught = true;  // if the function returns
      throw;
    }
  }

  struct Creation {
    const Op* op;
    AttributesPtr attributes;
    int variable;  // -1: not yet used
  };

  // Numbered as they come, so that each run has the same.
  std::uint64_t epoch() {
    const std::uint64_t now = current_epoch();
    if (now == 0) return 0;
    return epochs_.try_emplace(now, epochs_.size() + 1).first->second;
  }

  // Whether a value depends on the inputs, of this recorder or of those around it; of a step: or anybody follows it.
  bool depends(const Tensor& x) const {
    if (const Recorded* found = notes.find(x)) return found->variable >= 0;
    return is_captured(x);
  }
  // Not this recorder's, but no constant.
  bool is_captured(const Tensor& x) const {
    if (what_ == Of::step) return !x.node().storage || live_notes(x) > 0;
    return outer_ && outer_->depends(x);
  }

  Outputs add(Program::Instruction step, Outputs outputs) {
    step.scopes = scopes_of_performer(last_scopes_);
    step.epoch = epoch();
    for (Tensor& output : outputs) {
      const int variable =
          program.add_variable(output.shape(), output.dtype(), output.device(), label_of(output.node()));
      step.outputs.push_back(variable);
      output = notes.put(std::move(output), {this, variable});
    }
    program.instructions.push_back(std::move(step));
    return outputs;
  }

  int created(int creation, const Tensor& x) {
    Creation& it = creations_[static_cast<std::size_t>(creation)];
    if (it.variable < 0) {
      Program::Instruction step{it.op, it.attributes};
      it.variable = program.add_variable(x.shape(), x.dtype(), x.device());
      step.outputs.push_back(it.variable);
      program.instructions.push_back(std::move(step));
    }
    return it.variable;
  }

  // What a constant is known by: a number by its content, for it is made anew wherever it is written; another by where it lies; one
  // that is captured by the variable of the recorder around, of a step by itself.
  using ConstantKey = std::pair<const void*, std::vector<Index>>;
  ConstantKey key_of(const Tensor& x) {
    const Node& node = x.node();
    if (is_captured(x)) {
      if (what_ == Of::step) return {&node, {}};
      return {outer_, {outer_->variable_of(x)}};
    }
    ConstantKey key{nullptr, {static_cast<Index>(node.dtype)}};
    key.second.insert(key.second.end(), node.shape.begin(), node.shape.end());
    key.second.insert(key.second.end(), node.strides.begin(), node.strides.end());
    if (is_one_number(x)) {
      Bytes16 bytes{};
      std::memcpy(&bytes, node.data(), size_of(node.dtype));
      for (const std::uint64_t word : bytes.words) key.second.push_back(static_cast<Index>(word));
      return key;
    }
    key.first = node.storage ? static_cast<const void*>(node.storage.get()) : x.node_ptr().get();
    key.second.push_back(node.offset);
    return key;
  }

  int constant(const Tensor& x) {
    const Node& node = x.node();
    const auto [found, is_new] = constants_.try_emplace(key_of(x), -1);
    if (is_new) {
      found->second = program.add_variable(x.shape(), x.dtype(), x.device(), label_of(node));
      program.constants.push_back({found->second, x});
    }
    return found->second;
  }

  Outputs handle_carrying(Call& call);

  // How much was recorded, here and by the recorders around, before the first steps of a loop.
  struct Mark {
    std::size_t instructions, constants;
    int variables;
  };
  std::vector<Mark> marks() const;
  bool any_read_since(std::span<const Mark> marks) const;
  void forget_since(std::span<const Mark> marks);
  std::optional<std::vector<Tensor>> record_step(FlatFunction step, Outputs& state);
  // Throws for a variable of steps that are forgotten.
  void check_stays(int variable) const;

  const char* const name_;
  const CarriedCalls calls_;
  const Of what_;
  Recorder* const outer_;
  bool carries_ = false;
  std::vector<std::pair<int, int>> forgotten_;  // variables from the first to before the second
  std::vector<Creation> creations_;
  std::map<ConstantKey, int> constants_;
  std::vector<int> captured_;
  std::unordered_set<int> read_;
  std::map<std::uint64_t, std::uint64_t> epochs_;
  ScopePathPtr last_scopes_;
};

void Recorded::labelled(const NamePtr& name) const {
  if (variable >= 0) recorder->labelled(variable, name);
}
void Recorded::was_read(const Tensor& x) const {
  if (variable >= 0) recorder->read(variable, x);
}

// ---- loops -------------------------------------------------------------------------------------------------
// The first two steps are recorded twice: here, as all else, and each by a recorder of its own. If these have the same, it is the
// body of a loop, and what was recorded here is forgotten.

bool same_nodes(std::span<const Tensor> a, std::span<const Tensor> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.node_ptr() == y.node_ptr(); });
}

std::vector<Recorder::Mark> Recorder::marks() const {
  std::vector<Mark> marks;
  for (const Recorder* at = this; at; at = at->outer_)
    marks.push_back({at->program.instructions.size(), at->program.constants.size(),
                     static_cast<int>(at->program.variables.size())});
  return marks;
}

bool Recorder::any_read_since(std::span<const Mark> marks) const {
  if (left.too_long) return true;
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
  state = {};
  forget_since(before);
  const auto attributes = make_intrusive<LoopAttributes>();
  attributes->steps = n;
  attributes->states = states;
  attributes->snapshots = snapshots;
  attributes->body = std::make_shared<const Program>(std::move(first.program));
  inputs.append(captured->begin(), captured->end());
  state = perform_loop(attributes, std::move(inputs));
  return 0;
}

// ---- functions that are carried ----------------------------------------------------------------------------

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

}  // namespace

bool is_followed(const Tensor& x) {
  if (!x.node().storage) return true;
  for (const Note* note = x.node().notes; note; note = note->next)
    if (note->owner->thread && note->live()) return true;
  return false;
}

Recording record(const char* name, FlatFunction f, std::span<const Tensor> given, CarriedCalls calls) {
  Recorder recorder(name, calls);
  std::vector<Tensor> inputs;
  const auto first = std::find_if(given.begin(), given.end(), [](const Tensor& x) { return x.defined(); });
  for (const Tensor& x : given) inputs.push_back(recorder.input(x, first == given.end() ? cpu : first->device()));
  Outputs outputs = recorder.run(f, inputs);
  Recording recording = std::move(recorder.left);
  recording.outputs = std::move(outputs);
  for (Program::Constant& constant : recorder.program.constants) {
    constant.value = recorder.notes.strip(std::move(constant.value));
    recording.follows |= is_followed(constant.value);
  }
  recording.program = std::move(recorder.program);
  return recording;
}

}  // namespace stave_detail
