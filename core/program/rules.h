// The rules that a function brings for derivatives and vmap (custom_vjp, custom_jvp, custom_vmap),
// in a program that calls this function.
//
// A rule may call its own function, so the derivative of the rule needs the rule again, and so on
// without end. Therefore a rule is recorded when a derivative or vmap first needs it, and for each
// order of derivative when that order is first needed. Until then the rule is kept as a C++
// function. (`record` can record some orders in advance: see its argument `orders`.)
//
//   trace(my_exp)(x)           holds my_exp's operations, and its rule as a C++ function
//   grad(trace(my_exp)(x))     records the rule, which calls my_exp again: the program of the rule
//                              holds a call, whose rule is a C++ function
//
// A rule that is kept as a function may capture values that the traced function computed. These
// values differ between replays, so they become inputs of the call's instruction. They are known
// when the recording ends: every value computed before the call that is still alive then, except
// the outputs of the traced function, is assumed to be captured by a rule (VariableNotes).
//
// Objects that such a rule captures by reference must live until the rule is recorded. For a rule
// of vmap, or one that cannot be recorded (Rule::stays_function), they must live as long as the
// program is used.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <stave/core/op/higher_order.h>
#include <stave/core/program/program.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

class Recorder;
struct VariableNotes;

/// The note (tensor/note.h) that a recorder puts on a value: the number of the variable for this
/// value. An operation without inputs, such as `zeros`, is not recorded at first. The note on its
/// output holds its index in the recorder's list of such operations (`creation`) and -1 as the
/// variable. When an operation that is recorded reads that output, the creating operation is
/// recorded, too.
struct VariableNote {
  const VariableNotes* notes = nullptr;
  int variable = -1;
  int creation = -1;
  std::shared_ptr<const void> value = {};  // exists as long as a note of the value does
  void labelled(const NamePtr& name) const;
  void was_read(const Tensor& x) const;
};

/// The notes of one recorder. They outlive the recorder if a rule that is kept as a function holds
/// values of its program.
struct VariableNotes {
  VariableNotes(const char* name, Recorder* of) : recorder(of), notes(name) {}

  Tensor put(Tensor x, int variable, int creation = -1);
  const VariableNote* find(const Tensor& x) const noexcept { return notes.find(x); }
  /// The variables whose values are still alive, in ascending order.
  std::vector<int> living() const;

  Recorder* recorder;  // null once the recorder has ended
  std::vector<std::pair<int, std::weak_ptr<const void>>> values;
  // The last member is destroyed first: the notes end before the other members, which they use.
  Notes<VariableNote> notes;
};

class RecordedRules : public std::enable_shared_from_this<RecordedRules> {
 public:
  /// Takes the rules from `functions`, for a call whose function has `outputs` outputs.
  RecordedRules(const FunctionAttributes& functions, std::size_t outputs);

  /// A captured value: variable `variable` of the program whose recorder made `notes`.
  struct Captured {
    std::shared_ptr<const VariableNotes> notes;
    int variable;
    Program::Variable type;
  };
  /// The captured values, one for each captured input of the instruction, in the order of these
  /// inputs. They are set when the recording ends, if a rule is still a C++ function then.
  std::vector<Captured> captured;
  /// Returns the index in `captured` of x, or -1 if x is not captured. Throws TransformError for a
  /// value of the same recording that was computed after the call.
  int number_of(const Tensor& x) const;

  /// One use of a rule, and its recording if there is one. A rule for vmap has an entry for each
  /// number of lanes and each set of inputs that have lanes.
  struct Rule {
    FunctionRole role;
    Index lanes;
    std::vector<bool> batched;
    // The program's inputs are the arguments of the rule, then the captured values. Null: the rule
    // is a C++ function, because it is not recorded yet, or cannot be.
    std::shared_ptr<const Program> program = {};
    // True: the rule cannot be recorded, for example because it reads values. The C++ function is
    // called at each use.
    bool stays_function = false;
  };
  /// Returns the entry for a use with these arguments, and makes it if there is none. Its members
  /// may be set without the mutex while the call itself is recorded, and under the mutex later.
  Rule& rule(FunctionRole role, const FunctionInputs& given) const;
  /// Returns true if a rule is still a C++ function. A rule for vmap always is, because another
  /// number of lanes needs another recording.
  bool keeps_functions() const;
  /// Returns true if there is a rule for a derivative.
  bool has_derivative() const { return functions_.has_derivative_rule(); }
  /// Returns true if all rules of this object and of `other` are programs, and the programs are
  /// equal. An object with a rule that is a C++ function equals only itself.
  bool equals(const RecordedRules& other) const;
  /// The rules that are recorded, as programs.
  std::vector<std::shared_ptr<const Program>> programs() const;

  /// Sets the rules of `call` for one replay, in which the captured values are `values`.
  void add_to(FunctionAttributes& call, const Inputs& values) const;

 private:
  FunctionResults run(FunctionRole role, const FunctionInputs& given, const Inputs& values) const;
  void record(Rule& rule, const FunctionInputs& given) const;
  const Program* program_of(FunctionRole role) const;

  FunctionAttributes functions_;
  const std::size_t outputs_;
  // The mutex is held while a rule is recorded, so that each rule is recorded once. It is
  // recursive, because run() calls rule() with the mutex held. A rule that is being recorded may
  // run rules of other objects, which lock their own mutexes. The order of locks has no cycle:
  // rules call only what was recorded before them.
  mutable std::recursive_mutex mutex_;
  mutable std::list<Rule> rules_;
};

/// A program with open calls. A call is open while its captured values are unknown: until the
/// outermost recording ends.
struct OpenProgram;
struct OpenCall {
  std::size_t instruction;
  int variables;  // the number of variables before the call
  IntrusivePtr<RecordedFunctions> functions;
  std::vector<OpenProgram> programs;  // the recorded function and rules of the call
};
struct OpenProgram {
  std::shared_ptr<Program> program;
  std::shared_ptr<const VariableNotes> notes;
  std::vector<OpenCall> calls;
};
/// Captured values, each with its variable in the program that captures it.
using CapturedVariables = std::vector<std::pair<RecordedRules::Captured, int>>;
/// Adds the captured values to the inputs of the open calls of a program. Each call gets all values
/// that its rules may capture: those of `outside`, and the program's own values that were computed
/// before the call and are still alive.
void close_calls(Program& program, const std::shared_ptr<const VariableNotes>& notes, std::vector<OpenCall>& calls,
                 const CapturedVariables& outside);

}  // namespace stave_detail
