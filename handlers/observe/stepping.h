// Stepping: what Stepper (stepper.h) and debugger (debugger.h) share. A handler that decides at which operations a program stands
// still, by how far it was told to go and by breakpoints; and what can be seen and done there.
//
//   - A program stands *before* an operation, whose operands are known; after it, with its outputs, where a breakpoint asks for a
//     NaN, or where it was told to perform it and stay; or at a breakpoint() in its code.
//   - A scope is one that the program entered (scope.h), a backward pass ("backward of grad"), or an operation that carries a
//     function, such as a checkpoint's: to step goes in, `next` goes past it, `finish` goes to its end.
//   - What it sees depends on where it stands, as with all handlers: inside vmap one lane's operations, outside those of all lanes;
//     inside grad the forward pass, outside both.
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

/// A point in a program's code where a Stepper or debugger around it stands still. Where there is none, nothing happens; nor when
/// a checkpoint's function runs again.
void breakpoint(std::string name = "");

/// Which operations a stepped program stands still at: those of which all that is said here holds.
struct Breakpoint {
  enum class Pass : std::uint8_t { any, forward, backward };

  [[no_unique_address]] ByName by_name{};
  std::string operation{};       ///< its name: "matmul"
  std::string scope{};           ///< it is performed in a scope of this name, at any depth
  std::string label{};           ///< an operand has this label (label.h)
  std::optional<Shape> shape{};  ///< an operand or output has it; outputs of a carried function are not known yet
  std::function<bool(const Call&)> predicate{};  ///< what it throws, the program throws
  /// The program stands after the operation if this holds of what it yielded.
  std::function<bool(const Call&, std::span<const Tensor> outputs)> yields{};
  /// The program stands after the first operation that yields a NaN; later, where one yields a NaN without having an operand with
  /// one. Operations keep their operands' buffers, and the device is read.
  bool nan = false;
  /// The program stands after the first operation that yields a NaN without having an operand with one, and not again.
  bool nan_arises = false;
  Pass pass = Pass::any;
  bool once = false;        ///< the first stop removes it
  int ignore = 0;           ///< so many times the program does not stop
  std::string condition{};  ///< what str() says of `predicate` or `yields`: "max > 3"

  /// "matmul in layer1 if max > 3, backward"
  std::string str() const;
};

}  // namespace stave

namespace stave {

class StopPoint;

}  // namespace stave

namespace stave_detail {

using stave::StopPoint;
struct BreakpointReached;
using ScopeNames = std::vector<NamePtr>;  // from outside in

class Stepping;

/// The entry of a tape that stands for an operation.
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
/// "sum axes=[0] f32[64] -> f32[]": with what it will yield, or what it yielded.
std::string text_of(const Call& call, std::span<const Tensor> outputs);
/// For a handler that is answering: of the backward pass that performs this, if one does.
std::optional<Differentiated> differentiated_operation();
/// The same without its text.
std::optional<TapeEntry> differentiated_entry();

/// Which operation, by an observer's numbers from 1 on, a tape recorded as which entry.
class ForwardLinks {
 public:
  /// For a handler that is answering operation `number`: notes the tapes that have just recorded it.
  void add(std::uint64_t number);
  /// The number of the entry's operation; 0 if it was not seen.
  std::uint64_t find(const TapeEntry& entry) const;
  void forget_before(std::uint64_t number);
  std::size_t size() const noexcept { return links_.size(); }

 private:
  struct Link {
    InstallationId recorder;  // a checkpoint that runs again has one of its own for the same tape
    std::uint64_t number;
  };
  std::map<TapeEntry, Link> links_;
};

// What the debugger sees of a stop beside what everybody does.
struct StopDetails {
  static const std::optional<Differentiated>& forward(const StopPoint& at);
  static const CallStack& stack(const StopPoint& at);
};

}  // namespace stave_detail

namespace stave {

/// A place where a stepped program stands.
class StopPoint {
 public:
  /// A handler or scope around it.
  struct Surrounding {
    std::string name;
    bool scope = false;
    bool at_work = false;  ///< a handler that is answering: what it was asked for led here
  };

