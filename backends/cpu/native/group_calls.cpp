#include <stave/backends/cpu/native/group_calls.h>

#include <algorithm>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/native/functions.h>

namespace stave_cpu {

using stave_detail::Lowered;
using Code = Lowered::Code;
using Instruction = Lowered::Instruction;

bool is_vector_call(const Lowered& code, const Instruction& it) {
  return it.code == Code::operation && function_on_vector(it.op, code.dtype(it.operands[0])) != nullptr;
}

int vector_call_lanes(stave::Dtype dtype) {
  return static_cast<int>(static_cast<std::size_t>(kernels().vector_bytes) / stave::size_of(dtype));
}

namespace {

// A partner of a call is sought among this many instructions that follow, and this many may move
// for it. Where more move, their values stay in registers for too long.
constexpr std::size_t most_ahead = 256, most_moved = 64;

bool ends_segment(const Instruction& it) {
  return it.code != Code::number && it.code != Code::operation && it.code != Code::load && it.code != Code::store;
}

// Reorders one segment: instructions without loops and checks.
class Segment {
 public:
  Segment(const Lowered& code, std::span<const Instruction> instructions, std::vector<int>& assigned_at)
      : code_(code), instructions_(instructions), assigned_at_(assigned_at), last_call_(instructions.size(), -1),
        done_(instructions.size()), seen_(instructions.size()) {
    find_dependencies();
  }
  ~Segment() {
    for (const Instruction& it : instructions_)
      if (it.result >= 0) assigned_at_[at(it.result)] = -1;
  }

  void append_to(std::vector<Instruction>& order) {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      if (done_[k]) continue;
      if (is_vector_call(code_, instructions_[k])) append_group(k, order);
      else append(k, order);
    }
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  // Finds for each instruction the earlier ones that must precede it: those that compute its
  // operands and, if it accesses memory, the accesses whose order matters.
  void find_dependencies() {
    first_.push_back(0);
    int last_store[2] = {-1, -1};     // to the workspace, to an output
    std::vector<int> loads_since[2];  // after that store
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      const Instruction& it = instructions_[k];
      const auto after = [&](int earlier) {
        if (earlier < 0) return;
        before_.push_back(earlier);
        const int call = is_vector_call(code_, instructions_[at(earlier)]) ? earlier : last_call_[at(earlier)];
        last_call_[k] = std::max(last_call_[k], call);
      };
      const int values = it.code == Code::operation ? stave_detail::operand_count(it.op) : 2;
      for (int i = 0; i < values; ++i)
        if (it.operands[i] >= 0) after(assigned_at_[at(it.operands[i])]);
      if (it.code == Code::load || it.code == Code::store) {
        // Inputs and constants are never written. Buffers of the workspace may overlap.
        const auto kind = code_.buffers[at(it.buffer)].kind;
        if (kind == Lowered::Buffer::Kind::work || kind == Lowered::Buffer::Kind::output) {
          const int memory = kind == Lowered::Buffer::Kind::output;
          after(last_store[memory]);
          if (it.code == Code::load) {
            loads_since[memory].push_back(static_cast<int>(k));
          } else {
            for (const int load : loads_since[memory]) after(load);
            loads_since[memory].clear();
            last_store[memory] = static_cast<int>(k);
          }
        }
      }
      if (it.result >= 0) assigned_at_[at(it.result)] = static_cast<int>(k);
      first_.push_back(before_.size());
    }
  }

  void append(std::size_t k, std::vector<Instruction>& order) {
    done_[k] = true;
    order.push_back(instructions_[k]);
  }

  bool is_like(const Instruction& a, const Instruction& b) const {
    return a.code == Code::operation && a.op == b.op && a.dtype == b.dtype &&
           code_.dtype(a.operands[0]) == code_.dtype(b.operands[0]);
  }

  // Appends a call with the calls that can follow it, and what these need.
  void append_group(std::size_t call, std::vector<Instruction>& order) {
    const Instruction& first = instructions_[call];
    const auto lanes = static_cast<std::size_t>(vector_call_lanes(code_.dtype(first.operands[0])));
    std::vector<std::size_t> group{call}, moved, needed;
    const std::size_t end = std::min(instructions_.size(), call + most_ahead);
    for (std::size_t k = call + 1; k < end && group.size() < lanes; ++k) {
      if (done_[k] || !is_like(instructions_[k], first)) continue;
      if (last_call_[k] >= 0 && !done_[at(last_call_[k])]) continue;
      needed.clear();
      const bool can_move = collect(k, needed) && moved.size() + needed.size() <= most_moved;
      for (const std::size_t i : needed) seen_[i] = can_move;
      if (!can_move) continue;
      moved.insert(moved.end(), needed.begin(), needed.end());
      group.push_back(k);
    }
    std::sort(moved.begin(), moved.end());
    for (const std::size_t k : moved) append(k, order);
    for (const std::size_t k : group) append(k, order);
  }

  // Adds the instructions that must precede k and have not been appended. Returns false if one of
  // them is a call, or if there are too many. `seen_` marks those that have been added before.
  bool collect(std::size_t k, std::vector<std::size_t>& needed) {
    for (std::size_t i = first_[k]; i < first_[k + 1]; ++i) {
      const std::size_t earlier = at(before_[i]);
      if (done_[earlier] || seen_[earlier]) continue;
      if (is_vector_call(code_, instructions_[earlier]) || needed.size() >= most_moved) return false;
      seen_[earlier] = true;
      needed.push_back(earlier);
      if (!collect(earlier, needed)) return false;
    }
    return true;
  }

  const Lowered& code_;
  const std::span<const Instruction> instructions_;
  std::vector<int>& assigned_at_;  // the instruction of this segment that assigns each value, or -1
  // before_[first_[k]], ..., before_[first_[k + 1] - 1] are the instructions that must precede k.
  std::vector<std::size_t> first_;
  std::vector<int> before_;
  // For each instruction, the last one of the calls on which it depends, directly or not; or -1.
  std::vector<int> last_call_;
  std::vector<bool> done_, seen_;
};

}  // namespace

Lowered group_calls(Lowered code) {
  std::vector<Instruction> order;
  order.reserve(code.instructions.size());
  std::vector<int> assigned_at(code.values.size(), -1);
  const std::span<const Instruction> all = code.instructions;
  for (std::size_t begin = 0; begin < all.size();) {
    if (ends_segment(all[begin])) {
      order.push_back(all[begin++]);
      continue;
    }
    std::size_t end = begin;
    int calls = 0;
    for (; end < all.size() && !ends_segment(all[end]); ++end) calls += is_vector_call(code, all[end]);
    const auto segment = all.subspan(begin, end - begin);
    if (calls > 1) Segment(code, segment, assigned_at).append_to(order);
    else order.insert(order.end(), segment.begin(), segment.end());
    begin = end;
  }
  code.instructions = std::move(order);
  return code;
}

}  // namespace stave_cpu
