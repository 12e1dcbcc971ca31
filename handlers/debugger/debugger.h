// debugger: a function under a debugger at the terminal.
//
//   const auto g = debugger(vmap(grad(loss)));        // stops before the first operation, and asks what to do
//   g(w, xs);
//   grad(debugger(f))(x);                              // the forward pass of f; what it sees depends on where it stands
//
//   (stave) help                                       // all commands
//   (stave) break matmul in layer1 backward if max > 3 // by operation, scope, label, shape, NaN, pass, condition
//   (stave) continue
//   breakpoint 1: matmul in layer1 if max > 3, backward
//   before matmul f32[4,3], f32[3,2] -> f32[4,2]  [layer1]  [backward of grad]
//     model.cpp:31 in main: return grad(loss)(w, x);
//     derivative of matmul f32[4,2], f32[2,3]: #7, model.cpp:12 in layer
//   (stave) print                                      // operands and outputs: statistics and pictures
//   (stave) print in0[2] - 2 * hidden                  // expressions of them, and of values with labels: debugger_expressions.h
//   (stave) back                                       // the operations that ran before
//   (stave) list                                       // the program's source around this line; backtrace, up, down: who called
//   (stave) watch w                                    // where a value of this label is another one than before
//
// Files and lines are known where the program was compiled with -g, and addr2line (of binutils) is there: source_lines.h. While the
// program does not run to its end, each operation is noted, its stack with it (5 microseconds), and the last value under
// each label is kept until the call ends.
//
// What can be done at a stop is that of stepping.h; breakpoint("name") in the code is a stop as well. At a terminal lines are edited,
// found again by the arrows and ^R, and completed by TAB (line_reader.h). At the end of commands the program runs on, now and at later
// calls; `drop` throws TransformError through it.
//
// Breakpoints, and how far to go, stay from one call to the next. Copies of what debugger(f) gives are one debugger; it belongs to
// one thread at a time.
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
  /// Commands, a line each; null: std::cin, whose lines are edited where it and std::cout are a terminal.
  std::istream* in = nullptr;
  /// Null: std::cout. Commands that are not typed at a terminal are repeated here.
  std::ostream* out = nullptr;
  /// A file of commands that come first. Throws FileError if it cannot be read.
  std::string script{};
  /// A file to which commands are written as they are given: a script that does the same again. Throws FileError if it cannot be
  /// written.
  std::string record{};
  /// Whether a stop shows the line of the program's source.
  bool source = true;
};

}  // namespace stave

namespace stave_detail {

/// The debugger of one debugger(f).
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

/// What debugger(f) gives: calls f under a debugger.
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

/// f under a debugger: a callable of the same arguments and result.
template <class F>
auto debugger(F f, const DebuggerOptions& options = {}) {
  return UnderDebugger<F>(std::move(f), options);
}
// For overloaded functions: debugger(sin), debugger(sum).
#define STAVE_NAMES(Name)                                                           \
  inline auto debugger(stave_detail::Name f, const DebuggerOptions& options = {}) { \
    return UnderDebugger<stave_detail::Name>(f, options);                           \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
