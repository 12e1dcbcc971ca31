// Dataflow in a program: data for each variable, how variables are made and read, and which
// variables depend on which.
//
//   PerVariable<int> reads = read_counts(program);       // reads[variable]
//   reach(program, {{x}}, Direction::forward)            // all that depends on x
//   reach(program, program.outputs, Direction::backward) // all that the outputs depend on
#pragma once

#include <span>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/program/program.h>

namespace stave_detail {

using namespace stave;

using Mask = std::vector<bool>;

/// A value of type T for each variable of a program.
template <class T>
class PerVariable {
 public:
  explicit PerVariable(const Program& program, const T& value = T()) : values_(program.variables.size(), value) {}

  decltype(auto) operator[](int variable) { return values_[static_cast<std::size_t>(variable)]; }
  decltype(auto) operator[](int variable) const { return values_[static_cast<std::size_t>(variable)]; }
  int size() const noexcept { return static_cast<int>(values_.size()); }
  /// The values of these variables, in their order; T() for -1.
  template <class Variables>
  std::vector<T> at(const Variables& variables) const {
    std::vector<T> found;
    for (const int variable : variables) found.push_back(variable < 0 ? T() : T((*this)[variable]));
    return found;
  }

 private:
  std::vector<T> values_;
};

/// Returns the entries of a list at which the mask equals `value`.
template <class List>
auto select(const Mask& mask, const List& list, bool value = true) {
  std::vector<std::decay_t<decltype(list[0])>> found;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i] == value) found.push_back(list[i]);
  return found;
}

// ---- how variables are made and read ------------------------------------------------------------

/// Returns for each variable the index of the instruction that computes it; -1 for an input, a
/// constant, and a variable that the program does not compute.
PerVariable<int> producers(const Program& program);

/// Returns for each variable how many times instructions read it, plus how many times it is an
/// output of the program.
PerVariable<int> read_counts(const Program& program);

/// Returns for each variable the index of the last instruction that reads it. The index is the
/// number of instructions for a program's output, and -1 for a variable that nothing reads.
PerVariable<int> last_reads(const Program& program);

// ---- which variables depend on which ------------------------------------------------------------

/// The result of `reach`: masks of the variables and of the instructions that it reaches.
struct Reached {
  PerVariable<bool> variables;
  Mask instructions;
};

/// The direction of a sweep: from inputs of instructions to their outputs, or from outputs to
/// inputs.
enum class Direction { forward, backward };

/// How an instruction takes part in a sweep.
enum class Flow {
  passes,  // the instruction is reached if one of its inputs (forward) or outputs (backward) is
  begins,  // the instruction is always reached
  stops    // the instruction is never reached
};

/// Finds what depends on the seeds (forward), or what the seeds depend on (backward). If an
/// instruction is reached, so are its outputs (forward) or its inputs (backward). flow(k) says how
/// instruction k takes part. Seeds of -1 are skipped.
Reached reach(const Program& program, std::span<const int> seeds, Direction direction,
              FunctionRef<Flow(std::size_t)> flow);
Reached reach(const Program& program, std::span<const int> seeds, Direction direction);

/// Finds the variables to which derivatives flow: like `reach`, but the sweep ends at reads, at
/// operations whose derivative is zero, and at variables that are not floats. Seeds are always
/// reached, whatever their dtypes.
PerVariable<bool> reach_derivatives(const Program& program, std::span<const int> seeds, Direction direction);

// ---- replaced variables and constants -----------------------------------------------------------

/// A mapping from variables to the variables that replace them.
class Renaming {
 public:
  explicit Renaming(const Program& program) : to_(program) {
    for (int variable = 0; variable < to_.size(); ++variable) to_[variable] = variable;
  }
  /// The last replacement of a variable: replacements may themselves have been replaced.
  int operator[](int variable) const {
    if (variable < 0) return variable;
    while (to_[variable] != variable) variable = to_[variable];
    return variable;
  }
  /// Replaces `variable` by `other`.
  void set(int variable, int other) { to_[variable] = other; }
  /// Replaces each of the variables by its last replacement.
  template <class Variables>
  void apply(Variables& variables) const {
    for (int& variable : variables) variable = (*this)[variable];
  }

 private:
  PerVariable<int> to_;
};

/// The constants of a program by variable.
class Constants {
 public:
  explicit Constants(const Program& program) : values_(program) {
    for (const auto& [variable, value] : program.constants) values_[variable] = value;
  }
  /// Returns null for a variable that is not a constant.
  const Tensor* find(int variable) const {
    const Tensor& value = values_[variable];
    return value.defined() ? &value : nullptr;
  }

 private:
  PerVariable<Tensor> values_;
};

}  // namespace stave_detail
