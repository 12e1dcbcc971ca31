// Random lowered code: loops in loops, carried values, memory, and many live values of every kind.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/program/lower.h>
#include <stave/stave.h>

namespace native {

using namespace stave;
using stave_detail::Lowered;
using stave_detail::LoweredBuilder;
using stave_detail::ScalarOp;

constexpr Index elements = 16;  // of each buffer

/// Writes random code. Each dtype has an input, an output and a buffer of the workspace.
class Generator {
 public:
  /// Six dtypes: two of floats, int64, two of integers, and bool. The numbers of steps of some loops
  /// are computed if `computed_steps` is set; the code then has no computed positions.
  Generator(unsigned seed, std::vector<Dtype> six, bool computed_steps)
      : random_(seed), dtypes_(std::move(six)), computed_steps_(computed_steps), builder_(code_) {}

  Lowered run(int size) {
    using Kind = Lowered::Buffer::Kind;
    int number = 0;
    for (const Dtype dtype : dtypes_) {
      builder_.add_buffer({Kind::input, dtype, elements, number++});
      code_.input_shapes.push_back({elements});
    }
    number = 0;
    for (const Dtype dtype : dtypes_) {
      builder_.add_buffer({Kind::output, dtype, elements, number++});
      code_.output_shapes.push_back({elements});
    }
    for (const Dtype dtype : dtypes_) {
      Lowered::Buffer work{Kind::work, dtype, elements};
      work.offset = code_.work_bytes;
      code_.work_bytes += elements * 8;
      builder_.add_buffer(work);
    }
    code_.input_labels.resize(dtypes_.size());
    values_.resize(dtypes_.size());
    const int i = builder_.begin_loop(elements);
    for (int d = 0; d < count; ++d)
      for (const int buffer : {d + count, d + 2 * count}) builder_.store(buffer, i, 0, builder_.load(d, i, 0));
    builder_.end_loop();
    for (int d = 0; d < count; ++d)
      for (Index k = 0; k < 3; ++k) add(d, builder_.load(d, -1, k));
    block(size);
    return std::move(code_);
  }

 private:
  static constexpr int count = 6;
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  void add(int d, int value) { values_[static_cast<std::size_t>(d)].push_back(value); }
  int value(int d) {
    const std::vector<int>& all = values_[static_cast<std::size_t>(d)];
    // Old values as well as new ones, so that many are live.
    return all[static_cast<std::size_t>(pick(3) ? pick(static_cast<int>(all.size()))
                                                : static_cast<int>(all.size()) - 1 -
                                                      pick(std::min(4, static_cast<int>(all.size()))))];
  }
  template <class... Ops>
  ScalarOp one_of(Ops... ops) {
    const ScalarOp all[] = {ops...};
    return all[pick(static_cast<int>(sizeof...(ops)))];
  }

  void operation() {
    const int d = pick(count);
    const Dtype dtype = dtypes_[static_cast<std::size_t>(d)];
    using Op = ScalarOp;
    switch (pick(12)) {
      case 0: return add(d, builder_.number(Scalar(dtype == bool_ ? pick(2) : pick(100)), dtype));
      case 1: {  // a comparison
        const int a = value(d), b = value(d);
        return add(5, builder_.add(one_of(Op::less, Op::less_equal, Op::equal, Op::not_equal), a, b));
      }
      case 2: {
        const int condition = value(5), a = value(d), b = value(d);
        return add(d, builder_.add(Op::select, condition, a, b));
      }
      case 3: {  // a maximum, whose comparisons may be masks
        const int a = value(d), b = value(d);
        const int condition = builder_.add(one_of(Op::bit_or, Op::bit_and, Op::bit_xor), builder_.add(Op::less, b, a),
                                           builder_.add(Op::not_equal, a, a));
        if (pick(4) == 0) add(5, condition);
        return add(d, builder_.add(Op::select, pick(2) ? condition : builder_.add(Op::bit_not, condition), a, b));
      }
      case 4: {
        const int from = pick(count);
        if (from == d) return;
        return add(d, builder_.add(Op::convert, value(from), -1, -1, dtype));
      }
      case 5: return add(d, builder_.load(pick(3) * count + d, index(), pick(8)));
      case 6: return builder_.store((1 + pick(2)) * count + d, index(), pick(8), value(d));
      default: break;
    }
    const int a = value(d), b = value(d), c = value(d);
    if (dtype == bool_) {
      const Op op = one_of(Op::bit_and, Op::bit_or, Op::bit_xor, Op::bit_not);
      return add(d, builder_.add(op, a, op == Op::bit_not ? -1 : b));
    }
    Op op = one_of(Op::add, Op::subtract, Op::multiply, Op::add, Op::subtract, Op::multiply, Op::abs, Op::negative);
    if (pick(3) == 0)
      op = is_float(dtype)
               ? one_of(Op::divide, Op::sqrt, Op::fma, Op::floor, Op::copysign, Op::rint, Op::exp, Op::sin, Op::atan2)
               : one_of(Op::bit_and, Op::bit_or, Op::bit_xor, Op::bit_not, Op::shift_left, Op::shift_right,
                        Op::floor_divide, Op::remainder);
    const int operands = stave_detail::operand_count(op);
    add(d, builder_.add(op, a, operands > 1 ? b : -1, operands > 2 ? c : -1));
  }
  // The index of an open loop, all of which have at most eight steps, a computed position, or none.
  int index() {
    if (!computed_steps_ && pick(4) == 0)
      return builder_.add(ScalarOp::bit_and, value(2), builder_.number(Scalar(7), int64));
    return indices_.empty() || pick(2) ? -1
                                       : indices_[static_cast<std::size_t>(pick(static_cast<int>(indices_.size())))];
  }

