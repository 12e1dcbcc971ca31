// The encoder of native code for x86-64. It walks lowered code once, asks the register allocator
// where values are, and writes instructions.
//
// Conventions of the code:
//   r13, r14, r15          the inputs, the outputs, and the buffers of the workspace
//   rax, rcx, rdx, xmm15   scratch registers for one instruction of the lowered code
//   other registers        hold values
//   integers and bools     are in the low part of a register, whose upper part is undefined
//   floats, masks          are in the low part of an xmm register
//   slots                  are in the workspace below r15: slot k is at r15 - 8 (k + 1)
//                          (for lanes, lane_encoder.h, they are larger)
//   stack                  rsp + 24 + 8 k: operand k of a kernel; rsp + 8 k: the operand's address;
//                          rsp + 48: the kernel's result; rsp + 56 and rsp + 120: the operands of a
//                          call on a vector, whose results replace the first ones
//
// The file x86_64.cpp has the frame, moves, memory and loops; x86_64_floats.cpp and
// x86_64_integers.cpp have operations; x86_64_calls.cpp has what calls need.
#pragma once

#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include <xbyak/xbyak.h>

#include <stave/backends/cpu/native/instruction_walk.h>

namespace stave_cpu {

/// The instruction sets that native code uses.
struct Features {
  bool avx, fma;
};

class X86Encoder : protected Xbyak::CodeGenerator, public InstructionWalk {
 public:
  X86Encoder(const LiveRanges& ranges, Features features);
  ~X86Encoder() override = default;

  std::span<const unsigned char> text() const { return {getCode(), getSize()}; }
  std::size_t entry() const { return entry_; }  // the first instruction, as an offset in the text
  std::size_t slot_bytes() const override;

 protected:
  /// An encoder that gives values the registers of a set. It has slots of `slot_size` bytes, the
  /// first `reserved` of which hold no values.
  X86Encoder(const LiveRanges& ranges, Features features, RegisterSet allocatable, int slot_size, int reserved);

  /// An operand of a machine instruction.
  class Operand {
   public:
    template <class T>
    Operand(const T& operand) : of_(operand) {}
    operator const Xbyak::Operand&() const {
      return std::visit([](const auto& it) -> const Xbyak::Operand& { return it; }, of_);
    }

   private:
    std::variant<Xbyak::Reg64, Xbyak::Xmm, Xbyak::Address> of_;
  };
  /// The masks of 16 bytes at the beginning of the table of constants (table_).
  enum class Mask { all_but_sign_64, sign_64, all_but_sign_32, sign_32 };

  // ---- x86_64.cpp
  void begin_text() override;
  void end_text() override;
  virtual void write_constants();
  void write_entry();
  void begin_loop(int position) override;
  void end_loop(int position) override;
  void load(const Instruction& it) override;
  void store(const Instruction& it) override;
  void check(const Instruction& it) override;
  Xbyak::Label& failure(const Instruction& check);
  Xbyak::Address access(const Instruction& it);
  void copy_register(int to, int from) override;
  void load_slot(int to, int id) override;
  void store_slot(int id, int from) override;
  void load_number(int to, int value) override;
  void load_address(int to, const Lowered::Buffer& buffer) override;
  void load_from(int to, Xbyak::Address from, std::size_t bytes);
  void store_to(const Xbyak::Address& to, int from, std::size_t bytes);
  void move_number(const Xbyak::Reg64& to, std::int64_t number);

  static Xbyak::Reg64 general(int id) { return Xbyak::Reg64(id); }
  static Xbyak::Xmm floating(int id) { return Xbyak::Xmm(id - first_floating); }
  Xbyak::Address slot(int id);
  Xbyak::Address constant(int value);
  Xbyak::Address constant(Mask mask);
  const Xbyak::Xmm scratch{15};

  // ---- x86_64_floats.cpp
  bool float_operation(const Instruction& it) override;
  template <class Avx, class Sse>
  void binary(const Instruction& it, bool commutes, Avx avx, Sse sse);
  void arithmetic(const Instruction& it, bool wide);
  void compare(const Instruction& it, bool wide);
  void write_comparison(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Operand& b, int predicate, bool wide);
  void select_floats(const Instruction& it, bool wide);
  void multiply_add(const Instruction& it, bool wide);
  void copysign(const Instruction& it, bool wide);
  void round(const Instruction& it, bool wide, int mode);
  void square_root(const Instruction& it, bool wide);
  void sign_bit(const Instruction& it, bool wide);
  void bits_of_masks(const Instruction& it);
  Xbyak::Xmm read_float(int value) { return floating(allocator_.read(value)); }
  Operand float_operand(int value);
  Xbyak::Xmm float_result(const Instruction& it);
  void copy(const Xbyak::Xmm& to, const Xbyak::Xmm& from);

  // ---- x86_64_integers.cpp
  bool integer_operation(const Instruction& it) override;
  bool conversion(const Instruction& it);
  void combine(const Instruction& it);
  void shift(const Instruction& it);
  void compare_integers(const Instruction& it);
  void select_integers(const Instruction& it);
  void absolute(const Instruction& it);
  Operand general_operand(int value);
  /// Copies the value to a scratch register.
  void fetch(const Xbyak::Reg64& to, int value);
  /// Copies the value to a scratch register, and extends it to 64 bits as its dtype requires.
  void fetch_extended(const Xbyak::Reg64& to, int value);
  void extend(const Xbyak::Reg64& it, Dtype dtype);
  void set_result(const Instruction& it, const Xbyak::Reg64& from);
  bool fits_immediate(int value) const;

  // ---- x86_64_calls.cpp
  /// All floating registers, and rsi, rdi, r8 to r11.
  static constexpr RegisterSet clobbered_by_calls = floating_registers | 0xfc0u;
  void store_in_frame(int offset, std::size_t bytes, int from) override;
  void load_from_frame(int to, int offset, std::size_t bytes) override;
  Xbyak::Reg64 argument(int number) const;
  void pass_frame_address(int to, int offset) override;
  void pass_number(int to, int number) override;
  void call_address(const void* function) override;

  const Features features_;
  const int slot_size_, reserved_slots_;
  Xbyak::Label table_;
  struct Loop {
    Xbyak::Label begin, exit;
  };
  std::vector<std::unique_ptr<Loop>> loops_;  // the open loops
  // The exits for failed checks, by the index of the error.
  std::unordered_map<std::int64_t, std::unique_ptr<Xbyak::Label>> failures_;
  Xbyak::Label leave_;
  std::size_t entry_ = 0, slot_offset_at_ = 0;
};

}  // namespace stave_cpu
