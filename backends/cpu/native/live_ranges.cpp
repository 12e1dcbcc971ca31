#include <stave/backends/cpu/native/live_ranges.h>

#include <algorithm>

namespace stave_cpu {

using stave::Dtype;
using stave_detail::ScalarOp;
using Code = Lowered::Code;
using Instruction = Lowered::Instruction;

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }
bool is_comparison_of_numbers(ScalarOp op) { return op >= ScalarOp::equal && op <= ScalarOp::less_equal; }
bool is_bitwise(ScalarOp op) { return op >= ScalarOp::bit_and && op <= ScalarOp::bit_not; }

}  // namespace

LiveRanges::LiveRanges(const Lowered& code) : LiveRanges(code, {}) {}

LiveRanges::LiveRanges(const Lowered& code, std::vector<bool> vectors)
    : code_(code), vectors_(std::move(vectors)), loop_at_(code.instructions.size(), -1),
      assigned_at_(code.values.size(), -1), accesses_(code.instructions.size()) {
  find_loops();
  fold_indices();
  find_needed();
  find_masks();
  find_uses();
  find_pressure();
}

const Instruction* LiveRanges::number(int value) const {
  if (is_address(value)) return nullptr;
  const Instruction& it = code_.instructions[at(assigned_at_[at(value)])];
  return it.code == Code::number ? &it : nullptr;
}

Bank LiveRanges::bank(int value) const {
  if (is_address(value)) return Bank::general;
  if (!vectors_.empty()) return vectors_[at(value)] ? Bank::floating : Bank::general;
  return mask_bytes(value) || stave::is_float(code_.dtype(value)) ? Bank::floating : Bank::general;
}

void LiveRanges::find_loops() {
  std::vector<int> open{-1};
  for (int position = 0; position < static_cast<int>(code_.instructions.size()); ++position) {
    const Instruction& it = code_.instructions[at(position)];
    if (it.code == Code::loop) {
      loops_.push_back({position, position, open.back()});
      open.push_back(static_cast<int>(loops_.size()) - 1);
    }
    loop_at_[at(position)] = open.back();
    if (it.code == Code::next) loops_[at(open.back())].next.emplace_back(it.operands[0], it.operands[1]);
    if (it.code == Code::end) {
      loops_[at(open.back())].end = position;
      open.pop_back();
    }
    if (it.result >= 0) assigned_at_[at(it.result)] = position;
  }
}

// If the index of an access is the sum of a value and a number, moves the number to the offset.
void LiveRanges::fold_indices() {
  for (std::size_t k = 0; k < code_.instructions.size(); ++k) {
    const Instruction& it = code_.instructions[k];
    if (it.code != Code::load && it.code != Code::store) continue;
    Access& access = accesses_[k] = {it.operands[0], it.number};
    while (access.index >= 0) {
      const Instruction& index = code_.instructions[at(assigned_at_[at(access.index)])];
      std::int64_t sum = 0;
      if (index.code == Code::number && !__builtin_add_overflow(access.offset, index.number, &sum)) {
        access = {-1, sum};
        continue;
      }
      if (index.code != Code::operation || index.op != ScalarOp::add) break;
      const Instruction* const left = number(index.operands[0]);
      const Instruction* const right = number(index.operands[1]);
      if ((!left && !right) || __builtin_add_overflow(access.offset, (right ? right : left)->number, &sum)) break;
      access = {index.operands[right ? 0 : 1], sum};
    }
  }
}

