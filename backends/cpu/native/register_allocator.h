// The registers of native code, given to values while the code is written.
//
// The encoder walks the instructions in their order, and asks for a register of each operand and
// result. If none is free, the value whose next use is furthest is stored to its slot in memory
// (Belady's rule, which is optimal in straight-line code but for the cost of stores). A value is
// assigned once, so it is stored at most once, and later leaves its register for free. Numbers and
// addresses of buffers are read again from where they come from.
//
// A loop has a state of registers at its beginning, which is restored at the end of each step by
// parallel moves. The code after a loop finds the same state, whether or not the loop ran.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <stave/backends/cpu/native/live_ranges.h>

namespace stave_cpu {

/// Where a value is. Registers 0 to 15 are the general ones, 16 to 31 the floating ones.
struct Location {
  enum class Kind : std::uint8_t {
    nowhere,
    in_register,
    slot,    // of 8 bytes in memory
    number,  // `id` is the value, which is a number
    address  // `id` is the value, which is the address of a buffer
  };
  Kind kind = Kind::nowhere;
  int id = 0;
  bool operator==(const Location&) const = default;
  bool is_register() const { return kind == Kind::in_register; }
};
inline Location in_register(int id) { return {Location::Kind::in_register, id}; }
inline Location in_slot(int id) { return {Location::Kind::slot, id}; }

inline constexpr int registers = 32, first_floating = 16;
using RegisterSet = std::uint32_t;
inline constexpr RegisterSet floating_registers = 0xffff0000u, general_registers = 0xffffu;
inline RegisterSet set_of(int id) { return RegisterSet{1} << id; }

/// The moves that the allocator asks the encoder to write.
class Moves {
 public:
  /// Copies all 8 bytes of a value. `to` is a register or a slot.
  virtual void move(Location to, Location from) = 0;
  /// Copies a value to a location that no value uses meanwhile, and returns that.
  virtual Location save(Location from) = 0;

 protected:
  ~Moves() = default;
};

/// Performs moves as if at once: each target gets what its source held before. No target occurs
/// twice.
void move_at_once(std::vector<std::pair<Location, Location>> moves, Moves& by);

class RegisterAllocator {
 public:
  RegisterAllocator(const LiveRanges& ranges, RegisterSet allocatable, Moves& by);

  /// Goes on to the instruction at a position.
  void begin(int position);
  /// The register of a value that the instruction reads. The register keeps the value until the
  /// instruction's result has been given one.
  int read(int value);
  /// The register of a value, or where else it is.
  Location read_anywhere(int value);
  Location location(int value) const;
  /// Frees what the values that are not needed after this instruction occupy. Registers of operands
  /// still have their contents, and may be those of the result.
  void release_operands();
  /// A register for the result of the instruction.
  int assign(int value);
  /// Stores the values in these registers that are needed after this instruction.
  void clobber(RegisterSet clobbered);

  /// Begins the carried value of an instruction `carried`.
  void carry(int carried, int initial);
  /// Prepares the state of a loop, and gives its index a register.
  int begin_loop(const LiveRanges::Loop& loop);
  /// Restores the state at the beginning of the loop, with the next values of those it carries.
  void end_loop(const LiveRanges::Loop& loop);
  /// Ends the values whose last use was the instruction.
  void end();

  int slots() const { return slots_; }

 private:
  static constexpr int never = 0x7fffffff;
  struct State {
    int register_of = -1, slot = -1;
    bool stored = false;      // the slot has the value
    int next_use = 0;         // an index in ranges_.uses()
    int restored_at = never;  // the end of the innermost open loop that restores the register
    int carried_until = -1;   // the end of the open loop that carries the value
    int kept_at = -1;         // the register in which that loop carries the value
  };
  struct OpenLoop {
    int values[registers];
    bool stored[registers];
    int restored_at[registers];
    std::vector<int> carried_until;  // what it was, for each carried value
  };

  State& state(int value) { return states_[static_cast<std::size_t>(value)]; }
  const State& state(int value) const { return states_[static_cast<std::size_t>(value)]; }
  RegisterSet bank_of(int value) const;
  bool can_be_read_again(int value) const { return ranges_.is_address(value) || ranges_.number(value); }
  int next_use(int value);
  bool is_replaced(int value);
  int take(RegisterSet bank, int preferred = -1);
  void hold(int value, int id);
  void drop(int id);
  void evict(int id);
  void release(int value);
  int slot_of(int value);
  int preferred_register(int value);
  void make_room(const LiveRanges::Loop& loop, Bank bank);
  void load_used(const LiveRanges::Loop& loop, Bank bank);

  const LiveRanges& ranges_;
  Moves& by_;
  RegisterSet allocatable_, pinned_ = 0;
  int values_[registers];  // the value in each register, or -1
  std::vector<State> states_;
  std::vector<OpenLoop> open_;
  std::vector<int> free_slots_;
  std::vector<int> released_slots_;  // by this instruction, whose operands they may be
  int position_ = 0, slots_ = 0;
  bool released_ = false;
};

}  // namespace stave_cpu
