// Recorder: the handler that records operations, effects and reads for trace and compile
// (record.h).
//
// record.cpp implements operations, effects and errors; record_parts.cpp implements loops and
// the functions of higher-order operations.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_set>

#include <stave/core/op/higher_order.h>
#include <stave/core/op/rematerialization_barrier.h>
#include <stave/core/program/rules.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/record_loop.h>

namespace stave_detail {

class Recorder final : public Handles<Call, RecordLoop, Unanswered> {
 public:
  // The object that is recorded: a function, the function of a higher-order operation (carried), or
  // a step of a loop, which `outer` records as well. A step is recorded inside of the transforms
  // around the loop, which its operations reach next.
  enum class Kind : std::uint8_t { function, carried, step };
  Recorder(const char* name, HigherOrderCalls calls, int orders, CallEffectLog* asked = nullptr)
      : Recorder(name, calls, Kind::function, nullptr, orders, nullptr, asked) {}
  /// Creates a recorder inside of another one.
  Recorder(const char* name, HigherOrderCalls calls, Kind what, Recorder& outer, int orders = 0)
      : Recorder(name, calls, what, &outer, orders, nullptr, outer.effect_log_) {}
  /// Creates a recorder for a rule that was kept as a C++ function.
  Recorder(const char* name, const RecordedRules& rules)
      : Recorder(name, HigherOrderCalls::kept, Kind::carried, nullptr, 0, &rules, nullptr) {}
  ~Recorder() { home_->recorder = nullptr; }

  // Adds an input. An empty tensor becomes a variable that nothing reads, on the given device.
  Tensor input(const Tensor& x, Device device) {
    if (!x.defined()) {
      program.inputs.push_back(program.add_variable({}, bool_, device));
      return x;
    }
    const int variable = program.add_variable(x.shape(), x.dtype(), x.device(), label_of(x.node()));
    program.inputs.push_back(variable);
    return home_->put(clone_node(x), variable);
  }