// Calls f(value) for each value that an instruction reads. The end of a loop reads its index, the
// number of steps, and the next values.
template <class F>
void LiveRanges::each_operand(int position, F f) const {
  const Instruction& it = code_.instructions[at(position)];
  const auto access = [&] {
    if (accesses_[at(position)].index >= 0) f(accesses_[at(position)].index);
    if (code_.buffers[at(it.buffer)].kind != Lowered::Buffer::Kind::work) f(address_of(it.buffer));
  };
  switch (it.code) {
    case Code::number:
    case Code::next: return;
    case Code::load: return access();
    case Code::store:
      access();
      f(it.operands[1]);
      return;
    case Code::operation:
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i) f(it.operands[i]);
      return;
    case Code::carried:
    case Code::check: return f(it.operands[0]);
    case Code::loop:
      if (it.operands[0] >= 0) f(it.operands[0]);
      return;
    case Code::end: {
      const Loop& loop = loops_[at(loop_at_[at(position)])];
      const Instruction& begin = code_.instructions[at(loop.begin)];
      f(begin.result);
      if (begin.operands[0] >= 0) f(begin.operands[0]);
      for (const auto& [carried, value] : loop.next) f(value);
    }
  }
}

void LiveRanges::find_needed() {
  needed_.assign(code_.instructions.size(), false);
  std::vector<bool> read(code_.values.size() + code_.buffers.size());
  for (int position = static_cast<int>(code_.instructions.size()) - 1; position >= 0; --position) {
    const Instruction& it = code_.instructions[at(position)];
    const bool has_only_value = it.code == Code::number || it.code == Code::operation || it.code == Code::load;
    if (has_only_value && !read[at(it.result)]) continue;
    needed_[at(position)] = true;
    each_operand(position, [&](int value) { read[at(value)] = true; });
  }
}

// A comparison of floats is held as a mask if it is only used to select between floats of the same
// size. So are bitwise operations (and, or, exclusive or, not) on such comparisons.
void LiveRanges::find_masks() {
  constexpr std::uint8_t unread = 255;
  std::vector<std::uint8_t> wanted(code_.values.size() + code_.buffers.size(), unread);
  masks_.assign(code_.values.size(), 0);
  if (!vectors_.empty()) return;
  const int count = static_cast<int>(code_.instructions.size());
  const auto bits_of_bools = [&](const Instruction& it) {
    return it.code == Code::operation && is_bitwise(it.op) && it.dtype == stave::bool_;
  };
  for (int position = count - 1; position >= 0; --position) {
    if (!needed_[at(position)]) continue;
    const Instruction& it = code_.instructions[at(position)];
    int operand = 0;
    each_operand(position, [&](int value) {
      std::uint8_t bytes = 0;
      if (it.code == Code::operation && it.op == ScalarOp::select && operand == 0 && stave::is_float(it.dtype))
        bytes = static_cast<std::uint8_t>(stave::size_of(it.dtype));
      else if (bits_of_bools(it)) bytes = wanted[at(it.result)];
      ++operand;
      std::uint8_t& want = wanted[at(value)];
      want = want == unread || want == bytes ? bytes : 0;
    });
  }
  const auto fits = [&](const Instruction& it, std::uint8_t bytes) {
    if (bytes == 0 || bytes == unread || it.code != Code::operation) return false;
    if (bits_of_bools(it)) {
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
        if (masks_[at(it.operands[i])] != bytes) return false;
      return true;
    }
    const Dtype of = code_.dtype(it.operands[0]);
    return is_comparison_of_numbers(it.op) && stave::is_float(of) && stave::size_of(of) == bytes;
  };
  for (const Instruction& it : code_.instructions)
    if (it.result >= 0 && fits(it, wanted[at(it.result)])) masks_[at(it.result)] = wanted[at(it.result)];
  // A bitwise operation whose result is not a mask needs operands that are not masks, and if one
  // operand is not a mask, the result is not a mask. Repeats until this holds for all operations.
  int passes = 0;
  for (bool changed = true; changed;) {
    if (++passes > 8) {  // Gives up: no value is held as a mask.
      std::fill(masks_.begin(), masks_.end(), std::uint8_t{0});
      break;
    }
    changed = false;
    for (int position = count - 1; position >= 0; --position) {
      const Instruction& it = code_.instructions[at(position)];
      if (!bits_of_bools(it)) continue;
      if (masks_[at(it.result)] && !fits(it, masks_[at(it.result)])) {
        masks_[at(it.result)] = 0;
        changed = true;
      }
      if (masks_[at(it.result)]) continue;
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i) {
        changed |= masks_[at(it.operands[i])] != 0;
        masks_[at(it.operands[i])] = 0;
      }
    }
  }
}

