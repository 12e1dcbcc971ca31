// The rules of a function that an operation carries (custom_vjp, custom_jvp, custom_vmap), in a
// program that holds the call.
//
// A rule may call the function whose rule it is: its derivative then has a derivative of the same
// kind, without end. So a rule is recorded when a derivative first needs it, or lanes do, and each
// order when that order is needed. Until then it is kept as the function that it is.
//
//   trace(my_exp)(x)           my_exp's operations, and its rule, a function
//   grad(trace(my_exp)(x))     runs the rule, which calls my_exp again: its program holds a call, with a rule that is a function
//
// A rule that is kept so may hold values that the traced function computed. They are what they are
// at each replay: inputs of the call's instruction. Which these are is known when the recording
// ends: the values that still live then, but for its results, are held by rules (VariableNotes).
//
// What such a rule captures by reference must live until then.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <stave/core/op/carried.h>
#include <stave/core/program/program.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

class Recorder;
struct VariableNotes;

/// What a recorder notes on a value: which variable it is; or that it is created of nothing, which
/// becomes an instruction when something that depends on the inputs uses it.
struct VariableNote {
  const VariableNotes* notes = nullptr;
  int variable = -1;
  int creation = -1;
  std::shared_ptr<const void> value = {};  // shared by the notes of one value
  void labelled(const NamePtr& name) const;
  void was_read(const Tensor& x) const;
};

/// The notes of one recorder. They outlive it where a rule that is kept as a function holds values
/// of its program.
struct VariableNotes {
  VariableNotes(const char* name, Recorder* of) : recorder(of), notes(name) {}

  Tensor put(Tensor x, int variable, int creation = -1);
  const VariableNote* find(const Tensor& x) const noexcept { return notes.find(x); }
  /// The variables of which a value lives, rising.
  std::vector<int> living() const;

  Recorder* recorder;  // null: it has ended
  std::vector<std::pair<int, std::weak_ptr<const void>>> values;
  Notes<VariableNote> notes;  // the last member: notes end before what they point to
};

class RecordedRules : public std::enable_shared_from_this<RecordedRules> {
 public:
  /// The rules of a call whose function gives so many outputs.
  RecordedRules(const FunctionAttributes& functions, std::size_t outputs);

  /// A value that the functions captured: a variable of a program, known by that program's notes.
  struct Captured {
    std::shared_ptr<const VariableNotes> notes;
    int variable;
    Program::Variable type;
  };
  /// One for each captured input of the instruction, in their order; set when the recording ends.
  std::vector<Captured> captured;
  /// Which captured input x is; -1: none. Throws TransformError for a value that was computed after
  /// the call.
  int number_of(const Tensor& x) const;

  /// A rule, which is a function at first.
  struct Rule {
    std::shared_ptr<const Program> program = {};  // inputs are the rule's, then the captured ones
    bool stays_function = false;                  // it reads values, or the like: it is called each time
    bool is_known() const noexcept { return program || stays_function; }
  };
  /// What is recorded with the call; later under the lock of whoever uses a rule first.
  mutable Rule forward, backward, tangents;
  /// Whether a rule is still a function.
  bool keeps_functions() const;
  /// Whether one of them is that of a derivative.
  bool has_derivative() const { return functions_.forward || functions_.tangents; }
  /// Whether all rules of both are programs, and the same ones. Rules that are functions equal
  /// themselves alone.
  bool equals(const RecordedRules& other) const;
  /// The programs that are there.
  std::vector<std::shared_ptr<const Program>> programs() const;

  /// Gives the call its rules.
  void add_to(FunctionAttributes& call, const Inputs& values) const;

 private:
  struct Batched {
    Index lanes;
    std::vector<bool> given;
    Rule rule;
  };
  static constexpr std::size_t most_batched = 8;

  Outputs run(Rule& rule, const CarriedFunction& function, std::span<const Tensor> xs, const Inputs& values) const;
  Rule recorded(const CarriedFunction& function, std::span<const Tensor> xs) const;
  Rule& batched(Index lanes, std::vector<bool> given) const;

  FunctionAttributes functions_;
  const std::size_t outputs_;
  // Whoever records holds it, so that a rule runs for the first time once. Rules call what was
  // recorded before them, and no other way round.
  mutable std::recursive_mutex mutex_;
  mutable std::list<Batched> batched_;
};

/// Programs whose calls are not closed yet: which values their rules hold is not known until the
/// outermost recording ends.
struct OpenProgram;
struct OpenCall {
  std::size_t instruction;
  int variables;  // so many there were before it
  IntrusivePtr<RecordedFunctions> functions;
  std::vector<OpenProgram> programs;  // all of its functions that are recorded
};
struct OpenProgram {
  std::shared_ptr<Program> program;
  std::shared_ptr<const VariableNotes> notes;
  std::vector<OpenCall> calls;
};
/// A captured value, and its variable in the program at hand.
using Outside = std::vector<std::pair<RecordedRules::Captured, int>>;
/// Gives each call, as further captured inputs, the values that rules may hold: those of `outside`,
/// and the program's that live.
void close_calls(Program& program, const std::shared_ptr<const VariableNotes>& notes, std::vector<OpenCall>& calls,
                 const Outside& outside);

}  // namespace stave_detail
