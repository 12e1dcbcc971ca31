// Passes: each takes a Program and gives one that computes the same, bit for bit, for less.
//
// What a program may not lose: its reads, in their order, and operations that may throw. What is computed in another epoch (a
// checkpoint's second run) is not merged with what it repeats: that is why it is computed again.
#pragma once

#include <stave/core/program/program.h>

namespace stave {

/// Without what nobody uses.
Program without_dead_code(Program program);
/// Without what is computed twice: the same operation on the same values, or a loop that another performs as well. Random operations are
/// functions of their keys.
Program without_repetitions(Program program);
/// What depends on constants alone is a constant, where that takes no more than 64 KiB.
Program with_constants_folded(Program program);
/// x * 1, x - 0, x + 0 + 0, --x; a reshape, permutation, broadcast or conversion of another.
Program simplified(Program program);
/// Elementwise operations that follow each other, as regions (core/program/region.h). `why_apart` is given, a line for each reason and
/// operation, why some that might be expected to be one are not.
Program with_regions(Program program, std::vector<std::string>* why_apart = nullptr);

/// Loops without what nobody uses of them: results, states, and what these alone read.
Program with_loops_narrowed(Program program);

/// Where all arrays are small (8 elements), and some are taken apart or put together: numbers in their place.
Program with_small_arrays_split(Program program);

/// Functions that are called (checkpoint, custom rules) are performed in place: all, whose rules
/// are gone, for a program that no transform will see; or those without rules of a derivative.
enum class InlineCalls { all, without_rules };
Program with_calls_inlined(Program program, InlineCalls which = InlineCalls::all);

/// All but the last.
Program optimized(Program program, std::vector<std::string>* why_apart = nullptr);

}  // namespace stave

namespace stave_detail {

/// Without loops whose results another one of the program gives as well: that of a derivative, which runs over the body too.
Program with_loops_joined(Program program);

/// Which variable stands in the place of another.
class Renaming {
 public:
  explicit Renaming(const Program& program) : to_(program.variables.size()) {
    for (std::size_t i = 0; i < to_.size(); ++i) to_[i] = static_cast<int>(i);
  }
  int operator[](int variable) const {
    const auto at = static_cast<std::size_t>(variable);
    return variable < 0 || at >= to_.size() ? variable : to_[at];
  }
  /// From now on `variable` is `other`, which is final.
  void set(int variable, int other) { to_[static_cast<std::size_t>(variable)] = other; }
  template <class Variables>
  void apply(Variables& variables) const {
    for (int& variable : variables) variable = (*this)[variable];
  }

 private:
  std::vector<int> to_;
};

/// Which constant a variable is; null: none.
class Constants {
 public:
  explicit Constants(const Program& program);
  const Tensor* find(int variable) const {
    const auto at = static_cast<std::size_t>(variable);
    return at < values_.size() && values_[at].defined() ? &values_[at] : nullptr;
  }

 private:
  std::vector<Tensor> values_;
};

}  // namespace stave_detail
