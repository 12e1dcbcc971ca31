// The walk over lowered code that the encoders of all processors share. It visits the instructions
// in their order, asks the register allocator where values are, moves values, and calls functions.
//
// An encoder derives from InstructionWalk, and writes the instructions of its processor:
// X86Encoder or Aarch64Encoder. A build has the one of its processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/native/register_allocator.h>

namespace stave_cpu {

class InstructionWalk : protected Moves {
 public:
  /// Writes the code. Throws std::exception if that is impossible.
  void run();
  /// The size of the memory for values that no register holds, a multiple of 64.
  virtual std::size_t slot_bytes() const;

 protected:
  using Instruction = Lowered::Instruction;
  using ScalarOp = stave_detail::ScalarOp;
  using Dtype = stave::Dtype;

  /// What the code of a processor has in its stack frame for calls, as offsets in the frame.
  struct Frame {
    int addresses;   // of the three operands of a kernel
    int operands;    // these operands, of 8 bytes each
    int result;      // the result of a kernel
    int vectors[2];  // the operands of a call on a vector, of 64 bytes each. The first is also the
                     // result.
  };
  /// The registers with particular uses. No value is in a scratch register.
  struct Conventions {
    RegisterSet allocatable;         // these may hold values
    RegisterSet clobbered_by_calls;  // functions that the code calls may change these
    int general_scratch, floating_scratch;
    int saved_general, saved_floating;  // these hold a value while a cycle of moves is broken
  };

  InstructionWalk(const LiveRanges& ranges, const Conventions& conventions, const Frame& frame);
  virtual ~InstructionWalk() = default;

  // ---- What an encoder writes. Registers are those of register_allocator.h.
  virtual void begin_text() = 0;  // up to the first instruction
  virtual void end_text() = 0;    // from the last instruction on
  virtual void operation(const Instruction& it);
  virtual void load(const Instruction& it) = 0;
  virtual void store(const Instruction& it) = 0;
  virtual void begin_loop(int position) = 0;
  virtual void end_loop(int position) = 0;
  virtual void check(const Instruction& it) = 0;
  /// Write an operation whose operands are floats or masks, and any other. They return false,
  /// without having written anything, if a function has to be called.
  virtual bool float_operation(const Instruction& it) = 0;
  virtual bool integer_operation(const Instruction& it) = 0;

  /// `from` is general, or both are floating. All 8 bytes are copied.
  virtual void copy_register(int to, int from) = 0;
  virtual void load_slot(int to, int slot) = 0;
  virtual void store_slot(int slot, int from) = 0;
  virtual void load_number(int to, int value) = 0;  // a value that is a number
  virtual void load_address(int to, const Lowered::Buffer& buffer) = 0;

  // Calls. The first arguments that are addresses or integers are set after values were stored in
  // the frame; floats are passed in the first floating registers.
  virtual void store_in_frame(int offset, std::size_t bytes, int from) = 0;
  virtual void load_from_frame(int to, int offset, std::size_t bytes) = 0;
  virtual void pass_frame_address(int argument, int offset) = 0;
  virtual void pass_number(int argument, int number) = 0;
  virtual void call_address(const void* function) = 0;

  // ---- What encoders use.
  void move(Location to, Location from) override;
  Location save(Location from) override;
  /// Returns the number of instructions, from the position on, that one call on a vector computes.
  virtual int vector_call_length() const;
  /// Finds the distinct float numbers of the code, for a table of constants, in which they begin at
  /// an offset. Then constant_offset() is the offset of a number in the table, in bytes.
  std::vector<std::uint64_t> find_constants(int begin);
  int constant_offset(int value) const { return constants_[static_cast<std::size_t>(value)]; }
  /// Returns a number of the code, converted to its dtype and extended to 64 bits.
  static std::int64_t number_of(const Instruction& it);
  Dtype dtype(int value) const { return ranges_.code().dtype(value); }
  const Instruction& instruction_at(int position) const {
    return ranges_.code().instructions[static_cast<std::size_t>(position)];
  }
  const LiveRanges::Loop& loop_around(int position) const {
    return ranges_.loops()[static_cast<std::size_t>(ranges_.loop_at(position))];
  }

  const LiveRanges& ranges_;
  RegisterAllocator allocator_;
  std::vector<int> constants_;  // for each float number that is needed, its offset in the table
  int position_ = 0;

 private:
  void instruction();
  // ---- instruction_walk_calls.cpp
  void call_function(const Instruction& it);
  void call_by_value(const Instruction& it, const void* function);
  void call_kernel(const Instruction& it, BlockKernel kernel);
  void call_on_vector(int count);
  void store_operand(int offset, std::size_t bytes, int value);

  const Conventions conventions_;
  const Frame frame_;
};

}  // namespace stave_cpu
