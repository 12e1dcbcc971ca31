#ifdef STAVE_NATIVE_AARCH64

#include <stave/backends/cpu/native/aarch64.h>

#include <bit>

namespace stave_cpu {

using aarch64::Memory;
using aarch64::sp;
using aarch64::v;
using aarch64::x;

namespace {

constexpr aarch64::X inputs = x(19), outputs = x(20), buffers = x(21), slots = x(22), table = x(23);
constexpr aarch64::X address = x(17), offset_register = x(30);

// The stack frame: x29, x30, x19 to x28, d8 to d15, and what calls need.
constexpr int saved_general = 16, saved_floating = 96, kernel_addresses = 160, kernel_operands = 184,
              kernel_result = 208, call_vectors[] = {224, 288}, frame_bytes = 352;

constexpr RegisterSet range(int first, int last) { return (~RegisterSet{0} >> (63 - last + first)) << first; }

}  // namespace

// Functions preserve x19 to x28 and the low halves of v8 to v15, which hold all of a value.
Aarch64Encoder::Aarch64Encoder(const LiveRanges& ranges)
    : InstructionWalk(ranges,
                      {.allocatable = range(0, 14) | range(24, 28) | range(first_floating, first_floating + 28),
                       .clobbered_by_calls = range(0, 14) | range(first_floating, first_floating + 7) |
                                             range(first_floating + 16, first_floating + 28),
                       .general_scratch = 16,
                       .floating_scratch = first_floating + 31,
                       .saved_general = 15,
                       .saved_floating = first_floating + 30},
                      {.addresses = kernel_addresses,
                       .operands = kernel_operands,
                       .result = kernel_result,
                       .vectors = {call_vectors[0], call_vectors[1]}}) {}

// ---- the frame ----------------------------------------------------------------------------------

void Aarch64Encoder::save_registers(bool restore) {
  for (int k = 0; k < 5; ++k) {
    const int at = saved_general + 16 * k;
    if (restore) code_.load_pair(x(19 + 2 * k), x(20 + 2 * k), sp, at);
    else code_.store_pair(x(19 + 2 * k), x(20 + 2 * k), sp, at);
  }
  for (int k = 0; k < 4; ++k) {
    const int at = saved_floating + 16 * k;
    if (restore) code_.load_pair(v(8 + 2 * k), v(9 + 2 * k), sp, at);
    else code_.store_pair(v(8 + 2 * k), v(9 + 2 * k), sp, at);
  }
}

void Aarch64Encoder::begin_text() {
  for (const std::uint64_t constant : find_constants(0)) code_.data(constant);
  entry_ = code_.size();
  code_.mark_entry();
  code_.sub(sp, sp, frame_bytes);
  code_.store_pair(x(29), x(30), sp, 0);
  code_.add(x(29), sp, 0);
  save_registers(false);
  code_.move(inputs, x(0));
  code_.move(outputs, x(1));
  code_.move(slots, x(2));
  slot_bytes_at_ = code_.size();
  code_.move_wide(x(16), 0);  // end_text() sets the number, which is not known yet.
  code_.add(buffers, slots, x(16));
  if (entry_ > 0) {
    const std::size_t here = code_.size();
    code_.here(table);
    code_.move(x(16), static_cast<std::int64_t>(here));
    code_.sub(table, table, x(16));
  }
  for (int k = 0; k < 3; ++k) {
    code_.add(x(16), sp, kernel_operands + 8 * k);
    code_.store(x(16), {sp, kernel_addresses + 8 * k}, 8);
  }
}

void Aarch64Encoder::end_text() {
  aarch64::Label leave;
  code_.move(x(0), 0);
  code_.bind(leave);
  save_registers(true);
  code_.load_pair(x(29), x(30), sp, 0);
  code_.add(sp, sp, frame_bytes);
  code_.ret();
  for (auto& [error, label] : failures_) {
    code_.bind(label);
    code_.move(x(0), error + 1);
    code_.branch(leave);
  }
  code_.rewrite_wide(slot_bytes_at_, x(16), static_cast<std::uint32_t>(slot_bytes()));
}

// ---- loops and checks ---------------------------------------------------------------------------

void Aarch64Encoder::begin_loop(int position) {
  const Instruction& it = instruction_at(position);
  const X index = general(allocator_.begin_loop(loop_around(position)));
  Loop& loop = loops_.emplace_back();
  if (it.operands[0] >= 0) {
    code_.compare(fetch(it.operands[0]), 0);
    code_.branch(Condition::le, loop.exit);
  } else if (it.number <= 0) {
    code_.branch(loop.exit);
  }
  code_.move(index, 0);
  code_.bind(loop.begin);
}

void Aarch64Encoder::end_loop(int position) {
  const LiveRanges::Loop& range = loop_around(position);
  allocator_.end_loop(range);
  const Instruction& it = instruction_at(range.begin);
  const X index = general(allocator_.location(it.result).id);
  code_.add(index, index, 1);
  if (it.operands[0] >= 0) {
    code_.compare(index, fetch(it.operands[0]));
  } else if (it.number >= 0 && it.number <= 4095) {
    code_.compare(index, static_cast<int>(it.number));
  } else {
    code_.move(x(16), it.number);
    code_.compare(index, x(16));
  }
  Loop& loop = loops_.back();
  code_.branch(Condition::lt, loop.begin);
  code_.bind(loop.exit);
  loops_.pop_back();
}

void Aarch64Encoder::check(const Instruction& it) {
  test_bool(it.operands[0]);
  code_.branch(Condition::eq, failures_[it.number]);
}

// ---- moves --------------------------------------------------------------------------------------

Memory Aarch64Encoder::at(X base, std::int64_t offset, std::size_t bytes) {
  if (aarch64::Assembler::can_access(offset, bytes)) return {base, offset};
  code_.move(offset_register, offset);
  code_.add(offset_register, base, offset_register);
  return {offset_register};
}

void Aarch64Encoder::load_from(int to, const Memory& from, std::size_t bytes) {
  if (to >= first_floating) code_.load(floating(to), from, bytes);
  else code_.load(general(to), from, bytes);
}
void Aarch64Encoder::store_to(const Memory& to, int from, std::size_t bytes) {
  if (from >= first_floating) code_.store(floating(from), to, bytes);
  else code_.store(general(from), to, bytes);
}

void Aarch64Encoder::copy_register(int to, int from) {
  if (to < first_floating) code_.move(general(to), general(from));
  else if (from >= first_floating) code_.move(floating(to), floating(from));
  else code_.move(floating(to), general(from), true);
}
void Aarch64Encoder::load_slot(int to, int slot) { load_from(to, at(slots, 8 * std::int64_t{slot}, 8), 8); }
void Aarch64Encoder::store_slot(int slot, int from) { store_to(at(slots, 8 * std::int64_t{slot}, 8), from, 8); }

void Aarch64Encoder::load_number(int to, int value) {
  const Instruction& it = *ranges_.number(value);
  const std::int64_t bits = number_of(it);
  if (to < first_floating) return code_.move(general(to), bits);
  const bool wide = it.dtype == stave::float64;
  const double number = !stave::is_float(it.dtype) ? 0
                        : wide                     ? std::bit_cast<double>(bits)
                                                   : std::bit_cast<float>(static_cast<std::int32_t>(bits));
  if (bits == 0) code_.clear(floating(to));
  else if (aarch64::Assembler::can_hold(number)) code_.move(floating(to), number, wide);
  else code_.load(floating(to), at(table, constant_offset(value), 8), 8);
}

void Aarch64Encoder::load_address(int to, const Lowered::Buffer& buffer) {
  switch (buffer.kind) {
    case Lowered::Buffer::Kind::input: return load_from(to, at(inputs, 8 * std::int64_t{buffer.number}, 8), 8);
    case Lowered::Buffer::Kind::output: return load_from(to, at(outputs, 8 * std::int64_t{buffer.number}, 8), 8);
    case Lowered::Buffer::Kind::constant:
      return code_.move(general(to),
                        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffer.constant.node().data())));
    case Lowered::Buffer::Kind::work: return code_.move(general(to), buffers);
  }
}

