// Constants, moves and memory of native code for lanes.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

#include <algorithm>
#include <stdexcept>

namespace stave_cpu {

using Code = Lowered::Code;
using Kind = Lowered::Buffer::Kind;

namespace {

// The registers that hold values: all but rax, rcx, rdx, rsp, r13 to r15 and xmm13 to xmm15.
constexpr RegisterSet lane_registers = RegisterSet{0x1fff} << first_floating | (0x1fffu & ~0x17u);
constexpr int areas = 4;

}  // namespace

LaneEncoder::LaneEncoder(const LaneValues& values, const std::vector<bool>& is_uniform, const LiveRanges& ranges,
                         LaneFeatures features)
    : X86Encoder(ranges, {true, true}, lane_registers, features.vector_bytes, areas), values_(values),
      is_uniform_(is_uniform), vector_bytes_(features.vector_bytes),
      lanes_(features.vector_bytes / values.element_bytes), avx512_(features.avx512),
      mask_of_(values.code.values.size()) {
  std::fill(in_mask_, in_mask_ + 8, -1);
  find_barriers();
}

// ---- constants ----------------------------------------------------------------------------------

void LaneEncoder::write_repeated(std::uint64_t element, int bytes) {
  for (int k = 0; k < vector_bytes_ / bytes; ++k)
    for (int b = 0; b < bytes; ++b) db(static_cast<int>(element >> (8 * b) & 0xff));
}

void LaneEncoder::write_constants() {
  constexpr std::uint64_t sign_64 = std::uint64_t{1} << 63, sign_32 = std::uint64_t{1} << 31;
  L(table_);
  write_repeated(sign_64, 8);
  write_repeated(~sign_64, 8);
  write_repeated(sign_32, 4);
  write_repeated(sign_32 - 1, 4);
  write_repeated(0x3ff0000000000000, 8);
  write_repeated(0x3f800000, 4);
  write_repeated(1, 8);
  write_repeated(1, 4);
  write_repeated(~std::uint64_t{0}, 8);
  const Lowered& code = ranges_.code();
  for (std::size_t k = 0; k < code.instructions.size(); ++k) {
    const Instruction& it = code.instructions[k];
    if (it.code != Code::number || !ranges_.is_needed(static_cast<int>(k))) continue;
    const int size = static_cast<int>(stave::size_of(it.dtype));
    if (size < 4 && it.dtype != stave::bool_) continue;  // Only single numbers have these dtypes.
    constants_[static_cast<std::size_t>(it.result)] = static_cast<int>(getSize());
    if (it.dtype == stave::bool_) write_repeated(number_of(it) ? ~std::uint64_t{0} : 0, 8);
    else write_repeated(static_cast<std::uint64_t>(number_of(it)), size);
  }
  align(16);
}

// ---- registers ----------------------------------------------------------------------------------

Xbyak::Xmm LaneEncoder::vector(int id, int bytes) const {
  const int index = id - first_floating;
  if (bytes <= 16) return Xbyak::Xmm(index);
  if (bytes == 32) return Xbyak::Ymm(index);
  return Xbyak::Zmm(index);
}

int LaneEncoder::width(Dtype of) const {
  return lanes_ * (of == stave::bool_ ? values_.element_bytes : static_cast<int>(stave::size_of(of)));
}

void LaneEncoder::copy_vector(const Vector& to, const Vector& from) {
  if (to.getIdx() != from.getIdx()) vmovups(to, from);
}

void LaneEncoder::repeat_general(const Vector& to, const Xbyak::Reg64& from, int bytes) {
  const Xbyak::Xmm low(to.getIdx());
  if (bytes == 8) {
    vmovq(low, from);
    vpbroadcastq(to, low);
  } else {
    vmovd(low, from.cvt32());
    vpbroadcastd(to, low);
  }
}

void LaneEncoder::repeat_number(const Vector& to, std::uint64_t number) {
  mov(rax, number);
  repeat_general(to, rax, 8);
}

Xbyak::Xmm LaneEncoder::read_vector(int value, int k) {
  if (is_in_mask_register(value)) {
    const Vector to = scratch_vector(k, width_of(value));
    return mask_from_k(to, mask_register(value)), to;
  }
  if (is_vector(value)) return vector(allocator_.read(value), width_of(value));
  if (dtype(value) == stave::bool_) return read_mask(value, values_.element_bytes, k);
  const Vector to = scratch_vector(k, width_of(value));
  if (ranges_.number(value)) {
    vmovups(to, constant(value));
  } else {
    fetch(rax, value);
    repeat_general(to, rax, static_cast<int>(stave::size_of(dtype(value))));
  }
  return to;
}

X86Encoder::Operand LaneEncoder::vector_operand(int value, int k) {
  if (!is_vector(value) && ranges_.number(value)) return constant(value);
  if (!is_vector(value) || is_in_mask_register(value)) return read_vector(value, k);
  const Location place = allocator_.read_anywhere(value);
  if (place.is_register()) return vector(place.id, width_of(value));
  return place.kind == Location::Kind::number ? constant(value) : slot(place.id);
}

Xbyak::Xmm LaneEncoder::vector_result(const Instruction& it) {
  allocator_.release_operands();
  return vector(allocator_.assign(it.result), width_of(it.result));
}

void LaneEncoder::operation(const Instruction& it) {
  if (!is_vector(it.result)) return X86Encoder::operation(it);
  if (!convert_vector(it) && !vector_floats(it) && !vector_integers(it)) call_vector_function(it);
}

// ---- moves --------------------------------------------------------------------------------------

void LaneEncoder::move(Location to, Location from) {
  using LocationKind = Location::Kind;
  if (to == from) return;
  const auto is_floating = [](Location it) { return it.is_register() && it.id >= first_floating; };
  const auto whole = [&](Location it) { return vector(it.id, vector_bytes_); };
  // A slot may hold a vector as well as a single number: all of it is copied.
  const Vector between = scratch_vector(1, vector_bytes_);
  if (from.kind == LocationKind::number && (is_floating(to) || is_vector(from.id))) {
    const Vector target = is_floating(to) ? whole(to) : between;
    if (number_of(*ranges_.number(from.id)) == 0)
      vxorps(Xbyak::Xmm(target.getIdx()), Xbyak::Xmm(target.getIdx()), Xbyak::Xmm(target.getIdx()));
    else vmovups(target, constant(from.id));
    if (!is_floating(to)) vmovups(slot(to.id), target);
  } else if (is_floating(to)) {
    if (from.kind == LocationKind::slot) vmovups(whole(to), slot(from.id));
    else if (is_floating(from)) vmovups(whole(to), whole(from));
    else throw std::logic_error("a vector of native code is in a general register");
  } else if (is_floating(from)) {
    if (to.kind == LocationKind::slot) vmovups(slot(to.id), whole(from));
    else vmovq(general(to.id), Xbyak::Xmm(from.id - first_floating));
  } else if (to.kind == LocationKind::slot && from.kind == LocationKind::slot) {
    vmovups(between, slot(from.id));
    vmovups(slot(to.id), between);
  } else {
    X86Encoder::move(to, from);
  }
}

Location LaneEncoder::save(Location from) {
  if (from.is_register() && from.id < first_floating) return InstructionWalk::save(from);
  const Location to = in_register(first_floating + 15);
  move(to, from);
  return to;
}

// ---- memory -------------------------------------------------------------------------------------

bool LaneEncoder::is_uniform(const Lowered::Buffer& buffer) const {
  return buffer.kind == Kind::constant ||
         (buffer.kind == Kind::input && is_uniform_[static_cast<std::size_t>(buffer.number)]);
}

// The address of the element of lane 0 in a buffer with an element for each lane.
Xbyak::Address LaneEncoder::lane_address(const Instruction& it) {
  const LiveRanges& ranges = ranges_;
  const Access& place = ranges.access(position_);
  const Lowered::Buffer& buffer = ranges.code().buffers[static_cast<std::size_t>(it.buffer)];
  const auto size = static_cast<std::int64_t>(stave::size_of(it.dtype)) * lanes_;
  Xbyak::Reg64 base = r15;
  std::int64_t offset = place.offset * size;
  if (buffer.kind == Kind::work) offset += buffer.offset * lanes_;
  else base = general(allocator_.read(ranges.address_of(it.buffer)));
  if (offset != static_cast<std::int32_t>(offset)) {
    mov(rcx, offset);
    add(rcx, base);
    base = rcx;
    offset = 0;
  }
  const auto displacement = static_cast<int>(offset);
  if (place.index < 0) return ptr[base + displacement];
  imul(rax, general(allocator_.read(place.index)), static_cast<int>(size));
  return ptr[base + rax + displacement];
}

void LaneEncoder::load_vector(const Vector& to, const Xbyak::Address& from, Dtype of) {
  if (of != stave::bool_) return vmovups(to, from);
  const Xbyak::Xmm zero = scratch_vector(0, 16);
  values_.element_bytes == 8 ? vpmovzxbq(to, from) : vpmovzxbd(to, from);
  vxorps(zero, zero, zero);
  const Vector zeros = vector(first_floating + zero.getIdx(), width(of));
  values_.element_bytes == 8 ? vpsubq(to, zeros, to) : vpsubd(to, zeros, to);
}

void LaneEncoder::store_vector(const Xbyak::Address& to, const Vector& from, Dtype of) {
  if (of != stave::bool_) return vmovups(to, from);
  const Xbyak::Xmm bytes = scratch_vector(0, 16);
  const bool wide = values_.element_bytes == 8;
  if (avx512_) {
    wide ? vpmovq2m(k1, from) : vpmovd2m(k1, from);
    vpmovm2b(bytes, k1);
  } else {
    const Xbyak::Xmm low(from.getIdx());
    vextracti128(bytes, Xbyak::Ymm(from.getIdx()), 1);
    if (wide) vshufps(bytes, low, bytes, 0x88);
    if (wide) vpackssdw(bytes, bytes, bytes);
    else vpackssdw(bytes, low, bytes);
    vpacksswb(bytes, bytes, bytes);
  }
  vpabsb(bytes, bytes);
  if (lanes_ == 4) vmovd(to, bytes);
  else if (lanes_ == 8) vmovq(to, bytes);
  else vmovups(to, bytes);
}

template <class F>
void LaneEncoder::each_lane(const Instruction& it, F f) {
  const LiveRanges& ranges = ranges_;
  const Access& place = ranges.access(position_);
  const Lowered::Buffer& buffer = ranges.code().buffers[static_cast<std::size_t>(it.buffer)];
  const bool same = is_uniform(buffer);
  const auto size = static_cast<std::int64_t>(stave::size_of(it.dtype));
  const std::int64_t step = same ? size : size * lanes_;
  store_vector(area(0), read_vector(place.index, 0), stave::int64);
  Xbyak::Reg64 base = r15;
  std::int64_t offset = place.offset * step;
  if (buffer.kind == Kind::work) offset += buffer.offset * lanes_;
  else base = general(allocator_.read(ranges.address_of(it.buffer)));
  for (int lane = 0; lane < lanes_; ++lane) {
    imul(rax, area(0, 8 * lane), static_cast<int>(step));
    mov(rcx, offset + (same ? 0 : lane * size));
    add(rax, rcx);
    f(lane, ptr[base + rax]);
  }
}

void LaneEncoder::load(const Instruction& it) {
  const Access& place = ranges_.access(position_);
  const Lowered::Buffer& buffer = ranges_.code().buffers[static_cast<std::size_t>(it.buffer)];
  if (!is_vector(it.result)) return X86Encoder::load(it);
  const int size = static_cast<int>(stave::size_of(it.dtype));
  if (place.index >= 0 && is_vector(place.index)) {
    each_lane(it, [&](int lane, Xbyak::Address from) {
      switch (size) {
        case 1:
          from.setBit(8);
          movzx(ecx, from);
          mov(area(1, lane), cl);
          break;
        case 4:
          mov(ecx, from);
          mov(area(1, 4 * lane), ecx);
          break;
        default: mov(rcx, from); mov(area(1, 8 * lane), rcx);
      }
    });
    return load_vector(vector_result(it), area(1), it.dtype);
  }
  if (!is_uniform(buffer)) {
    const Xbyak::Address from = lane_address(it);
    return load_vector(vector_result(it), from, it.dtype);
  }
  const Xbyak::Address from = access(it);  // of a float
  const Vector to = vector_result(it);
  if (size == 8) vpbroadcastq(to, from);
  else vpbroadcastd(to, from);
}

void LaneEncoder::store(const Instruction& it) {
  const Access& place = ranges_.access(position_);
  const int size = static_cast<int>(stave::size_of(it.dtype));
  if (place.index < 0 || !is_vector(place.index)) {
    const Vector from = read_vector(it.operands[1], 1);
    return store_vector(lane_address(it), from, it.dtype);
  }
  store_vector(area(1), read_vector(it.operands[1], 1), it.dtype);
  each_lane(it, [&](int lane, const Xbyak::Address& to) {
    switch (size) {
      case 1:
        mov(cl, area(1, lane));
        mov(to, cl);
        break;
      case 4:
        mov(ecx, area(1, 4 * lane));
        mov(to, ecx);
        break;
      default: mov(rcx, area(1, 8 * lane)); mov(to, rcx);
    }
  });
}

void LaneEncoder::check(const Instruction& it) {
  if (!is_vector(it.operands[0])) return X86Encoder::check(it);
  if (avx512_) {
    kmovw(eax, read_mask_register(it.operands[0]));
    and_(eax, (1 << lanes_) - 1);
  } else {
    const Vector mask = read_vector(it.operands[0], 0);
    values_.element_bytes == 8 ? vmovmskpd(eax, mask) : vmovmskps(eax, mask);
  }
  cmp(eax, static_cast<std::uint32_t>((1 << lanes_) - 1));
  jne(failure(it), T_NEAR);
}

}  // namespace stave_cpu

#endif
