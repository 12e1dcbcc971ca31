#include <stave/backends/cpu/native/aarch64_assembler.h>

#include <cmath>
#include <stdexcept>

namespace stave_cpu::aarch64 {

namespace {

std::uint32_t bits_at(std::int64_t number, int place) { return static_cast<std::uint32_t>(number) << place; }

// The reach of a conditional branch, in instructions.
constexpr std::int64_t near = std::int64_t{1} << 18, far = std::int64_t{1} << 25;

}  // namespace

void Assembler::registers(std::uint32_t code, int to, int a, int b) {
  word(code | bits_at(to, 0) | bits_at(a, 5) | bits_at(b, 16));
}

void Assembler::data(std::uint64_t bytes) {
  word(static_cast<std::uint32_t>(bytes));
  word(static_cast<std::uint32_t>(bytes >> 32));
}

// ---- integers -----------------------------------------------------------------------------------

void Assembler::move(X to, X from) { three(0xaa000000, to, zero, from); }

void Assembler::move(X to, std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  const auto part = [&](int k) { return static_cast<std::uint32_t>(bits >> (16 * k) & 0xffff); };
  int zeros = 0, ones = 0;
  for (int k = 0; k < 4; ++k) {
    zeros += part(k) == 0;
    ones += part(k) == 0xffff;
  }
  // movz sets the other parts to zeros, and movn, whose operand is inverted, to ones.
  const bool is_inverted = ones > zeros;
  const std::uint32_t rest = is_inverted ? 0xffff : 0;
  bool is_first = true;
  for (int k = 0; k < 4; ++k) {
    if (part(k) == rest && !(k == 3 && is_first)) continue;
    const std::uint32_t code = !is_first ? 0xf2800000 : is_inverted ? 0x92800000 : 0xd2800000;
    const std::uint32_t held = is_first && is_inverted ? ~part(k) & 0xffff : part(k);
    word(code | bits_at(k, 21) | held << 5 | bits_at(to.id, 0));
    is_first = false;
  }
}

void Assembler::move_wide(X to, std::uint32_t number) {
  word(0xd2800000 | (number & 0xffff) << 5 | bits_at(to.id, 0));
  word(0xf2a00000 | number >> 16 << 5 | bits_at(to.id, 0));
}

void Assembler::rewrite_wide(std::size_t at, X to, std::uint32_t number) {
  Assembler again;
  again.move_wide(to, number);
  words_[at / 4] = again.words_[0];
  words_[at / 4 + 1] = again.words_[1];
}

void Assembler::with_immediate(std::uint32_t code, X to, X a, int number) {
  if (number < 0 || number > 4095) throw std::logic_error("aarch64: a number does not fit into an instruction");
  word(code | bits_at(to.id, 0) | bits_at(a.id, 5) | bits_at(number, 10));
}

void Assembler::bit_field(std::uint32_t code, X to, X a, int rotation, int last) {
  word(code | bits_at(to.id, 0) | bits_at(a.id, 5) | bits_at(rotation, 16) | bits_at(last, 10));
}

void Assembler::extend(X to, X a, std::size_t bytes, bool is_signed) {
  bit_field(is_signed ? 0x93400000 : 0xd3400000, to, a, 0, static_cast<int>(8 * bytes) - 1);
}

// ---- memory -------------------------------------------------------------------------------------

bool Assembler::can_access(std::int64_t offset, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  return (offset >= -256 && offset <= 255) || (offset >= 0 && offset % size == 0 && offset / size <= 4095);
}

void Assembler::access(std::uint32_t code, int id, const Memory& at, std::size_t bytes) {
  const int log = bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
  code |= 0x38000000 | bits_at(log, 30) | bits_at(id, 0) | bits_at(at.base.id, 5);
  const auto size = static_cast<std::int64_t>(bytes);
  if (at.index >= 0) {
    // The index is a 64-bit register, shifted by the logarithm of the size. For bytes there is no
    // shift.
    word(code | 0x00206800 | bits_at(at.index, 16) | (log > 0 ? 1u << 12 : 0));
  } else if (at.offset >= 0 && at.offset % size == 0 && at.offset / size <= 4095) {
    word(code | 0x01000000 | bits_at(at.offset / size, 10));
  } else if (at.offset >= -256 && at.offset <= 255) {
    word(code | (bits_at(at.offset, 0) & 0x1ff) << 12);
  } else {
    throw std::logic_error("aarch64: an offset does not fit into an instruction");
  }
}

void Assembler::pair(std::uint32_t code, int a, int b, X base, int offset) {
  if (offset % 8 != 0 || offset < -512 || offset > 504)
    throw std::logic_error("aarch64: an offset does not fit into an instruction");
  word(code | bits_at(a, 0) | bits_at(base.id, 5) | bits_at(b, 10) | (bits_at(offset / 8, 0) & 0x7f) << 15);
}

// ---- branches -----------------------------------------------------------------------------------

// Completes the branch at a word, which is an unconditional one, or a conditional one that is near.
void Assembler::write_distance(std::size_t at, std::int64_t place) {
  const std::int64_t distance = place - static_cast<std::int64_t>(at);
  std::uint32_t& it = words_[at];
  const bool is_conditional = it >> 24 == 0x54;
  const std::int64_t reach = is_conditional ? near : far;
  if (distance < -reach || distance >= reach) throw std::length_error("native code is too long for a branch");
  if (is_conditional) it |= (bits_at(distance, 0) & 0x7ffff) << 5;
  else it |= bits_at(distance, 0) & 0x3ffffff;
}

void Assembler::bind(Label& label) {
  label.place = static_cast<std::int64_t>(words_.size());
  for (const std::size_t at : label.branches) write_distance(at, label.place);
  label.branches.clear();
}

void Assembler::branch(Label& label) {
  const std::size_t at = words_.size();
  word(0x14000000);
  if (label.place >= 0) write_distance(at, label.place);
  else label.branches.push_back(at);
}

void Assembler::branch(Condition it, Label& label) {
  const std::size_t at = words_.size();
  if (label.place >= 0 && static_cast<std::int64_t>(at) - label.place < near) {
    word(0x54000000 | static_cast<std::uint32_t>(it));
    return write_distance(at, label.place);
  }
  word(0x54000040 | static_cast<std::uint32_t>(inverse(it)));  // skips the next instruction
  branch(label);
}

// ---- floats -------------------------------------------------------------------------------------

void Assembler::from_integer(V to, X a, bool is_signed, bool wide) {
  registers((is_signed ? 0x9e220000 : 0x9e230000) | (wide ? 1u << 22 : 0), to.id, a.id, 0);
}

void Assembler::to_integer(X to, V a, std::size_t bytes, bool is_signed, bool wide) {
  const std::uint32_t size = bytes == 8 ? 1u << 31 : 0;
  registers((is_signed ? 0x1e380000 : 0x1e390000) | size | (wide ? 1u << 22 : 0), to.id, a.id, 0);
}

bool Assembler::can_hold(double number) {
  int exponent = 0;
  const double scaled = std::frexp(number, &exponent) * 32;  // 16 <= |scaled| < 32
  return number != 0 && std::isfinite(number) && scaled == std::trunc(scaled) && exponent >= -2 && exponent <= 5;
}

// The eight bits are the sign, the exponent modulo 8 with its first bit inverted, and n - 16.
void Assembler::move(V to, double number, bool wide) {
  if (!can_hold(number)) throw std::logic_error("aarch64: a number does not fit into an instruction");
  int exponent = 0;
  const int n = static_cast<int>(std::fabs(std::frexp(number, &exponent)) * 32);
  const int e = exponent - 1;  // -3 to 4
  const std::uint32_t bits =
      (number < 0 ? 0x80u : 0u) | static_cast<std::uint32_t>((e - 1) & 7) << 4 | static_cast<std::uint32_t>(n - 16);
  word(0x1e201000 | (wide ? 1u << 22 : 0) | bits << 13 | bits_at(to.id, 0));
}

}  // namespace stave_cpu::aarch64
