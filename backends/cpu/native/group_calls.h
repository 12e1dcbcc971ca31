// A pass over lowered code before it is encoded, which brings calls of the same function together.
#pragma once

#include <stave/core/program/lowered.h>

namespace stave_cpu {

/// Returns true if the instruction computes a function that function_on_vector has.
bool is_vector_call(const stave_detail::Lowered& code, const stave_detail::Lowered::Instruction& it);

/// The largest number of calls that one call on a vector replaces, for floats of this dtype.
int vector_call_lanes(stave::Dtype dtype);

/// Reorders instructions so that independent calls of one function follow each other, up to
/// vector_call_lanes of them, where only few instructions have to move for that. The encoder then
/// computes them by one call on a vector. Instructions do not move across loops and checks. Takes
/// time linear in the length of the code.
stave_detail::Lowered group_calls(stave_detail::Lowered code);

}  // namespace stave_cpu
