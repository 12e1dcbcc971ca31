// Operations on integers and bools, and conversions. Only the low part of a register is defined, so
// additions, products and bitwise operations use the 64-bit instructions for every dtype.
#ifdef STAVE_NATIVE_AARCH64

#include <stave/backends/cpu/native/aarch64.h>

namespace stave_cpu {

using aarch64::x;

bool Aarch64Encoder::integer_operation(const Instruction& it) {
  if (it.op == ScalarOp::convert) return has_conversion(it) && (conversion(it), true);
  const Dtype of = dtype(it.operands[it.op == ScalarOp::select]);
  if (stave::is_float(of)) return false;
  switch (it.op) {
    case ScalarOp::add:
    case ScalarOp::subtract:
    case ScalarOp::multiply:
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor: return combine(it), true;
    case ScalarOp::negative:
    case ScalarOp::bit_not: {
      const X a = read_general(it.operands[0], 0), to = general_result(it);
      if (it.op == ScalarOp::negative) code_.negate(to, a);
      else if (of == stave::bool_) code_.invert_bool(to, a);
      else code_.bit_not(to, a);
      return true;
    }
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::rint:
    case ScalarOp::trunc: {
      const X a = read_general(it.operands[0], 0);
      code_.move(general_result(it), a);
      return true;
    }
    case ScalarOp::abs: return absolute(it), true;
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal: return compare_integers(it), true;
    case ScalarOp::select: return select_integers(it), true;
    case ScalarOp::shift_left:
    case ScalarOp::shift_right: return shift(it), true;
    default: return false;
  }
}

// ---- operands -----------------------------------------------------------------------------------

Aarch64Encoder::X Aarch64Encoder::read_general(int value, int scratch) {
  const Location place = allocator_.read_anywhere(value);
  if (place.is_register()) return general(place.id);
  move(in_register(16 - scratch), place);
  return x(16 - scratch);
}

Aarch64Encoder::X Aarch64Encoder::fetch(int value) {
  const Location place = allocator_.location(value);
  if (place.is_register()) return general(place.id);
  move(in_register(16), place);
  return x(16);
}

Aarch64Encoder::X Aarch64Encoder::read_extended(int value, int scratch) {
  const X it = read_general(value, scratch), to = x(16 - scratch);
  const std::size_t size = stave::size_of(dtype(value));
  if (size == 8 || ranges_.number(value)) return it;
  code_.extend(to, it, size, stave::is_signed(dtype(value)));
  return to;
}

void Aarch64Encoder::test_bool(int value) { code_.test_byte(read_general(value, 0)); }

Aarch64Encoder::X Aarch64Encoder::general_result(const Instruction& it) {
  allocator_.release_operands();
  return general(allocator_.assign(it.result));
}

int Aarch64Encoder::immediate(int value) const {
  const Instruction* const it = ranges_.number(value);
  return it && number_of(*it) >= 0 && number_of(*it) <= 4095 ? static_cast<int>(number_of(*it)) : -1;
}

// ---- operations ---------------------------------------------------------------------------------

void Aarch64Encoder::combine(const Instruction& it) {
  int left = it.operands[0], right = it.operands[1];
  if (it.op != ScalarOp::subtract && ranges_.number(left)) std::swap(left, right);
  const X a = read_general(left, 0);
  if (const int number = immediate(right); number >= 0 && (it.op == ScalarOp::add || it.op == ScalarOp::subtract)) {
    const X to = general_result(it);
    return it.op == ScalarOp::add ? code_.add(to, a, number) : code_.sub(to, a, number);
  }
  const X b = read_general(right, 1), to = general_result(it);
  switch (it.op) {
    case ScalarOp::add: return code_.add(to, a, b);
    case ScalarOp::subtract: return code_.sub(to, a, b);
    case ScalarOp::multiply: return code_.mul(to, a, b);
    case ScalarOp::bit_and: return code_.bit_and(to, a, b);
    case ScalarOp::bit_or: return code_.bit_or(to, a, b);
    default: return code_.bit_xor(to, a, b);
  }
}

// The instructions shift by the number of places modulo 64.
void Aarch64Encoder::shift(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  const int bits = static_cast<int>(8 * stave::size_of(of));
  const bool is_left = it.op == ScalarOp::shift_left, copies_sign = !is_left && stave::is_signed(of);
  const X a = is_left ? read_general(it.operands[0], 0) : read_extended(it.operands[0], 0);
  if (const Instruction* const number = ranges_.number(it.operands[1])) {
    const bool is_beyond = number_of(*number) < 0 || number_of(*number) >= bits;
    const int places = is_beyond ? bits - 1 : static_cast<int>(number_of(*number));
    const X to = general_result(it);
    if (is_beyond && !copies_sign) code_.move(to, 0);
    else if (is_left) code_.shift_left(to, a, places);
    else if (copies_sign) code_.shift_right_signed(to, a, places);
    else code_.shift_right(to, a, places);
    return;
  }
  X places = read_general(it.operands[1], 1);
  if (bits < 64) {
    code_.extend(x(15), places, stave::size_of(of), false);
    places = x(15);
  }
  const X to = general_result(it);
  if (copies_sign) {
    code_.move(x(17), bits - 1);
    code_.compare(places, x(17));
    code_.select(x(15), places, x(17), Condition::ls);
    return code_.shift_right_signed(to, a, x(15));
  }
  code_.compare(places, bits);
  if (is_left) code_.shift_left(to, a, places);
  else code_.shift_right(to, a, places);
  code_.select(to, to, aarch64::zero, Condition::lo);
}

void Aarch64Encoder::compare_integers(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  const std::size_t size = stave::size_of(of);
  const auto read = [&](int k) {
    return size >= 4 ? read_general(it.operands[k], k) : read_extended(it.operands[k], k);
  };
  const X a = read(0);
  if (const int number = immediate(it.operands[1]); number >= 0) code_.compare(a, number, size == 8);
  else code_.compare(a, read(1), size == 8);
  const bool is_signed = stave::is_signed(of);
  const Condition condition = it.op == ScalarOp::equal       ? Condition::eq
                              : it.op == ScalarOp::not_equal ? Condition::ne
                              : it.op == ScalarOp::less      ? (is_signed ? Condition::lt : Condition::lo)
                                                             : (is_signed ? Condition::le : Condition::ls);
  code_.set(general_result(it), condition);
}

void Aarch64Encoder::select_integers(const Instruction& it) {
  test_bool(it.operands[0]);
  const X a = read_general(it.operands[1], 0), b = read_general(it.operands[2], 1);
  code_.select(general_result(it), a, b, Condition::ne);
}

void Aarch64Encoder::absolute(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  const X a = read_extended(it.operands[0], 0), to = general_result(it);
  if (!stave::is_signed(of)) return code_.move(to, a);
  code_.compare(a, 0);
  code_.negate_if(to, a, Condition::lt);
}

// ---- conversions --------------------------------------------------------------------------------

// Kernels convert from floats to integers of 8 and 16 bits, because the instructions saturate at
// the limits of 32 and 64 bits.
bool Aarch64Encoder::has_conversion(const Instruction& it) const {
  return !stave::is_float(dtype(it.operands[0])) || stave::is_float(it.dtype) || it.dtype == stave::bool_ ||
         stave::size_of(it.dtype) >= 4;
}

void Aarch64Encoder::conversion(const Instruction& it) {
  const Dtype from = dtype(it.operands[0]), to = it.dtype;
  if (stave::is_float(from)) {
    const bool wide = from == stave::float64;
    const V a = read_float(it.operands[0], 0);
    if (stave::is_float(to)) {
      const V result = float_result(it);
      if (from == to) code_.move(result, a);
      else wide ? code_.narrow(result, a) : code_.widen(result, a);
    } else if (to == stave::bool_) {
      const V zero = aarch64::v(31);
      code_.clear(zero);
      code_.compare(a, zero, wide);
      code_.set(general_result(it), Condition::ne);
    } else {
      code_.to_integer(general_result(it), a, stave::size_of(to), stave::is_signed(to), wide);
    }
    return;
  }
  const X a = read_extended(it.operands[0], 0);
  if (stave::is_float(to)) {
    code_.from_integer(float_result(it), a, from != stave::uint64, to == stave::float64);
  } else if (to == stave::bool_) {
    code_.compare(a, 0);
    code_.set(general_result(it), Condition::ne);
  } else {
    code_.move(general_result(it), a);
  }
}

}  // namespace stave_cpu

#endif
