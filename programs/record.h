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
  Outputs outputs;       // its own results, free of what the recorder noted
  bool asked = false;    // it performed an effect of the user's, which something outside answered
  bool caught = false;   // an operation threw, and the function went on
  bool follows = false;  // it captures a value that a transform outside follows
};

/// f at `given`, which runs once, for real, under a recorder that stands outermost of what f installs. Values are real: what f learns
/// by reading one becomes a read of the program. What depends on no input is computed now, and is a constant.
Recording record(const char* name, FlatFunction f, std::span<const Tensor> given);

}  // namespace stave_detail
