// From what a function performs to a Program: the recorder under trace and compile.
#pragma once

#include <any>
#include <set>
#include <string>

#include <stave/core/program/program.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/compile/asked.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

/// What a tensor is, but for its elements.
struct Layout {
  bool defined = false;
  Dtype dtype = float32;
  Device device = cpu;
  Shape shape = {};
  Strides strides = {};

  Layout() = default;
  explicit Layout(const Tensor& x);
  bool is_of(const Tensor& x) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A tensor of an answer to an effect: another, or one that an effect of this call had before.
struct Answered {
  int passed_before = -1;
  std::uint64_t made_of = 0;  // of which of these it was computed (TracksValues)
  Layout layout = {};
  friend bool operator==(const Answered&, const Answered&) = default;
};

/// Where a recorded function went on by something else than a value that it read: an answer to an effect, or an error of an operation,
/// which it caught.
struct Turn {
  std::size_t at = 0;              // before this instruction
  int variables = 0;               // so many there were. The new tensors of the answer are the next
  Program::Instruction step = {};  // the operation; of an effect, its tensors (-1: an empty one), and scopes
  std::vector<Program::Variable> outputs = {};  // that the operation would have had
  const std::type_info* threw = nullptr;
  const EffectType* asked = nullptr;
  std::any effect = {}, answer = {};
  std::vector<Answered> tensors = {};
};

/// What a function performed, and what it did that its program does not hold.
struct Recording {
  Program program;
  Outputs outputs;                      // its own results, free of what the recorder noted
  std::vector<Turn> turns;              // that are no part of the program
  std::set<const EffectType*> unasked;  // effects that it would have performed if somebody answered
  bool asked = false;                   // it performed an effect of the user's that is no turn
  bool quotes = false;                  // it asked for the text of an error that it caught
  bool caught = false;                  // something threw, which is no turn, and the function went on
  bool too_long = false;                // it performs more than a million operations, of which the program is not kept
  bool keeps_rules = false;             // a function that it calls has a rule that is not recorded yet
  bool follows = false;                 // it captures a value that a transform outside follows
};

/// Whether a transform follows x: its derivative, or its lanes. A label is no transform's.
bool is_followed(const Tensor& x);

/// What becomes of functions that are carried (checkpoint, custom rules): each stays a call, with its rules; or what they perform is
/// recorded in place.
enum class CarriedCalls { kept, inlined };

/// f at `given`, which runs once, for real, under a recorder that stands outermost of what f installs. Values are real: what f learns
/// by reading one becomes a read of the program. What depends on no input is computed now, and is a constant. With `asked`, effects that
/// something outside answers, and errors of operations that f catches, are turns. Rules of
/// functions that are carried are recorded with them for so many orders of derivatives, and else
/// when they are needed (rules.h). Results that f leaves elsewhere, too, should be empty when it
/// returns: rules are taken to hold them.
Recording record(const char* name, FlatFunction f, std::span<const Tensor> given,
                 CarriedCalls calls = CarriedCalls::kept, AskedOutside* asked = nullptr, int orders = 0);

}  // namespace stave_detail
