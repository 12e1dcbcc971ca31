// Loop-invariant code motion.
//
// One walk over the code keeps a list of instructions for each open loop. An instruction with a
// result is appended to the list of the innermost loop in which one of its operands is assigned, if
// it may move so far. At the end of a loop its list is appended to that of the loop around it, so
// that hoisted instructions, which are in the outer list already, stand before the loop.
#include <stave/core/program/hoist_invariants.h>

#include <algorithm>

namespace stave_detail {

namespace {

using Code = Lowered::Code;
using Instruction = Lowered::Instruction;

class Hoist {
 public:
  explicit Hoist(Lowered& code) : code_(code), level_(code.values.size()) { find_stores(); }

  void run() {
    loops_.resize(1);
    std::size_t number = 0;
    for (const Instruction& it : code_.instructions) {
      switch (it.code) {
        case Code::carried: carried_.push_back(it); break;
        case Code::loop: begin(it, stores_[number++]); break;
        case Code::end: end(it); break;
        case Code::number:
        case Code::operation:
        case Code::load: place(it); break;
        case Code::check: loops_.back().has_check = true; [[fallthrough]];
        case Code::store:
        case Code::next: loops_.back().instructions.push_back(it); break;
      }
    }
    code_.instructions = std::move(loops_.front().instructions);
  }

 private:
  // The buffers that a loop stores to. If there are more than `many`, the list is incomplete, and
  // no load is hoisted out of the loop.
  struct Stores {
    static constexpr std::size_t many = 64;
    std::vector<int> buffers;
    void add(int buffer) {
      if (buffers.size() <= many && std::find(buffers.begin(), buffers.end(), buffer) == buffers.end())
        buffers.push_back(buffer);
    }
  };
  struct Loop {
    std::vector<Instruction> instructions;
    std::size_t carried = 0;  // the number of its carried values, which are its first instructions
    const Stores* stores = nullptr;
    bool runs = true;        // the loop has at least one step
    bool has_check = false;  // a check stands before this point of its body
  };

  // Finds the stores of each loop, in the order in which the loops begin.
  void find_stores() {
    std::vector<std::size_t> open;
    for (const Instruction& it : code_.instructions) {
      if (it.code == Code::loop) {
        open.push_back(stores_.size());
        stores_.emplace_back();
      } else if (it.code == Code::end) {
        open.pop_back();
      } else if (it.code == Code::store) {
        for (const std::size_t loop : open) stores_[loop].add(it.buffer);
      }
    }
  }

  int& level(int value) { return level_[static_cast<std::size_t>(value)]; }
  const Lowered::Buffer& buffer(int index) const { return code_.buffers[static_cast<std::size_t>(index)]; }

  void begin(const Instruction& it, const Stores& stores) {
    Loop loop;
    loop.instructions = std::move(carried_);
    loop.carried = loop.instructions.size();
    carried_.clear();
    loop.stores = &stores;
    loop.runs = it.operands[0] < 0 && it.number > 0;
    const int depth = static_cast<int>(loops_.size());
    for (const Instruction& carried : loop.instructions) level(carried.result) = depth;
    level(it.result) = depth;
    loop.instructions.push_back(it);
    loops_.push_back(std::move(loop));
  }

  void end(const Instruction& it) {
    Loop loop = std::move(loops_.back());
    loops_.pop_back();
    std::vector<Instruction>& outer = loops_.back().instructions;
    for (std::size_t k = 0; k < loop.carried; ++k)
      level(loop.instructions[k].result) = static_cast<int>(loops_.size()) - 1;
    outer.insert(outer.end(), loop.instructions.begin(), loop.instructions.end());
    outer.push_back(it);
    loops_.back().has_check |= loop.has_check;
  }

  void place(const Instruction& it) {
    int target = 0;
    for (const int operand : it.operands)
      if (operand >= 0) target = std::max(target, level(operand));
    if (it.code == Code::load) {
      int lowest = static_cast<int>(loops_.size()) - 1;
      while (lowest > target && can_leave(it, loops_[static_cast<std::size_t>(lowest)])) --lowest;
      target = lowest;
    }
    level(it.result) = target;
    loops_[static_cast<std::size_t>(target)].instructions.push_back(it);
  }

  // Returns true if a load in the body of the loop may stand before the loop.
  bool can_leave(const Instruction& load, const Loop& loop) const {
    if (load.operands[0] >= 0 && (!loop.runs || loop.has_check)) return false;
    if (loop.stores->buffers.size() > Stores::many) return false;
    for (const int stored : loop.stores->buffers)
      if (stored == load.buffer || overlap(buffer(stored), buffer(load.buffer))) return false;
    return true;
  }
  static bool overlap(const Lowered::Buffer& a, const Lowered::Buffer& b) {
    using Kind = Lowered::Buffer::Kind;
    const auto end = [](const Lowered::Buffer& it) {
      return it.offset + it.elements * static_cast<Index>(size_of(it.dtype));
    };
    return a.kind == Kind::work && b.kind == Kind::work && a.offset < end(b) && b.offset < end(a);
  }

  Lowered& code_;
  std::vector<int> level_;  // for each value, the least depth of loops at which it can be read
  std::vector<Stores> stores_;
  std::vector<Loop> loops_;           // the code outside of all loops, then the open loops
  std::vector<Instruction> carried_;  // declarations whose loop has not begun
};

}  // namespace

Lowered hoist_invariants(Lowered code) {
  Hoist(code).run();
  return code;
}

}  // namespace stave_detail
