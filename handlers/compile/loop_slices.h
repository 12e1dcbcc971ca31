// Slices of still values, for the reverse mode of loops (loop_reverse.cpp).
//
// If a step reads w(0) and w(1), a tape adds a cotangent to each of these parts of the sum of w. A
// backward loop that carries the sum would replace parts of it in every step. So it carries a sum
// for each slice instead, and these sums replace the parts after the loop. Each element is added to
// in the same order as on a tape, so the results have the same bits. This is why other functions of
// still values, such as tanh(w), do not move in front of the loop before its derivative is made.
#pragma once

#include <stave/handlers/compile/loop_parts.h>

namespace stave_detail {

/// A part of a still value.
struct StillSlice {
  std::size_t of = 0;  // the number of the still value among the inputs of the loop
  // Slices with steps of 1, and reshapes. The first one takes the still value, each other one the
  // result of the one before it.
  std::vector<Program::Instruction> views;
  std::vector<Shape> shapes;  // of the results of the views

  /// Returns this part of x.
  Tensor read(Tensor x) const;
  /// Returns x with this part replaced.
  Tensor replaced(const Tensor& x, const Tensor& part) const;
};

struct BodyOfSlices {
  Program body;
  std::vector<StillSlice> slices;
};
/// Returns the body of the loop with slices of still values as further inputs, behind its own. A
/// still value is replaced by slices if cotangents of the outputs `of` reach it through slices that
/// do not overlap, and in no other way.
BodyOfSlices with_slices_as_inputs(const LoopAttributes& loop, const Mask& of);

/// Replaces the last inputs of a body, which are these slices, by instructions that compute them.
void take_slices_in(Program& body, const std::vector<StillSlice>& slices);

/// Appends the slices of the values, which are those of the inputs of a loop. A slice of an
/// undefined value is undefined.
template <class List>
void append_slices(List& values, const std::vector<StillSlice>& slices) {
  for (const StillSlice& slice : slices) {
    const Tensor x = values[slice.of];
    values.push_back(x.defined() ? slice.read(x) : Tensor());
  }
}

}  // namespace stave_detail
