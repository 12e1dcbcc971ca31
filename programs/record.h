// From what a function performs to a Program: the recorder under trace and compile.
#pragma once

#include <string>

#include <stave/core/note.h>
#include <stave/handlers/vjp_flat.h>
#include <stave/programs/program.h>

namespace stave_detail {

/// What a function performed, and what it did that its program does not hold.
struct Recording {
  Program program;
  Outputs outputs;        // its own results, free of what the recorder noted
  bool asked = false;     // it performed an effect of the user's, which something outside answered
  bool caught = false;    // an operation threw, and the function went on
  bool too_long = false;  // it performs more than a million operations, of which the program is not kept
  bool follows = false;   // it captures a value that a transform outside follows
};

/// Whether a transform follows x: its derivative, or its lanes. A label is no transform's.
bool is_followed(const Tensor& x);

/// What becomes of functions that are carried (checkpoint, custom rules): each stays a call, with its rules; or what they perform is
/// recorded in place.
enum class CarriedCalls { kept, inlined };

/// f at `given`, which runs once, for real, under a recorder that stands outermost of what f installs. Values are real: what f learns
/// by reading one becomes a read of the program. What depends on no input is computed now, and is a constant.
Recording record(const char* name, FlatFunction f, std::span<const Tensor> given,
                 CarriedCalls calls = CarriedCalls::kept);

}  // namespace stave_detail