// Extends the range of a value that is read at a position. Loops between the assignment and this
// position read the value again in each step.
void LiveRanges::use(int value, int position, int loop) {
  int home = -1;
  if (!is_address(value)) home = loop_at_[at(assigned_at_[at(value)])];
  int& last = last_[at(value)];
  last = std::max(last, position);
  for (; loop != home && loop >= 0; loop = loops_[at(loop)].outer) {
    if (read_at_[at(value)] < loops_[at(loop)].begin) loops_[at(loop)].used.push_back(value);
    last = std::max(last, loops_[at(loop)].end);
  }
  read_at_[at(value)] = position;
}

void LiveRanges::find_uses() {
  const int total = static_cast<int>(code_.values.size() + code_.buffers.size());
  const int count = static_cast<int>(code_.instructions.size());
  last_.assign(at(total), -1);
  read_at_.assign(at(total), -1);
  first_use_.assign(at(total) + 1, 0);
  carried_from_.assign(at(total), -1);
  for (int value = 0; value < address_of(0); ++value) last_[at(value)] = assigned_at_[at(value)];
  for (int position = 0; position < count; ++position) {
    if (!needed_[at(position)]) continue;
    each_operand(position, [&](int value) { ++first_use_[at(value) + 1]; });
    // The operand of a `loop` is read outside of the loop.
    int loop = loop_at_[at(position)];
    if (code_.instructions[at(position)].code == Code::loop) loop = loops_[at(loop)].outer;
    each_operand(position, [&](int value) { use(value, position, loop); });
  }
  for (const Loop& loop : loops_)
    for (const auto& [carried, value] : loop.next) {
      last_[at(carried)] = std::max(last_[at(carried)], loop.end);
      carried_from_[at(value)] = carried;
    }
  for (int value = 0; value < total; ++value) first_use_[at(value) + 1] += first_use_[at(value)];
  uses_.resize(at(first_use_.back()));
  std::vector<int> fill(first_use_.begin(), first_use_.end() - 1);
  for (int position = 0; position < count; ++position)
    if (needed_[at(position)]) each_operand(position, [&](int value) { uses_[at(fill[at(value)]++)] = position; });

  first_expiring_.assign(at(count) + 1, 0);
  for (const int last : last_)
    if (last >= 0) ++first_expiring_[at(last) + 1];
  for (int position = 0; position < count; ++position)
    first_expiring_[at(position) + 1] += first_expiring_[at(position)];
  expiring_.resize(at(first_expiring_.back()));
  fill.assign(first_expiring_.begin(), first_expiring_.end() - 1);
  for (int value = 0; value < total; ++value)
    if (last_[at(value)] >= 0) expiring_[at(fill[at(last_[at(value)])]++)] = value;
}

void LiveRanges::find_pressure() {
  int live[2] = {0, 0};
  std::vector<int> open;
  for (int position = 0; position < static_cast<int>(code_.instructions.size()); ++position) {
    if (!needed_[at(position)]) continue;
    const Instruction& it = code_.instructions[at(position)];
    if (it.code == Code::loop) open.push_back(loop_at_[at(position)]);
    const auto counts = [&](int value) { return !is_address(value) && !number(value); };
    if (it.result >= 0 && counts(it.result)) ++live[static_cast<int>(bank(it.result))];
    if (!open.empty())
      for (const int b : {0, 1}) {
        int& most = loops_[at(open.back())].pressure[b];
        most = std::max(most, live[b]);
      }
    for (const int value : expiring(position))
      if (counts(value) && needed_[at(assigned_at_[at(value)])]) --live[static_cast<int>(bank(value))];
    if (it.code == Code::end) {
      const Loop& loop = loops_[at(open.back())];
      open.pop_back();
      if (!open.empty())
        for (const int b : {0, 1}) {
          int& most = loops_[at(open.back())].pressure[b];
          most = std::max(most, loop.pressure[b]);
        }
    }
  }
}

}  // namespace stave_cpu
