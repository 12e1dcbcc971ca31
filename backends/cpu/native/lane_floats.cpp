// Vectors of floats of native code for lanes.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

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
      one(it,
          [&](const V& to, const V& x) { vandps(to, x, fixed(wide ? Fixed::other_bits_64 : Fixed::other_bits_32)); });
      return true;
    case ScalarOp::sqrt: one(it, [&](const V& to, const V& x) { wide ? vsqrtpd(to, x) : vsqrtps(to, x); }); return true;
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

// ---- comparisons --------------------------------------------------------------------------------

void LaneEncoder::sign_bit_vector(const Instruction& it, bool wide) {
  const Vector x = read_vector(it.operands[0], 0);
  if (avx512_) return compare_to_mask(it, [&](const Xbyak::Opmask& k) { wide ? vpmovq2m(k, x) : vpmovd2m(k, x); });
  const Vector to = vector_result(it), mask = scratch_vector(1, x.getBit() / 8);
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
  if (avx512_)
    return compare_to_mask(it, [&](const Xbyak::Opmask& k) { wide ? vcmppd(k, a, b, code) : vcmpps(k, a, b, code); });
  const Vector to = vector_result(it), mask = scratch_vector(2, a.getBit() / 8);
  wide ? vcmppd(mask, a, b, code) : vcmpps(mask, a, b, code);
  widen_mask(to, mask, wide ? 8 : 4);
}

}  // namespace stave_cpu

#endif
