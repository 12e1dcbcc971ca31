// Stepping: the common part of Stepper (stepper.h) and debugger (debugger.h).
// This handler decides at which operations a program stops, by step commands and breakpoints.
// StopPoint describes a stop and allows changes there.
//
// - A program stops *before* an operation, when the operands are known. It stops after
//   an operation, with the outputs, if a breakpoint depends on them (`nan`, `yields`) or if the
//   user chose `perform` at the stop before it. It also stops at a breakpoint() in its code.
// - A scope is one that the program entered (scope.h), a backward pass ("backward of grad"),
//   or a higher-order operation, such as a checkpoint. `step` enters a scope, `next` passes it,
//   and `finish` runs to the end of the current scope.
// - Stepping sees the operations that reach it, like all handlers. Inside vmap these are the
//   operations of one lane, outside of vmap those of all lanes. Inside grad these are
//   the operations of the forward pass, outside of grad those of both passes.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/name.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/observe/source_lines.h>

namespace stave {

/// Stops the program if it runs under a Stepper or debugger. Otherwise it does nothing,
/// and it does nothing in the second run of a checkpoint's function.
void breakpoint(std::string name = "");

/// A set of conditions; a stepped program stops at the operations that satisfy all of them.
struct Breakpoint {
  enum class Pass : std::uint8_t { any, forward, backward };

  [[no_unique_address]] ByName by_name{};
  /// The name of the operation: "matmul".
  std::string operation{};
  /// The name of a scope in which the operation is performed, at any depth.
  std::string scope{};
  /// The label (label.h) of an operand.
  std::string label{};
  /// The shape of an operand or output. The outputs of a higher-order operation are not considered,
  /// because they are unknown before it is performed.
  std::optional<Shape> shape{};
  /// A predicate of the operation. An exception from it is thrown into the program.
  std::function<bool(const Call&)> predicate{};
  /// A predicate of the outputs. The program stops after an operation for which it is true.
  std::function<bool(const Call&, std::span<const Tensor> outputs)> yields{};
  /// Whether to stop after the first operation that yields a NaN, and after each later one
  /// that yields a NaN without a NaN in an operand. Reads the device; buffers of operands are not
  /// reused.
  bool nan = false;
  /// Whether to stop after the first operation that yields a NaN without a NaN in an operand, once.
  bool nan_arises = false;
  Pass pass = Pass::any;
  /// Whether the first stop removes the breakpoint.
  bool once = false;
  /// How many times the program still passes the breakpoint before it stops there.
  int ignore = 0;
  /// The text that str() shows for `predicate` or `yields`: "max > 3".
  std::string condition{};

  /// For example "matmul in layer1 if max > 3, backward".
  std::string str() const;
};

}  // namespace stave

namespace stave {

class StopPoint;

}  // namespace stave

namespace stave_detail {

using stave::StopPoint;
struct BreakpointReached;
// The outermost scope comes first.
using ScopeNames = std::vector<NamePtr>;

class Stepping;

/// The identity of an entry of a tape.
struct TapeEntry {
  InstallationId tape;
  std::uint64_t sequence;
  auto operator<=>(const TapeEntry&) const = default;
};
/// The recorded operation whose derivative a backward pass computes.
struct Differentiated {
  TapeEntry entry;
  std::string text;
};
/// Formats an operation with the outputs that it will yield or has yielded:
/// "sum axes=[0] f32[64] -> f32[]".
std::string text_of(const Call& call, std::span<const Tensor> outputs);
/// Returns the operation whose derivative the current backward pass computes; empty in a forward
/// pass. Must be called by a handler during an interception.
std::optional<Differentiated> differentiated_operation();
/// Returns only the tape entry of that operation; empty in a forward pass.
std::optional<TapeEntry> differentiated_entry();

/// Maps entries of tapes to the operations that they recorded. Operations are numbered
/// by an observer, from 1 on.
class ForwardLinks {
 public:
  /// Links the entries that tapes have just made for an operation to its `number`. Must be called
  /// by a handler that is handling this operation.
  void add(std::uint64_t number);
  /// Returns the number of the entry's operation; 0 if it was not seen.
  std::uint64_t find(const TapeEntry& entry) const;
  void forget_before(std::uint64_t number);
  std::size_t size() const noexcept { return links_.size(); }

 private:
  struct Link {
    // Identifies the installation of grad that recorded the entry. Tape and number of the entry do
    // not suffice: the second run of a checkpoint has another installation for the same tape.
    InstallationId recorder;
    std::uint64_t number;
  };
  std::map<TapeEntry, Link> links_;
};

// Details of a stop that only the debugger reads.
struct StopDetails {
  static const std::optional<Differentiated>& forward(const StopPoint& at);
  static const CallStack& stack(const StopPoint& at);
};

}  // namespace stave_detail

namespace stave {

/// A point at which a stepped program is stopped.
class StopPoint {
 public:
  /// A handler or scope around the stop.
  struct Surrounding {
    std::string name;
    bool scope = false;
    /// Whether this handler is handling an effect that led to the stop.
    bool at_work = false;
  };

