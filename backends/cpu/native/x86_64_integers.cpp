// Operations on integers and bools, and conversions. Only the low part of a register is defined, so
// additions, products and bitwise operations use the 64-bit instructions for every dtype.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

#include <stdexcept>

namespace stave_cpu {

bool X86Encoder::integer_operation(const Instruction& it) {
  if (it.op == ScalarOp::convert) return conversion(it);
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
    case ScalarOp::bit_not:
      fetch(rax, it.operands[0]);
      if (it.op == ScalarOp::negative) neg(rax);
      else if (of == stave::bool_) xor_(eax, 1);
      else not_(rax);
      return set_result(it, rax), true;
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::rint:
    case ScalarOp::trunc: fetch(rax, it.operands[0]); return set_result(it, rax), true;
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

bool X86Encoder::fits_immediate(int value) const {
  const Instruction* const it = ranges_.number(value);
  return it && number_of(*it) == static_cast<std::int32_t>(number_of(*it));
}

// The value must not be a number.
X86Encoder::Operand X86Encoder::general_operand(int value) {
  const Location place = allocator_.read_anywhere(value);
  if (place.is_register()) return general(place.id);
  return slot(place.id);
}

void X86Encoder::fetch(const Xbyak::Reg64& to, int value) {
  const Location from = allocator_.location(value);
  switch (from.kind) {
    case Location::Kind::in_register: mov(to, general(from.id)); break;
    case Location::Kind::slot: mov(to, slot(from.id)); break;
    case Location::Kind::number: move_number(to, number_of(*ranges_.number(value))); break;
    default: throw std::logic_error("a value of native code has no place");
  }
}

void X86Encoder::extend(const Xbyak::Reg64& it, Dtype of) {
  const bool is_signed = stave::record_of(of).kind == stave::DtypeRecord::Kind::signed_integer;
  switch (stave::size_of(of)) {
    case 1: is_signed ? movsx(it, it.cvt8()) : movzx(it.cvt32(), it.cvt8()); break;
    case 2: is_signed ? movsx(it, it.cvt16()) : movzx(it.cvt32(), it.cvt16()); break;
    case 4: is_signed ? movsxd(it, it.cvt32()) : mov(it.cvt32(), it.cvt32()); break;
    default: break;
  }
}

void X86Encoder::fetch_extended(const Xbyak::Reg64& to, int value) {
  fetch(to, value);
  if (!ranges_.number(value)) extend(to, dtype(value));
}

void X86Encoder::set_result(const Instruction& it, const Xbyak::Reg64& from) {
  allocator_.release_operands();
  mov(general(allocator_.assign(it.result)), from);
}

// ---- operations ---------------------------------------------------------------------------------

void X86Encoder::combine(const Instruction& it) {
  int left = it.operands[0], right = it.operands[1];
  if (it.op != ScalarOp::subtract && ranges_.number(left)) std::swap(left, right);
  const auto write = [&](const Xbyak::Reg64& to, const auto& second) {
    switch (it.op) {
      case ScalarOp::add: return add(to, second);
      case ScalarOp::subtract: return sub(to, second);
      case ScalarOp::bit_and: return and_(to, second);
      case ScalarOp::bit_or: return or_(to, second);
      case ScalarOp::bit_xor: return xor_(to, second);
      default: break;
    }
  };
  const bool is_product = it.op == ScalarOp::multiply;
  if (fits_immediate(right)) {
    const auto number = static_cast<int>(number_of(*ranges_.number(right)));
    fetch(rax, left);
    if (is_product) imul(rax, rax, number);
    else write(rax, static_cast<std::uint32_t>(number));
    return set_result(it, rax);
  }
  if (ranges_.number(right)) {
    fetch(rax, left);
    fetch(rcx, right);
    if (is_product) imul(rax, rcx);
    else write(rax, rcx);
    return set_result(it, rax);
  }
  const Operand operand = general_operand(right);
  const Xbyak::Operand& second = operand;
  const Location first = allocator_.location(left);
  if (first.is_register()) {
    allocator_.release_operands();
    const Xbyak::Reg64 to = general(allocator_.assign(it.result));
    if (to == general(first.id) || !second.isREG() || second.getIdx() != to.getIdx()) {
      if (to != general(first.id)) mov(to, general(first.id));
      is_product ? imul(to, second) : write(to, second);
    } else {
      mov(rax, general(first.id));
      is_product ? imul(rax, second) : write(rax, second);
      mov(to, rax);
    }
    return;
  }
  fetch(rax, left);
  is_product ? imul(rax, second) : write(rax, second);
  set_result(it, rax);
}

void X86Encoder::shift(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  const int bits = static_cast<int>(8 * stave::size_of(of));
  const bool is_left = it.op == ScalarOp::shift_left;
  const bool copies_sign = !is_left && stave::record_of(of).kind == stave::DtypeRecord::Kind::signed_integer;
  fetch_extended(rax, it.operands[0]);
  if (const Instruction* const number = ranges_.number(it.operands[1])) {
    const bool is_beyond = number_of(*number) < 0 || number_of(*number) >= bits;
    const int places = is_beyond ? bits - 1 : static_cast<int>(number_of(*number));
    if (is_beyond && !copies_sign) xor_(eax, eax);
    else if (is_left) shl(rax, places);
    else if (copies_sign) sar(rax, places);
    else shr(rax, places);
    return set_result(it, rax);
  }
  fetch(rcx, it.operands[1]);
  switch (stave::size_of(of)) {
    case 1: movzx(ecx, cl); break;
    case 2: movzx(ecx, cx); break;
    case 4: mov(ecx, ecx); break;
    default: break;
  }
  if (copies_sign) {
    mov(edx, bits - 1);
    cmp(rcx, rdx);
    cmova(rcx, rdx);
    sar(rax, cl);
  } else {
    xor_(edx, edx);
    is_left ? shl(rax, cl) : shr(rax, cl);
    cmp(rcx, bits);
    cmovae(rax, rdx);
  }
  set_result(it, rax);
}

void X86Encoder::compare_integers(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  fetch_extended(rax, it.operands[0]);
  if (fits_immediate(it.operands[1])) {
    cmp(rax, static_cast<std::uint32_t>(number_of(*ranges_.number(it.operands[1]))));
  } else {
    fetch_extended(rcx, it.operands[1]);
    cmp(rax, rcx);
  }
  const bool is_signed = stave::record_of(of).kind == stave::DtypeRecord::Kind::signed_integer;
  switch (it.op) {
    case ScalarOp::equal: sete(al); break;
    case ScalarOp::not_equal: setne(al); break;
    case ScalarOp::less: is_signed ? setl(al) : setb(al); break;
    default: is_signed ? setle(al) : setbe(al); break;
  }
  allocator_.release_operands();
  movzx(general(allocator_.assign(it.result)).cvt32(), al);
}

void X86Encoder::select_integers(const Instruction& it) {
  fetch(rcx, it.operands[1]);
  fetch(rax, it.operands[2]);
  fetch(rdx, it.operands[0]);
  test(dl, dl);
  cmovnz(rax, rcx);
  set_result(it, rax);
}

void X86Encoder::absolute(const Instruction& it) {
  fetch_extended(rax, it.operands[0]);
  if (stave::record_of(dtype(it.operands[0])).kind == stave::DtypeRecord::Kind::signed_integer) {
    mov(rcx, rax);
    neg(rcx);
    cmovns(rax, rcx);
  }
  set_result(it, rax);
}

// ---- conversions --------------------------------------------------------------------------------

// Returns false for two conversions, which kernels compute: from floats to integers, because values
// out of range saturate, and from uint64 to floats, because it takes several instructions.
bool X86Encoder::conversion(const Instruction& it) {
  const Dtype from = dtype(it.operands[0]), to = it.dtype;
  const bool wide = to == stave::float64;
  if (stave::is_float(from) && stave::is_float(to)) {
    const Xbyak::Xmm x = read_float(it.operands[0]), result = float_result(it);
    if (from == to) copy(result, x);
    else if (features_.avx) wide ? vcvtss2sd(result, x, x) : vcvtsd2ss(result, x, x);
    else wide ? cvtss2sd(result, x) : cvtsd2ss(result, x);
    return true;
  }
  if (stave::is_float(to)) {
    if (from == stave::uint64) return false;
    fetch_extended(rax, it.operands[0]);
    const Xbyak::Xmm result = float_result(it);
    if (features_.avx) {
      vxorps(result, result, result);
      wide ? vcvtsi2sd(result, result, rax) : vcvtsi2ss(result, result, rax);
    } else {
      xorps(result, result);
      wide ? cvtsi2sd(result, rax) : cvtsi2ss(result, rax);
    }
    return true;
  }
  if (stave::is_float(from)) {
    if (to != stave::bool_) return false;
    const Xbyak::Xmm x = read_float(it.operands[0]);
    features_.avx ? vxorps(scratch, scratch, scratch) : xorps(scratch, scratch);
    write_comparison(scratch, scratch, x, 4, from == stave::float64);
    allocator_.release_operands();
    const Xbyak::Reg32 result = general(allocator_.assign(it.result)).cvt32();
    features_.avx ? vmovd(result, scratch) : movd(result, scratch);
    and_(result, 1);
    return true;
  }
  fetch_extended(rax, it.operands[0]);
  if (to == stave::bool_) {
    test(rax, rax);
    setnz(al);
    movzx(eax, al);
  }
  set_result(it, rax);
  return true;
}

}  // namespace stave_cpu

#endif
