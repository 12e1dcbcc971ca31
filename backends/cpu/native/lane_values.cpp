#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace stave_cpu {

namespace {

using Code = Lowered::Code;
using Instruction = Lowered::Instruction;
using Kind = Lowered::Buffer::Kind;

std::size_t index_of(int index) { return static_cast<std::size_t>(index); }

bool is_same_for_all(const Lowered::Buffer& buffer, const std::vector<bool>& is_uniform) {
  return buffer.kind == Kind::constant || (buffer.kind == Kind::input && is_uniform[index_of(buffer.number)]);
}

class Finder {
 public:
  Finder(Lowered& code, const std::vector<bool>& is_uniform)
      : code_(code), is_uniform_(is_uniform), vectors_(code.values.size()) {}

  std::vector<bool> run() {
    // A loop may carry a value into an earlier instruction, so this repeats until nothing changes.
    do {
      changed_ = false;
      for (const Instruction& it : code_.instructions) visit(it);
    } while (changed_);
    for (const Instruction& it : code_.instructions)
      if (it.code == Code::loop && it.operands[0] >= 0 && vectors_[index_of(it.operands[0])])
        throw std::runtime_error("lanes have different numbers of steps of a loop");
    repeat_numbers();
    return std::move(vectors_);
  }

 private:
  void mark(int value, bool is_vector) {
    if (!is_vector || vectors_[index_of(value)]) return;
    vectors_[index_of(value)] = true;
    changed_ = true;
  }
  void visit(const Instruction& it) {
    const auto any_operand = [&](int count) {
      return std::any_of(it.operands, it.operands + count,
                         [&](int value) { return value >= 0 && vectors_[index_of(value)]; });
    };
    if (it.result >= 0) mark(it.result, stave::is_float(code_.dtype(it.result)));
    switch (it.code) {
      case Code::operation: return mark(it.result, any_operand(stave_detail::operand_count(it.op)));
      case Code::load:
        return mark(it.result, any_operand(1) || !is_same_for_all(code_.buffers[index_of(it.buffer)], is_uniform_));
      case Code::carried: return mark(it.result, any_operand(1));
      case Code::next: return mark(it.operands[0], vectors_[index_of(it.operands[1])]);
      default: return;
    }
  }

  // Inserts a conversion where a carried vector begins as a single number, or becomes one. The
  // conversion stands before the declarations of carried values, or before the instructions `next`.
  void repeat_numbers() {
    std::vector<Instruction> all;
    all.reserve(code_.instructions.size());
    std::size_t first = 0;  // of the present run of `carried` or `next`
    Code last = Code::end;
    for (Instruction it : code_.instructions) {
      if (it.code != last) first = all.size();
      last = it.code;
      const bool is_next = it.code == Code::next;
      if (is_next || it.code == Code::carried) {
        int& value = it.operands[is_next];
        if (vectors_[index_of(is_next ? it.operands[0] : it.result)] && !vectors_[index_of(value)]) {
          Instruction repeat{Code::operation};
          repeat.op = stave_detail::ScalarOp::convert;
          repeat.dtype = code_.dtype(value);
          repeat.operands[0] = value;
          repeat.result = value = static_cast<int>(code_.values.size());
          code_.values.push_back(repeat.dtype);
          vectors_.push_back(true);
          all.insert(all.begin() + static_cast<std::ptrdiff_t>(first++), repeat);
        }
      }
      all.push_back(it);
    }
    code_.instructions = std::move(all);
  }

  Lowered& code_;
  const std::vector<bool>& is_uniform_;
  std::vector<bool> vectors_;
  bool changed_ = false;
};

// Replaces x << n | x >> (bits - n), for unsigned x, by a rotation (is_rotation).
void find_rotations(Lowered& code, const std::vector<bool>& vectors) {
  std::vector<int> assigned_at(code.values.size(), -1);
  for (std::size_t k = 0; k < code.instructions.size(); ++k) {
    Instruction& it = code.instructions[k];
    if (it.result >= 0) assigned_at[index_of(it.result)] = static_cast<int>(k);
    if (it.code != Code::operation || it.op != stave_detail::ScalarOp::bit_or || !stave::is_unsigned(it.dtype) ||
        !vectors[index_of(it.result)])
      continue;
    const auto assignment = [&](int value) -> const Instruction& {
      return code.instructions[index_of(assigned_at[index_of(value)])];
    };
    const Instruction &left = assignment(it.operands[0]), &right = assignment(it.operands[1]);
    if (left.code != Code::operation || right.code != Code::operation) continue;
    if (left.op != stave_detail::ScalarOp::shift_left || right.op != stave_detail::ScalarOp::shift_right) continue;
    const Instruction &places = assignment(left.operands[1]), &others = assignment(right.operands[1]);
    const auto bits = static_cast<std::int64_t>(8 * stave::size_of(it.dtype));
    if (left.operands[0] != right.operands[0] || places.code != Code::number || others.code != Code::number ||
        places.number <= 0 || others.number <= 0 || places.number + others.number != bits)
      continue;
    it.op = stave_detail::ScalarOp::shift_left;
    it.operands[0] = it.operands[2] = left.operands[0];
    it.operands[1] = left.operands[1];
  }
}

}  // namespace

bool is_rotation(const Lowered::Instruction& it) {
  return it.code == Code::operation && it.op == stave_detail::ScalarOp::shift_left && it.operands[2] >= 0;
}

LaneValues find_lane_values(Lowered code, const std::vector<bool>& is_uniform, bool has_rotations) {
  LaneValues found;
  found.code = std::move(code);
  found.vectors = Finder(found.code, is_uniform).run();
  if (has_rotations) find_rotations(found.code, found.vectors);
  // An operand of an operation on vectors becomes a vector, and so does a number that is stored.
  const auto count = [&](int value) {
    const stave::Dtype dtype = found.code.dtype(value);
    if (stave::size_of(dtype) == 8) found.element_bytes = 8;
    if (dtype != stave::bool_ && stave::size_of(dtype) < 4)
      throw std::runtime_error(std::string("native code has no lanes of ") + stave::name_of(dtype));
  };
  for (const Instruction& it : found.code.instructions) {
    if (it.code == Code::store) count(it.operands[1]);
    if (it.result < 0 || !found.vectors[index_of(it.result)]) continue;
    count(it.result);
    if (it.code == Code::operation)
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i) count(it.operands[i]);
  }
  return found;
}

}  // namespace stave_cpu

#endif
