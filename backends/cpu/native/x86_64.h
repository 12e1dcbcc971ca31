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
// x86_64_integers.cpp have operations; x86_64_calls.cpp calls functions.
#pragma once

#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include <xbyak/xbyak.h>

#include <stave/backends/cpu/native/register_allocator.h>

namespace stave_cpu {

/// The instruction sets that native code uses.
struct Features {
  bool avx, fma;
};

class Encoder : protected Xbyak::CodeGenerator, protected Moves {
 public:
  Encoder(const LiveRanges& ranges, Features features);
  virtual ~Encoder() = default;

  /// Writes the code. Throws std::exception if that is impossible.
  void run();

  std::span<const unsigned char> text() const { return {getCode(), getSize()}; }
  std::size_t entry() const { return entry_; }  // the first instruction, as an offset in the text
  std::size_t slot_bytes() const;

 protected:
  /// An encoder that gives values the registers of a set. It has slots of `slot_size` bytes, the
  /// first `reserved` of which hold no values.
  Encoder(const LiveRanges& ranges, Features features, RegisterSet allocatable, int slot_size, int reserved);

  using Instruction = Lowered::Instruction;
  using ScalarOp = stave_detail::ScalarOp;
  using Dtype = stave::Dtype;

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
  virtual void write_constants();
  void write_entry();
  void write_exits();
  void instruction(int position);
  void begin_loop(int position);
  void end_loop(int position);
  virtual void operation(const Instruction& it);
  virtual void load(const Instruction& it);
  virtual void store(const Instruction& it);
  virtual void check(const Instruction& it);
  Xbyak::Label& failure(const Instruction& check);
  Xbyak::Address access(const Instruction& it);
  void move(Location to, Location from) override;
  Location save(Location from) override;
  void move_number(const Xbyak::Reg64& to, std::int64_t number);

  static Xbyak::Reg64 general(int id) { return Xbyak::Reg64(id); }
  static Xbyak::Xmm floating(int id) { return Xbyak::Xmm(id - first_floating); }
  Xbyak::Address slot(int id);
  Xbyak::Address constant(int value);
  Xbyak::Address constant(Mask mask);
  /// Returns a number of the code, converted to its dtype and extended to 64 bits.
  static std::int64_t number_of(const Instruction& it);
  Dtype dtype(int value) const { return ranges_.code().dtype(value); }
  const Xbyak::Xmm scratch{15};

  // ---- x86_64_floats.cpp
  bool float_operation(const Instruction& it);
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
  bool integer_operation(const Instruction& it);
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
  void call_function(const Instruction& it);
  virtual int vector_call_length(int position) const;
  void call_on_vector(int count);
  void call_kernel(const Instruction& it, void (*kernel)(void*, const void* const*, std::int64_t));
  void call_by_value(const Instruction& it, const void* function);
  void call_address(const void* function);

  const LiveRanges& ranges_;
  const Features features_;
  const int slot_size_, reserved_slots_;
  RegisterAllocator allocator_;
  Xbyak::Label table_;
  std::vector<int> constants_;  // for each float number, its offset in the table
  struct Loop {
    Xbyak::Label begin, exit;
  };
  std::vector<std::unique_ptr<Loop>> loops_;  // the open loops
  // The exits for failed checks, by the index of the error.
  std::unordered_map<std::int64_t, std::unique_ptr<Xbyak::Label>> failures_;
  Xbyak::Label leave_;
  std::size_t entry_ = 0, slot_offset_at_ = 0;
  int position_ = 0;
};

}  // namespace stave_cpu
