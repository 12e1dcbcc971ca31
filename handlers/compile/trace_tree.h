// Trace tree: the recorded paths of a compiled function, which branch at guards (TraceMonkey,
// LuaJIT).
//
// A node (`TraceNode`) holds the operations from one guard to the next, or to the end of the
// function. A guard is a value that the function reads, an effect that an outer handler answers,
// or an operation that may throw an error which the function caught. Each observed value
// (`Observed`) of a guard leads to a child node. A replay that observes another value takes
// a side exit: the function itself runs.
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
#include <stave/handlers/compile/closed_call.h>
#include <stave/handlers/compile/record.h>

namespace stave_detail {

/// Returns the elements of a value as bytes, row-major.
std::string bytes_of(const Tensor& x);

/// Instructions prepared to run, as a program of their own.
struct Piece {
  // The tree's variables for the program's inputs (`given`) and outputs (`made`).
  std::vector<int> given, made;
  Program program;
  std::unique_ptr<Executable> executable;  // null: the program's operations are performed
  // The program as one differentiable operation, which is used if transforms trace the call.
  ClosedCallPtr closed_call;

  /// Runs the instructions on the values of the tree's variables. If the node returns, the values
  /// that are not results are donated: see ExecutableSettings::donated.
  Outputs operator()(std::span<Tensor> values) const;
};

/// Effect guard: an effect that ends a node.
struct EffectGuard {
  const EffectType* type;
  std::any effect;
  std::vector<int> inputs;  // the variables of the effect's tensors; -1: an undefined tensor
  ScopePathPtr scopes;
};

/// Exception guard: an operation that may throw and ends a node.
struct ExceptionGuard {
  Program::Instruction step;
  std::vector<Program::Variable> outputs;
  Piece piece = {};
};

/// The value that was observed at a guard.
struct Observed {
  std::string bytes = {};  // the value that is read
  std::any answer = {};
  std::vector<Answered> tensors = {};
  const std::type_info* threw = nullptr;  // null: the operation did not throw
};

/// A node of the trace tree.
struct TraceNode {
  using Variables = std::set<int>;
  struct Next {
    Observed observed_value;
    std::unique_ptr<TraceNode> node;
  };

  TraceNode* from = nullptr;
  int first = 0;  // the number of this node's first variable
  // How many of this node's variables were produced by the guard that led to this node.
  int guard_outputs = 0;
  // The strides of the variables that came from a handler's answer to an effect.
  std::vector<Strides> strides;
  std::vector<Program::Variable> variables;
  std::vector<Program::Constant> constants;
  std::vector<Program::Instruction> steps;

  // The guard at the end of the node. If `read`, `effect_guard` and `exception_guard` are all
  // unset, the function returns.
  int read = -1;  // the variable that the function reads
  std::shared_ptr<const EffectGuard> effect_guard;
  std::optional<ExceptionGuard> exception_guard;
  std::vector<Next> next;
  std::vector<int> outputs;
  std::shared_ptr<const void> structure;

  Variables kept;   // the node's own variables that are read at its end or later
  Variables needs;  // variables of earlier nodes that this node or a later one reads
  bool shortened = false, ready = false;
  Piece piece;
  std::vector<int> over;  // variables that no later node reads
  /// Hashes of values that replays found at this node's read and that have no child node.
  struct Remembered {
    std::mutex mutex;
    std::unordered_set<std::size_t> hashes;
  };
  std::unique_ptr<Remembered> remembered = std::make_unique<Remembered>();

  bool returns() const noexcept { return read < 0 && !effect_guard && !exception_guard; }
  int end() const { return first + static_cast<int>(variables.size()); }
  const TraceNode& of(int variable) const;
  const Program::Variable& variable(int number) const;
  /// Returns true if this variable's value came from the answer to an effect.
  bool is_answer(int variable) const;
  /// Returns the variables that the guard reads, or the outputs of the function if it returns.
  std::vector<int> guard_operands() const;

  TraceNode* after_reading(const Tensor& value) const;  // null: the value was not observed
  /// Returns true if this value was found at this node's read before. Remembers values by their
  /// hashes, up to `most`.
  bool was_observed_before(const Tensor& value, std::size_t most) const;
  TraceNode* after_answer(const CallEffectLog::LoggedEffect& asked) const;
  TraceNode* after_exception_guard(const std::type_info* threw) const;
  TraceNode* find(const Observed& observed_value) const;
};

/// Turns a recording into a path: a tree of one branch, cut at its guards.
std::unique_ptr<TraceNode> cut(Recording recording, const std::shared_ptr<const void>& structure);

/// Computes `kept`, `needs` and `over` of all nodes. Returns the nodes, children before parents.
std::vector<TraceNode*> find_needs_below(TraceNode& begin);

/// Adds `path` to the tree. Returns `differs`, and describes the `difference`, if the path does not
/// begin like the tree; `full` if a guard would have more than `most` observed values; `known` if
/// the tree has the path.
enum class Merged { differs, full, known, added };
Merged merge(TraceNode& tree, TraceNode& path, std::size_t most, std::string& difference);

/// Options for making the programs of a node and of the operation in its exception guard.
struct PieceOptions {
  std::size_t arguments;
  bool followed;
  ClosedCallSettings settings;  // with the name of the compiled function
  FunctionRef<Strides(int)> strides_of;
  std::vector<std::string>*fusion_report, *native_report;
};
/// Makes the node's program, and applies passes to it.
void shorten(TraceNode& node, const PieceOptions& options);
/// Shortens the node if `shorten` was not called, and plans its program. Shortening and planning
/// take about the same time.
void prepare(TraceNode& node, const PieceOptions& options);

}  // namespace stave_detail
