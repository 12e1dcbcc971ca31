// What passes that leave instructions out are made of.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <stave/core/program/program.h>

namespace stave_detail {

/// The instructions that a pass keeps of a program, which move to its front while it looks at them
/// in their order.
class Compaction {
 public:
  explicit Compaction(Program& program) : steps_(program.instructions) {}
  /// One of the program's, which is where it was or behind the last that was kept. Gives it where
  /// it is now.
  Program::Instruction& keep(Program::Instruction& step) {
    Program::Instruction& to = steps_[count_++];
    if (&to != &step) to = std::move(step);
    return to;
  }
  std::size_t count() const { return count_; }
  void end() { steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(count_), steps_.end()); }

 private:
  std::vector<Program::Instruction>& steps_;
  std::size_t count_ = 0;
};

}  // namespace stave_detail
