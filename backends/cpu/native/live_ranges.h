// When each value of lowered code is live, and how it is held: what register allocation and the
// encoder know in advance. A position is the index of an instruction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <stave/core/program/lowered.h>

namespace stave_cpu {

using stave_detail::Lowered;

/// The kinds of registers: general registers hold integers, bools and addresses.
enum class Bank : std::uint8_t { general, floating };

/// The element that a load or store accesses is base[index + offset]. It stands for
/// Instruction::operands[0] and `number`, where the addition of a number is part of the access.
struct Access {
  int index = -1;
  std::int64_t offset = 0;
};

class LiveRanges {
 public:
  struct Loop {
    int begin, end;                           // positions
    int outer;                                // the index of the loop around this one, or -1
    std::vector<int> used{};                  // values from outside that the body reads
    std::vector<std::pair<int, int>> next{};  // carried values, and what they become
    int pressure[2] = {0, 0};                 // how many values are live at once, by bank, at most
  };

  explicit LiveRanges(const Lowered& code);

  const Lowered& code() const { return code_; }
  /// The values of the code, followed by one for each buffer: its address.
  int values() const { return static_cast<int>(last_.size()); }
  int address_of(int buffer) const { return static_cast<int>(code_.values.size()) + buffer; }
  bool is_address(int value) const { return value >= address_of(0); }
  /// The instruction that assigns a number, or null if the value is not a number.
  const Lowered::Instruction* number(int value) const;
  Bank bank(int value) const;
  /// Returns true if the value of an instruction is read, or the instruction does something else.
  bool is_needed(int position) const { return needed_[static_cast<std::size_t>(position)]; }
  /// The size of the floats that a comparison is held as a mask for, or 0 for a bool. A mask has
  /// all bits set or none, and stands in a floating register.
  int mask_bytes(int value) const { return is_address(value) ? 0 : masks_[static_cast<std::size_t>(value)]; }
  const Access& access(int position) const { return accesses_[static_cast<std::size_t>(position)]; }

  /// The positions where a value is read, ascending.
  std::span<const int> uses(int value) const { return row(uses_, first_use_, value); }
  /// The last position at which the value is needed. What loops from outside read is needed up to
  /// their end.
  int last(int value) const { return last_[static_cast<std::size_t>(value)]; }
  /// The values whose last position this is.
  std::span<const int> expiring(int position) const { return row(expiring_, first_expiring_, position); }
  /// The carried value that becomes this value, or -1.
  int carried_from(int value) const { return carried_from_[static_cast<std::size_t>(value)]; }

  const std::vector<Loop>& loops() const { return loops_; }
  /// The loop that begins or ends at the position.
  int loop_at(int position) const { return loop_at_[static_cast<std::size_t>(position)]; }

 private:
  static std::span<const int> row(const std::vector<int>& items, const std::vector<int>& first, int index) {
    const auto at = static_cast<std::size_t>(index);
    return std::span(items).subspan(static_cast<std::size_t>(first[at]),
                                    static_cast<std::size_t>(first[at + 1] - first[at]));
  }
  template <class F>
  void each_operand(int position, F f) const;
  void find_loops();
  void fold_indices();
  void find_needed();
  void find_masks();
  void find_uses();
  void use(int value, int position, int loop);
  void find_pressure();

  const Lowered& code_;
  std::vector<Loop> loops_;
  std::vector<int> loop_at_;      // for each position, the innermost loop around it
  std::vector<int> assigned_at_;  // for each value, the position of its instruction
  std::vector<Access> accesses_;
  std::vector<bool> needed_;
  std::vector<std::uint8_t> masks_;
  std::vector<int> read_at_;  // for each value, the last position so far that reads the value
  std::vector<int> uses_, first_use_, last_, expiring_, first_expiring_, carried_from_;
};

}  // namespace stave_cpu
