#include <stave/core/program/write_c_body.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <stave/core/program/write_c_text.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

using Code = Lowered::Code;
using Instruction = Lowered::Instruction;
using Kind = Lowered::Buffer::Kind;

bool is_integer_comparison(const Instruction& it, Dtype operands) {
  return it.op >= ScalarOp::equal && it.op <= ScalarOp::less_equal && !is_float(operands);
}

// Returns true if the operation compares an integer or bool with itself, and need not read it.
bool compares_with_itself(const Lowered& code, const Instruction& it) {
  return it.code == Code::operation && it.operands[0] == it.operands[1] &&
         is_integer_comparison(it, code.dtype(it.operands[0]));
}

// ---- index arithmetic ---------------------------------------------------------------------------

// The least and the greatest number that an int64 value may be. Where no overflow is possible, an
// operation is written with an operator of C, which compilers optimise best in the indices of
// loops.
struct IndexRange {
  std::int64_t low, high;
};
using MaybeRange = std::optional<IndexRange>;

MaybeRange range_of(ScalarOp op, IndexRange a, IndexRange b) {
  IndexRange r{};
  switch (op) {
    case ScalarOp::add:
      if (__builtin_add_overflow(a.low, b.low, &r.low) || __builtin_add_overflow(a.high, b.high, &r.high)) return {};
      return r;
    case ScalarOp::subtract:
      if (__builtin_sub_overflow(a.low, b.high, &r.low) || __builtin_sub_overflow(a.high, b.low, &r.high)) return {};
      return r;
    case ScalarOp::multiply: {
      std::int64_t products[4];
      if (__builtin_mul_overflow(a.low, b.low, &products[0]) || __builtin_mul_overflow(a.low, b.high, &products[1]) ||
          __builtin_mul_overflow(a.high, b.low, &products[2]) || __builtin_mul_overflow(a.high, b.high, &products[3]))
        return {};
      const auto [low, high] = std::minmax_element(products, products + 4);
      return IndexRange{*low, *high};
    }
    case ScalarOp::floor_divide:
      if (a.low < 0 || b.low <= 0) return {};
      return IndexRange{a.low / b.high, a.high / b.low};
    case ScalarOp::remainder:
      if (a.low < 0 || b.low <= 0) return {};
      return IndexRange{0, std::min(a.high, b.high - 1)};
    default: return {};
  }
}
MaybeRange range_of(Dtype dtype) {
  if (is_float(dtype) || dtype == int64 || dtype == uint64) return {};
  if (dtype == bool_) return IndexRange{0, 1};
  const int bits = 8 * static_cast<int>(size_of(dtype));
  if (is_unsigned(dtype)) return IndexRange{0, (std::int64_t{1} << bits) - 1};
  return IndexRange{-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}
// The ranges of all values. A value of another dtype, or of an unknown range, has none.
std::vector<MaybeRange> ranges_of(const Lowered& code) {
  std::vector<MaybeRange> ranges(code.values.size());
  const auto of = [&](int value) { return ranges[static_cast<std::size_t>(value)]; };
  const auto computed = [&](const Instruction& it) -> MaybeRange {
    const int a = it.operands[0], b = it.operands[1];
    if (it.op == ScalarOp::convert) return range_of(code.dtype(a));
    if (it.op == ScalarOp::select) {
      const MaybeRange x = of(b), y = of(it.operands[2]);
      if (x && y) return IndexRange{std::min(x->low, y->low), std::max(x->high, y->high)};
    } else if (operand_count(it.op) == 2 && of(a) && of(b)) {
      return range_of(it.op, *of(a), *of(b));
    }
    return {};
  };
  for (const Instruction& it : code.instructions) {
    if (it.result < 0 || it.dtype != int64) continue;
    MaybeRange& range = ranges[static_cast<std::size_t>(it.result)];
    if (it.code == Code::number) range = IndexRange{it.number, it.number};
    else if (it.code == Code::operation) range = computed(it);
    else if (it.code == Code::loop) {
      const MaybeRange steps = it.operands[0] < 0 ? IndexRange{it.number, it.number} : of(it.operands[0]);
      const std::int64_t most = steps ? steps->high : std::numeric_limits<std::int64_t>::max();
      range = IndexRange{0, std::max<std::int64_t>(most, 1) - 1};
    }
  }
  return ranges;
}
bool is_one(const MaybeRange& range) { return range && range->low == range->high; }

// ---- which values are needed --------------------------------------------------------------------

// Finds the values on which stores, checks and the numbers of steps of loops depend. The other
// values are not written, because C compilers would warn of unused variables.
class LiveValues {
 public:
  LiveValues(const Lowered& code, const std::vector<MaybeRange>& ranges)
      : code_(code), ranges_(ranges), live_(code.values.size()), definition_(code.values.size()),
        next_(code.values.size(), -1) {
    for (const Instruction& it : code.instructions) {
      if (it.result >= 0) definition_[static_cast<std::size_t>(it.result)] = &it;
      if (it.code == Code::next) next_[static_cast<std::size_t>(it.operands[0])] = it.operands[1];
    }
    for (const Instruction& it : code.instructions) {
      if (it.code == Code::loop || it.code == Code::check) mark(it.operands[0]);
      else if (it.code == Code::store) mark(it.operands[0]), mark(it.operands[1]);
    }
  }
  bool operator[](int value) const { return live_[static_cast<std::size_t>(value)]; }

 private:
  void mark(int root) {
    std::vector<int> pending{root};
    while (!pending.empty()) {
      const int value = pending.back();
      pending.pop_back();
      if (value < 0 || live_[static_cast<std::size_t>(value)]) continue;
      live_[static_cast<std::size_t>(value)] = true;
      const Instruction& it = *definition_[static_cast<std::size_t>(value)];
      // Such values are written without their operands: as a number, or as true or false.
      if (is_one(ranges_[static_cast<std::size_t>(value)]) || compares_with_itself(code_, it)) continue;
      for (const int operand : it.operands) pending.push_back(operand);
      pending.push_back(next_[static_cast<std::size_t>(value)]);
    }
  }

  const Lowered& code_;
  const std::vector<MaybeRange>& ranges_;
  std::vector<bool> live_;
  std::vector<const Instruction*> definition_;
  std::vector<int> next_;  // for each carried value, the value that it becomes
};

// ---- the writer ---------------------------------------------------------------------------------

class BodyWriter {
 public:
  BodyWriter(const Lowered& code, const std::string& name, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const std::string& workspace, CFunctions& functions)
      : code_(code), name_(name), inputs_(inputs), outputs_(outputs), workspace_(workspace), functions_(functions),
        ranges_(ranges_of(code)), live_(code, ranges_), texts_(code.values.size()), is_used_(code.buffers.size()) {}

  CBody run() {
    find_named_numbers();
    for (const Instruction& it : code_.instructions) write(it);
    CBody body;
    body.statements = buffers(body.tables) + statements_ + "  return 0;\n";
    return body;
  }

 private:
  // The precedence of the operators of a text, which decides whether the text needs parentheses.
  enum class Binding : std::uint8_t { name, product, sum };
  struct Text {
    std::string text;  // empty: a variable, which is v1 for value 1
    Binding binding = Binding::name;
  };

  static std::size_t at(int value) { return static_cast<std::size_t>(value); }

  // Finds the constants that become variables (is_named_). Others are written where they are used.
  // A compiler might warn that a comparison with a constant is always true, or that an operation on
  // constants overflows.
  void find_named_numbers() {
    std::vector<bool> is_number(code_.values.size());
    is_named_.resize(code_.values.size());
    for (const Instruction& it : code_.instructions) {
      if (it.code == Code::number) is_number[at(it.result)] = true;
      if (it.code == Code::check && is_number[at(it.operands[0])]) is_named_[at(it.operands[0])] = true;
      if (it.code != Code::operation || !live_[it.result] || compares_with_itself(code_, it)) continue;
      const bool is_comparison = is_integer_comparison(it, code_.dtype(it.operands[0]));
      if (!is_comparison && it.dtype == int64) continue;  // an index
      const int count = operand_count(it.op);
      const bool are_numbers = std::all_of(it.operands, it.operands + count, [&](int x) { return is_number[at(x)]; });
      for (int i = 0; i < count; ++i)
        if (is_number[at(it.operands[i])] && (are_numbers || is_comparison)) is_named_[at(it.operands[i])] = true;
    }
  }

  std::string operand(int value, Binding most = Binding::name) const {
    const Text& it = texts_[at(value)];
    if (it.text.empty()) return fmt::format("v{}", value);
    return it.binding > most ? "(" + it.text + ")" : it.text;
  }
  void line(const std::string& text) { statements_ += std::string(2 * depth_ + 2, ' ') + text + "\n"; }
  void assign(const Instruction& it, const std::string& expression) {
    line(fmt::format("{}{} v{} = {};", it.code == Code::carried ? "" : "const ", c_type(it.dtype), it.result,
                     expression));
  }

  std::string buffer_name(int number) const {
    const Lowered::Buffer& it = code_.buffers[at(number)];
    switch (it.kind) {
      case Kind::input: return inputs_[at(it.number)];
      case Kind::output: return outputs_[at(it.number)];
      case Kind::constant: return fmt::format("{}_c{}", name_, number);
      case Kind::work: return fmt::format("w{}", number);
    }
    __builtin_unreachable();
  }
  std::string place(const Instruction& it) {
    is_used_[at(it.buffer)] = true;
    const std::string name = buffer_name(it.buffer);
    if (it.operands[0] < 0) return fmt::format("{}[{}]", name, it.number);
    std::string index = operand(it.operands[0], Binding::sum);
    if (it.number != 0) index += fmt::format(" {} {}", it.number < 0 ? '-' : '+', std::abs(it.number));
    return fmt::format("{}[{}]", name, index);
  }

  void write(const Instruction& it) {
    if (it.result >= 0 && it.code != Code::loop && !live_[it.result]) return;
    switch (it.code) {
      case Code::number: return write_number(it);
      case Code::operation: return write_operation(it);
      case Code::load: return assign(it, place(it));
      case Code::store: return line(fmt::format("{} = {};", place(it), operand(it.operands[1], Binding::sum)));
      case Code::carried: return assign(it, operand(it.operands[0], Binding::sum));
      case Code::loop: return begin_loop(it);
      case Code::next:
        if (live_[it.operands[0]]) nexts_.push_back(&it);
        return;
      case Code::end: return end_loop();
      case Code::check: return line(fmt::format("if (!{}) return {};", operand(it.operands[0]), it.number + 1));
    }
  }

  void write_number(const Instruction& it) {
    std::string text = c_number(it.number, it.dtype);
    if (is_named_[at(it.result)]) assign(it, text);
    else texts_[at(it.result)].text = std::move(text);
  }

  // The text of an operation on indices that cannot overflow; empty for others.
  Text index_text(const Instruction& it) const {
    const MaybeRange& range = ranges_[at(it.result)];
    if (!range) return {};
    if (is_one(range)) return {index_number(range->low)};
    const int a = it.operands[0], b = it.operands[1];
    const auto in = [&](int value, Binding most) {
      const MaybeRange& known = ranges_[at(value)];
      return is_one(known) ? index_number(known->low) : operand(value, most);
    };
    switch (it.op) {
      case ScalarOp::add: return {in(a, Binding::sum) + " + " + in(b, Binding::product), Binding::sum};
      case ScalarOp::subtract: return {in(a, Binding::sum) + " - " + in(b, Binding::product), Binding::sum};
      case ScalarOp::multiply: return {in(a, Binding::product) + " * " + in(b, Binding::name), Binding::product};
      case ScalarOp::floor_divide: return {in(a, Binding::product) + " / " + in(b, Binding::name), Binding::product};
      case ScalarOp::remainder: return {in(a, Binding::product) + " % " + in(b, Binding::name), Binding::product};
      default: return {};
    }
  }
  // A small number may be an int, because it is combined with an int64_t.
  static std::string index_number(std::int64_t number) {
    const bool is_small = number >= 0 && number <= std::numeric_limits<std::int16_t>::max();
    return is_small ? fmt::format("{}", number) : c_number(number, int64);
  }

  void write_operation(const Instruction& it) {
    if (Text index = index_text(it); !index.text.empty()) {
      constexpr std::size_t longest = 48;
      if (index.text.size() > longest) assign(it, index.text);
      else texts_[at(it.result)] = std::move(index);
      return;
    }
    std::string operands[3];
    for (int i = 0; i < operand_count(it.op); ++i) operands[i] = operand(it.operands[i]);
    const Dtype dtype = code_.dtype(it.operands[it.op == ScalarOp::select]);
    if (compares_with_itself(code_, it))
      return assign(it, it.op == ScalarOp::equal || it.op == ScalarOp::less_equal ? "true" : "false");
    assign(it, functions_.expression(it.op, dtype, it.dtype, operands));
  }

  void begin_loop(const Instruction& it) {
    const std::string name = fmt::format("i{}", depth_);
    texts_[at(it.result)].text = name;
    const std::string end = it.operands[0] < 0 ? index_number(it.number) : operand(it.operands[0], Binding::sum);
    line(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", name, end));
    ++depth_;
  }
  void end_loop() {
    // All carried values change at once. A carried value whose present value is the next value of
    // another one is therefore copied before it changes.
    std::vector<std::string> values;
    for (const Instruction* next : nexts_) {
      const int value = next->operands[1];
      const bool changed = std::any_of(nexts_.begin(), nexts_.begin() + static_cast<std::ptrdiff_t>(values.size()),
                                       [&](const Instruction* other) { return other->operands[0] == value; });
      if (changed) line(fmt::format("const {0} n{1} = v{1};", c_type(next->dtype), value));
      values.push_back(changed ? fmt::format("n{}", value) : operand(value, Binding::sum));
    }
    for (std::size_t i = 0; i < nexts_.size(); ++i) {
      const std::string name = operand(nexts_[i]->operands[0]);
      if (name != values[i]) line(fmt::format("{} = {};", name, values[i]));
    }
    nexts_.clear();
    --depth_;
    line("}");
  }

  // Returns declarations of pointers to the work buffers that are used, and casts of unused
  // arguments to void, so that compilers do not warn. Adds the tables of constant buffers to
  // `tables`.
  std::string buffers(std::string& tables) const {
    std::string text;
    const std::vector<CWorkspace> workspace = workspace_of(code_);
    for (std::size_t b = 0; b < code_.buffers.size(); ++b) {
      const Lowered::Buffer& it = code_.buffers[b];
      const std::string name = buffer_name(static_cast<int>(b));
      if (it.kind == Kind::work && is_used_[b]) {
        const auto array = std::find_if(workspace.begin(), workspace.end(),
                                        [&](const CWorkspace& each) { return each.dtype == it.dtype; });
        const Index place = (it.offset - array->first) / static_cast<Index>(size_of(it.dtype));
        text += fmt::format("  {}* const {} = {}", c_type(it.dtype), name,
                            fmt::format(fmt::runtime(workspace_), array->name));
        text += place == 0 ? ";\n" : fmt::format(" + {};\n", place);
      } else if (it.kind == Kind::constant && is_used_[b]) {
        tables +=
            fmt::format("static const {} {}[{}] = {};\n", c_type(it.dtype), name, it.elements, c_table(it.constant));
      } else if ((it.kind == Kind::input || it.kind == Kind::output) && !is_used_[b]) {
        text += fmt::format("  (void){};\n", name);
      }
    }
    return text;
  }

  const Lowered& code_;
  const std::string& name_;
  const std::vector<std::string>&inputs_, &outputs_;
  const std::string& workspace_;
  CFunctions& functions_;
  const std::vector<MaybeRange> ranges_;
  const LiveValues live_;
  std::vector<Text> texts_;
  std::vector<bool> is_named_, is_used_;
  std::vector<const Instruction*> nexts_;
  std::string statements_;
  std::size_t depth_ = 0;
};

}  // namespace

std::vector<CWorkspace> workspace_of(const Lowered& code) {
  std::vector<CWorkspace> arrays;
  std::vector<Index> ends;
  for (const Lowered::Buffer& it : code.buffers) {
    if (it.kind != Kind::work) continue;
    const Index end = it.offset + it.elements * static_cast<Index>(size_of(it.dtype));
    auto found =
        std::find_if(arrays.begin(), arrays.end(), [&](const CWorkspace& each) { return each.dtype == it.dtype; });
    if (found == arrays.end()) {
      arrays.push_back({it.dtype, it.dtype == bool_ ? "bool_" : name_of(it.dtype), it.offset});
      ends.push_back(end);
      continue;
    }
    found->first = std::min(found->first, it.offset);
    Index& last = ends[static_cast<std::size_t>(found - arrays.begin())];
    last = std::max(last, end);
  }
  for (std::size_t i = 0; i < arrays.size(); ++i)
    arrays[i].elements = (ends[i] - arrays[i].first) / static_cast<Index>(size_of(arrays[i].dtype));
  std::sort(arrays.begin(), arrays.end(), [](const CWorkspace& a, const CWorkspace& b) { return a.dtype > b.dtype; });
  return arrays;
}

CBody write_c_body(const Lowered& code, const std::string& name, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const std::string& workspace, CFunctions& functions) {
  return BodyWriter(code, name, inputs, outputs, workspace, functions).run();
}

}  // namespace stave_detail
