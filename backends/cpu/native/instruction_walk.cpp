#include <stave/backends/cpu/native/instruction_walk.h>

#include <unordered_map>

namespace stave_cpu {

InstructionWalk::InstructionWalk(const LiveRanges& ranges, const Conventions& conventions, const Frame& frame)
    : ranges_(ranges), allocator_(ranges, conventions.allocatable, *this), constants_(ranges.code().values.size(), -1),
      conventions_(conventions), frame_(frame) {}

std::size_t InstructionWalk::slot_bytes() const {
  return (static_cast<std::size_t>(allocator_.slots()) * 8 + 63) / 64 * 64;
}

void InstructionWalk::run() {
  begin_text();
  const int count = static_cast<int>(ranges_.code().instructions.size());
  for (position_ = 0; position_ < count; ++position_) {
    if (!ranges_.is_needed(position_)) continue;
    if (const int calls = vector_call_length(); calls > 1) {
      call_on_vector(calls);
      continue;
    }
    allocator_.begin(position_);
    instruction();
    allocator_.end();
  }
  end_text();
}

void InstructionWalk::instruction() {
  using Code = Lowered::Code;
  const Instruction& it = instruction_at(position_);
  switch (it.code) {
    case Code::number:
    case Code::next: return;
    case Code::operation: return operation(it);
    case Code::load: return load(it);
    case Code::store: return store(it);
    case Code::carried: return allocator_.carry(it.result, it.operands[0]);
    case Code::loop: return begin_loop(position_);
    case Code::end: return end_loop(position_);
    case Code::check: return check(it);
  }
}

void InstructionWalk::operation(const Instruction& it) {
  if (!float_operation(it) && !integer_operation(it)) call_function(it);
}

// ---- numbers ------------------------------------------------------------------------------------

std::int64_t InstructionWalk::number_of(const Instruction& it) {
  switch (stave::size_of(it.dtype)) {
    case 1: return it.dtype == stave::int8 ? static_cast<std::int8_t>(it.number) : it.number & 0xff;
    case 2: return it.dtype == stave::int16 ? static_cast<std::int16_t>(it.number) : it.number & 0xffff;
    case 4: return it.dtype == stave::int32 ? static_cast<std::int32_t>(it.number) : it.number & 0xffffffff;
    default: return it.number;
  }
}

std::vector<std::uint64_t> InstructionWalk::find_constants(int begin) {
  std::vector<std::uint64_t> table;
  std::unordered_map<std::int64_t, int> places;
  const int count = static_cast<int>(ranges_.code().instructions.size());
  for (int position = 0; position < count; ++position) {
    const Instruction& it = instruction_at(position);
    if (it.code != Lowered::Code::number || !stave::is_float(it.dtype) || !ranges_.is_needed(position)) continue;
    const auto [found, is_new] = places.try_emplace(number_of(it), begin + 8 * static_cast<int>(table.size()));
    if (is_new) table.push_back(static_cast<std::uint64_t>(number_of(it)));
    constants_[static_cast<std::size_t>(it.result)] = found->second;
  }
  return table;
}

// ---- moves --------------------------------------------------------------------------------------

// A move to memory goes by way of a general register, unless the value is in a register.
void InstructionWalk::move(Location to, Location from) {
  if (to == from) return;
  const int target = to.is_register() ? to.id : conventions_.general_scratch;
  switch (from.kind) {
    case Location::Kind::nowhere: return;
    case Location::Kind::in_register:
      if (to.is_register()) copy_register(to.id, from.id);
      else store_slot(to.id, from.id);
      return;
    case Location::Kind::slot: load_slot(target, from.id); break;
    case Location::Kind::number: load_number(target, from.id); break;
    case Location::Kind::address:
      load_address(target, ranges_.code().buffers[static_cast<std::size_t>(from.id - ranges_.address_of(0))]);
      break;
  }
  if (!to.is_register()) store_slot(to.id, target);
}

// What a slot holds goes to a general register, even if it will be moved to a floating one.
Location InstructionWalk::save(Location from) {
  const bool is_floating = from.is_register() && from.id >= first_floating;
  const Location to = in_register(is_floating ? conventions_.saved_floating : conventions_.saved_general);
  move(to, from);
  return to;
}

}  // namespace stave_cpu