  /// Runs f at the inputs under this recorder.
  Outputs run(FlatFunction f, std::span<const Tensor> inputs);
  Outputs handle(Call& call) override;
  // Effects that reach the recorder are answered by outer handlers, and recorded as guards.
  void* handling(const EffectType& effect) override;
  std::any answer_recordable(const EffectType& effect, std::any performed) override;
  std::string describe() const override { return name_; }
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .only_observes = kind_ == Kind::step, .records_loops = true};
  }

  void handle(Unanswered& unanswered) override {
    facts.unanswered.insert(&unanswered.effect);
    perform(unanswered);
  }
  Index handle(RecordLoop& loop) override;

  void labelled(int variable, const NamePtr& label) {
    if (facts.too_long || answering_) return;
    program.variables[static_cast<std::size_t>(variable)].label = label;
  }
  void read(int variable, const Tensor& x) {
    if (facts.too_long || answering_) return;
    check_stays(variable);
    if (!read_.insert(variable).second) return;
    Program::Instruction step{nullptr, nullptr};
    step.inputs.push_back(variable);
    step.read_value = observed(x);
    step.barrier = barrier();
    program.instructions.push_back(std::move(step));
  }

  /// Returns the variable of x. Adds a constant if x has no variable yet.
  int variable_of(const Tensor& x) {
    if (!x.defined()) fail<TransformError>("{}: an operation is given an empty Tensor", name_);
    const VariableNote* const found = home_->find(x);
    if (!found) return constant(x);
    if (found->variable < 0) return created(found->creation, x);
    check_stays(found->variable);
    return found->variable;
  }

  /// Removes the captured values from the constants, and returns them. In a loop's step they become
  /// inputs, in this order.
  std::vector<Tensor> take_captured() {
    std::vector<Tensor> values;
    std::erase_if(program.constants, [&](const Program::Constant& constant) {
      if (!is_captured(constant.value)) return false;
      values.push_back(constant.value);
      captured_.push_back(constant.variable);
      return true;
    });
    if (kind_ == Kind::step) program.inputs.insert(program.inputs.end(), captured_.begin(), captured_.end());
    return values;
  }
  const std::vector<int>& captured() const { return captured_; }
  /// Returns true if the program uses a captured value.
  bool uses_captured() const {
    return std::any_of(program.constants.begin(), program.constants.end(),
                       [&](const Program::Constant& constant) { return is_captured(constant.value); });
  }
  /// Adds all values that the rules captured to the inputs, whether the program reads them or not.
  void take_captured_of(const RecordedRules& rules);
  /// Takes the program of an inner function. Its calls stay open: they do not have their captured
  /// values yet (OpenCall, core/program/rules.h).
  OpenProgram take_open();
  /// Adds the captured values to the open calls. Only the outermost recorder does so.
  void close();
  /// Takes the recording, and removes this recorder's notes from it.
  Recording take_recording();

  Program program;
  Recording facts;  // facts that the program does not hold

 private:
  // Performs an operation that is not recorded as an instruction. An error that the function then
  // catches leaves the recording incomplete.
  template <class Perform>
  Outputs unrecorded(Perform&& perform) {
    try {
      return perform();
    } catch (...) {
      facts.caught = true;  // the recording is used only if the function catches the error
      throw;
    }
  }
  // Performs an operation that becomes an instruction. An error becomes a guard.
  Outputs performed(Call& call, const Program::Instruction& step);
  bool is_followed_outside(const Tensor& x) const;
  void add_guard(RecordedGuard guard);
  Recorder(const char* name, HigherOrderCalls calls, Kind what, Recorder* outer, int orders, const RecordedRules* rules,
           CallEffectLog* asked)
      : Handles(all_effects), name_(name), calls_(calls), kind_(what), outer_(outer), orders_(orders), rules_(rules),
        effect_log_(asked), home_(std::make_shared<VariableNotes>(name, this)) {}

  bool makes_guards() const noexcept { return effect_log_ && kind_ == Kind::function; }
  // Makes a new value of the program from a tensor of an answer.
  Tensor answered(const Tensor& x);

  struct Creation {
    const Op* op;
    AttributesPtr attributes;
    int variable;  // -1: not used yet
  };

  // Returns the number of the current rematerialisation barrier. Barriers are numbered in the order
  // in which they appear, so that they have the same numbers in each run.
  std::uint64_t barrier() {
    const std::uint64_t now = current_rematerialization_barrier();
    if (now == 0) return 0;
    return barriers_.try_emplace(now, barriers_.size() + 1).first->second;
  }

  // Returns true if the value depends on inputs of this recorder or of an outer one. In a loop's
  // step, also returns true if a transform traces the value.
  bool depends(const Tensor& x) const {
    if (const VariableNote* found = home_->find(x)) return found->variable >= 0;
    return is_captured(x);
  }
  // Returns true for a captured value: this recorder has not recorded it, and it differs between
  // replays.
  bool is_captured(const Tensor& x) const {
    if (kind_ == Kind::step) return !x.node().storage || live_notes(x) > 0;
    return outer_ ? outer_->depends(x) : rules_ && rules_->number_of(x) >= 0;
  }

  Outputs add(Program::Instruction step, Outputs outputs) {
    step.scopes = scopes_of_performer(last_scopes_);
    step.barrier = barrier();
    for (Tensor& output : outputs) {
      const int variable =
          program.add_variable(output.shape(), output.dtype(), output.device(), label_of(output.node()));
      step.outputs.push_back(variable);
      output = home_->put(std::move(output), variable);
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

  // The identity of a constant. A number is identified by its content, because it is made anew
  // wherever it is written; another tensor by its storage and layout; a captured value by its
  // variable in the outer recorder, or in a step by its node.
  using ConstantKey = std::pair<const void*, std::vector<Index>>;
  ConstantKey key_of(const Tensor& x) {
    const Node& node = x.node();
    if (is_captured(x)) {
      if (kind_ == Kind::step) return {&node, {}};
      if (!outer_) return {rules_, {rules_->number_of(x)}};
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

  Outputs handle_higher_order(Call& call);

  // The sizes of the recording before the first steps of a loop, one mark for each recorder from
  // this one outwards.
  struct Mark {
    std::size_t instructions, constants, guards;
    int variables;
  };
  std::vector<Mark> marks() const;
  bool any_read_since(std::span<const Mark> marks) const;
  void forget_since(std::span<const Mark> marks);
  std::optional<std::vector<Tensor>> record_step(FlatFunction step, Outputs& state, const Outputs& row);
  // Throws TransformError if the variable belongs to steps of a loop that were removed from the
  // recording.
  void check_stays(int variable) const;

  const char* const name_;
  const HigherOrderCalls calls_;
  const Kind kind_;
  Recorder* const outer_;
  // The number of orders of derivatives whose rules are recorded with their calls.
  const int orders_;
  const RecordedRules* const rules_;  // the rules of which this recorder records one; else null
  CallEffectLog* const effect_log_;
  const std::shared_ptr<VariableNotes> home_;
  std::vector<OpenCall> open_;
  // True while an outer handler answers an effect. If the handler reads the effect's tensors, the
  // function itself has read nothing.
  bool answering_ = false;
  // For each error that is a guard, whether the function read its text.
  std::vector<std::shared_ptr<bool>> texts_read_;
  bool has_higher_order_ = false;
  std::vector<std::pair<int, int>> forgotten_;  // ranges of variables, [first, second)
  std::vector<Creation> creations_;
  std::map<ConstantKey, int> constants_;
  std::vector<int> captured_;
  std::unordered_set<int> read_;
  std::map<std::uint64_t, std::uint64_t> barriers_;
  ScopePathPtr last_scopes_;
};

}  // namespace stave_detail