  void block(int size) {
    while (size > 0) {
      if (size > 8 && indices_.size() < 3 && pick(12) == 0) size -= loop(size / 2);
      else if (pick(60) == 0)
        builder_.check(builder_.add(ScalarOp::bit_or, value(5), value(5)), "check " + std::to_string(pick(3)));
      else {
        operation();
        --size;
      }
    }
  }

  int loop(int size) {
    const int many = pick(4) == 0 ? 24 : 4;
    std::vector<std::pair<int, int>> carried;  // a dtype and a value
    std::vector<int> initial;
    for (int k = pick(many); k >= 0; --k) {
      const int d = pick(count);
      initial.push_back(value(d));
      carried.emplace_back(d, -1);
    }
    // The number of steps, which is computed in some loops.
    int steps = -1;
    if (computed_steps_ && pick(3) == 0)
      steps = builder_.add(ScalarOp::bit_and, value(2), builder_.number(Scalar(7), int64));
    for (std::size_t k = 0; k < carried.size(); ++k) carried[k].second = builder_.carried(initial[k]);
    const std::vector<std::vector<int>> outer = values_;
    const int i = builder_.begin_loop_of(steps, pick(8) == 0 ? 0 : 1 + pick(5));
    indices_.push_back(i);
    add(2, i);
    for (const auto& [d, value] : carried) add(d, value);
    block(1 + pick(size));
    // Next values may be carried ones that change places.
    std::vector<int> next;
    for (const auto& [d, ignored] : carried) next.push_back(value(d));
    for (std::size_t k = 0; k < carried.size(); ++k) {
      std::vector<int> same;
      for (const auto& [d, value] : carried)
        if (d == carried[k].first) same.push_back(value);
      builder_.next(carried[k].second,
                    pick(2) ? next[k] : same[static_cast<std::size_t>(pick(static_cast<int>(same.size())))]);
    }
    builder_.end_loop();
    indices_.pop_back();
    values_ = outer;
    for (const auto& [d, value] : carried) add(d, value);
    for (const auto& [d, value] : carried) builder_.store(count + d, -1, pick(elements), value);
    return size;
  }

  std::mt19937 random_;
  const std::vector<Dtype> dtypes_;
  const bool computed_steps_;
  Lowered code_;
  LoweredBuilder builder_;
  std::vector<std::vector<int>> values_;  // those that can be read, by dtype
  std::vector<int> indices_;
};

inline std::vector<Tensor> random_inputs(const std::vector<Dtype>& dtypes, unsigned seed) {
  std::vector<Tensor> inputs;
  for (const Dtype dtype : dtypes) {
    const Tensor x = normal(fold_in(Key(seed), static_cast<std::uint32_t>(dtype)), {elements}, float64) * 3;
    inputs.push_back(dtype == bool_ ? x > 0 : astype(abs(x) * (is_float(dtype) ? 1 : 10), dtype));
  }
  return inputs;
}

}  // namespace native
