// The parts of a recorded loop, for its derivative and batching rules (loop_rules.cpp,
// loop_reverse.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
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

// A loop that computes Taylor coefficients besides the values of another loop: for order 1, the
// tangents.
struct LoopOfSeries {
  // The inputs and outputs of `loop` by their numbers in the other loop, which has n inputs or
  // outputs: coefficient k of number i is k * n + i. States come first, then rows, then still
  // values; of each kind the values first, then their coefficients of order 1, 2, ...
  std::vector<std::size_t> inputs, outputs;
  LoopPtr loop;
};
// Returns the loop for coefficients of the orders 1, ..., `orders` of the inputs in the mask `by`.
// `derive` returns the body's program of values and coefficients, as jvp_of does for order 1.
LoopOfSeries loop_of_series(const LoopAttributes& loop, Mask by, std::span<const Tensor> inputs, std::size_t orders,
                            FunctionRef<Program(const Program&, const Mask&, std::span<const Tensor>)> derive);

}  // namespace stave_detail
