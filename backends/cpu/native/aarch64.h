// The encoder of native code for aarch64: 64-bit ARM with Advanced SIMD (NEON), which all such
// processors have.
//
// Conventions of the code:
//   x19, x20, x21, x22     the inputs, the outputs, the buffers of the workspace, and the slots
//   x23                    the table of constants, which precedes the code
//   x15, x16, v29 to v31   scratch registers for one instruction of the lowered code
//   x17, x30               addresses in memory of operands, and offsets from x22, x23 and sp
//   x18                    belongs to the system
//   other registers        hold values
//   integers and bools     are in the low part of a register, whose upper part is undefined
//   floats, masks          are in the low part of a v register
//   slots                  begin the workspace: slot k is at x22 + 8 k, and x21 is behind the last
//   stack                  the saved registers, and the operands of calls (InstructionWalk::Frame)
//
// The file aarch64.cpp has the frame, moves, memory, loops and the hooks of calls;
// aarch64_floats.cpp and aarch64_integers.cpp have operations.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include <stave/backends/cpu/native/aarch64_assembler.h>
#include <stave/backends/cpu/native/instruction_walk.h>

namespace stave_cpu {

class Aarch64Encoder final : public InstructionWalk {
 public:
  explicit Aarch64Encoder(const LiveRanges& ranges);

  std::span<const unsigned char> text() const { return code_.text(); }
  std::size_t entry() const { return entry_; }  // the first instruction, as an offset in the text

 private:
  using X = aarch64::X;
  using V = aarch64::V;
  using Condition = aarch64::Condition;

  // ---- aarch64.cpp
  void begin_text() override;
  void end_text() override;
  void save_registers(bool restore);
  void load(const Instruction& it) override;
  void store(const Instruction& it) override;
  void begin_loop(int position) override;
  void end_loop(int position) override;
  void check(const Instruction& it) override;
  aarch64::Memory access(const Instruction& it);
  /// An address at an offset from a register, by way of x30 if the offset is large.
  aarch64::Memory at(X base, std::int64_t offset, std::size_t bytes);

  void copy_register(int to, int from) override;
  void load_slot(int to, int slot) override;
  void store_slot(int slot, int from) override;
  void load_number(int to, int value) override;
  void load_address(int to, const Lowered::Buffer& buffer) override;
  void load_from(int to, const aarch64::Memory& from, std::size_t bytes);
  void store_to(const aarch64::Memory& to, int from, std::size_t bytes);

  void store_in_frame(int offset, std::size_t bytes, int from) override;
  void load_from_frame(int to, int offset, std::size_t bytes) override;
  void pass_frame_address(int argument, int offset) override;
  void pass_number(int argument, int number) override;
  void call_address(const void* function) override;

  static X general(int id) { return {id}; }
  static V floating(int id) { return {id - first_floating}; }

  // ---- aarch64_floats.cpp
  bool float_operation(const Instruction& it) override;
  void unary(const Instruction& it, bool wide, void (aarch64::Assembler::*write)(V, V, bool));
  void binary(const Instruction& it, bool wide, void (aarch64::Assembler::*write)(V, V, V, bool));
  void compare(const Instruction& it, bool wide);
  void bits_of_masks(const Instruction& it);
  void select_floats(const Instruction& it, bool wide);
  void select_by_mask(V to, V mask, V a, V b);
  void copysign(const Instruction& it, bool wide);
  void sign_bit(const Instruction& it, bool wide);
  /// Returns the register that holds the value: its own, or scratch register 0, 1 or 2.
  V read_float(int value, int scratch);
  /// Returns a register for the result, which may be that of an operand.
  V float_result(const Instruction& it);

  // ---- aarch64_integers.cpp
  bool integer_operation(const Instruction& it) override;
  void conversion(const Instruction& it);
  bool has_conversion(const Instruction& it) const;
  void combine(const Instruction& it);
  void shift(const Instruction& it);
  void compare_integers(const Instruction& it);
  void select_integers(const Instruction& it);
  void absolute(const Instruction& it);
  /// Returns the register that holds the value: its own, or scratch register 0 or 1.
  X read_general(int value, int scratch);
  /// Like read_general, but the allocator may not load the value into another register.
  X fetch(int value);
  /// Like read_general, but the value is extended to 64 bits as its dtype requires.
  X read_extended(int value, int scratch);
  /// Sets the condition `ne` to a bool.
  void test_bool(int value);
  X general_result(const Instruction& it);
  /// Returns the number if the value is one from 0 to 4095, which instructions can hold, else -1.
  int immediate(int value) const;

  aarch64::Assembler code_;
  struct Loop {
    aarch64::Label begin, exit;
  };
  std::vector<Loop> loops_;  // the open loops
  // The exits for failed checks, by the index of the error.
  std::unordered_map<std::int64_t, aarch64::Label> failures_;
  std::size_t entry_ = 0, slot_bytes_at_ = 0;
};

}  // namespace stave_cpu
