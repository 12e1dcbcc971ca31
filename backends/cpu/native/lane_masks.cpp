// Bools and choices of native code for lanes. With AVX-512, a comparison sets a mask register. Its
// result stays there if it is last read before the code loses mask registers: a function changes
// them, and at the beginning and the end of a loop only other registers are restored.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

#include <stdexcept>
#include <string>

namespace stave_cpu {

using Code = Lowered::Code;

// ---- mask registers -----------------------------------------------------------------------------

void LaneEncoder::find_barriers() {
  const std::vector<Instruction>& code = ranges_.code().instructions;
  const auto loses_masks = [&](const Instruction& it) {
    if (it.code != Code::operation) return it.code == Code::loop || it.code == Code::end || it.code == Code::carried;
    // Masks do not survive calls of functions, and some conversions call a kernel.
    const bool is_convert = it.op == ScalarOp::convert;
    return it.op >= ScalarOp::exp || (is_convert && dtype(it.operands[0]) != stave::bool_);
  };
  barrier_at_.assign(code.size() + 1, static_cast<int>(code.size()));
  for (std::size_t k = code.size(); k-- > 0;)
    barrier_at_[k] = loses_masks(code[k]) ? static_cast<int>(k) : barrier_at_[k + 1];
}

Xbyak::Opmask LaneEncoder::mask_result(const Instruction& it) {
  const int last = ranges_.last(it.result);
  if (!avx512_ || last >= barrier_at_[static_cast<std::size_t>(position_) + 1]) return k0;
  for (int k = 2; k < 8; ++k) {
    const int value = in_mask_[k];
    if (value >= 0 && ranges_.last(value) > position_) continue;
    if (value >= 0) mask_of_[static_cast<std::size_t>(value)] = 0;
    in_mask_[k] = it.result;
    mask_of_[static_cast<std::size_t>(it.result)] = k;
    return Xbyak::Opmask(k);
  }
  return k0;
}

Xbyak::Opmask LaneEncoder::read_mask_register(int value) {
  if (is_in_mask_register(value)) return mask_register(value);
  if (is_vector(value)) {
    const Vector mask = read_vector(value, 0);
    values_.element_bytes == 8 ? vpmovq2m(k1, mask) : vpmovd2m(k1, mask);
    return k1;
  }
  fetch(rax, value);
  movzx(eax, al);
  neg(eax);
  kmovw(k1, eax);
  return k1;
}

void LaneEncoder::mask_from_k(const Vector& to, const Xbyak::Opmask& from) {
  values_.element_bytes == 8 ? vpmovm2q(to, from) : vpmovm2d(to, from);
}

// ---- masks in vectors ---------------------------------------------------------------------------

void LaneEncoder::widen_mask(const Vector& to, const Vector& from, int bytes) {
  if (bytes == values_.element_bytes) copy_vector(to, from);
  else vpmovsxdq(to, Xbyak::Xmm(from.getIdx()));
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

// ---- choices and bools --------------------------------------------------------------------------

void LaneEncoder::select_vectors(const Instruction& it) {
  const Dtype of = it.dtype;
  const int bytes = of == stave::bool_ ? values_.element_bytes : static_cast<int>(stave::size_of(of));
  if (avx512_) {
    const Xbyak::Opmask k = read_mask_register(it.operands[0]);
    const Vector x = read_vector(it.operands[1], 0);
    const Vector y = read_vector(it.operands[2], 1);
    const Vector to = vector_result(it);
    return bytes == 8 ? vblendmpd(to | k, y, x) : vblendmps(to | k, y, x);
  }
  const Vector mask = read_mask(it.operands[0], bytes, 0);
  const Vector x = read_vector(it.operands[1], 1), y = read_vector(it.operands[2], 2);
  const Vector to = vector_result(it);
  bytes == 8 ? vblendvpd(to, y, x, mask) : vblendvps(to, y, x, mask);
}

// Bitwise operations on bools that are in mask registers, or single numbers. Only the bits of lanes
// are defined in a mask register.
bool LaneEncoder::bools_in_mask_registers(const Instruction& it) {
  const bool is_not = it.op == ScalarOp::bit_not;
  if (!avx512_ || !is_in_mask_register(it.operands[0]) || (!is_not && !is_in_mask_register(it.operands[1])))
    return false;
  const Xbyak::Opmask a = mask_register(it.operands[0]), b = is_not ? a : mask_register(it.operands[1]);
  const Xbyak::Opmask found = mask_result(it), to = found.getIdx() != 0 ? found : k1;
  switch (it.op) {
    case ScalarOp::bit_not: knotw(to, a); break;
    case ScalarOp::multiply:
    case ScalarOp::bit_and: kandw(to, a, b); break;
    case ScalarOp::bit_or: korw(to, a, b); break;
    case ScalarOp::not_equal:
    case ScalarOp::bit_xor: kxorw(to, a, b); break;
    case ScalarOp::equal: kxnorw(to, a, b); break;
    default: throw std::runtime_error("native code has no such operation on masks");
  }
  if (found.getIdx() == 0) mask_from_k(vector_result(it), k1);
  return true;
}

void LaneEncoder::bools(const Instruction& it) {
  if (it.op != ScalarOp::less && it.op != ScalarOp::less_equal && bools_in_mask_registers(it)) return;
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
    case ScalarOp::equal: vxorps(to, a, b); return vxorps(to, to, fixed(Fixed::all_bits));
    case ScalarOp::less: return vandnps(to, a, b);  // !a & b
    case ScalarOp::less_equal: {
      const Vector inverse = scratch_vector(2, width_of(it.result));
      vxorps(inverse, a, fixed(Fixed::all_bits));
      return vorps(to, inverse, b);
    }
    default:
      throw std::runtime_error(std::string("native code has no lanes of ") + stave_detail::name_of(it.op) + " of bool");
  }
}

}  // namespace stave_cpu

#endif