  /// Returns whether the program stopped at an operation; false at a breakpoint() in the code.
  bool at_operation() const noexcept { return call_; }
  /// Returns the operation. Throws TransformError at a breakpoint() in the code.
  const Call& call() const;
  /// Returns whether the outputs exist because the operation was performed or answered.
  bool has_outputs() const noexcept { return outputs_.has_value(); }
  /// Returns the outputs; empty before the operation is performed.
  std::span<const Tensor> outputs() const noexcept;
  /// Sets the outputs. Before the operation, they are used instead of performing it; after it, they
  /// replace its results. Throws TransformError if number, shapes, dtypes or devices differ from
  /// those of the operation. Also throws it before a higher-order operation, whose outputs are
  /// unknown.
  void answer(Outputs outputs);

  /// Returns the reason for the stop: "breakpoint 1: matmul", or the step command: "step".
  const std::string& reason() const noexcept { return reason_; }
  bool in_backward_pass() const noexcept { return backward_; }
  /// Returns the forward operation whose derivative is computed here; empty in a forward pass.
  /// Example: "matmul f32[4,3], f32[3,2]".
  std::string differentiated() const { return forward_ ? forward_->text : ""; }
  /// Returns the source line of the program at which it stopped, "model.cpp:12 in loss";
  /// empty if unknown. It requires addr2line of binutils and a program compiled with -g.
  std::string source() const;
  /// Returns the scopes of the program, innermost first.
  std::vector<std::string> scopes() const;
  /// Returns the handlers and scopes, innermost first, including those outside of the Stepper
  /// or debugger.
  const std::vector<Surrounding>& around() const noexcept { return around_; }
  /// Formats the stop: "before sum axes=[0] f32[64] -> f32[]  [layer1]",
  /// "after exp f32[] -> f32[]" or "at breakpoint rates".
  std::string str() const;

 private:
  friend class stave_detail::Stepping;
  friend stave_detail::StopDetails;
  StopPoint(stave_detail::Stepping& stepping, Call* call, std::string name);
  void look_around();

  stave_detail::Stepping& stepping_;
  // Null at a breakpoint() in the code.
  Call* call_;
  // The name of the breakpoint() in the code.
  const std::string name_;
  std::optional<Outputs> outputs_;
  stave_detail::ScopeNames scopes_;
  std::vector<Surrounding> around_;
  std::string reason_;
  bool backward_ = false;
  std::optional<stave_detail::Differentiated> forward_;
  stave_detail::CallStack stack_;
};

}  // namespace stave

namespace stave_detail {

struct BreakpointReached {
  using Result = void;
  std::string name;
  void unhandled() const {}
};

/// How far a program runs from its stop, unless it reaches a breakpoint earlier.
enum class Until : std::uint8_t { operation, same_scope, end_of_scope, breakpoint, end };

class Stepping : public Handles<Call, BreakpointReached> {
 public:
  struct BreakpointState {
    int number;
    Breakpoint breakpoint;
    std::uint64_t stops = 0;  // Includes ignored ones.
    bool stopped = false;
    bool seen_nan = false;
    // The value of operations_ when this breakpoint last saw a NaN in outputs.
    std::uint64_t nan_at = 0;
  };

  Outputs handle(Call& call) override;
  void handle(BreakpointReached& reached) override;

  /// Adds a breakpoint and returns its number, from 1. Throws TransformError if it has no
  /// condition.
  int add(Breakpoint breakpoint);
  /// Removes a breakpoint. Returns false if there is none with this number.
  bool remove(int number);
  const std::vector<BreakpointState>& breakpoints() const noexcept { return breakpoints_; }
  /// Ignores the next `times` stops at a breakpoint. Returns false if there is none with this
  /// number.
  bool ignore(int number, int times);

  void go(Until until);
  Until until() const noexcept { return until_; }
  /// Performs the current operation and stops after it, unless a breakpoint in it comes first.
  void perform_and_stay();
  /// Returns the current stop; null while the program runs.
  StopPoint* at() const noexcept { return at_; }

 protected:
  /// Called when the program has stopped at `at()`. The program continues when it returns.
  virtual void on_stop() = 0;
  /// Called for each operation before it is performed, unless until() is Until::end.
  virtual void before_operation(const Call&) {}
  /// Returns the scopes of the operation that is being handled, outermost first.
  ScopeNames scopes_of_this() const;

 private:
  struct Inside {
    std::size_t scopes;  // The number of scopes around the operation.
    NamePtr name;
  };
  std::string reason_before(const StopPoint& here);
  std::string reason_after(const StopPoint& here, std::uint64_t number);
  std::string reason_of(BreakpointState& numbered);
  void remove_spent();
  bool step_stops_in(const ScopeNames& scopes) const;
  bool matches(const Breakpoint& breakpoint, const StopPoint& here) const;
  bool any_concerns(const Op& op) const;
  bool watches_outputs() const;
  Outputs perform_below(Call&& call, const ScopeNames& scopes);
  void stop_at(StopPoint& here, std::string reason);

  std::vector<BreakpointState> breakpoints_;
  int last_number_ = 0;
  // The number of operations at which the program could have stopped.
  std::uint64_t operations_ = 0;
  Until until_ = Until::operation;
  bool stay_ = false;
  // The scopes of the stop at which the last step command was given.
  ScopeNames from_;
  StopPoint* at_ = nullptr;
  // The higher-order operations that are running, outermost first.
  std::vector<Inside> inside_;
};

}  // namespace stave_detail
