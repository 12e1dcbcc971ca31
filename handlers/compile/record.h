// The recorder under trace and compile: it records a function's operations as a Program.
#pragma once

#include <any>
#include <set>
#include <string>

#include <stave/core/program/program.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/compile/call_effect_log.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

/// The properties of a tensor, apart from its elements.
struct Layout {
  bool defined = false;
  Dtype dtype = float32;
  Device device = cpu;
  Shape shape = {};
  Strides strides = {};

  Layout() = default;
  explicit Layout(const Tensor& x);
  bool describes(const Tensor& x) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A tensor in the answer to an effect: a new one, or one that an effect of this call received
/// before.
struct Answered {
  /// The number of the earlier tensor among those of the call's effects; -1: a new tensor.
  int passed_before = -1;
  // A mask of the earlier tensors from which this one was computed (TracksValues).
  std::uint64_t made_of = 0;
  Layout layout = {};
  friend bool operator==(const Answered&, const Answered&) = default;
};

/// A guard of a recorded function other than a read: the answer to an effect, or an error of an
/// operation that the function caught.
struct RecordedGuard {
  std::size_t at = 0;  // the index of the instruction that follows this guard
  // The number of variables before this guard. The new tensors of the answer are the next ones.
  int variables = 0;
  // The operation that threw. For an effect: its tensors as inputs (-1: an empty tensor), and its
  // scopes.
  Program::Instruction step = {};
  std::vector<Program::Variable> outputs = {};  // the outputs of the operation, had it not thrown
  const std::type_info* threw = nullptr;
  const EffectType* asked = nullptr;
  std::any effect = {}, answer = {};
  std::vector<Answered> tensors = {};
};

/// The result of recording: a program, and facts that the program does not hold.
struct Recording {
  Program program;
  Outputs outputs;                    // the function's own results, without notes of the recorder
  std::vector<RecordedGuard> guards;  // guards that are not in the program
  // Types of effects that the function did not perform, because no handler would have answered
  // them.
  std::set<const EffectType*> unanswered;
  // True if the function:
  bool has_unrecorded_effect = false;  // performed an effect of a user's type that is not a guard
  bool read_error_text = false;        // read the text of an error that it caught
  bool caught = false;                 // caught an error for which there is no guard, and went on
  bool too_long = false;               // performed over a million operations and is dropped
  bool keeps_rules = false;            // called a function with a rule that is not recorded yet
  bool captures_traced = false;        // captured a value that an outer transform traces
};

/// Returns true if a transform traces x, for its derivative or its lanes. Notes that belong to no
/// transform, such as labels, do not count.
bool is_followed(const Tensor& x);

/// How calls of functions with rules (checkpoint, custom rules) are recorded: `kept` as calls with
/// their rules, or `inlined` as the operations that they perform.
enum class HigherOrderCalls { kept, inlined };

/// Runs f at `given` once and records it. The recorder is outside of all handlers that f installs.
/// Values are concrete, and a value that f reads becomes a read of the program.
/// Values that depend on no input are computed while f is recorded, and are constants. With
/// `asked`, effects that outer handlers answer, and errors of operations that f catches, become
/// guards.
/// The rules of functions that f calls are recorded for `orders` orders of derivatives, and those
/// of higher orders when they are needed (rules.h). f should not leave copies of its results in
/// variables outside: such results would count as captured by a rule.
Recording record(const char* name, FlatFunction f, std::span<const Tensor> given,
                 HigherOrderCalls calls = HigherOrderCalls::kept, CallEffectLog* asked = nullptr, int orders = 0);

}  // namespace stave_detail
