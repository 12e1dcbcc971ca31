#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

namespace stave_cpu {

using Code = Lowered::Code;

namespace {

// The registers that hold values: all but rax, rcx, rdx, rsp, r13 to r15 and xmm15.
constexpr RegisterSet allocatable = RegisterSet{0x7fff} << first_floating | (0x1fffu & ~0x17u);

constexpr int frame_bytes = 56 + 2 * 64;

class Memory final : public Xbyak::Allocator {
 public:
  bool useProtect() const override { return false; }
};
Memory memory;

bool fits_in_32_bits(std::int64_t x) { return x == static_cast<std::int32_t>(x); }

}  // namespace

Encoder::Encoder(const LiveRanges& ranges, Features features)
    : CodeGenerator(std::size_t{64} << 10, Xbyak::AutoGrow, &memory), ranges_(ranges), features_(features),
      allocator_(ranges, allocatable, *this), constants_(ranges.code().values.size(), -1) {}

std::size_t Encoder::slot_bytes() const { return (static_cast<std::size_t>(allocator_.slots()) * 8 + 63) / 64 * 64; }

void Encoder::run() {
  write_constants();
  write_entry();
  const int count = static_cast<int>(ranges_.code().instructions.size());
  for (position_ = 0; position_ < count; ++position_) {
    if (!ranges_.is_needed(position_)) continue;
    if (const int calls = vector_call_length(position_); calls > 1) {
      call_on_vector(calls);
      continue;
    }
    allocator_.begin(position_);
    instruction(position_);
    allocator_.end();
  }
  write_exits();
  ready();
}

// ---- the frame ----------------------------------------------------------------------------------

// The table of constants precedes the code, so that the offsets of the constants are known.
void Encoder::write_constants() {
  L(table_);
  for (const std::uint64_t mask :
       {~std::uint64_t{0} >> 1, std::uint64_t{1} << 63, std::uint64_t{~0u >> 1}, std::uint64_t{1} << 31}) {
    dq(mask);
    dq(0);
  }
  std::unordered_map<std::int64_t, int> offsets;
  const Lowered& code = ranges_.code();
  for (std::size_t k = 0; k < code.instructions.size(); ++k) {
    const Instruction& it = code.instructions[k];
    if (it.code != Code::number || !stave::is_float(it.dtype) || !ranges_.is_needed(static_cast<int>(k))) continue;
    const auto [found, is_new] = offsets.try_emplace(number_of(it), static_cast<int>(getSize()));
    if (is_new) dq(static_cast<std::uint64_t>(number_of(it)));
    constants_[static_cast<std::size_t>(it.result)] = found->second;
  }
  align(16);
}

void Encoder::write_entry() {
  entry_ = getSize();
  endbr64();  // Marks a target of indirect calls, for systems that check them.
  for (const Xbyak::Reg64& saved : {rbx, rbp, r12, r13, r14, r15}) push(saved);
  sub(rsp, frame_bytes);  // The stack is aligned to 16 again.
  mov(r13, rdi);
  mov(r14, rsi);
  lea(r15, ptr[rdx + 0x7fffffff]);  // write_exits() sets the offset, which is not known yet.
  slot_offset_at_ = getSize() - 4;
  for (int k = 0; k < 3; ++k) {
    lea(rax, ptr[rsp + 24 + 8 * k]);
    mov(ptr[rsp + 8 * k], rax);
  }
}

void Encoder::write_exits() {
  xor_(eax, eax);
  L(leave_);
  add(rsp, frame_bytes);
  for (const Xbyak::Reg64& saved : {r15, r14, r13, r12, rbp, rbx}) pop(saved);
  ret();
  for (const auto& [error, label] : failures_) {
    L(*label);
    mov(eax, static_cast<std::uint32_t>(error + 1));
    jmp(leave_, T_NEAR);
  }
  rewrite(slot_offset_at_, slot_bytes(), 4);
}

void Encoder::instruction(int position) {
  const Instruction& it = ranges_.code().instructions[static_cast<std::size_t>(position)];
  switch (it.code) {
    case Code::number:
    case Code::next: return;
    case Code::operation:
      if (!float_operation(it) && !integer_operation(it)) call_function(it);
      return;
    case Code::load: return load(it);
    case Code::store: return store(it);
    case Code::carried: return allocator_.carry(it.result, it.operands[0]);
    case Code::loop: return begin_loop(position);
    case Code::end: return end_loop(position);
    case Code::check: return check(it);
  }
}

// ---- loops and checks ---------------------------------------------------------------------------

void Encoder::begin_loop(int position) {
  const Instruction& it = ranges_.code().instructions[static_cast<std::size_t>(position)];
  const Xbyak::Reg64 index =
      general(allocator_.begin_loop(ranges_.loops()[static_cast<std::size_t>(ranges_.loop_at(position))]));
  loops_.push_back(std::make_unique<Loop>());
  if (it.operands[0] >= 0) {
    fetch(rax, it.operands[0]);
    test(rax, rax);
    jle(loops_.back()->exit, T_NEAR);
  } else if (it.number <= 0) {
    jmp(loops_.back()->exit, T_NEAR);
  }
  xor_(index.cvt32(), index.cvt32());
  align(16);
  L(loops_.back()->begin);
}

void Encoder::end_loop(int position) {
  const LiveRanges::Loop& loop = ranges_.loops()[static_cast<std::size_t>(ranges_.loop_at(position))];
  allocator_.end_loop(loop);
  const Instruction& it = ranges_.code().instructions[static_cast<std::size_t>(loop.begin)];
  const Xbyak::Reg64 index = general(allocator_.location(it.result).id);
  add(index, 1);
  if (it.operands[0] >= 0) {
    const Location steps = allocator_.location(it.operands[0]);
    if (steps.kind == Location::Kind::slot) {
      cmp(index, slot(steps.id));
    } else {
      fetch(rax, it.operands[0]);
      cmp(index, rax);
    }
  } else if (fits_in_32_bits(it.number)) {
    cmp(index, static_cast<std::uint32_t>(it.number));
  } else {
    mov(rax, it.number);
    cmp(index, rax);
  }
  jl(loops_.back()->begin, T_NEAR);
  L(loops_.back()->exit);
  loops_.pop_back();
}

void Encoder::check(const Instruction& it) {
  std::unique_ptr<Xbyak::Label>& label = failures_[it.number];
  if (!label) label = std::make_unique<Xbyak::Label>();
  fetch(rax, it.operands[0]);
  test(al, al);
  jz(*label, T_NEAR);
}

// ---- moves --------------------------------------------------------------------------------------

Xbyak::Address Encoder::slot(int id) { return ptr[r15 - 8 * (id + 1)]; }
Xbyak::Address Encoder::constant(int value) { return ptr[rip + table_ + constants_[static_cast<std::size_t>(value)]]; }
Xbyak::Address Encoder::constant(Mask mask) { return ptr[rip + table_ + 16 * static_cast<int>(mask)]; }

std::int64_t Encoder::number_of(const Instruction& it) {
  switch (stave::size_of(it.dtype)) {
    case 1: return it.dtype == stave::int8 ? static_cast<std::int8_t>(it.number) : it.number & 0xff;
    case 2: return it.dtype == stave::int16 ? static_cast<std::int16_t>(it.number) : it.number & 0xffff;
    case 4: return it.dtype == stave::int32 ? static_cast<std::int32_t>(it.number) : it.number & 0xffffffff;
    default: return it.number;
  }
}

void Encoder::move_number(const Xbyak::Reg64& to, std::int64_t number) {
  if (number == 0) xor_(to.cvt32(), to.cvt32());
  else mov(to, number);  // Xbyak chooses the shortest encoding.
}

void Encoder::move(Location to, Location from) {
  using Kind = Location::Kind;
  if (to == from) return;
  const bool is_floating = to.is_register() && to.id >= first_floating;
  if (from.kind == Kind::number) {
    const std::int64_t number = number_of(*ranges_.number(from.id));
    if (!to.is_register()) {
      move_number(rax, number);
      mov(slot(to.id), rax);
    } else if (!is_floating) {
      move_number(general(to.id), number);
    } else if (number == 0) {
      features_.avx ? vxorps(floating(to.id), floating(to.id), floating(to.id))
                    : xorps(floating(to.id), floating(to.id));
    } else {
      features_.avx ? vmovsd(floating(to.id), constant(from.id)) : movsd(floating(to.id), constant(from.id));
    }
  } else if (from.kind == Kind::address) {
    const Xbyak::Reg64 target = to.is_register() ? general(to.id) : rax;
    const Lowered::Buffer& buffer = ranges_.code().buffers[static_cast<std::size_t>(from.id - ranges_.address_of(0))];
    switch (buffer.kind) {
      case Lowered::Buffer::Kind::input: mov(target, ptr[r13 + 8 * buffer.number]); break;
      case Lowered::Buffer::Kind::output: mov(target, ptr[r14 + 8 * buffer.number]); break;
      case Lowered::Buffer::Kind::constant:
        mov(target, reinterpret_cast<std::uint64_t>(buffer.constant.node().data()));
        break;
      case Lowered::Buffer::Kind::work: lea(target, ptr[r15]); break;
    }
    if (!to.is_register()) mov(slot(to.id), rax);
  } else if (to.is_register() && from.is_register()) {
    if (is_floating) copy(floating(to.id), floating(from.id));
    else mov(general(to.id), general(from.id));
  } else if (to.is_register()) {
    if (!is_floating) mov(general(to.id), slot(from.id));
    else if (features_.avx) vmovsd(floating(to.id), slot(from.id));
    else movsd(floating(to.id), slot(from.id));
  } else if (from.is_register()) {
    if (from.id < first_floating) mov(slot(to.id), general(from.id));
    else if (features_.avx) vmovsd(slot(to.id), floating(from.id));
    else movsd(slot(to.id), floating(from.id));
  } else {
    mov(rax, slot(from.id));
    mov(slot(to.id), rax);
  }
}

Location Encoder::save(Location from) {
  const bool is_floating = from.is_register() && from.id >= first_floating;
  const Location to = in_register(is_floating ? first_floating + scratch.getIdx() : rcx.getIdx());
  move(to, from);
  return to;
}

// ---- memory -------------------------------------------------------------------------------------

Xbyak::Address Encoder::access(const Instruction& it) {
  const LiveRanges& ranges = ranges_;
  const Access& place = ranges.access(position_);
  const Lowered::Buffer& buffer = ranges.code().buffers[static_cast<std::size_t>(it.buffer)];
  const auto size = static_cast<std::int64_t>(stave::size_of(it.dtype));
  Xbyak::Reg64 base = r15;
  std::int64_t offset = place.offset * size;
  if (buffer.kind == Lowered::Buffer::Kind::work) offset += buffer.offset;
  else base = general(allocator_.read(ranges.address_of(it.buffer)));
  if (!fits_in_32_bits(offset)) {
    mov(rax, offset);
    add(rax, base);
    base = rax;
    offset = 0;
  }
  const auto displacement = static_cast<int>(offset);
  if (place.index < 0) return ptr[base + displacement];
  return ptr[base + general(allocator_.read(place.index)) * static_cast<int>(size) + displacement];
}

void Encoder::load(const Instruction& it) {
  const Xbyak::Address from = access(it);
  allocator_.release_operands();
  const int to = allocator_.assign(it.result);
  if (to >= first_floating) {
    if (it.dtype == stave::float64) features_.avx ? vmovsd(floating(to), from) : movsd(floating(to), from);
    else features_.avx ? vmovss(floating(to), from) : movss(floating(to), from);
    return;
  }
  Xbyak::Address sized = from;
  switch (stave::size_of(it.dtype)) {
    case 1:
      sized.setBit(8);
      movzx(general(to).cvt32(), sized);
      break;
    case 2:
      sized.setBit(16);
      movzx(general(to).cvt32(), sized);
      break;
    case 4: mov(general(to).cvt32(), from); break;
    default: mov(general(to), from);
  }
}

void Encoder::store(const Instruction& it) {
  const Xbyak::Address to = access(it);
  const int value = it.operands[1];
  const Location from = allocator_.read_anywhere(value);
  if (from.is_register() && from.id >= first_floating) {
    if (it.dtype == stave::float64) features_.avx ? vmovsd(to, floating(from.id)) : movsd(to, floating(from.id));
    else features_.avx ? vmovss(to, floating(from.id)) : movss(to, floating(from.id));
    return;
  }
  Xbyak::Reg64 source = rcx;
  if (from.is_register()) source = general(from.id);
  else if (from.kind == Location::Kind::number) move_number(rcx, number_of(*ranges_.number(value)));
  else mov(rcx, slot(from.id));
  switch (stave::size_of(it.dtype)) {
    case 1: mov(to, source.cvt8()); break;
    case 2: mov(to, source.cvt16()); break;
    case 4: mov(to, source.cvt32()); break;
    default: mov(to, source);
  }
}

}  // namespace stave_cpu

#endif
