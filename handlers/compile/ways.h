// The ways of a function that was recorded: a tree, which parts where the function learns something.
//
// A way is what it performs from one turn to the next, or to its end. At a turn it reads a value, asks what something outside answers,
// or tries an operation that may throw, which it was seen to catch.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <stave/core/program/executable.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/compile/whole.h>

namespace stave_detail {

/// The elements of a value, as they are in memory.
std::string bytes_of(const Tensor& x);

/// Instructions made ready to run, as a program of their own.
struct Piece {
  std::vector<int> given, made;  // variables of its inputs and outputs
  Program program;
  std::unique_ptr<Executable> executable;  // null: the program is performed
  WholeProgramPtr whole;                   // of a call that is followed; else null

  Outputs operator()(const std::vector<Tensor>& values) const;
};

/// An effect, at a turn.
struct Question {
  const EffectType* type;
  std::any effect;
  std::vector<int> inputs;  // its tensors; -1: an empty one
  ScopePathPtr scopes;
};

/// An operation that may throw, at a turn.
struct Trial {
  Program::Instruction step;
  std::vector<Program::Variable> outputs;
  Piece piece = {};
};

/// What is met at a turn.
struct Met {
  std::string bytes = {};  // of the value that is read
  std::any answer = {};
  std::vector<Answered> tensors = {};
  const std::type_info* threw = nullptr;  // null: the operation went on
};

struct Way {
  using Variables = std::set<int>;
  struct Next {
    Met met;
    std::unique_ptr<Way> way;
  };

  Way* from = nullptr;
  int first = 0;                 // variables from here on are this way's
  int arrived = 0;               // so many of which the turn before it brought
  std::vector<Strides> strides;  // of those that an answer brought
  std::vector<Program::Variable> variables;
  std::vector<Program::Constant> constants;
  std::vector<Program::Instruction> steps;

  // The turn at its end; none of these: the function returns.
  int read = -1;  // the variable
  std::shared_ptr<const Question> asks;
  std::optional<Trial> tries;
  std::vector<Next> next;
  std::vector<int> outputs;
  std::shared_ptr<const void> structure;

  Variables kept;   // of its own, what is read after it
  Variables needs;  // of those before, what it or a later way reads
  bool shortened = false, ready = false;
  Piece piece;
  std::vector<int> over;  // variables that no later way reads
  struct Remembered {
    std::mutex mutex;
    std::unordered_set<std::size_t> hashes;
  };
  std::unique_ptr<Remembered> remembered = std::make_unique<Remembered>();

  bool returns() const noexcept { return read < 0 && !asks && !tries; }
  int end() const { return first + static_cast<int>(variables.size()); }
  const Way& of(int variable) const;
  const Program::Variable& variable(int number) const;
  /// Of which an answer gave the value.
  bool is_answer(int variable) const;
  /// What the turn at its end looks at.
  std::vector<int> looked_at() const;

  Way* after_reading(const Tensor& value) const;  // null: it was not met
  /// Whether this was asked for the value before: so many are remembered, by their hashes.
  bool was_met_before(const Tensor& value, std::size_t most) const;
  Way* after_answer(const AskedOutside::Asked& asked) const;
  Way* after_trial(const std::type_info* threw) const;
  Way* find(const Met& met) const;
};

/// A path through a function, cut at its turns.
std::unique_ptr<Way> cut(Recording recording, const std::shared_ptr<const void>& structure);

/// What each reads and leaves; gives them all, the last first.
std::vector<Way*> find_needs_below(Way& begin);

/// Makes `path`, which begins as the tree does, part of it. `full`: more than `most` are met at one
/// turn. `differs`: it does not, and `difference` says where.
enum class Merged { differs, full, known, added };
Merged merge(Way& tree, Way& path, std::size_t most, std::string& difference);

/// Its parts as programs of their own: a way, and the operation that it tries.
struct PieceOptions {
  std::size_t arguments;
  bool followed;
  const char* name;  // of the compiled function
  FunctionRef<Strides(int)> strides_of;
  std::vector<std::string>* why_apart;
};
/// Makes the way's program, and what passes make of it.
void shorten(Way& way, const PieceOptions& options);
/// The same, if that is yet to be done, and makes it ready to run: each takes about as long.
void prepare(Way& way, const PieceOptions& options);

}  // namespace stave_detail
