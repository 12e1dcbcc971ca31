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

X86Encoder::X86Encoder(const LiveRanges& ranges, Features features) : X86Encoder(ranges, features, allocatable, 8, 0) {}

X86Encoder::X86Encoder(const LiveRanges& ranges, Features features, RegisterSet registers, int slot_size, int reserved)
    : CodeGenerator(std::size_t{64} << 10, Xbyak::AutoGrow, &memory),
      InstructionWalk(ranges,
                      {.allocatable = registers,
                       .clobbered_by_calls = clobbered_by_calls,
                       .general_scratch = Xbyak::Operand::RAX,
                       .floating_scratch = first_floating + 15,
                       .saved_general = Xbyak::Operand::RCX,
                       .saved_floating = first_floating + 15},
                      {.addresses = 0, .operands = 24, .result = 48, .vectors = {56, 120}}),
      features_(features), slot_size_(slot_size), reserved_slots_(reserved) {}

std::size_t X86Encoder::slot_bytes() const {
  return (static_cast<std::size_t>((allocator_.slots() + reserved_slots_) * slot_size_) + 63) / 64 * 64;
}

// ---- the frame ----------------------------------------------------------------------------------

void X86Encoder::begin_text() {
  write_constants();
  write_entry();
}

// The table of constants precedes the code, so that the offsets of the constants are known.
void X86Encoder::write_constants() {
  L(table_);
  for (const std::uint64_t mask :
       {~std::uint64_t{0} >> 1, std::uint64_t{1} << 63, std::uint64_t{~0u >> 1}, std::uint64_t{1} << 31}) {
    dq(mask);
    dq(0);
  }
  for (const std::uint64_t number : find_constants(static_cast<int>(getSize()))) dq(number);
  align(16);
}

void X86Encoder::write_entry() {
  entry_ = getSize();
  endbr64();  // Marks a target of indirect calls, for systems that check them.
  for (const Xbyak::Reg64& saved : {rbx, rbp, r12, r13, r14, r15}) push(saved);
  sub(rsp, frame_bytes);  // The stack is aligned to 16 again.
  mov(r13, rdi);
  mov(r14, rsi);
  lea(r15, ptr[rdx + 0x7fffffff]);  // end_text() sets the offset, which is not known yet.
  slot_offset_at_ = getSize() - 4;
  for (int k = 0; k < 3; ++k) {
    lea(rax, ptr[rsp + 24 + 8 * k]);
    mov(ptr[rsp + 8 * k], rax);
  }
}

void X86Encoder::end_text() {
  xor_(eax, eax);
  L(leave_);
  if (slot_size_ > 8) vzeroupper();  // The code has used the upper halves of registers.
  add(rsp, frame_bytes);
  for (const Xbyak::Reg64& saved : {r15, r14, r13, r12, rbp, rbx}) pop(saved);
  ret();
  for (const auto& [error, label] : failures_) {
    L(*label);
    mov(eax, static_cast<std::uint32_t>(error + 1));
    jmp(leave_, T_NEAR);
  }
  rewrite(slot_offset_at_, slot_bytes(), 4);
  ready();
}

// ---- loops and checks ---------------------------------------------------------------------------

