// Operations on floats. Most are one instruction.
#ifdef STAVE_NATIVE_AARCH64

#include <stave/backends/cpu/native/aarch64.h>

namespace stave_cpu {

using aarch64::Assembler;
using aarch64::v;

bool Aarch64Encoder::float_operation(const Instruction& it) {
  const bool is_select = it.op == ScalarOp::select;
  const Dtype of = dtype(it.operands[is_select]);
  if (it.result >= 0 && ranges_.mask_bytes(it.result) && of == stave::bool_ && !is_select)
    return bits_of_masks(it), true;
  if (!stave::is_float(of)) return false;
  const bool wide = of == stave::float64;
  switch (it.op) {
    case ScalarOp::add: return binary(it, wide, &Assembler::add), true;
    case ScalarOp::subtract: return binary(it, wide, &Assembler::sub), true;
    case ScalarOp::multiply: return binary(it, wide, &Assembler::mul), true;
    case ScalarOp::divide: return binary(it, wide, &Assembler::div), true;
    case ScalarOp::negative: return unary(it, wide, &Assembler::negate), true;
    case ScalarOp::abs: return unary(it, wide, &Assembler::abs), true;
    case ScalarOp::sqrt: return unary(it, wide, &Assembler::sqrt), true;
    case ScalarOp::rint: return unary(it, wide, &Assembler::rint), true;
    case ScalarOp::floor: return unary(it, wide, &Assembler::floor), true;
    case ScalarOp::ceil: return unary(it, wide, &Assembler::ceil), true;
    case ScalarOp::trunc: return unary(it, wide, &Assembler::trunc), true;
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal: return compare(it, wide), true;
    case ScalarOp::select: return select_floats(it, wide), true;
    case ScalarOp::copysign: return copysign(it, wide), true;
    case ScalarOp::signbit: return sign_bit(it, wide), true;
    case ScalarOp::fma: {
      const V a = read_float(it.operands[0], 0), b = read_float(it.operands[1], 1), c = read_float(it.operands[2], 2);
      code_.fma(float_result(it), a, b, c, wide);
      return true;
    }
    default: return false;
  }
}

Aarch64Encoder::V Aarch64Encoder::read_float(int value, int scratch) {
  const Location place = allocator_.read_anywhere(value);
  if (place.is_register()) return floating(place.id);
  move(in_register(first_floating + 29 + scratch), place);
  return v(29 + scratch);
}

Aarch64Encoder::V Aarch64Encoder::float_result(const Instruction& it) {
  allocator_.release_operands();
  return floating(allocator_.assign(it.result));
}

void Aarch64Encoder::unary(const Instruction& it, bool wide, void (Assembler::*write)(V, V, bool)) {
  const V a = read_float(it.operands[0], 0);
  (code_.*write)(float_result(it), a, wide);
}

void Aarch64Encoder::binary(const Instruction& it, bool wide, void (Assembler::*write)(V, V, V, bool)) {
  const V a = read_float(it.operands[0], 0), b = read_float(it.operands[1], 1);
  (code_.*write)(float_result(it), a, b, wide);
}

// ---- comparisons and choices --------------------------------------------------------------------

// A NaN is unequal to everything. The conditions `mi` and `ls` do not hold after a comparison with
// a NaN, but `lt` and `le` do.
void Aarch64Encoder::compare(const Instruction& it, bool wide) {
  const V a = read_float(it.operands[0], 0), b = read_float(it.operands[1], 1);
  if (!ranges_.mask_bytes(it.result)) {
    code_.compare(a, b, wide);
    const Condition condition = it.op == ScalarOp::equal       ? Condition::eq
                                : it.op == ScalarOp::not_equal ? Condition::ne
                                : it.op == ScalarOp::less      ? Condition::mi
                                                               : Condition::ls;
    return code_.set(general_result(it), condition);
  }
  const V to = float_result(it);
  switch (it.op) {
    case ScalarOp::less: return code_.mask_greater(to, b, a, wide);
    case ScalarOp::less_equal: return code_.mask_greater_equal(to, b, a, wide);
    default: code_.mask_equal(to, a, b, wide);
  }
  if (it.op == ScalarOp::not_equal) code_.bit_not(to, to);
}

void Aarch64Encoder::bits_of_masks(const Instruction& it) {
  const V a = read_float(it.operands[0], 0);
  if (it.op == ScalarOp::bit_not) return code_.bit_not(float_result(it), a);
  const V b = read_float(it.operands[1], 1), to = float_result(it);
  if (it.op == ScalarOp::bit_and) code_.bit_and(to, a, b);
  else if (it.op == ScalarOp::bit_or) code_.bit_or(to, a, b);
  else code_.bit_xor(to, a, b);
}

// to = mask ? a : b, bit by bit. `to` may be one of the operands.
void Aarch64Encoder::select_by_mask(V to, V mask, V a, V b) {
  if (to == b) return code_.insert_if(to, a, mask);
  if (to == a) return code_.insert_unless(to, b, mask);
  if (to != mask) code_.move(to, mask);
  code_.select_bits(to, a, b);
}

void Aarch64Encoder::select_floats(const Instruction& it, bool wide) {
  const int condition = it.operands[0];
  if (ranges_.mask_bytes(condition)) {
    const V mask = read_float(condition, 0), a = read_float(it.operands[1], 1), b = read_float(it.operands[2], 2);
    return select_by_mask(float_result(it), mask, a, b);
  }
  const V a = read_float(it.operands[1], 1), b = read_float(it.operands[2], 2);
  test_bool(condition);
  code_.select(float_result(it), a, b, Condition::ne, wide);
}

// ---- signs --------------------------------------------------------------------------------------

void Aarch64Encoder::copysign(const Instruction& it, bool wide) {
  const V a = read_float(it.operands[0], 0), sign = read_float(it.operands[1], 1), to = float_result(it), mask = v(31);
  code_.clear(mask);
  code_.negate(mask, mask, wide);  // -0, the bit of the sign
  select_by_mask(to, mask, sign, a);
}

void Aarch64Encoder::sign_bit(const Instruction& it, bool wide) {
  const V a = read_float(it.operands[0], 0);
  const X to = general_result(it);
  code_.move(to, a, wide);
  code_.shift_right(to, to, wide ? 63 : 31);
}

}  // namespace stave_cpu

#endif
