// The last passes over lowered code: they remove dead code, number buffers and values anew, and
// give work buffers their places in the workspace.
#include <algorithm>
#include <map>

#include <stave/core/program/free_ranges.h>
#include <stave/core/program/lower.h>

namespace stave_detail {

namespace {

using Code = Lowered::Code;
using Kind = Lowered::Buffer::Kind;

// Removes instructions that no store to an output and no check depends on.
void remove_dead_code(Lowered& code) {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  const std::size_t count = code.instructions.size();
  std::vector<std::uint8_t> live(count);
  std::vector<std::size_t> maker(code.values.size());
  std::vector<std::vector<std::size_t>> stores(code.buffers.size());
  std::vector<std::size_t> loop_of(count, none);  // the loop around an instruction
  // The instruction that a live one also needs: a carried value needs its `next`, and a loop its
  // `end`.
  std::vector<std::size_t> also(count, none);
  std::vector<std::size_t> open, work;
  const auto need = [&](std::size_t at) {
    if (at == none || live[at]) return;
    live[at] = true;
    work.push_back(at);
  };
  for (std::size_t at = 0; at < count; ++at) {
    const Lowered::Instruction& it = code.instructions[at];
    if (!open.empty()) loop_of[at] = open.back();
    if (it.result >= 0) maker[static_cast<std::size_t>(it.result)] = at;
    if (it.code == Code::store) {
      if (code.buffers[static_cast<std::size_t>(it.buffer)].kind == Kind::output) need(at);
      else stores[static_cast<std::size_t>(it.buffer)].push_back(at);
    }
    if (it.code == Code::next) also[maker[static_cast<std::size_t>(it.operands[0])]] = at;
    if (it.code == Code::check) need(at);
    if (it.code == Code::loop) open.push_back(at);
    if (it.code == Code::end) {
      also[open.back()] = at;
      open.pop_back();
    }
  }
  while (!work.empty()) {
    const std::size_t at = work.back();
    work.pop_back();
    const Lowered::Instruction& it = code.instructions[at];
    for (const int operand : it.operands)
      if (operand >= 0) need(maker[static_cast<std::size_t>(operand)]);
    if (it.code == Code::load)
      for (const std::size_t store : std::exchange(stores[static_cast<std::size_t>(it.buffer)], {})) need(store);
    need(also[at]);
    need(loop_of[at]);
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at)
    if (live[at]) code.instructions[kept++] = code.instructions[at];
  code.instructions.resize(kept);
}

// Drops values, and buffers other than inputs and outputs, that no instruction names, and numbers
// the others anew.
void renumber(Lowered& code) {
  std::vector<int> buffers(code.buffers.size(), -1), values(code.values.size(), -1);
  const auto give = [](std::vector<int>& to, int old, int& next) {
    if (old >= 0 && to[static_cast<std::size_t>(old)] < 0) to[static_cast<std::size_t>(old)] = next++;
  };
  int next_buffer = 0, next_value = 0;
  for (std::size_t b = 0; b < code.inputs() + code.outputs(); ++b) give(buffers, static_cast<int>(b), next_buffer);
  for (const Lowered::Instruction& it : code.instructions) {
    give(buffers, it.buffer, next_buffer);
    give(values, it.result, next_value);
  }
  std::vector<Lowered::Buffer> new_buffers(static_cast<std::size_t>(next_buffer), {Kind::work, bool_, 0});
  std::vector<Dtype> new_values(static_cast<std::size_t>(next_value));
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b] >= 0) new_buffers[static_cast<std::size_t>(buffers[b])] = std::move(code.buffers[b]);
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v] >= 0) new_values[static_cast<std::size_t>(values[v])] = code.values[v];
  for (Lowered::Instruction& it : code.instructions) {
    if (it.buffer >= 0) it.buffer = buffers[static_cast<std::size_t>(it.buffer)];
    if (it.result >= 0) it.result = values[static_cast<std::size_t>(it.result)];
    for (int& operand : it.operands)
      if (operand >= 0) operand = values[static_cast<std::size_t>(operand)];
  }
  code.buffers = std::move(new_buffers);
  code.values = std::move(new_values);
}

// Gives each work buffer a place in the workspace. A buffer is in use from its first to its last
// instruction. If these are in different loops, the buffer is in use throughout the outermost loop
// around each of them that does not contain the other.
void place_work(Lowered& code) {
  struct Loop {
    int parent, depth;
    std::size_t begin, end;
  };
  std::vector<Loop> loops{{-1, 0, 0, code.instructions.size()}};
  struct Use {
    int loop = -1;  // the innermost loop around all uses; -1: there are none
    std::size_t first = 0, last = 0;
  };
  std::vector<Use> uses(code.buffers.size());
  std::vector<int> loop_at(code.instructions.size());
  int open = 0;
  const auto at = [&](int loop) -> Loop& { return loops[static_cast<std::size_t>(loop)]; };
  const auto common = [&](int a, int b) {
    while (a != b) (at(a).depth >= at(b).depth ? a : b) = at(at(a).depth >= at(b).depth ? a : b).parent;
    return a;
  };
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const Lowered::Instruction& it = code.instructions[i];
    if (it.code == Code::loop) {
      loops.push_back({open, at(open).depth + 1, i, i});
      open = static_cast<int>(loops.size()) - 1;
    }
    loop_at[i] = open;
    if (it.code == Code::end) {
      at(open).end = i;
      open = at(open).parent;
    }
    if (it.buffer < 0) continue;
    Use& use = uses[static_cast<std::size_t>(it.buffer)];
    if (use.loop < 0) use = {open, i, i};
    use.loop = common(use.loop, open);
    use.last = i;
  }
  // Returns the beginning or the end of the loop around instruction i that is directly in `outer`,
  // or i if there is no such loop.
  const auto widened = [&](std::size_t i, int outer, bool to_end) {
    int loop = loop_at[i];
    if (loop == outer) return i;
    while (at(loop).parent != outer) loop = at(loop).parent;
    return to_end ? at(loop).end : at(loop).begin;
  };
  struct Interval {
    std::size_t first, last;
    int buffer;
  };
  std::vector<Interval> intervals;
  for (std::size_t b = 0; b < code.buffers.size(); ++b)
    if (const Use& use = uses[b]; code.buffers[b].kind == Kind::work && use.loop >= 0)
      intervals.push_back(
          {widened(use.first, use.loop, false), widened(use.last, use.loop, true), static_cast<int>(b)});
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.first < b.first; });
  FreeRanges ranges;
  std::multimap<std::size_t, std::pair<Index, Index>> ends;  // by last instruction: (offset, bytes)
  for (const Interval& it : intervals) {
    for (; !ends.empty() && ends.begin()->first < it.first; ends.erase(ends.begin()))
      ranges.give_back(static_cast<std::size_t>(ends.begin()->second.first),
                       static_cast<std::size_t>(ends.begin()->second.second));
    Lowered::Buffer& buffer = code.buffers[static_cast<std::size_t>(it.buffer)];
    const Index bytes = (buffer.elements * static_cast<Index>(size_of(buffer.dtype)) + 7) / 8 * 8;
    buffer.offset = static_cast<Index>(ranges.take(static_cast<std::size_t>(bytes)));
    ends.emplace(it.last, std::pair(buffer.offset, bytes));
  }
  code.work_bytes = static_cast<Index>(ranges.end());
}

}  // namespace

void finish(Lowered& code) {
  remove_dead_code(code);
  renumber(code);
  place_work(code);
}

}  // namespace stave_detail
