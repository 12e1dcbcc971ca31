// An assembler for the instructions of aarch64 that native code uses. The encodings are those of
// the Arm Architecture Reference Manual for A-profile architecture (ARM DDI 0487), chapters C6
// (base instructions) and C7 (Advanced SIMD and floating-point instructions). A test compares them
// with those of the GNU assembler.
//
//   Assembler code;
//   Label loop;
//   code.bind(loop);
//   code.add(x(0), x(0), x(1));       // add x0, x0, x1
//   code.compare(x(0), 100);          // cmp x0, #100
//   code.branch(Condition::lt, loop);
//   code.ret();
//
// The functions have the names of the instructions where these are words, else descriptive ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stave_cpu::aarch64 {

/// A general register: x0 to x30. The number 31 is the zero register or the stack pointer, as the
/// instruction says.
struct X {
  int id;
  bool operator==(const X&) const = default;
};
/// A register of floats and vectors: v0 to v31.
struct V {
  int id;
  bool operator==(const V&) const = default;
};
constexpr X x(int id) { return {id}; }
constexpr V v(int id) { return {id}; }
inline constexpr X zero{31}, sp{31};

enum class Condition : std::uint8_t { eq, ne, hs, lo, mi, pl, vs, vc, hi, ls, ge, lt, gt, le };
constexpr Condition inverse(Condition it) { return static_cast<Condition>(static_cast<int>(it) ^ 1); }

/// The place of an operand in memory: base + offset, or, if there is an index,
/// base + index * size of the operand.
struct Memory {
  X base;
  std::int64_t offset = 0;
  int index = -1;
};

/// A place in the code to which branches go.
struct Label {
  std::int64_t place = -1;
  std::vector<std::size_t> branches{};  // those written before the place was known
};

class Assembler {
 public:
  /// What has been written, and its size in bytes.
  std::span<const unsigned char> text() const {
    return {reinterpret_cast<const unsigned char*>(words_.data()), words_.size() * 4};
  }
  std::size_t size() const { return words_.size() * 4; }
  void data(std::uint64_t bytes);  // 8 bytes
  void data_word(std::uint32_t bytes) { word(bytes); }

  // ---- 64-bit integers
  void move(X to, X from);
  /// One to four instructions, as few as movz, movn and movk allow.
  void move(X to, std::int64_t number);
  void add(X to, X a, X b) { three(0x8b000000, to, a, b); }
  /// a + (b << places)
  void add_shifted(X to, X a, X b, int places) {
    three(0x8b000000 | static_cast<std::uint32_t>(places) << 10, to, a, b);
  }
  void sub(X to, X a, X b) { three(0xcb000000, to, a, b); }
  /// Registers may be the stack pointer. The number is 0 to 4095.
  void add(X to, X a, int number) { with_immediate(0x91000000, to, a, number); }
  void sub(X to, X a, int number) { with_immediate(0xd1000000, to, a, number); }
  void mul(X to, X a, X b) { three(0x9b007c00, to, a, b); }
  void bit_and(X to, X a, X b) { three(0x8a000000, to, a, b); }
  void bit_or(X to, X a, X b) { three(0xaa000000, to, a, b); }
  void bit_xor(X to, X a, X b) { three(0xca000000, to, a, b); }
  void bit_not(X to, X a) { three(0xaa200000, to, zero, a); }
  void negate(X to, X a) { sub(to, zero, a); }
  void shift_left(X to, X a, X places) { three(0x9ac02000, to, a, places); }  // places modulo 64
  void shift_right(X to, X a, X places) { three(0x9ac02400, to, a, places); }
  void shift_right_signed(X to, X a, X places) { three(0x9ac02800, to, a, places); }
  void shift_left(X to, X a, int places) { bit_field(0xd3400000, to, a, (64 - places) % 64, 63 - places); }
  void shift_right(X to, X a, int places) { bit_field(0xd3400000, to, a, places, 63); }
  void shift_right_signed(X to, X a, int places) { bit_field(0x93400000, to, a, places, 63); }
  /// Extends the low part of a register, of 1, 2 or 4 bytes, to 64 bits.
  void extend(X to, X a, std::size_t bytes, bool is_signed);
  /// Inverts the lowest bit, as eor w, w, 1 does, which sets the upper half to zero.
  void invert_bool(X to, X a) { two(0x52000000, to, a); }
  /// Sets the condition `ne` if the lowest byte is not zero.
  void test_byte(X a) { two(0x72001c00, zero, a); }
  void compare(X a, X b, bool wide = true) { three(wide ? 0xeb000000 : 0x6b000000, zero, a, b); }
  /// The number is 0 to 4095.
  void compare(X a, int number, bool wide = true) { with_immediate(wide ? 0xf1000000 : 0x71000000, zero, a, number); }
  void select(X to, X a, X b, Condition it) { three(0x9a800000 | bits_of(it), to, a, b); }
  /// Sets `to` to 1 if the condition holds, else to 0.
  void set(X to, Condition it) { three(0x9a800400 | bits_of(inverse(it)), to, zero, zero); }
  /// Sets `to` to -a if the condition holds, else to a.
  void negate_if(X to, X a, Condition it) { three(0xda800400 | bits_of(inverse(it)), to, a, a); }

