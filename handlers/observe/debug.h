// debug: shows the operations that a function performs, one line each, as they happen.
//
//   auto y = debug(f)(x);                                          // to std::cerr
//   with(Debug({.values = true, .time = true}), [&] { ... });
//   auto g = debug(grad(loss), {.trap_nan = true, .print = false})(w, x, y);   // throws at the first NaN, silent until then
//
// A line is: name, attributes, operands -> results, then where it was performed, values, bytes and time where asked for.
//
//   sin f32[64] -> f32[64]
//   sum axes=[0] f32[64] -> f32[]
//     multiply f32[64], f32[64] -> f32[64]  [backward of grad]
//   matmul f32[64,64], f32[64,8] -> f32[64,8]                 min -1.2 max 0.9 mean 0.01 nan 0 inf 0  12 us
//
// - A dtype is bool, u8, u32, i32, i64, f32 or f64; in brackets after it stands the shape, before it the label (label.h) of a
//   value that has one: w:f32[64].
// - It shows what reaches it. Inside grad: the primal operations; outside grad also those of the backward pass. Inside vmap:
//   the shapes of one lane; outside vmap: those of all lanes.
// - Indentation, two spaces a level: how many handlers were at work above this one when it was performed (grad, vmap, another
//   debug), and scopes entered (such as the backward pass). What the program performs itself stands at the margin. A line
//   comes when its operation is done: an operation performed on behalf of another stands before it, further in.
// - [name]: the scopes (effect.h), from inside out, in which it was performed; in a backward pass those of the operation that is
//   differentiated, within that of the pass: [layer1]  [backward of grad].
// - An operation that throws ends in "-> throws".
//
// The derivative of a branch that was not taken is 0, whatever the branch yields; so `scale`, by which rules multiply, has 0 times
// infinity be 0. Where arithmetic made that zero (log(exp(x)) at 1000: 1/inf times inf) a derivative is lost, and trap_nan says
// so. It tells by following zeros: those of where, maximum, minimum, clip, relu, max and min, of comparisons, of pad, and of tensors
// made of zeros (into which the derivative of an index is put) are chosen, and stay so through sums, products, quotients of them and
// changes of layout; all others are computed, those of inputs and tangents included. Inside vmap nothing is followed: put debug
// outside.
//
// It changes no result and no derivative, and costs nothing where it is not installed.
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
  /// Where lines go, each in one write; null: std::cerr. Debugs on several threads may share it.
  std::ostream* out = nullptr;
  /// Of each output: min and max (NaN aside), mean (of the finite), and for floats the counts of nan and inf; or its value,
  /// if it has one element. Of a lane's value: over all lanes. Reads the device.
  bool values = false;
  /// What the outputs' elements take in memory, of all lanes; repetitions of a broadcast are counted once, views as what they show.
  bool bytes = false;
  /// How long the operation took below this handler, other debugs there included; on a GPU: how long the device was at
  /// it, by events, for which it is waited.
  bool time = false;
  /// Throw TransformError at the first operation that yields a NaN, forward or backward: it names the operation, which of its
  /// operands had a NaN before, and the transforms around. Also where `scale`, which multiplies derivatives, lets a zero swallow
  /// an infinity or NaN, unless that zero was chosen, not computed: see below. Reads the device; operations keep their operands'
  /// buffers.
  bool trap_nan = false;
  /// false: no lines; for trap_nan alone.
  bool print = true;
};

class Debug : public Handler {
 public:
  explicit Debug(DebugOptions options = {});
  Outputs handle(Call& call) override;
  std::string describe() const override { return "debug"; }
  bool only_observes() const noexcept override { return true; }

 private:
  Outputs traced(Call& call);

  DebugOptions options_;
  std::shared_ptr<stave_detail::ChosenZeros> zeros_;  // for trap_nan
};

/// What debug(f) gives: calls f under a Debug.
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

/// f with all that it performs shown: a callable of the same arguments and result.
template <class F>
auto debug(F f, DebugOptions options = {}) {
  return Debugged<F>(std::move(f), options);
}
// For overloaded functions: debug(sin), debug(sum).
#define STAVE_NAMES(Name)                                              \
  inline auto debug(stave_detail::Name f, DebugOptions options = {}) { \
    return Debugged<stave_detail::Name>(f, options);                   \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
