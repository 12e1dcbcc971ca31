// Operations on floats. With AVX, most operations are one instruction. Without AVX, most are a copy
// and an SSE2 instruction, because SSE2 instructions overwrite their first operand.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

namespace stave_cpu {

bool X86Encoder::float_operation(const Instruction& it) {
  const bool is_select = it.op == ScalarOp::select;
  const Dtype of = dtype(it.operands[is_select]);
  if (it.result >= 0 && ranges_.mask_bytes(it.result) && of == stave::bool_ && !is_select)
    return bits_of_masks(it), true;
  if (!stave::is_float(of)) return false;
  const bool wide = of == stave::float64;
  switch (it.op) {
    case ScalarOp::add:
    case ScalarOp::subtract:
    case ScalarOp::multiply:
    case ScalarOp::divide:
    case ScalarOp::negative:
    case ScalarOp::abs: return arithmetic(it, wide), true;
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal: return compare(it, wide), true;
    case ScalarOp::select: return select_floats(it, wide), true;
    case ScalarOp::copysign: return copysign(it, wide), true;
    case ScalarOp::sqrt: return square_root(it, wide), true;
    case ScalarOp::signbit: return sign_bit(it, wide), true;
    case ScalarOp::fma: return features_.fma && (multiply_add(it, wide), true);
    case ScalarOp::rint: return features_.avx && (round(it, wide, 8), true);
    case ScalarOp::floor: return features_.avx && (round(it, wide, 9), true);
    case ScalarOp::ceil: return features_.avx && (round(it, wide, 10), true);
    case ScalarOp::trunc: return features_.avx && (round(it, wide, 11), true);
    default: return false;
  }
}

void X86Encoder::copy(const Xbyak::Xmm& to, const Xbyak::Xmm& from) {
  if (to == from) return;
  features_.avx ? vmovaps(to, from) : movaps(to, from);
}

X86Encoder::Operand X86Encoder::float_operand(int value) {
  const Location place = allocator_.read_anywhere(value);
  if (place.is_register()) return floating(place.id);
  return place.kind == Location::Kind::number ? constant(value) : slot(place.id);
}

Xbyak::Xmm X86Encoder::float_result(const Instruction& it) {
  allocator_.release_operands();
  return floating(allocator_.assign(it.result));
}

// Writes avx(to, a, b) or, without AVX, a copy of a to `to` and sse(to, b).
template <class Avx, class Sse>
void X86Encoder::binary(const Instruction& it, bool commutes, Avx avx, Sse sse) {
  int left = it.operands[0], right = it.operands[1];
  if (commutes && !allocator_.location(left).is_register() && allocator_.location(right).is_register())
    std::swap(left, right);
  const Xbyak::Xmm a = read_float(left);
  const Operand b = float_operand(right);
  const Xbyak::Xmm to = float_result(it);
  const Xbyak::Operand& second = b;
  if (features_.avx) {
    avx(to, a, second);
  } else if (to == a || !second.isXMM() || second.getIdx() != to.getIdx()) {
    copy(to, a);
    sse(to, second);
  } else if (commutes) {
    sse(to, a);
  } else {
    copy(scratch, a);
    sse(scratch, second);
    copy(to, scratch);
  }
}

void X86Encoder::arithmetic(const Instruction& it, bool wide) {
  using Xbyak::Xmm;
  const auto avx = [&](void (CodeGenerator::*of_double)(const Xmm&, const Xbyak::Operand&, const Xbyak::Operand&),
                       void (CodeGenerator::*of_float)(const Xmm&, const Xbyak::Operand&, const Xbyak::Operand&)) {
    return [this, code = wide ? of_double : of_float](const Xmm& to, const Xmm& a, const Xbyak::Operand& b) {
      (this->*code)(to, a, b);
    };
  };
  const auto sse = [&](void (CodeGenerator::*of_double)(const Xmm&, const Xbyak::Operand&),
                       void (CodeGenerator::*of_float)(const Xmm&, const Xbyak::Operand&)) {
    return [this, code = wide ? of_double : of_float](const Xmm& to, const Xbyak::Operand& b) { (this->*code)(to, b); };
  };
  using C = CodeGenerator;
  switch (it.op) {
    case ScalarOp::add: return binary(it, true, avx(&C::vaddsd, &C::vaddss), sse(&C::addsd, &C::addss));
    case ScalarOp::subtract: return binary(it, false, avx(&C::vsubsd, &C::vsubss), sse(&C::subsd, &C::subss));
    case ScalarOp::multiply: return binary(it, true, avx(&C::vmulsd, &C::vmulss), sse(&C::mulsd, &C::mulss));
    case ScalarOp::divide: return binary(it, false, avx(&C::vdivsd, &C::vdivss), sse(&C::divsd, &C::divss));
    default: break;
  }
  const Xmm x = read_float(it.operands[0]), to = float_result(it);
  const bool is_abs = it.op == ScalarOp::abs;
  const Xbyak::Address mask = constant(is_abs ? (wide ? Mask::all_but_sign_64 : Mask::all_but_sign_32)
                                              : (wide ? Mask::sign_64 : Mask::sign_32));
  if (features_.avx) {
    is_abs ? vandps(to, x, mask) : vxorps(to, x, mask);
  } else {
    copy(to, x);
    is_abs ? andps(to, mask) : xorps(to, mask);
  }
}

// ---- comparisons and choices --------------------------------------------------------------------

void X86Encoder::write_comparison(const Xbyak::Xmm& to, const Xbyak::Xmm& a, const Operand& b, int predicate,
                                  bool wide) {
  const auto code = static_cast<std::uint8_t>(predicate);
  const Xbyak::Operand& second = b;
  if (features_.avx) {
    wide ? vcmpsd(to, a, second, code) : vcmpss(to, a, second, code);
    return;
  }
  const bool is_second = to != a && second.isXMM() && second.getIdx() == to.getIdx();
  const Xbyak::Xmm by = is_second ? scratch : to;
  copy(by, a);
  wide ? cmpsd(by, second, code) : cmpss(by, second, code);
  copy(to, by);
}

void X86Encoder::compare(const Instruction& it, bool wide) {
  const int predicate = it.op == ScalarOp::equal        ? 0
                        : it.op == ScalarOp::less       ? 1
                        : it.op == ScalarOp::less_equal ? 2
                                                        : 4;
  const Xbyak::Xmm a = read_float(it.operands[0]);
  const Operand b = float_operand(it.operands[1]);
  if (ranges_.mask_bytes(it.result)) return write_comparison(float_result(it), a, b, predicate, wide);
  write_comparison(scratch, a, b, predicate, wide);
  allocator_.release_operands();
  const Xbyak::Reg32 to = general(allocator_.assign(it.result)).cvt32();
  features_.avx ? vmovd(to, scratch) : movd(to, scratch);
  and_(to, 1);
}

void X86Encoder::bits_of_masks(const Instruction& it) {
  const Xbyak::Xmm a = read_float(it.operands[0]);
  Xbyak::Xmm b = scratch;
  if (it.op == ScalarOp::bit_not) features_.avx ? vpcmpeqd(scratch, scratch, scratch) : pcmpeqd(scratch, scratch);
  else b = read_float(it.operands[1]);
  Xbyak::Xmm to = float_result(it);
  if (features_.avx) {
    if (it.op == ScalarOp::bit_and) vandps(to, a, b);
    else if (it.op == ScalarOp::bit_or) vorps(to, a, b);
    else vxorps(to, a, b);
    return;
  }
  Xbyak::Xmm other = a;
  if (to == a) other = b;
  else copy(to, b);
  if (it.op == ScalarOp::bit_and) andps(to, other);
  else if (it.op == ScalarOp::bit_or) orps(to, other);
  else xorps(to, other);
}

void X86Encoder::select_floats(const Instruction& it, bool wide) {
  const int condition = it.operands[0];
  Xbyak::Xmm mask = scratch;
  const bool is_mask = ranges_.mask_bytes(condition) != 0;
  if (is_mask) mask = read_float(condition);
  const Xbyak::Xmm x = read_float(it.operands[1]), y = read_float(it.operands[2]);
  if (!is_mask) {
    fetch(rax, condition);
    movzx(eax, al);
  }
  const Xbyak::Xmm to = float_result(it);
  if (features_.avx) {
    if (!is_mask) {
      neg(rax);
      vmovq(scratch, rax);
    }
    wide ? vblendvpd(to, y, x, mask) : vblendvps(to, y, x, mask);
  } else if (is_mask) {
    copy(scratch, x);
    xorps(scratch, y);
    andps(scratch, mask);
    xorps(scratch, y);  // y ^ ((x ^ y) & mask)
    copy(to, scratch);
  } else {
    movq(rcx, y);
    movq(rdx, x);
    test(eax, eax);
    cmovnz(rcx, rdx);
    movq(to, rcx);
  }
}

// ---- others -------------------------------------------------------------------------------------

void X86Encoder::multiply_add(const Instruction& it, bool wide) {
  const Xbyak::Xmm a = read_float(it.operands[0]), b = read_float(it.operands[1]);
  const Operand c = float_operand(it.operands[2]);
  const Xbyak::Operand& third = c;
  const Xbyak::Xmm to = float_result(it);
  if (third.isXMM() && third.getIdx() == to.getIdx()) {
    wide ? vfmadd231sd(to, a, b) : vfmadd231ss(to, a, b);  // to = a * b + to
  } else if (to == b) {
    wide ? vfmadd213sd(to, a, third) : vfmadd213ss(to, a, third);  // to = a * to + c
  } else {
    copy(to, a);
    wide ? vfmadd213sd(to, b, third) : vfmadd213ss(to, b, third);
  }
}

void X86Encoder::copysign(const Instruction& it, bool wide) {
  const Xbyak::Xmm x = read_float(it.operands[0]), sign = read_float(it.operands[1]), to = float_result(it);
  const Xbyak::Address sign_mask = constant(wide ? Mask::sign_64 : Mask::sign_32),
                       other_bits = constant(wide ? Mask::all_but_sign_64 : Mask::all_but_sign_32);
  copy(scratch, sign);
  copy(to, x);
  if (features_.avx) {
    vandps(scratch, scratch, sign_mask);
    vandps(to, to, other_bits);
    vorps(to, to, scratch);
  } else {
    andps(scratch, sign_mask);
    andps(to, other_bits);
    orps(to, scratch);
  }
}

void X86Encoder::round(const Instruction& it, bool wide, int mode) {
  const auto code = static_cast<std::uint8_t>(mode);
  const Xbyak::Xmm x = read_float(it.operands[0]), to = float_result(it);
  wide ? vroundsd(to, x, x, code) : vroundss(to, x, x, code);
}

void X86Encoder::square_root(const Instruction& it, bool wide) {
  const Xbyak::Xmm x = read_float(it.operands[0]), to = float_result(it);
  if (features_.avx) wide ? vsqrtsd(to, x, x) : vsqrtss(to, x, x);
  else wide ? sqrtsd(to, x) : sqrtss(to, x);
}

void X86Encoder::sign_bit(const Instruction& it, bool wide) {
  const Xbyak::Xmm x = read_float(it.operands[0]);
  allocator_.release_operands();
  const Xbyak::Reg32 to = general(allocator_.assign(it.result)).cvt32();
  if (features_.avx) wide ? vmovmskpd(to, x) : vmovmskps(to, x);
  else wide ? movmskpd(to, x) : movmskps(to, x);
  and_(to, 1);
}

}  // namespace stave_cpu

#endif
