// Vectors of integers of native code for lanes.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

namespace stave_cpu {

bool LaneEncoder::vector_integers(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  if (!stave::is_integer(of)) return false;
  const bool wide = stave::size_of(of) == 8;
  using V = Vector;
  using O = Xbyak::Operand;
  const auto write = [&](auto f) { return two(it, f), true; };
  switch (it.op) {
    case ScalarOp::add:
      return write([&](const V& to, const V& a, const O& b) { wide ? vpaddq(to, a, b) : vpaddd(to, a, b); });
    case ScalarOp::subtract:
      return write([&](const V& to, const V& a, const O& b) { wide ? vpsubq(to, a, b) : vpsubd(to, a, b); });
    case ScalarOp::bit_and: return write([&](const V& to, const V& a, const O& b) { vandps(to, a, b); });
    case ScalarOp::bit_or: return write([&](const V& to, const V& a, const O& b) { vorps(to, a, b); });
    case ScalarOp::bit_xor: return write([&](const V& to, const V& a, const O& b) { vxorps(to, a, b); });
    case ScalarOp::multiply: return multiply_integers(it, wide), true;
    case ScalarOp::negative: return negate(it, wide), true;
    case ScalarOp::bit_not: return invert(it), true;
    case ScalarOp::abs: return absolute_vector(it, wide), true;
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::rint:
    case ScalarOp::trunc: return one(it, [&](const V& to, const V& x) { copy_vector(to, x); }), true;
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal: return compare_integer_vectors(it, wide), true;
    case ScalarOp::shift_left:
    case ScalarOp::shift_right: return shift_vector(it, wide), true;
    default: return false;
  }
}

void LaneEncoder::multiply_integers(const Instruction& it, bool wide) {
  const Vector a = read_vector(it.operands[0], 0), b = read_vector(it.operands[1], 1), to = vector_result(it);
  if (!wide) return vpmulld(to, a, b);
  if (avx512_) return vpmullq(to, a, b);
  // The products of halves: low * low + 2^32 (high * low + low * high). One operand at least is not
  // in a scratch register.
  const int bytes = a.getBit() / 8;
  const Vector crossed = scratch_vector(2, bytes);
  const Vector other = scratch_vector(a.getIdx() == scratch_vector(0, bytes).getIdx() ? 1 : 0, bytes);
  vpsrlq(crossed, a, 32);
  vpmuludq(crossed, crossed, b);
  vpsrlq(other, b, 32);
  vpmuludq(other, other, a);
  vpaddq(crossed, crossed, other);
  vpsllq(crossed, crossed, 32);
  vpmuludq(other, a, b);
  vpaddq(to, crossed, other);
}

void LaneEncoder::negate(const Instruction& it, bool wide) {
  one(it, [&](const Vector& to, const Vector& x) {
    const Vector zero = scratch_vector(1, x.getBit() / 8);
    vxorps(Xbyak::Xmm(zero.getIdx()), Xbyak::Xmm(zero.getIdx()), Xbyak::Xmm(zero.getIdx()));
    wide ? vpsubq(to, zero, x) : vpsubd(to, zero, x);
  });
}

void LaneEncoder::invert(const Instruction& it) {
  one(it, [&](const Vector& to, const Vector& x) { vxorps(to, x, fixed(Fixed::all_bits)); });
}

void LaneEncoder::absolute_vector(const Instruction& it, bool wide) {
  const bool is_signed = stave::is_signed(it.dtype);
  one(it, [&](const Vector& to, const Vector& x) {
    if (!is_signed) return copy_vector(to, x);
    if (!wide) return vpabsd(to, x);
    if (avx512_) return vpabsq(to, x);
    // (x ^ s) - s, where s is -1 for x < 0 and else 0
    const Vector signs = scratch_vector(1, x.getBit() / 8);
    vxorps(signs, signs, signs);
    vpcmpgtq(signs, signs, x);
    vxorps(to, x, signs);
    vpsubq(to, to, signs);
  });
}

// An arithmetic shift of 64 bits by AVX2: ((x ^ s) >> by) ^ s, where s is -1 for x < 0 and else 0.
// The shift between is logical.
void LaneEncoder::shift_signs(const Vector& to, const Vector& x, const Operand& by) {
  const int bytes = x.getBit() / 8;
  const Vector signs = scratch_vector(2, bytes);
  const Xbyak::Operand& places = by;
  vxorps(signs, signs, signs);
  vpcmpgtq(signs, signs, x);
  if (!places.isMEM() && places.getIdx() == to.getIdx()) {
    // `to` is written before the shift, so the number of places is kept.
    const Vector kept = scratch_vector(1, bytes);
    copy_vector(kept, Vector(vector(first_floating + places.getIdx(), bytes)));
    vxorps(to, x, signs);
    vpsrlvq(to, to, kept);
  } else {
    vxorps(to, x, signs);
    vpsrlvq(to, to, places);
  }
  vxorps(to, to, signs);
}

void LaneEncoder::shift_vector(const Instruction& it, bool wide) {
  const bool is_left = it.op == ScalarOp::shift_left;
  const bool copies_sign = !is_left && stave::is_signed(it.dtype);
  const int bits = wide ? 64 : 32;
  if (is_rotation(it)) {
    const auto places = static_cast<std::uint8_t>(ranges_.number(it.operands[1])->number);
    return one(it, [&](const Vector& to, const Vector& x) { wide ? vprolq(to, x, places) : vprold(to, x, places); });
  }
  const Instruction* const number = ranges_.number(it.operands[1]);
  if (number && !(copies_sign && wide && !avx512_)) {
    const bool is_beyond = number_of(*number) < 0 || number_of(*number) >= bits;
    // Shifts of all bits give 0 if they do not copy the sign.
    const auto places = static_cast<std::uint8_t>(is_beyond ? (copies_sign ? bits - 1 : bits) : number_of(*number));
    return one(it, [&](const Vector& to, const Vector& x) {
      if (is_left) wide ? vpsllq(to, x, places) : vpslld(to, x, places);
      else if (!copies_sign) wide ? vpsrlq(to, x, places) : vpsrld(to, x, places);
      else wide ? vpsraq(to, x, places) : vpsrad(to, x, places);
    });
  }
  const Vector x = read_vector(it.operands[0], 0);
  const Operand operand = vector_operand(it.operands[1], 1);
  const Xbyak::Operand& by = operand;
  const Vector to = vector_result(it);
  if (is_left) wide ? vpsllvq(to, x, by) : vpsllvd(to, x, by);
  else if (!copies_sign) wide ? vpsrlvq(to, x, by) : vpsrlvd(to, x, by);
  else if (!wide) vpsravd(to, x, by);
  else if (avx512_) vpsravq(to, x, by);
  else shift_signs(to, x, operand);
}

void LaneEncoder::compare_integer_vectors(const Instruction& it, bool wide) {
  const bool is_signed = stave::is_signed(dtype(it.operands[0]));
  const Vector a = read_vector(it.operands[0], 0), b = read_vector(it.operands[1], 1);
  if (avx512_) {
    const std::uint8_t code = it.op == ScalarOp::equal        ? 0
                              : it.op == ScalarOp::less       ? 1
                              : it.op == ScalarOp::less_equal ? 2
                                                              : 4;
    return compare_to_mask(it, [&](const Xbyak::Opmask& k) {
      if (is_signed) wide ? vpcmpq(k, a, b, code) : vpcmpd(k, a, b, code);
      else wide ? vpcmpuq(k, a, b, code) : vpcmpud(k, a, b, code);
    });
  }
  const Vector to = vector_result(it);
  const int bytes = a.getBit() / 8;
  const bool is_equality = it.op == ScalarOp::equal || it.op == ScalarOp::not_equal;
  // a <= b is not b < a.
  const bool is_inverted = it.op == ScalarOp::not_equal || it.op == ScalarOp::less_equal;
  const Vector mask = scratch_vector(2, bytes);
  if (is_equality) {
    wide ? vpcmpeqq(mask, a, b) : vpcmpeqd(mask, a, b);
  } else {
    Vector x = a, y = b;
    if (!is_signed) {  // With other signs, the order is that of signed integers.
      x = scratch_vector(0, bytes);
      y = scratch_vector(1, bytes);
      vxorps(x, a, fixed(wide ? Fixed::sign_64 : Fixed::sign_32));
      vxorps(y, b, fixed(wide ? Fixed::sign_64 : Fixed::sign_32));
    }
    if (it.op == ScalarOp::less) std::swap(x, y);
    wide ? vpcmpgtq(mask, x, y) : vpcmpgtd(mask, x, y);
  }
  if (is_inverted) vxorps(mask, mask, fixed(Fixed::all_bits));
  widen_mask(to, mask, wide ? 8 : 4);
}

}  // namespace stave_cpu

#endif
