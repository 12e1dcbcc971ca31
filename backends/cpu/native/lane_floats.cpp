// Vectors of floats, comparisons, choices and bools of native code for lanes. With AVX-512,
// comparisons give k1, from which a mask is made; with AVX2 they give masks.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

#include <stdexcept>
#include <string>

namespace stave_cpu {

bool LaneEncoder::vector_floats(const Instruction& it) {
  if (it.op == ScalarOp::select) return select_vectors(it), true;
  const Dtype of = dtype(it.operands[0]);
  if (of == stave::bool_) return bools(it), true;
  if (!stave::is_float(of)) return false;
  const bool wide = of == stave::float64;
  using V = Vector;
  using O = Xbyak::Operand;
  switch (it.op) {
    case ScalarOp::add:
      two(it, [&](const V& to, const V& a, const O& b) { wide ? vaddpd(to, a, b) : vaddps(to, a, b); });
      return true;
    case ScalarOp::subtract:
      two(it, [&](const V& to, const V& a, const O& b) { wide ? vsubpd(to, a, b) : vsubps(to, a, b); });
      return true;
    case ScalarOp::multiply:
      two(it, [&](const V& to, const V& a, const O& b) { wide ? vmulpd(to, a, b) : vmulps(to, a, b); });
      return true;
    case ScalarOp::divide:
      two(it, [&](const V& to, const V& a, const O& b) { wide ? vdivpd(to, a, b) : vdivps(to, a, b); });
      return true;
    case ScalarOp::negative:
      one(it, [&](const V& to, const V& x) { vxorps(to, x, fixed(wide ? Fixed::sign_64 : Fixed::sign_32)); });
      return true;
    case ScalarOp::abs:
      one(it, [&](const V& to, const V& x) {
        vandps(to, x, fixed(wide ? Fixed::other_bits_64 : Fixed::other_bits_32));
      });
      return true;
    case ScalarOp::sqrt:
      one(it, [&](const V& to, const V& x) { wide ? vsqrtpd(to, x) : vsqrtps(to, x); });
      return true;
    case ScalarOp::rint: return round_vector(it, wide, 8), true;
    case ScalarOp::floor: return round_vector(it, wide, 9), true;
    case ScalarOp::ceil: return round_vector(it, wide, 10), true;
    case ScalarOp::trunc: return round_vector(it, wide, 11), true;
    case ScalarOp::fma: return multiply_add_vector(it, wide), true;
    case ScalarOp::copysign: return copysign_vector(it, wide), true;
    case ScalarOp::signbit: return sign_bit_vector(it, wide), true;
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal: return compare_vectors(it, wide), true;
    default: return false;
  }
}

void LaneEncoder::round_vector(const Instruction& it, bool wide, int mode) {
  const auto code = static_cast<std::uint8_t>(mode);
  one(it, [&](const Vector& to, const Vector& x) {
    if (to.isZMM()) wide ? vrndscalepd(to, x, code) : vrndscaleps(to, x, code);
    else wide ? vroundpd(to, x, code) : vroundps(to, x, code);
  });
}

void LaneEncoder::multiply_add_vector(const Instruction& it, bool wide) {
  const Vector a = read_vector(it.operands[0], 0), b = read_vector(it.operands[1], 1);
  const Operand c = vector_operand(it.operands[2], 2);
  const Xbyak::Operand& third = c;
  const Vector to = vector_result(it);
  if (!third.isMEM() && third.getIdx() == to.getIdx()) {
    wide ? vfmadd231pd(to, a, b) : vfmadd231ps(to, a, b);  // to = a * b + to
  } else if (to.getIdx() == b.getIdx()) {
    wide ? vfmadd213pd(to, a, third) : vfmadd213ps(to, a, third);  // to = a * to + c
  } else {
    copy_vector(to, a);
    wide ? vfmadd213pd(to, b, third) : vfmadd213ps(to, b, third);
  }
}

void LaneEncoder::copysign_vector(const Instruction& it, bool wide) {
  const Vector x = read_vector(it.operands[0], 0), sign = read_vector(it.operands[1], 1);
  const Vector bits = scratch_vector(2, width_of(it.result)), to = vector_result(it);
  vandps(bits, sign, fixed(wide ? Fixed::sign_64 : Fixed::sign_32));
  vandps(to, x, fixed(wide ? Fixed::other_bits_64 : Fixed::other_bits_32));
  vorps(to, to, bits);
}

// ---- masks --------------------------------------------------------------------------------------

void LaneEncoder::mask_from_k(const Vector& to) {
  values_.element_bytes == 8 ? vpmovm2q(to, k1) : vpmovm2d(to, k1);
}

void LaneEncoder::widen_mask(const Vector& to, const Vector& from, int bytes) {
  if (bytes == values_.element_bytes) copy_vector(to, from);
  else vpmovsxdq(to, Xbyak::Xmm(from.getIdx()));
}

void LaneEncoder::k_from_mask(int value) {
  if (is_vector(value)) {
    const Vector mask = read_vector(value, 0);
    values_.element_bytes == 8 ? vpmovq2m(k1, mask) : vpmovd2m(k1, mask);
    return;
  }
  fetch(rax, value);
  movzx(eax, al);
  neg(eax);
  kmovw(k1, eax);
}

Xbyak::Xmm LaneEncoder::read_mask(int value, int bytes, int k) {
  const int element = values_.element_bytes;
  if (is_vector(value) && bytes == element) return read_vector(value, k);
  const Vector to = scratch_vector(k, lanes_ * bytes);
  if (!is_vector(value)) {
    fetch(rax, value);
    movzx(eax, al);
    neg(rax);
    repeat_general(to, rax, bytes);
    return to;
  }
  // Elements of 8 bytes become elements of 4 bytes, which AVX2 alone needs.
  const Vector mask = read_vector(value, k);
  vextracti128(to, Xbyak::Ymm(mask.getIdx()), 1);
  vshufps(to, Xbyak::Xmm(mask.getIdx()), to, 0x88);
  return to;
}

void LaneEncoder::sign_bit_vector(const Instruction& it, bool wide) {
  const Vector x = read_vector(it.operands[0], 0);
  const Vector to = vector_result(it), mask = scratch_vector(1, x.getBit() / 8);
  if (avx512_) {
    wide ? vpmovq2m(k1, x) : vpmovd2m(k1, x);
    return mask_from_k(to);
  }
  const Xbyak::Xmm zero = scratch_vector(2, 16);
  vxorps(zero, zero, zero);
  const Vector zeros = scratch_vector(2, x.getBit() / 8);
  wide ? vpcmpgtq(mask, zeros, x) : vpcmpgtd(mask, zeros, x);
  widen_mask(to, mask, wide ? 8 : 4);
}

void LaneEncoder::compare_vectors(const Instruction& it, bool wide) {
  const int predicate = it.op == ScalarOp::equal        ? 0
                        : it.op == ScalarOp::less       ? 1
                        : it.op == ScalarOp::less_equal ? 2
                                                        : 4;
  const auto code = static_cast<std::uint8_t>(predicate);
  const Vector a = read_vector(it.operands[0], 0);
  const Operand operand = vector_operand(it.operands[1], 1);
  const Xbyak::Operand& b = operand;
  const Vector to = vector_result(it), mask = scratch_vector(2, a.getBit() / 8);
  if (avx512_) {
    wide ? vcmppd(k1, a, b, code) : vcmpps(k1, a, b, code);
    return mask_from_k(to);
  }
  wide ? vcmppd(mask, a, b, code) : vcmpps(mask, a, b, code);
  widen_mask(to, mask, wide ? 8 : 4);
}

// ---- choices and bools --------------------------------------------------------------------------

void LaneEncoder::select_vectors(const Instruction& it) {
  const Dtype of = it.dtype;
  const int bytes = of == stave::bool_ ? values_.element_bytes : static_cast<int>(stave::size_of(of));
  if (avx512_) {
    k_from_mask(it.operands[0]);
    const Vector x = read_vector(it.operands[1], 0), y = read_vector(it.operands[2], 1);
    const Vector to = vector_result(it);
    return bytes == 8 ? vblendmpd(to | k1, y, x) : vblendmps(to | k1, y, x);
  }
  const Vector mask = read_mask(it.operands[0], bytes, 0);
  const Vector x = read_vector(it.operands[1], 1), y = read_vector(it.operands[2], 2);
  const Vector to = vector_result(it);
  bytes == 8 ? vblendvpd(to, y, x, mask) : vblendvps(to, y, x, mask);
}

void LaneEncoder::bools(const Instruction& it) {
  const Vector a = read_vector(it.operands[0], 0);
  if (it.op == ScalarOp::bit_not) {
    const Vector to = vector_result(it);
    return vxorps(to, a, fixed(Fixed::all_bits));
  }
  const Vector b = read_vector(it.operands[1], 1), to = vector_result(it);
  switch (it.op) {
    case ScalarOp::multiply:
    case ScalarOp::bit_and: return vandps(to, a, b);
    case ScalarOp::bit_or: return vorps(to, a, b);
    case ScalarOp::not_equal:
    case ScalarOp::bit_xor: return vxorps(to, a, b);
    case ScalarOp::equal:
      vxorps(to, a, b);
      return vxorps(to, to, fixed(Fixed::all_bits));
    case ScalarOp::less: return vandnps(to, a, b);  // !a & b
    case ScalarOp::less_equal: {
      const Vector inverse = scratch_vector(2, width_of(it.result));
      vxorps(inverse, a, fixed(Fixed::all_bits));
      return vorps(to, inverse, b);
    }
    default: throw std::runtime_error(std::string("native code has no lanes of ") + stave_detail::name_of(it.op) + " of bool");
  }
}

}  // namespace stave_cpu

#endif
