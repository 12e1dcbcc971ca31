// The operation `loop`: steps whose body is a Program, as programs hold what repeat (handlers/transforms/repeat.h) does.
//
//   body:  states, rows, still  ->  states, rows
//   loop:  states, stacks of rows, still  ->  states, stacks of rows
//
// Step i takes the states that the one before it gave, row i of each stack (axis 0), and what stays the same; it gives the next states,
// and row i of each stack of results: jax.lax.scan, as an operation like any other. A backend runs it as a loop over an
// Executable of the body, which allocates nothing for a step. Its rules are loops over programs that are derived from the body.
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
class Executable;
}

namespace stave {

struct LoopAttributes final : Attributes, stave_detail::AddsToCotangents {
  using ProgramPtr = std::shared_ptr<const Program>;

  Index steps = 0;
  bool reverse = false;    // rows are read and given from the last to the first
  std::size_t states = 0;  // of the body's inputs, and outputs: the first
  std::size_t rows = 0;    // of its inputs: those that follow
  Index snapshots = 0;     // steps whose states reverse mode keeps at a time; 0: as many as there is room for
  bool again = false;      // reverse mode does not keep what it computes, but computes it again
  ProgramPtr body;

  LoopAttributes();
  ~LoopAttributes() override;
  std::string str() const override;
  bool equals(const Attributes& other) const override;
  std::vector<Tensor> pull_back(const VjpContext& c, const Sums& sums) const override;

  std::size_t rows_given() const { return body->outputs.size() - states; }
  Device device() const { return body->variables.empty() ? cpu : body->variables[0].device; }
  /// The body, ready to run: made when it is first asked for.
  const stave_detail::Executable& executable() const;

  /// Says that it performs what another loop does: that one's inputs and outputs are these of its own, `inputs[i]` and `outputs[i]`
  /// being of that one's where they are below their number.
  void performs(const LoopAttributes& other, const std::vector<std::size_t>& inputs,
                const std::vector<std::size_t>& outputs);
  /// Of the other loop; null: it performs none.
  ProgramPtr also;
  std::vector<std::size_t> also_inputs, also_outputs;  // numbers of its own

  /// What `make` gives for this key, made once: loops that are derived from it.
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
  mutable std::unique_ptr<const stave_detail::Executable> executable_;
  mutable std::atomic<const stave_detail::Executable*> made_ = nullptr;  // the same
};

}  // namespace stave

namespace stave_detail {

/// Performs it: as one operation; step by step, under a handler of operations that is not the library's own. Throws ShapeError or
/// DtypeError for inputs that are not as the body wants them.
Outputs perform_loop(const IntrusivePtr<const LoopAttributes>& attributes, Inputs inputs);

/// The loop that an instruction performs; null: none.
const LoopAttributes* loop_of(const Program::Instruction& instruction);

/// One that performs it, yet without inputs and outputs.
Program::Instruction instruction_of(IntrusivePtr<const LoopAttributes> loop);

/// Whether a program can be the body of one.
bool may_be_body(const Program& program);

// Its rules: loop_rules.cpp.
Outputs loop_jvp(const JvpContext& c);
Tensor loop_vjp(const VjpContext& c, int input);
std::vector<Tensor> loop_pull_back(const VjpContext& c, AddsToCotangents::Sums sums);
Outputs loop_batch(const BatchContext& c);

}  // namespace stave_detail