  /// False at a breakpoint() in the code.
  bool at_operation() const noexcept { return call_; }
  /// The operation. Throws TransformError at a breakpoint() in the code.
  const Call& call() const;
  /// Whether its outputs are there: it was performed, or answered.
  bool has_outputs() const noexcept { return outputs_.has_value(); }
  /// Empty before the operation is performed.
  std::span<const Tensor> outputs() const noexcept;
  /// Gives the outputs: in place of performing the operation, or of what it yielded. Throws TransformError for others than the
  /// operation yields, in number, shape, dtype or device; and for an operation that carries functions, whose outputs nobody knows
  /// before it is performed.
  void answer(Outputs outputs);

  /// Why it stands here: "breakpoint 1: matmul", or how far it was told to go: "step".
  const std::string& reason() const noexcept { return reason_; }
  bool in_backward_pass() const noexcept { return backward_; }
  /// The operation of the forward pass whose derivative is computed here, "matmul f32[4,3], f32[3,2]"; empty in a forward pass.
  std::string differentiated() const { return forward_ ? forward_->text : ""; }
  /// The line of the program's source that performs this, "model.cpp:12 in loss"; empty where that is not known. It takes
  /// addr2line, of binutils, and a program that was compiled with -g.
  std::string source() const;
  /// Scopes of the program, from inside out.
  std::vector<std::string> scopes() const;
  /// Handlers and scopes, from inside out; those around the Stepper or debugger too.
  const std::vector<Surrounding>& around() const noexcept { return around_; }
  /// "before sum axes=[0] f32[64] -> f32[]  [layer1]", "after exp f32[] -> f32[]", "at breakpoint rates"
  std::string str() const;

 private:
  friend class stave_detail::Stepping;
  friend stave_detail::StopDetails;
  StopPoint(stave_detail::Stepping& stepping, Call* call, std::string name);
  void look_around();

  stave_detail::Stepping& stepping_;
  Call* call_;              // null: at a breakpoint() in the code
  const std::string name_;  // of that
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

/// How far a program goes, seen from where it stands, unless a breakpoint comes first.
enum class Until : std::uint8_t { operation, same_scope, end_of_scope, breakpoint, end };

class Stepping : public Handles<Call, BreakpointReached> {
 public:
  struct Numbered {
    int number;
    Breakpoint breakpoint;
    std::uint64_t stops = 0;  // and what was ignored
    bool stopped = false;
    bool seen_nan = false;
    std::uint64_t nan_at = 0;  // the operation that yielded the last, counted
  };

  Outputs handle(Call& call) override;
  void handle(BreakpointReached& reached) override;

  /// Gives its number, from 1. Throws TransformError if nothing is said in it.
  int add(Breakpoint breakpoint);
  /// False if there is none of this number.
  bool remove(int number);
  const std::vector<Numbered>& breakpoints() const noexcept { return breakpoints_; }
  /// The next `times` times the program passes it. False if there is none of this number.
  bool ignore(int number, int times);

  void go(Until until);
  Until until() const noexcept { return until_; }
  /// The operation at which the program stands will be performed, and the program stand after it, unless a breakpoint comes first.
  void perform_and_stay();
  /// Where it stands; null while it does not.
  StopPoint* at() const noexcept { return at_; }

 protected:
  /// The program stands at `at()`, and goes on when this returns.
  virtual void stand() = 0;
  /// Each operation, before it is performed, unless the program runs to its end.
  virtual void passes(const Call&) {}
  /// The scopes of the operation for which a handler is answering, from outside in.
  ScopeNames scopes_of_this() const;

 private:
  struct Inside {
    std::size_t scopes;  // around the operation
    NamePtr name;
  };
  std::string reason_before(const StopPoint& here);
  std::string reason_after(const StopPoint& here, std::uint64_t number);
  std::string reason_of(Numbered& numbered);
  void remove_spent();
  bool goes_to(const ScopeNames& scopes) const;
  bool holds(const Breakpoint& breakpoint, const StopPoint& here) const;
  bool any_concerns(const Op& op) const;
  bool watches_outputs() const;
  Outputs perform_below(Call&& call, const ScopeNames& scopes);
  void stand_at(StopPoint& here, std::string reason);

  std::vector<Numbered> breakpoints_;
  int last_number_ = 0;
  std::uint64_t operations_ = 0;  // that it looked at closely
  Until until_ = Until::operation;
  bool stay_ = false;
  ScopeNames from_;  // the scopes where it was told how far to go
  StopPoint* at_ = nullptr;
  std::vector<Inside> inside_;  // operations that carry functions, which are at work
};

}  // namespace stave_detail
