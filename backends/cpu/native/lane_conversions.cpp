// Conversions of native code for lanes.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

namespace stave_cpu {

// Returns false for conversions that kernels compute: from floats to integers, because values out
// of range saturate, and some that need AVX-512.
bool LaneEncoder::convert_vector(const Instruction& it) {
  if (it.op != ScalarOp::convert) return false;
  const Dtype from = dtype(it.operands[0]), to = it.dtype;
  if (from == to) {
    const Vector x = read_vector(it.operands[0], 0);
    return copy_vector(vector_result(it), x), true;
  }
  if (from == stave::bool_) return convert_from_bool(it), true;
  if (to == stave::bool_) return convert_to_bool(it), true;
  if (stave::is_float(to)) return convert_to_float(it, from);
  if (stave::is_float(from)) return false;
  return convert_size(it, from), true;
}

void LaneEncoder::convert_from_bool(const Instruction& it) {
  const bool wide = stave::size_of(it.dtype) == 8, is_float = stave::is_float(it.dtype);
  const Xbyak::Address number =
      fixed(wide ? (is_float ? Fixed::one_f64 : Fixed::one_i64) : (is_float ? Fixed::one_f32 : Fixed::one_i32));
  if (avx512_) {
    const Xbyak::Opmask k = read_mask_register(it.operands[0]);
    const Vector to = vector_result(it);
    return wide ? vmovupd(to | k | T_z, number) : vmovups(to | k | T_z, number);
  }
  const Vector mask = read_mask(it.operands[0], wide ? 8 : 4, 0);
  vandps(vector_result(it), mask, number);
}

void LaneEncoder::convert_to_bool(const Instruction& it) {
  const Dtype from = dtype(it.operands[0]);
  const bool wide = stave::size_of(from) == 8;
  const Vector x = read_vector(it.operands[0], 0);
  const int bytes = x.getBit() / 8;
  const Xbyak::Xmm low = scratch_vector(1, 16);
  vxorps(low, low, low);
  const Vector zero = scratch_vector(1, bytes), mask = scratch_vector(2, bytes);
  constexpr std::uint8_t not_equal = 4;
  const bool is_float = stave::is_float(from);
  if (avx512_)
    return compare_to_mask(it, [&](const Xbyak::Opmask& k) {
      if (is_float) wide ? vcmppd(k, x, zero, not_equal) : vcmpps(k, x, zero, not_equal);
      else wide ? vpcmpq(k, x, zero, not_equal) : vpcmpd(k, x, zero, not_equal);
    });
  const Vector to = vector_result(it);
  if (is_float) {
    wide ? vcmppd(mask, x, zero, not_equal) : vcmpps(mask, x, zero, not_equal);
  } else {
    wide ? vpcmpeqq(mask, x, zero) : vpcmpeqd(mask, x, zero);
    vxorps(mask, mask, fixed(Fixed::all_bits));
  }
  widen_mask(to, mask, wide ? 8 : 4);
}

void LaneEncoder::convert_size(const Instruction& it, Dtype from) {
  const bool wide_from = stave::size_of(from) == 8, wide_to = stave::size_of(it.dtype) == 8;
  const Vector x = read_vector(it.operands[0], 0), to = vector_result(it);
  if (wide_from == wide_to) return copy_vector(to, x);
  if (wide_to) return stave::is_signed(from) ? vpmovsxdq(to, x) : vpmovzxdq(to, x);
  if (avx512_) return vpmovqd(to, x);
  const Xbyak::Xmm high = scratch_vector(1, 16);
  vextracti128(high, Xbyak::Ymm(x.getIdx()), 1);
  vshufps(to, Xbyak::Xmm(x.getIdx()), high, 0x88);
}

bool LaneEncoder::convert_to_float(const Instruction& it, Dtype from) {
  const bool wide = it.dtype == stave::float64, wide_from = stave::size_of(from) == 8;
  const bool is_signed = stave::is_signed(from);
  if (!avx512_ && !wide && stave::is_integer(from) && (wide_from || (!is_signed && values_.element_bytes == 4)))
    return false;
  const Vector x = read_vector(it.operands[0], 0), to = vector_result(it);
  if (stave::is_float(from)) return wide ? vcvtps2pd(to, x) : vcvtpd2ps(to, x), true;
  if (wide_from && avx512_) {
    if (is_signed) wide ? vcvtqq2pd(to, x) : vcvtqq2ps(to, x);
    else wide ? vcvtuqq2pd(to, x) : vcvtuqq2ps(to, x);
  } else if (wide_from) {
    wide_to_double(to, x, is_signed);
  } else if (is_signed) {
    wide ? vcvtdq2pd(to, x) : vcvtdq2ps(to, x);
  } else if (avx512_) {
    wide ? vcvtudq2pd(to, x) : vcvtudq2ps(to, x);
  } else {
    // As a double, x + 2^52 has the bits of x in its mantissa.
    const Vector bits = scratch_vector(1, lanes_ * 8), offset = scratch_vector(2, lanes_ * 8);
    vpmovzxdq(bits, x);
    repeat_number(offset, 0x4330000000000000);
    vorps(bits, bits, offset);
    if (wide) return vsubpd(to, bits, offset), true;
    vsubpd(bits, bits, offset);
    vcvtpd2ps(to, bits);
  }
  return true;
}

// AVX2: the sum of two doubles, high + low, is rounded once. `high` has the upper 32 bits of x in
// the mantissa of 2^84 (with a sign: 2^84 + 2^63), `low` the lower ones in that of 2^52.
void LaneEncoder::wide_to_double(const Vector& to, const Vector& x, bool is_signed) {
  const int bytes = x.getBit() / 8;
  const Vector high = scratch_vector(1, bytes), number = scratch_vector(2, bytes);
  vpsrlq(high, x, 32);
  repeat_number(number, is_signed ? 0x4530000080000000 : 0x4530000000000000);
  vxorps(high, high, number);
  repeat_number(number, is_signed ? 0x4530000080100000 : 0x4530000000100000);
  vsubpd(high, high, number);
  repeat_number(number, 0x4330000000000000);
  vblendps(number, number, x, 0x55);
  vaddpd(to, high, number);
}

}  // namespace stave_cpu

#endif
