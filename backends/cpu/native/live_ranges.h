// The live ranges of the values of lowered code, and the kind of register that holds each value.
// The register allocator and the encoder use them. A position is the index of an instruction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <stave/core/program/lowered.h>

namespace stave_cpu {

using stave_detail::Lowered;

/// The kinds of registers: general registers hold integers, bools and addresses.
enum class Bank : std::uint8_t { general, floating };

/// The element of its buffer that a load or store accesses: element index + offset, where `index`
/// is a value, or -1 for 0. An Access replaces operands[0] and `number` of the instruction. Numbers
/// that the code adds to an index are part of `offset`.
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
    std::vector<std::pair<int, int>> next{};  // each carried value, and its value in the next step
    // The largest number of values in each bank that are live at once, not counting numbers and
    // addresses.
    int pressure[2] = {0, 0};
  };

  explicit LiveRanges(const Lowered& code);
  /// The live ranges of code for lanes (lane_encoder.h). The values for which `vectors` is true are
  /// vectors, in floating registers, and no bool is held as a mask of its own size.
  LiveRanges(const Lowered& code, std::vector<bool> vectors);

  const Lowered& code() const { return code_; }
  /// The number of values: the values of the code, followed by the address of each buffer.
  int values() const { return static_cast<int>(last_.size()); }
  int address_of(int buffer) const { return static_cast<int>(code_.values.size()) + buffer; }
  bool is_address(int value) const { return value >= address_of(0); }
  /// The instruction that assigns a number, or null if the value is not a number.
  const Lowered::Instruction* number(int value) const;
  Bank bank(int value) const;
  /// Returns false if the instruction only computes a value that is never read.
  bool is_needed(int position) const { return needed_[static_cast<std::size_t>(position)]; }
  /// If the value, a bool, is held as a mask, returns the size in bytes of the floats that it
  /// selects. Otherwise returns 0. A mask has all bits set or none, and is in a floating register.
  int mask_bytes(int value) const { return is_address(value) ? 0 : masks_[static_cast<std::size_t>(value)]; }
  const Access& access(int position) const { return accesses_[static_cast<std::size_t>(position)]; }

  /// The position of the instruction that assigns a value, which is not an address.
  int assigned_at(int value) const { return assigned_at_[static_cast<std::size_t>(value)]; }
  /// The positions where a value is read, ascending.
  std::span<const int> uses(int value) const { return row(uses_, first_use_, value); }
  /// The last position at which the value is needed. A value that a loop reads from outside is
  /// needed up to the end of the loop.
  int last(int value) const { return last_[static_cast<std::size_t>(value)]; }
  /// The values whose last position this is.
  std::span<const int> expiring(int position) const { return row(expiring_, first_expiring_, position); }
  /// The carried value whose value in the next step is this one, or -1.
  int carried_from(int value) const { return carried_from_[static_cast<std::size_t>(value)]; }

  const std::vector<Loop>& loops() const { return loops_; }
  /// The innermost loop around the position, or -1. The instructions `loop` and `end` of a loop are
  /// part of it.
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
  std::vector<bool> vectors_;  // empty: no lanes
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