  // ---- memory. Loads of less than 8 bytes set the rest of the register to zero.
  /// Returns true if the operand of so many bytes can be accessed at this offset.
  static bool can_access(std::int64_t offset, std::size_t bytes);
  void load(X to, const Memory& from, std::size_t bytes) { access(0x00400000, to.id, from, bytes); }
  void store(X from, const Memory& to, std::size_t bytes) { access(0, from.id, to, bytes); }
  void load(V to, const Memory& from, std::size_t bytes) { access(0x04400000, to.id, from, bytes); }
  void store(V from, const Memory& to, std::size_t bytes) { access(0x04000000, from.id, to, bytes); }
  /// Two registers of 8 bytes at base + offset, which is a multiple of 8 from -512 to 504.
  void load_pair(X a, X b, X base, int offset) { pair(0xa9400000, a.id, b.id, base, offset); }
  void store_pair(X a, X b, X base, int offset) { pair(0xa9000000, a.id, b.id, base, offset); }
  void load_pair(V a, V b, X base, int offset) { pair(0x6d400000, a.id, b.id, base, offset); }
  void store_pair(V a, V b, X base, int offset) { pair(0x6d000000, a.id, b.id, base, offset); }
  /// Writes the address of this instruction to the register.
  void here(X to) { word(0x10000000 | static_cast<std::uint32_t>(to.id)); }

  // ---- branches. A branch to a place that is too far away throws std::length_error.
  void bind(Label& label);
  void branch(Label& label);                // up to 128 MiB
  void branch(Condition it, Label& label);  // any distance, in two instructions if it may be far
  void call(X address) { word(0xd63f0000 | static_cast<std::uint32_t>(address.id) << 5); }
  void ret() { word(0xd65f03c0); }
  /// Marks a target of indirect calls (bti c), which older processors ignore.
  void mark_entry() { word(0xd503245f); }
  /// Replaces a number that was written by move_wide.
  void move_wide(X to, std::uint32_t number);
  void rewrite_wide(std::size_t at, X to, std::uint32_t number);

  // ---- floats: float64 if `wide`, else float32
  void add(V to, V a, V b, bool wide) { floats(0x1e202800, to, a, b, wide); }
  void sub(V to, V a, V b, bool wide) { floats(0x1e203800, to, a, b, wide); }
  void mul(V to, V a, V b, bool wide) { floats(0x1e200800, to, a, b, wide); }
  void div(V to, V a, V b, bool wide) { floats(0x1e201800, to, a, b, wide); }
  /// a * b + c, rounded once
  void fma(V to, V a, V b, V c, bool wide) {
    floats(0x1f000000 | static_cast<std::uint32_t>(c.id) << 10, to, a, b, wide);
  }
  void negate(V to, V a, bool wide) { floats(0x1e214000, to, a, wide); }
  void abs(V to, V a, bool wide) { floats(0x1e20c000, to, a, wide); }
  void sqrt(V to, V a, bool wide) { floats(0x1e21c000, to, a, wide); }
  void floor(V to, V a, bool wide) { floats(0x1e254000, to, a, wide); }
  void ceil(V to, V a, bool wide) { floats(0x1e24c000, to, a, wide); }
  void trunc(V to, V a, bool wide) { floats(0x1e25c000, to, a, wide); }
  void rint(V to, V a, bool wide) { floats(0x1e244000, to, a, wide); }  // ties to even
  void compare(V a, V b, bool wide) { floats(0x1e202000, v(0), a, b, wide); }
  void select(V to, V a, V b, Condition it, bool wide) { floats(0x1e200c00 | bits_of(it), to, a, b, wide); }
  void widen(V to, V a) { floats(0x1e22c000, to, a, false); }  // float32 to float64
  void narrow(V to, V a) { floats(0x1e624000, to, a, false); }
  /// From a 64-bit integer.
  void from_integer(V to, X a, bool is_signed, bool wide);
  /// To an integer of 4 or 8 bytes, which truncates and saturates; NaN becomes 0.
  void to_integer(X to, V a, std::size_t bytes, bool is_signed, bool wide);

