// Loop-invariant code motion, a pass over lowered code.
#pragma once

#include <stave/core/program/lowered.h>

namespace stave_detail {

/// Returns the code with loop-invariant instructions in front of the outermost loop in which they
/// do not change: constants, operations on invariant values, and loads from buffers that the loop
/// does not store to (if it stores to at most 64 buffers). A load at a computed index moves only if
/// the loop certainly performs it: the number of steps is a positive constant, and no check stands
/// before the load in the loop. The results are the same, bit for bit. Takes time linear in the
/// code times the depth of its loops.
Lowered hoist_invariants(Lowered code);

}  // namespace stave_detail
