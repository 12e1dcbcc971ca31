// The register allocator of native code, which works while the code is written.
//
// The encoder walks the instructions in their order, and asks for a register of each operand and
// result. If none is free, the value whose next use is furthest is spilled to its slot in memory
// (Belady's rule, which is optimal in straight-line code except for the cost of stores). A value is
// assigned once, so it is stored at most once, and a later spill of it costs nothing. Numbers and
// addresses of buffers are not stored but rematerialized.
//
// The assignment of values to registers at the beginning of a loop is restored at the end of each
// step by parallel moves. So the code after a loop finds the same assignment, whether or not the
// loop ran.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <stave/backends/cpu/native/live_ranges.h>

namespace stave_cpu {

/// The place of a value. Registers 0 to 31 are general ones, 32 to 63 floating ones.
struct Location {
  enum class Kind : std::uint8_t {
    nowhere,
    in_register,
    slot,    // a slot of 8 bytes in memory
    number,  // not stored: `id` is the value, which is a number
    address  // not stored: `id` is the value, which is the address of a buffer
  };
  Kind kind = Kind::nowhere;
  int id = 0;
  bool operator==(const Location&) const = default;
  bool is_register() const { return kind == Kind::in_register; }
};
inline Location in_register(int id) { return {Location::Kind::in_register, id}; }
inline Location in_slot(int id) { return {Location::Kind::slot, id}; }

inline constexpr int registers = 64, first_floating = 32;
using RegisterSet = std::uint64_t;
inline constexpr RegisterSet general_registers = 0xffffffffu, floating_registers = general_registers << 32;
inline RegisterSet set_of(int id) { return RegisterSet{1} << id; }

/// The moves that the allocator asks the encoder to write.
class Moves {
 public:
  /// Copies all 8 bytes of a value. `to` is a register or a slot.
  virtual void move(Location to, Location from) = 0;
  /// Copies a value to a temporary location, which no other value uses, and returns this location.
  virtual Location save(Location from) = 0;

 protected:
  ~Moves() = default;
};

/// Performs parallel moves: each target receives the contents that its source had before all moves.
/// No target occurs twice.
void move_at_once(std::vector<std::pair<Location, Location>> moves, Moves& by);

class RegisterAllocator {
 public:
  RegisterAllocator(const LiveRanges& ranges, RegisterSet allocatable, Moves& by);

  /// Begins the instruction at a position.
  void begin(int position);
  /// Returns the register of a value that the instruction reads, and loads the value if necessary.
  /// No other value gets the register before release_operands().
  int read(int value);
  /// Returns the place of a value that the instruction reads. A value that is not in a register is
  /// loaded only if a register is free and the value is read again.
  Location read_anywhere(int value);
  Location location(int value) const;
  /// Frees the registers and slots of values that are not needed after this instruction. The
  /// registers of operands still have their contents, and the result may get one of them.
  void release_operands();
  /// Returns a register for the result of the instruction.
  int assign(int value);
  /// Frees these registers. It stores the values that are needed after this instruction, unless
  /// they can be rematerialized.
  void clobber(RegisterSet clobbered);

  /// Puts the carried value of an instruction `carried` into a register. It starts as `initial`.
  void carry(int carried, int initial);
  /// Prepares the registers for a loop, and returns the register of the loop's index.
  int begin_loop(const LiveRanges::Loop& loop);
  /// Restores the assignment at the beginning of the loop. Each carried value then has its value
  /// for the next step.
  void end_loop(const LiveRanges::Loop& loop);
  /// Ends the instruction, and with it the values whose last use the instruction was.
  void end();

  int slots() const { return slots_; }

 private:
  static constexpr int never = 0x7fffffff;
  struct State {
    int register_of = -1, slot = -1;
    bool stored = false;       // the slot has the value
    bool shares_slot = false;  // the slot is that of the carried value which this one replaces
    int next_use = 0;          // an index in ranges_.uses()
    int restored_at = never;   // the end of the innermost open loop that restores the register
    int carried_until = -1;    // the end of the open loop that carries the value
    int kept_at = -1;          // the register in which that loop carries the value
  };
  struct OpenLoop {
    int values[registers];
    bool stored[registers];
    int restored_at[registers];
    std::vector<int> carried_until;  // for each carried value, State::carried_until before the loop
  };

  State& state(int value) { return states_[static_cast<std::size_t>(value)]; }
  const State& state(int value) const { return states_[static_cast<std::size_t>(value)]; }
  RegisterSet bank_of(int value) const;
  bool can_be_read_again(int value) const { return ranges_.is_address(value) || ranges_.number(value); }
  int next_use(int value);
  bool is_replaced(int value);
  bool can_share_slot(int value, int carried);
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
  std::vector<int> released_slots_;  // slots that this instruction has released, but may still read
  int position_ = 0, slots_ = 0;
  bool released_ = false;
};

}  // namespace stave_cpu
