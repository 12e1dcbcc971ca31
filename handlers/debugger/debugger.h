// debugger: runs a function under an interactive debugger at the terminal.
//
//   // stops before the first operation, and prompts for commands
//   const auto g = debugger(vmap(grad(loss)));
//   g(w, xs);
//   // the forward pass of f only: the debugger sees the operations that reach it
//   grad(debugger(f))(x);
//
//   (stave) help                         // all commands
//   // by operation, scope, label, shape, NaN, pass, condition
//   (stave) break matmul in layer1 backward if max > 3
//   (stave) continue
//   breakpoint 1: matmul in layer1 if max > 3, backward
//   before matmul f32[4,3], f32[3,2] -> f32[4,2]  [layer1]  [backward of grad]
//     model.cpp:31 in main: return grad(loss)(w, x);
//     derivative of matmul f32[4,2], f32[2,3]: #7, model.cpp:12 in layer
//   (stave) print                        // operands and outputs: statistics and pictures
//   (stave) print in0[2] - 2 * hidden    // expressions of operands, outputs and labelled values
//   (stave) back                         // the operations that ran before
//   (stave) list                         // the source of the program around this line
//   (stave) backtrace                    // the functions on the call stack; `up` and `down` move
//   (stave) watch w                      // stops when the value with this label changes
//
// Expressions are described in debugger_expressions.h. Files and lines are known if the program was
// compiled with -g and addr2line (of binutils) is installed: see source_lines.h.
// Until the input of commands ends, the debugger records each operation with its call stack (5 us).
// It keeps the last value of each label until the call ends.
//
// stepping.h describes the possibilities at a stop. A breakpoint("name") in the code is a stop
// as well. At a terminal, lines are edited, recalled by the arrow keys and ^R, and completed by TAB
// (line_reader.h). When the input ends, the program runs without stops, in this and in later
// calls. `drop` throws TransformError through the program.
//
// Breakpoints and the last step command persist from one call to the next. Copies of the result
// of debugger(f) share one debugger, which belongs to one thread at a time.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/tensor/options.h>
#include <stave/handlers/observe/stepping.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave {

struct DebuggerOptions {
  [[no_unique_address]] ByName by_name{};
  /// The source of commands, one per line. Null means std::cin, with line editing if it
  /// and std::cout are a terminal.
  std::istream* in = nullptr;
  /// The output stream; null means std::cout. Commands that are not typed at a terminal are echoed
  /// here.
  std::ostream* out = nullptr;
  /// A file of commands that run first. Throws FileError if it cannot be read.
  std::string script{};
  /// A file to which all commands are written, as a script that repeats the session.
  /// Throws FileError if it cannot be written.
  std::string record{};
  /// Whether a stop shows the source line of the program.
  bool source = true;
};

}  // namespace stave

namespace stave_detail {

/// The debugger that the result of one debugger(f) and its copies share.
class DebuggerSession : public Stepping {
 public:
  static std::shared_ptr<DebuggerSession> begin(const DebuggerOptions& options);
  virtual void call_begins() = 0;
  virtual void call_ends(bool thrown) = 0;
};

class DebuggedCall {
 public:
  explicit DebuggedCall(DebuggerSession& session) : session_(session) { session_.call_begins(); }
  ~DebuggedCall() { session_.call_ends(std::uncaught_exceptions() > exceptions_); }
  DebuggedCall(const DebuggedCall&) = delete;
  DebuggedCall& operator=(const DebuggedCall&) = delete;

 private:
  DebuggerSession& session_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace stave_detail

namespace stave {

/// The result of debugger(f): calls f under a debugger.
template <class F>
class UnderDebugger {
 public:
  UnderDebugger(F f, const DebuggerOptions& options)
      : f_(std::move(f)), session_(stave_detail::DebuggerSession::begin(options)) {}

  template <class... A>
    requires std::invocable<F&, A...>
  decltype(auto) operator()(A&&... args) {
    return call(f_, std::forward<A>(args)...);
  }
  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    return call(f_, std::forward<A>(args)...);
  }

 private:
  template <class Function, class... A>
  decltype(auto) call(Function& f, A&&... args) const {
    return with(session_, [&]() -> decltype(auto) {
      const stave_detail::DebuggedCall call(*session_);
      return std::invoke(f, std::forward<A>(args)...);
    });
  }

  F f_;
  std::shared_ptr<stave_detail::DebuggerSession> session_;
};

/// Returns a callable with the arguments and result of f that runs f under a debugger.
template <class F>
auto debugger(F f, const DebuggerOptions& options = {}) {
  return UnderDebugger<F>(std::move(f), options);
}
// Overloads for overloaded functions: debugger(sin), debugger(sum).
#define STAVE_NAMES(Name)                                                           \
  inline auto debugger(stave_detail::Name f, const DebuggerOptions& options = {}) { \
    return UnderDebugger<stave_detail::Name>(f, options);                           \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
