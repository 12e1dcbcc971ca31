// Helpers of passes that drop instructions.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <stave/core/program/program.h>

namespace stave_detail {

/// Removes instructions from a program in place. A pass examines the instructions in order, calls
/// `keep` for those that stay, and then `end`. A kept instruction moves forward to the place after
/// the last kept one.
class Compaction {
 public:
  explicit Compaction(Program& program) : steps_(program.instructions) {}
  /// Keeps an instruction of the program that comes after all kept ones. Returns it at its new
  /// place.
  Program::Instruction& keep(Program::Instruction& step) {
    Program::Instruction& to = steps_[count_++];
    if (&to != &step) to = std::move(step);
    return to;
  }
  /// The number of kept instructions.
  std::size_t count() const { return count_; }
  /// Removes the instructions after the kept ones.
  void end() { steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(count_), steps_.end()); }

 private:
  std::vector<Program::Instruction>& steps_;
  std::size_t count_ = 0;
};

/// Removes the instructions for which `kept` is false.
inline void compact(Program& program, const std::vector<bool>& kept) {
  Compaction compaction(program);
  for (std::size_t k = 0; k < kept.size(); ++k)
    if (kept[k]) compaction.keep(program.instructions[k]);
  compaction.end();
}

}  // namespace stave_detail
