// debug: prints each operation that a function performs as one line, at the time it happens.
//
//   auto y = debug(f)(x);                                          // to std::cerr
//   with(Debug({.values = true, .time = true}), [&] { ... });
//   // throws at the first NaN, and prints nothing
//   auto g = debug(grad(loss), {.trap_nan = true, .print = false})(w, x, y);
//
// A line has the form `name attributes operands -> results`, followed by the scopes
// of the operation and, if requested, values, bytes and time.
//
//   sin f32[64] -> f32[64]
//   sum axes=[0] f32[64] -> f32[]
//     multiply f32[64], f32[64] -> f32[64]  [backward of grad]
//   matmul f32[64,64], f32[64,8] -> f32[64,8]        min -1.2 max 0.9 mean 0.01 nan 0 inf 0  12 us
//
// - A dtype is bool, or its kind and its bits: u8, i32, f32, bf16. The shape follows in brackets,
//   and the label (label.h) of a value that has one precedes it: w:f32[64].
// - Debug sees the operations that reach it. Inside grad it sees the primal operations;
//   outside of grad also those of the backward pass. Inside vmap it sees the shapes of one lane;
//   outside of vmap those of all lanes.
// - The indentation is two spaces for each handler inside of Debug (grad, vmap, another debug) that
//   was handling an operation when it performed this one, and for each scope (such as the backward
//   pass). Operations of the program itself are not indented. A line is printed when its operation
//   has finished, so the operations that a handler performs for it precede it, indented further.
// - [name] is a scope (scope.h) in which the operation was performed; the innermost comes first.
//   In a backward pass, the scopes of the differentiated operation come before that of the pass:
//   [layer1]  [backward of grad].
// - The line of an operation that throws ends in "-> throws".
//
// The derivative of a branch that was not taken is 0, whatever value the branch has. So `scale`,
// by which derivative rules multiply, computes 0 times infinity as 0. If arithmetic produced
// that zero (log(exp(x)) at 1000 gives 1/inf times inf), a derivative is lost,
// and trap_nan reports it. For this purpose trap_nan tracks which zeros are chosen. A zero counts
// as chosen if it comes from where, maximum, minimum, clip, relu, max, min, pad or a comparison, or
// from a tensor made of zeros (into which the derivative of an index is written). It remains chosen
// in sums, in products, as the numerator of a quotient, and under changes of layout. All other
// zeros count as computed, including those of inputs and tangents. Zeros are not tracked inside
// vmap: install debug outside of it.
//
// Debug changes no result and no derivative. It costs nothing if it is not installed.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/op/op.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave_detail {

class ChosenZeros;

}  // namespace stave_detail

namespace stave {

struct DebugOptions {
  [[no_unique_address]] ByName by_name{};
  /// The stream to which each line is written, in one write; null means std::cerr. Several threads
  /// may share the stream.
  std::ostream* out = nullptr;
  /// Whether to print statistics of each output: minimum and maximum (ignoring NaN),
  /// the mean of the finite elements, and for floats the counts of nan and inf. An output of one
  /// element is printed itself. Inside vmap, the statistics cover all lanes. Reads the device.
  bool values = false;
  /// Whether to print the memory of the outputs' elements, for all lanes. Repetitions
  /// of a broadcast count once; views count the elements that they show.
  bool bytes = false;
  /// Whether to print the time that the operation took. It includes the work of the handlers
  /// outside of Debug, such as other observers. On a GPU this is device time, measured with events;
  /// debug waits for it.
  bool time = false;
  /// Whether to throw TransformError at the first operation that yields a NaN,
  /// forward or backward. The error names the operation, the operands that had a NaN already,
  /// and the transforms around it. It is also thrown if `scale`, which multiplies derivatives,
  /// drops an infinity or NaN because of a zero that was computed, not chosen (see above).
  /// Reads the device; buffers of operands are not reused.
  bool trap_nan = false;
  /// Whether to throw TransformError at the first operation that yields an infinity, forward or
  /// backward. Infinities that the program writes itself, as in where(mask, x, -infinity), count
  /// too. Reads the device; buffers of operands are not reused.
  bool trap_inf = false;
  /// Whether to print lines; false if only trap_nan or trap_inf is wanted.
  bool print = true;
};

class Debug : public Handler {
 public:
  explicit Debug(DebugOptions options = {});
  Outputs handle(Call& call) override;
  std::string describe() const override { return "debug"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

 private:
  Outputs traced(Call& call);
  Outputs performed(Call& call) { return options_.print ? traced(call) : perform(std::move(call)); }

  DebugOptions options_;
  // Used if trap_nan is set.
  std::shared_ptr<stave_detail::ChosenZeros> zeros_;
};

/// The result of debug(f): calls f under a Debug.
template <class F>
class Debugged {
 public:
  Debugged(F f, DebugOptions options) : f_(std::move(f)), options_(options) {}

  template <class... A>
    requires std::invocable<F&, A...>
  decltype(auto) operator()(A&&... args) {
    return with(std::make_shared<Debug>(options_),
                [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); });
  }
  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    return with(std::make_shared<Debug>(options_),
                [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); });
  }

 private:
  F f_;
  DebugOptions options_;
};

/// Returns a callable with the arguments and result of f that prints all operations that f
/// performs.
template <class F>
auto debug(F f, DebugOptions options = {}) {
  return Debugged<F>(std::move(f), options);
}
// Overloads for overloaded functions: debug(sin), debug(sum).
#define STAVE_NAMES(Name)                                              \
  inline auto debug(stave_detail::Name f, DebugOptions options = {}) { \
    return Debugged<stave_detail::Name>(f, options);                   \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