// ---- memory -------------------------------------------------------------------------------------

Memory Aarch64Encoder::access(const Instruction& it) {
  const Access& place = ranges_.access(position_);
  const Lowered::Buffer& buffer = ranges_.code().buffers[static_cast<std::size_t>(it.buffer)];
  const std::size_t size = stave::size_of(it.dtype);
  X base = buffers;
  std::int64_t offset = place.offset * static_cast<std::int64_t>(size);
  if (buffer.kind == Lowered::Buffer::Kind::work) offset += buffer.offset;
  else base = general(allocator_.read(ranges_.address_of(it.buffer)));
  if (place.index >= 0) {
    const X index = read_general(place.index, 0);
    if (offset == 0) {
      if (index != x(16)) return {base, 0, index.id};
      code_.move(address, index);  // x16 will be used again
      return {base, 0, address.id};
    }
    code_.add_shifted(address, base, index, size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0);
    base = address;
  }
  if (aarch64::Assembler::can_access(offset, size)) return {base, offset};
  code_.move(x(16), offset);
  code_.add(address, base, x(16));
  return {address};
}

void Aarch64Encoder::load(const Instruction& it) {
  const Memory from = access(it);
  allocator_.release_operands();
  load_from(allocator_.assign(it.result), from, stave::size_of(it.dtype));
}

void Aarch64Encoder::store(const Instruction& it) {
  const Memory to = access(it);
  const int value = it.operands[1];
  const std::size_t size = stave::size_of(it.dtype);
  if (const Instruction* const number = ranges_.number(value); number && number_of(*number) == 0)
    return code_.store(aarch64::zero, to, size);
  if (ranges_.bank(value) == Bank::floating) code_.store(read_float(value, 0), to, size);
  else code_.store(read_general(value, 0), to, size);
}

// ---- calls --------------------------------------------------------------------------------------

void Aarch64Encoder::store_in_frame(int offset, std::size_t bytes, int from) { store_to({sp, offset}, from, bytes); }
void Aarch64Encoder::load_from_frame(int to, int offset, std::size_t bytes) { load_from(to, {sp, offset}, bytes); }
void Aarch64Encoder::pass_frame_address(int argument, int offset) { code_.add(x(argument), sp, offset); }
void Aarch64Encoder::pass_number(int argument, int number) { code_.move(x(argument), number); }
void Aarch64Encoder::call_address(const void* function) {
  code_.move(x(16), static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(function)));
  code_.call(x(16));
}

}  // namespace stave_cpu

#endif