  // ---- bits of float registers: the low 64 ones, or 32 if not `wide`; the rest becomes zero
  void move(V to, V from) { floats(0x1e204000, to, from, true); }
  void move(X to, V from, bool wide) { between(0x1e260000, to.id, from.id, wide); }
  void move(V to, X from, bool wide) { between(0x1e270000, to.id, from.id, wide); }
  void clear(V to) { word(0x2f00e400 | static_cast<std::uint32_t>(to.id)); }
  /// Returns true if an instruction can hold the number: n / 16 * 2^e for n from 16 to 31, and e
  /// from -3 to 4, of either sign.
  static bool can_hold(double number);
  void move(V to, double number, bool wide);  // a number that it can hold
  void bit_and(V to, V a, V b) { vectors(0x0e201c00, to, a, b); }
  void bit_or(V to, V a, V b) { vectors(0x0ea01c00, to, a, b); }
  void bit_xor(V to, V a, V b) { vectors(0x2e201c00, to, a, b); }
  void bit_not(V to, V a) { vectors(0x2e205800, to, a, v(0)); }
  /// it = it ? a : b, bit by bit
  void select_bits(V it, V a, V b) { vectors(0x2e601c00, it, a, b); }
  /// it = mask ? a : it, and it = mask ? it : a
  void insert_if(V it, V a, V mask) { vectors(0x2ea01c00, it, a, mask); }
  void insert_unless(V it, V a, V mask) { vectors(0x2ee01c00, it, a, mask); }
  // Masks: all bits of a float are set if the comparison holds. It does not hold for NaN.
  void mask_equal(V to, V a, V b, bool wide) { floats(0x5e20e400, to, a, b, wide); }
  void mask_greater(V to, V a, V b, bool wide) { floats(0x7ea0e400, to, a, b, wide); }
  void mask_greater_equal(V to, V a, V b, bool wide) { floats(0x7e20e400, to, a, b, wide); }

 private:
  void word(std::uint32_t word) { words_.push_back(word); }
  static std::uint32_t bits_of(Condition it) { return static_cast<std::uint32_t>(it) << 12; }
  void registers(std::uint32_t code, int to, int a, int b);
  void two(std::uint32_t code, X to, X a) { registers(code, to.id, a.id, 0); }
  void three(std::uint32_t code, X to, X a, X b) { registers(code, to.id, a.id, b.id); }
  void with_immediate(std::uint32_t code, X to, X a, int number);
  void bit_field(std::uint32_t code, X to, X a, int rotation, int last);
  void access(std::uint32_t code, int id, const Memory& at, std::size_t bytes);
  void pair(std::uint32_t code, int a, int b, X base, int offset);
  void floats(std::uint32_t code, V to, V a, bool wide) { registers(code | (wide ? 1u << 22 : 0), to.id, a.id, 0); }
  void floats(std::uint32_t code, V to, V a, V b, bool wide) {
    registers(code | (wide ? 1u << 22 : 0), to.id, a.id, b.id);
  }
  void between(std::uint32_t code, int to, int from, bool wide) {
    registers(code | (wide ? 1u << 31 | 1u << 22 : 0), to, from, 0);
  }
  void vectors(std::uint32_t code, V to, V a, V b) { registers(code, to.id, a.id, b.id); }
  void write_distance(std::size_t at, std::int64_t place);

  std::vector<std::uint32_t> words_;
};

}  // namespace stave_cpu::aarch64
