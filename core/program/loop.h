// loop: an operation that runs a Program as its body a number of times (jax.lax.scan). The
// functions `loop` and `scan` (handlers/transforms/loop.h) are recorded as this operation.
//
//   body:  states, rows, still  ->  states, rows
//   loop:  states, stacks of rows, still  ->  states, stacks of rows
//
// The states are the values that the loop carries from step to step. A stack is an array that has
// one row per step: row i is index i of axis 0. The `still` values are the same in every step. Step
// i takes the states of step i - 1, row i of each stack, and the still values. It returns the next
// states, and row i of each stack that the loop returns. With `reverse`, it takes and returns row
// `steps` - 1 - i. A backend runs an Executable of the body in each step, into memory that is
// allocated once for all steps. The derivative and batching rules perform loops over programs
// derived from the body.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <stave/core/op/cotangent_sums.h>
#include <stave/core/program/program.h>

namespace stave_detail {
class LoopExecutable;
}

namespace stave {

struct LoopAttributes final : Attributes, stave_detail::AddsToCotangents {
  using ProgramPtr = std::shared_ptr<const Program>;

  /// The number of steps.
  Index steps = 0;
  bool reverse = false;    // rows are read and written from the last to the first
  std::size_t states = 0;  // the number of states: the first inputs and first outputs of the body
  std::size_t rows = 0;    // the number of the body's inputs that are rows; they follow the states
  // Reverse mode divides a longer loop into nested loops, each of which stores residuals for at
  // most this many steps (2, if it is 1). 0: for as many steps as fit in 64 MiB (most_stacked in
  // loop_reverse.cpp).
  Index snapshots = 0;
  bool rematerializes = false;  // reverse mode keeps no intermediate values but computes them again
  bool runs_kernels = false;    // the loop runs by kernels alone, without machine code
  ProgramPtr body;

  LoopAttributes();
  ~LoopAttributes() override;
  std::string str() const override;
  bool equals(const Attributes& other) const override;
  std::vector<Tensor> pull_back(const VjpContext& c, const Sums& sums) const override;

  std::size_t rows_given() const { return body->outputs.size() - states; }
  Device device() const { return body->variables.empty() ? cpu : body->variables[0].device; }
  /// Returns the executable of the body, which is made at the first use. Thread-safe.
  const stave_detail::LoopExecutable& executable() const;

  /// Declares that this loop also computes the outputs of the loop `other`, as the loop for the JVP
  /// of `other` does. inputs[i] is the index in `other` of input i of this loop, and outputs[i]
  /// that of output i. An index out of range means that `other` has no such input or output.
  void performs(const LoopAttributes& other, const std::vector<std::size_t>& inputs,
                const std::vector<std::size_t>& outputs);
  /// The body of the other loop. Null if `performs` was not called, or if this loop lacks an input
  /// or output of the other one.
  ProgramPtr also_body;
  // For each input and output of the other loop, its index in this loop. Used only with also_body.
  std::vector<std::size_t> also_inputs, also_outputs;

  /// Returns the object that `make` derives from this loop, such as a derivative. The first one
  /// made for a key is kept and returned from then on. Thread-safe.
  template <class Make>
  auto derived(const std::string& key, Make make) const {
    using Made = decltype(make());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = derived_.find(key); found != derived_.end())
        return std::static_pointer_cast<const Made>(found->second);
    }
    const auto made = std::make_shared<const Made>(make());
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::static_pointer_cast<const Made>(derived_.try_emplace(key, made).first->second);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const void>> derived_;
  mutable std::mutex making_;
  mutable std::unique_ptr<const stave_detail::LoopExecutable> executable_;
  // null until the executable is made, then executable_.get()
  mutable std::atomic<const stave_detail::LoopExecutable*> made_ = nullptr;
};

}  // namespace stave

namespace stave_detail {

/// Performs a loop as one operation. If one of the current handlers of operations runs user code
/// (HandlerProperties::runs_no_user_code), it performs the steps one by one instead, so that the
/// handler sees their operations. Throws TransformError, ShapeError or DtypeError for inputs that
/// do not match the body.
Outputs perform_loop(const IntrusivePtr<const LoopAttributes>& attributes, Inputs inputs);

/// The loop that an instruction performs, or null if it performs none.
const LoopAttributes* loop_of(const Program::Instruction& instruction);

/// An instruction that performs the loop. The caller adds its inputs and outputs.
Program::Instruction instruction_of(IntrusivePtr<const LoopAttributes> loop);

enum class BodyFor { kernels, machine_code };
/// The body of a loop, optimized and with its calls inlined. It is made at the first use. In a body
/// for machine code, inner loops keep work that would need large stacks in front of them.
std::shared_ptr<const Program> optimized_body(const LoopAttributes& loop, BodyFor by);

/// Returns the program with loops that run by kernels alone (LoopAttributes::runs_kernels).
Program with_kernels_alone(Program program);

/// Returns true if the program can be the body of a loop: Executable admits it, and no output is an
/// empty Tensor.
bool may_be_body(const Program& program);

/// Finds what `from` reaches in any number of steps. Adds to `from` every state that reached(from)
/// has, until none is new, since a state after one step is a state before the next one. Returns the
/// last reached(from). `reached` maps a mask of the body's inputs to a mask of its outputs, or the
/// reverse.
template <class F>
std::vector<bool> reached_in_all_steps(const LoopAttributes& loop, std::vector<bool>& from, F reached) {
  for (;;) {
    std::vector<bool> found = reached(std::as_const(from));
    bool grows = false;
    for (std::size_t k = 0; k < loop.states; ++k)
      if (found[k] && !from[k]) from[k] = grows = true;
    if (!grows) return found;
  }
}

// Derivative and batching rules, defined in handlers/compile/loop_rules.cpp and loop_reverse.cpp.
Outputs loop_jvp(const JvpContext& c);
Outputs loop_series(const SeriesContext& c);  // handlers/taylor/loop_series.cpp
Tensor loop_vjp(const VjpContext& c, int input);
std::vector<Tensor> loop_pull_back(const VjpContext& c, AddsToCotangents::Sums sums);
Outputs loop_batch(const BatchContext& c);

}  // namespace stave_detail
