// The recorder under trace and compile (record.h): a handler that writes down what passes it.
//
// Operations, effects and errors stand in record.cpp; loops and functions that operations carry in record_parts.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_set>

#include <stave/core/op/carried.h>
#include <stave/core/op/epoch.h>
#include <stave/core/program/rules.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/repeat.h>

namespace stave_detail {

class Recorder final : public Handler, public KeepsLoops, public NotesUnasked {
 public:
  // Of what: a function; one that an operation carries; a step of a loop, which `outer` records as well. A step is recorded above the
  // transforms that stand around the loop, and what it computes goes on to them.
  enum class Of : std::uint8_t { function, carried, step };
  Recorder(const char* name, CarriedCalls calls, int orders, AskedOutside* asked = nullptr)
      : Recorder(name, calls, Of::function, nullptr, orders, nullptr, asked) {}
  /// Inside of another.
  Recorder(const char* name, CarriedCalls calls, Of what, Recorder& outer, int orders = 0)
      : Recorder(name, calls, what, &outer, orders, nullptr, outer.asked_) {}
  /// Records a rule that was kept as a function.
  Recorder(const char* name, const RecordedRules& rules)
      : Recorder(name, CarriedCalls::kept, Of::carried, nullptr, 0, &rules, nullptr) {}
  ~Recorder() { home_->recorder = nullptr; }

  // An empty one is a variable that nothing reads, on the device of the others.
  Tensor input(const Tensor& x, Device device) {
    if (!x.defined()) {
      program.inputs.push_back(program.add_variable({}, bool_, device));
      return x;
    }
    const int variable = program.add_variable(x.shape(), x.dtype(), x.device(), label_of(x.node()));
    program.inputs.push_back(variable);
    return home_->put(clone_node(x), variable);
  }

  /// f at the inputs, under this.
  Outputs run(FlatFunction f, std::span<const Tensor> inputs);
  Outputs handle(Call& call) override;
  // An effect that comes by is answered outside.
  void* handling(const EffectType& effect) override;
  std::any answer_kept(const EffectType& effect, std::any performed) override;
  std::string describe() const override { return name_; }
  bool discreet() const noexcept override { return true; }
  bool only_observes() const noexcept override { return what_ == Of::step; }

  void unasked(const EffectType& effect) override { left.unasked.insert(&effect); }

  Index take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) override;

  void labelled(int variable, const NamePtr& label) {
    if (left.too_long || asking_) return;
    program.variables[static_cast<std::size_t>(variable)].label = label;
  }
  void read(int variable, const Tensor& x) {
    if (left.too_long || asking_) return;
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
    const VariableNote* const found = home_->find(x);
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
  /// Whether a value is used that is one of those.
  bool uses_captured() const {
    return std::any_of(program.constants.begin(), program.constants.end(),
                       [&](const Program::Constant& constant) { return is_captured(constant.value); });
  }
  /// Makes inputs of all that the rules captured, used or not.
  void take_captured_of(const RecordedRules& rules);
  /// The program of an inner function, with its calls, which stay open.
  OpenProgram take_open();
  /// The outermost recorder closes the calls.
  void close();
  /// What was recorded, without this one's notes.
  Recording take_recording();

  Program program;
  Recording left;  // of which what was left out is said here

 private:
  // Of an operation that is no instruction: an error that the function catches leaves the recording incomplete.
  template <class Perform>
  Outputs unrecorded(Perform&& perform) {
    try {
      return perform();
    } catch (...) {
      left.caught = true;  // if the function returns
      throw;
    }
  }
  // Of one that is: the error is a turn.
  Outputs performed(Call& call, const Program::Instruction& step);
  bool is_followed_outside(const Tensor& x) const;
  void add_turn(Turn turn);
  Recorder(const char* name, CarriedCalls calls, Of what, Recorder* outer, int orders, const RecordedRules* rules,
           AskedOutside* asked)
      : Handler(all_effects), name_(name), calls_(calls), what_(what), outer_(outer), orders_(orders), rules_(rules),
        asked_(asked), home_(std::make_shared<VariableNotes>(name, this)) {}

  bool makes_turns() const noexcept { return asked_ && what_ == Of::function; }
  Tensor answered(const Tensor& x);  // a new value

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
    if (const VariableNote* found = home_->find(x)) return found->variable >= 0;
    return is_captured(x);
  }
  // Not this recorder's, but no constant.
  bool is_captured(const Tensor& x) const {
    if (what_ == Of::step) return !x.node().storage || live_notes(x) > 0;
    return outer_ ? outer_->depends(x) : rules_ && rules_->number_of(x) >= 0;
  }

  Outputs add(Program::Instruction step, Outputs outputs) {
    step.scopes = scopes_of_performer(last_scopes_);
    step.epoch = epoch();
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

  // What a constant is known by: a number by its content, for it is made anew wherever it is written; another by where it lies; one
  // that is captured by the variable of the recorder around, of a step by itself.
  using ConstantKey = std::pair<const void*, std::vector<Index>>;
  ConstantKey key_of(const Tensor& x) {
    const Node& node = x.node();
    if (is_captured(x)) {
      if (what_ == Of::step) return {&node, {}};
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

  Outputs handle_carrying(Call& call);

  // How much was recorded, here and by the recorders around, before the first steps of a loop.
  struct Mark {
    std::size_t instructions, constants, turns;
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
  const int orders_;                  // so many orders of rules are recorded with their calls
  const RecordedRules* const rules_;  // of which this records one; else null
  AskedOutside* const asked_;
  const std::shared_ptr<VariableNotes> home_;
  std::vector<OpenCall> open_;
  bool asking_ = false;  // whoever answers an effect looks at its tensors: that is not the function
  std::vector<std::shared_ptr<bool>> texts_;  // of the errors that are turns: whether somebody asked for it
  bool carries_ = false;
  std::vector<std::pair<int, int>> forgotten_;  // variables from the first to before the second
  std::vector<Creation> creations_;
  std::map<ConstantKey, int> constants_;
  std::vector<int> captured_;
  std::unordered_set<int> read_;
  std::map<std::uint64_t, std::uint64_t> epochs_;
  ScopePathPtr last_scopes_;
};

}  // namespace stave_detail
