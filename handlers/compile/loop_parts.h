// The parts of a recorded loop, for its derivative and batching rules (loop_rules.cpp,
// loop_reverse.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>

namespace stave_detail {

using LoopPtr = IntrusivePtr<const LoopAttributes>;

// Returns the index of the first still value among the inputs of a loop. The inputs are states,
// then stacks of rows, then still values, which are the same in every step.
inline std::size_t end_of_rows(const LoopAttributes& loop) { return loop.states + loop.rows; }
// Returns true if each step reads a row of this input.
inline bool is_row(const LoopAttributes& loop, std::size_t input) {
  return input >= loop.states && input < end_of_rows(loop);
}

// Returns a loop with the steps, order and snapshots of `like`, over another body.
IntrusivePtr<LoopAttributes> loop_over(const LoopAttributes& like, Program body, std::size_t states, std::size_t rows);

// Returns the key under which LoopAttributes::derived keeps a loop. `kind` says how the loop is
// derived ("vjp", "jvp"); the mask says for which outputs or inputs.
std::string derived_key(const char* kind, const Mask& mask);

// Returns examples of the inputs of one step, made from the inputs of the loop.
std::vector<Tensor> examples_of(const LoopAttributes& loop, std::span<const Tensor> inputs);

}  // namespace stave_detail