void X86Encoder::begin_loop(int position) {
  const Instruction& it = instruction_at(position);
  const Xbyak::Reg64 index = general(allocator_.begin_loop(loop_around(position)));
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

void X86Encoder::end_loop(int position) {
  const LiveRanges::Loop& loop = loop_around(position);
  allocator_.end_loop(loop);
  const Instruction& it = instruction_at(loop.begin);
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

Xbyak::Label& X86Encoder::failure(const Instruction& check) {
  std::unique_ptr<Xbyak::Label>& label = failures_[check.number];
  if (!label) label = std::make_unique<Xbyak::Label>();
  return *label;
}

void X86Encoder::check(const Instruction& it) {
  fetch(rax, it.operands[0]);
  test(al, al);
  jz(failure(it), T_NEAR);
}

// ---- moves --------------------------------------------------------------------------------------

Xbyak::Address X86Encoder::slot(int id) { return ptr[r15 - slot_size_ * (id + reserved_slots_ + 1)]; }
Xbyak::Address X86Encoder::constant(int value) { return ptr[rip + table_ + constant_offset(value)]; }
Xbyak::Address X86Encoder::constant(Mask mask) { return ptr[rip + table_ + 16 * static_cast<int>(mask)]; }

void X86Encoder::move_number(const Xbyak::Reg64& to, std::int64_t number) {
  if (number == 0) xor_(to.cvt32(), to.cvt32());
  else mov(to, number);  // Xbyak chooses the shortest encoding.
}

void X86Encoder::copy_register(int to, int from) {
  if (to < first_floating) mov(general(to), general(from));
  else if (from >= first_floating) copy(floating(to), floating(from));
  else features_.avx ? vmovq(floating(to), general(from)) : movq(floating(to), general(from));
}
void X86Encoder::load_slot(int to, int id) { load_from(to, slot(id), 8); }
void X86Encoder::store_slot(int id, int from) { store_to(slot(id), from, 8); }

void X86Encoder::load_number(int to, int value) {
  const std::int64_t number = number_of(*ranges_.number(value));
  if (to < first_floating) return move_number(general(to), number);
  const Xbyak::Xmm target = floating(to);
  if (number == 0) features_.avx ? vxorps(target, target, target) : xorps(target, target);
  else features_.avx ? vmovsd(target, constant(value)) : movsd(target, constant(value));
}

void X86Encoder::load_address(int to, const Lowered::Buffer& buffer) {
  const Xbyak::Reg64 target = general(to);
  switch (buffer.kind) {
    case Lowered::Buffer::Kind::input: mov(target, ptr[r13 + 8 * buffer.number]); break;
    case Lowered::Buffer::Kind::output: mov(target, ptr[r14 + 8 * buffer.number]); break;
    case Lowered::Buffer::Kind::constant:
      mov(target, reinterpret_cast<std::uint64_t>(buffer.constant.node().data()));
      break;
    case Lowered::Buffer::Kind::work: lea(target, ptr[r15]); break;
  }
}

// ---- memory -------------------------------------------------------------------------------------

Xbyak::Address X86Encoder::access(const Instruction& it) {
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

void X86Encoder::load_from(int to, Xbyak::Address from, std::size_t bytes) {
  if (to >= first_floating) {
    if (bytes == 8) features_.avx ? vmovsd(floating(to), from) : movsd(floating(to), from);
    else features_.avx ? vmovss(floating(to), from) : movss(floating(to), from);
    return;
  }
  switch (bytes) {
    case 1:
      from.setBit(8);
      movzx(general(to).cvt32(), from);
      break;
    case 2:
      from.setBit(16);
      movzx(general(to).cvt32(), from);
      break;
    case 4: mov(general(to).cvt32(), from); break;
    default: mov(general(to), from);
  }
}

void X86Encoder::store_to(const Xbyak::Address& to, int from, std::size_t bytes) {
  if (from >= first_floating) {
    if (bytes == 8) features_.avx ? vmovsd(to, floating(from)) : movsd(to, floating(from));
    else features_.avx ? vmovss(to, floating(from)) : movss(to, floating(from));
    return;
  }
  switch (bytes) {
    case 1: mov(to, general(from).cvt8()); break;
    case 2: mov(to, general(from).cvt16()); break;
    case 4: mov(to, general(from).cvt32()); break;
    default: mov(to, general(from));
  }
}

void X86Encoder::load(const Instruction& it) {
  const Xbyak::Address from = access(it);
  allocator_.release_operands();
  load_from(allocator_.assign(it.result), from, stave::size_of(it.dtype));
}

void X86Encoder::store(const Instruction& it) {
  const Xbyak::Address to = access(it);
  Location from = allocator_.read_anywhere(it.operands[1]);
  if (!from.is_register()) {
    const Location here = in_register(rcx.getIdx());
    move(here, from);
    from = here;
  }
  store_to(to, from.id, stave::size_of(it.dtype));
}

}  // namespace stave_cpu

#endif
