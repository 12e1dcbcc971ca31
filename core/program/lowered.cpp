#include <stave/core/program/lowered.h>

#include <algorithm>
#include <cstring>

#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

namespace {

using Code = Lowered::Code;
using Instruction = Lowered::Instruction;

struct ScalarOpRecord {
  const char* name;
  int operands;
};
constexpr ScalarOpRecord scalar_ops[] = {
#define X(name, operands) {#name, operands},
    STAVE_SCALAR_OPS(X)
#undef X
};

bool is_comparison(ScalarOp op) {
  return (op >= ScalarOp::equal && op <= ScalarOp::less_equal) || op == ScalarOp::signbit;
}

// The bytes of an element, in the first bytes of an int64.
template <class T>
std::int64_t bytes_of(T value) {
  std::int64_t bytes = 0;
  std::memcpy(&bytes, &value, sizeof(T));
  return bytes;
}
template <class T>
T element_of(std::int64_t bytes) {
  T value{};
  std::memcpy(&value, &bytes, sizeof(T));
  return value;
}

std::string number_text(std::int64_t bytes, Dtype dtype) {
  return visit_real_dtype(dtype, [&](auto zero) -> std::string {
    using T = decltype(zero);
    if constexpr (is_half<T>) return fmt::format("{}", static_cast<float>(element_of<T>(bytes)));
    else return fmt::format("{}", element_of<T>(bytes));
  });
}

std::string buffer_name(const Lowered& code, int buffer) {
  const Lowered::Buffer& it = code.buffers[static_cast<std::size_t>(buffer)];
  switch (it.kind) {
    case Lowered::Buffer::Kind::input: return fmt::format("in{}", it.number);
    case Lowered::Buffer::Kind::output: return fmt::format("out{}", it.number);
    case Lowered::Buffer::Kind::constant: return fmt::format("constant{}", buffer);
    case Lowered::Buffer::Kind::work: return fmt::format("work{}", buffer);
  }
  __builtin_unreachable();
}

std::string text_of(const Lowered& code, const Instruction& it) {
  const auto value = [](int v) { return fmt::format("%{}", v); };
  const auto place = [&] {
    std::string index = it.operands[0] < 0 ? "" : value(it.operands[0]);
    if (it.operands[0] < 0 || it.number != 0)
      index += fmt::format("{}{}", it.operands[0] < 0 || it.number < 0 ? "" : "+", it.number);
    return fmt::format("{}[{}]", buffer_name(code, it.buffer), index);
  };
  switch (it.code) {
    case Code::number:
      return fmt::format("{}:{} = number {}", value(it.result), name_of(it.dtype), number_text(it.number, it.dtype));
    case Code::operation: {
      std::string text = fmt::format("{}:{} = {}", value(it.result), name_of(it.dtype), name_of(it.op));
      for (int i = 0; i < operand_count(it.op); ++i) text += " " + value(it.operands[i]);
      return text;
    }
    case Code::load: return fmt::format("{}:{} = load {}", value(it.result), name_of(it.dtype), place());
    case Code::store: return fmt::format("store {} {}", place(), value(it.operands[1]));
    case Code::carried:
      return fmt::format("{}:{} = carried {}", value(it.result), name_of(it.dtype), value(it.operands[0]));
    case Code::loop:
      return fmt::format("loop {} {}", value(it.result),
                         it.operands[0] < 0 ? fmt::format("{}", it.number) : value(it.operands[0]));
    case Code::next: return fmt::format("next {} {}", value(it.operands[0]), value(it.operands[1]));
    case Code::end: return "end";
    case Code::check:
      return fmt::format("check {} \"{}\"", value(it.operands[0]), code.errors[static_cast<std::size_t>(it.number)]);
  }
  __builtin_unreachable();
}

}  // namespace

const char* name_of(ScalarOp op) { return scalar_ops[static_cast<int>(op)].name; }
int operand_count(ScalarOp op) { return scalar_ops[static_cast<int>(op)].operands; }

std::string Lowered::str() const {
  std::string text;
  for (std::size_t b = 0; b < buffers.size(); ++b)
    text += fmt::format("{}: {}[{}]\n", buffer_name(*this, static_cast<int>(b)), name_of(buffers[b].dtype),
                        buffers[b].elements);
  std::string indent = "  ";
  for (const Instruction& it : instructions) {
    if (it.code == Code::end) indent.resize(indent.size() - 2);
    text += indent + text_of(*this, it) + "\n";
    if (it.code == Code::loop) indent += "  ";
  }
  return text;
}

// ---- the verifier -------------------------------------------------------------------------------

namespace {

class Verifier {
 public:
  explicit Verifier(const Lowered& code) : code_(code), state_(code.values.size(), State::unassigned) {}

  void run() {
    for (const Instruction& it : code_.instructions) {
      at_ = &it;
      check(it);
    }
    if (!open_loops_.empty()) refuse("a loop does not end");
  }

 private:
  enum class State : std::uint8_t { unassigned, visible, ended };
  struct Loop {
    std::vector<int> carried, assigned;
  };

  [[noreturn]] void refuse(std::string_view reason) const {
    fail<TransformError>("lowered: {}, in `{}`", reason, text_of(code_, *at_));
  }
  Dtype read(int operand) const {
    if (operand < 0 || static_cast<std::size_t>(operand) >= state_.size()) refuse("an operand does not exist");
    const State state = state_[static_cast<std::size_t>(operand)];
    if (state == State::unassigned) refuse(fmt::format("%{} is read before it is assigned", operand));
    if (state == State::ended) refuse(fmt::format("%{} is read outside of its loop", operand));
    return code_.dtype(operand);
  }
  void expect(bool holds, std::string_view reason) const {
    if (!holds) refuse(reason);
  }
  void assign(const Instruction& it, Dtype dtype) {
    expect(it.result >= 0 && static_cast<std::size_t>(it.result) < state_.size(), "the result does not exist");
    State& state = state_[static_cast<std::size_t>(it.result)];
    expect(state == State::unassigned, "the result is assigned twice");
    expect(code_.dtype(it.result) == dtype && it.dtype == dtype, "the result has another dtype");
    state = State::visible;
    if (!open_loops_.empty()) open_loops_.back().assigned.push_back(it.result);
  }
  void check_place(const Instruction& it) const {
    expect(it.buffer >= 0 && static_cast<std::size_t>(it.buffer) < code_.buffers.size(), "the buffer does not exist");
    const Lowered::Buffer& buffer = code_.buffers[static_cast<std::size_t>(it.buffer)];
    expect(buffer.dtype == it.dtype, "the buffer has another dtype");
    if (it.operands[0] >= 0) expect(read(it.operands[0]) == int64, "the index is not an int64");
    else expect(it.number >= 0 && it.number < buffer.elements, "the index is out of range");
  }
  Dtype result_of(const Instruction& it) const {
    const int count = operand_count(it.op);
    Dtype dtypes[3]{};
    for (int i = 0; i < count; ++i) dtypes[i] = read(it.operands[i]);
    if (it.op == ScalarOp::convert) return it.dtype;
    const int first = it.op == ScalarOp::select;
    if (first) expect(dtypes[0] == bool_, "the first operand is not a bool");
    for (int i = first + 1; i < count; ++i) expect(dtypes[i] == dtypes[first], "operands have different dtypes");
    return is_comparison(it.op) ? bool_ : dtypes[first];
  }

  void check(const Instruction& it) {
    expect(pending_.empty() || it.code == Code::carried || it.code == Code::loop, "no loop follows a carried value");
    expect(!follows_next_ || it.code == Code::next || it.code == Code::end,
           "something stands between `next` and `end`");
    switch (it.code) {
      case Code::number: return assign(it, it.dtype);
      case Code::operation: return assign(it, result_of(it));
      case Code::load: check_place(it); return assign(it, it.dtype);
      case Code::store:
        check_place(it);
        expect(read(it.operands[1]) == it.dtype, "the stored value has another dtype");
        using Kind = Lowered::Buffer::Kind;
        if (const Kind kind = code_.buffers[static_cast<std::size_t>(it.buffer)].kind;
            kind == Kind::input || kind == Kind::constant)
          refuse("the buffer is only read");
        return;
      case Code::carried:
        assign(it, read(it.operands[0]));
        pending_.push_back(it.result);
        return;
      case Code::loop:
        if (it.operands[0] >= 0) expect(read(it.operands[0]) == int64, "the number of steps is not an int64");
        open_loops_.push_back({std::move(pending_), {}});
        pending_.clear();
        return assign(it, int64);
      case Code::next: {
        expect(!open_loops_.empty(), "there is no loop");
        std::vector<int>& carried = open_loops_.back().carried;
        const auto found = std::find(carried.begin(), carried.end(), it.operands[0]);
        expect(found != carried.end(), "the loop does not carry the value");
        carried.erase(found);
        expect(read(it.operands[1]) == code_.dtype(it.operands[0]), "the next value has another dtype");
        follows_next_ = true;
        return;
      }
      case Code::end:
        expect(!open_loops_.empty(), "there is no loop");
        expect(open_loops_.back().carried.empty(), "a carried value has no next one");
        for (const int value : open_loops_.back().assigned) state_[static_cast<std::size_t>(value)] = State::ended;
        open_loops_.pop_back();
        follows_next_ = false;
        return;
      case Code::check:
        expect(read(it.operands[0]) == bool_, "the condition is not a bool");
        expect(it.number >= 0 && static_cast<std::size_t>(it.number) < code_.errors.size(), "the error does not exist");
        return;
    }
  }

  const Lowered& code_;
  std::vector<State> state_;
  std::vector<Loop> open_loops_;
  std::vector<int> pending_;   // carried values whose loop has not begun
  bool follows_next_ = false;  // the last instruction was a `next`
  const Instruction* at_ = nullptr;
};

}  // namespace

void verify(const Lowered& code) { Verifier(code).run(); }

// ---- the builder --------------------------------------------------------------------------------

namespace {

bool is_same(const Instruction& a, const Instruction& b) {
  return a.code == b.code && a.op == b.op && a.dtype == b.dtype && a.buffer == b.buffer && a.number == b.number &&
         std::equal(a.operands, a.operands + 3, b.operands);
}
std::uint32_t hash_of(const Instruction& it, int version) {
  std::uint64_t hash = static_cast<std::uint64_t>(it.number);
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  const auto bits = [](int word) { return static_cast<std::uint64_t>(static_cast<unsigned>(word)); };
  mix(static_cast<std::uint64_t>(it.code) | static_cast<std::uint64_t>(it.op) << 8 |
      static_cast<std::uint64_t>(it.dtype) << 16 | bits(it.buffer) << 32);
  mix(bits(it.operands[0]) | bits(it.operands[1]) << 32);
  mix(bits(it.operands[2]) | bits(version) << 32);
  return static_cast<std::uint32_t>(hash);
}

}  // namespace

int LoweredBuilder::add_buffer(Lowered::Buffer buffer) {
  code_.buffers.push_back(std::move(buffer));
  writes_to_.emplace_back();
  return static_cast<int>(code_.buffers.size()) - 1;
}

// Appends an instruction that has a result, and returns its value.
int LoweredBuilder::append(Instruction it, int version) {
  it.result = static_cast<int>(code_.values.size());
  makers_.push_back({code_.instructions.size(), version});
  code_.values.push_back(it.dtype);
  code_.instructions.push_back(it);
  return it.result;
}

// Does the same. If an equal instruction is visible, returns the value of that one instead.
int LoweredBuilder::append_or_reuse(const Instruction& it, int version) {
  if (2 * known_.size() >= table_.size()) grow_table();
  const std::uint32_t hash = hash_of(it, version);
  const std::size_t last = table_.size() - 1;
  std::size_t place = hash & last;
  for (; table_[place].value >= 0; place = (place + 1) & last) {
    const Known& known = table_[place];
    if (known.hash == hash && makers_[static_cast<std::size_t>(known.value)].version == version &&
        is_same(maker_of(known.value), it))
      return known.value;
  }
  known_.push_back(table_[place] = {hash, append(it, version)});
  return known_.back().value;
}

// Values are added in their order, so that the last one can be removed again: no other value was
// placed behind it.
void LoweredBuilder::grow_table() {
  table_.assign(std::max<std::size_t>(64, 4 * known_.size()), {});
  const std::size_t last = table_.size() - 1;
  for (const Known& known : known_) {
    std::size_t place = known.hash & last;
    while (table_[place].value >= 0) place = (place + 1) & last;
    table_[place] = known;
  }
}

int LoweredBuilder::number(Scalar value, Dtype dtype) {
  const std::int64_t bytes = visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_half<T> || std::is_floating_point_v<T>) return bytes_of(T(static_cast<T>(value.floating)));
    else if constexpr (std::is_same_v<T, bool>) return bytes_of(value.floating != 0);
    else
      return bytes_of(static_cast<T>(value.kind == Scalar::Kind::floating ? static_cast<std::int64_t>(value.floating)
                                                                          : value.integer));
  });
  return number_of_bytes(bytes, dtype);
}
int LoweredBuilder::number_of_bytes(std::int64_t bytes, Dtype dtype) {
  Instruction it{Code::number};
  it.dtype = dtype;
  it.number = bytes;
  return append_or_reuse(it);
}

// Returns the value of an operation that need not run: an operation on constant indices or bools, a
// comparison of constant floats, or an operation that changes nothing. Returns -1 for others.
int LoweredBuilder::fold(ScalarOp op, int a, int b, int c, Dtype result) {
  if (op == ScalarOp::convert && dtype(a) == result) return a;
  const std::int64_t* const x = number_of(a);
  if (op == ScalarOp::select) {
    if (b == c) return b;
    return x ? (element_of<bool>(*x) ? b : c) : -1;
  }
  if (dtype(a) == bool_ && b >= 0) {
    const std::int64_t* const y = number_of(b);
    if (!x && !y) return -1;
    const int other = x ? b : a;
    const bool known = element_of<bool>(x ? *x : *y);
    if (op == ScalarOp::bit_and) return known ? other : number(false, bool_);
    if (op == ScalarOp::bit_or) return known ? number(true, bool_) : other;
    return -1;
  }
  if (op == ScalarOp::convert && x && is_integer(dtype(a)) && result == int64)
    return number_of_bytes(visit_real_dtype(dtype(a),
                                            [&](auto zero) -> std::int64_t {
                                              if constexpr (std::is_integral_v<decltype(zero)>)
                                                return static_cast<std::int64_t>(element_of<decltype(zero)>(*x));
                                              else return 0;
                                            }),
                           int64);
  if (is_comparison(op) && op != ScalarOp::signbit && x && number_of(b) && is_float(dtype(a)))
    return visit_real_dtype(dtype(a), [&](auto zero) {
      using T = decltype(zero);
      const auto left = static_cast<double>(element_of<T>(*x)),
                 right = static_cast<double>(element_of<T>(*number_of(b)));
      return number(op == ScalarOp::equal       ? left == right
                    : op == ScalarOp::not_equal ? left != right
                    : op == ScalarOp::less      ? left < right
                                                : left <= right,
                    bool_);
    });
  if (dtype(a) != int64 || b < 0) return -1;
  const std::int64_t* const y = number_of(b);
  if (x && y) {
    const auto left = static_cast<std::uint64_t>(*x), right = static_cast<std::uint64_t>(*y);
    switch (op) {
      case ScalarOp::add: return number_of_bytes(static_cast<std::int64_t>(left + right), int64);
      case ScalarOp::subtract: return number_of_bytes(static_cast<std::int64_t>(left - right), int64);
      case ScalarOp::multiply: return number_of_bytes(static_cast<std::int64_t>(left * right), int64);
      case ScalarOp::equal: return number(*x == *y, bool_);
      case ScalarOp::less: return number(*x < *y, bool_);
      case ScalarOp::less_equal: return number(*x <= *y, bool_);
      default: return -1;
    }
  }
  if (op == ScalarOp::add && x && *x == 0) return b;
  if ((op == ScalarOp::add || op == ScalarOp::subtract) && y && *y == 0) return a;
  if (op == ScalarOp::multiply && x && *x == 1) return b;
  if (op == ScalarOp::multiply && y && *y == 1) return a;
  return -1;
}

int LoweredBuilder::add(ScalarOp op, int a, int b, int c, Dtype result) {
  if (const int known = fold(op, a, b, c, result); known >= 0) return known;
  Instruction it{Code::operation, op};
  it.operands[0] = a;
  it.operands[1] = b;
  it.operands[2] = c;
  it.dtype = op == ScalarOp::convert  ? result
             : is_comparison(op)      ? bool_
             : op == ScalarOp::select ? dtype(b)
                                      : dtype(a);
  return append_or_reuse(it);
}

int LoweredBuilder::load(int buffer, int index, Index offset) {
  const Writes& writes = writes_to_[static_cast<std::size_t>(buffer)];
  if (index < 0)
    if (const auto found = writes.stored.find(offset); found != writes.stored.end())
      if (const Stored& it = found->second; it.epoch == epoch_ && it.version == writes.last_computed) return it.value;
  Instruction it{Code::load};
  it.dtype = code_.buffers[static_cast<std::size_t>(buffer)].dtype;
  it.buffer = buffer;
  it.operands[0] = index;
  it.number = offset;
  using Kind = Lowered::Buffer::Kind;
  const Kind kind = code_.buffers[static_cast<std::size_t>(buffer)].kind;
  const bool is_written = kind == Kind::output || kind == Kind::work;
  return append_or_reuse(it, is_written ? std::max(epoch_, writes.last) : 0);
}

void LoweredBuilder::store(int buffer, int index, Index offset, int value) {
  Instruction it{Code::store};
  it.dtype = code_.buffers[static_cast<std::size_t>(buffer)].dtype;
  it.buffer = buffer;
  it.operands[0] = index;
  it.operands[1] = value;
  it.number = offset;
  code_.instructions.push_back(it);
  Writes& writes = writes_to_[static_cast<std::size_t>(buffer)];
  writes.last = ++writes_;
  if (index < 0) writes.stored[offset] = {value, writes.last_computed, epoch_};
  else writes.last_computed = writes_;
}

int LoweredBuilder::carried(int initial) {
  Instruction it{Code::carried};
  it.dtype = dtype(initial);
  it.operands[0] = initial;
  return append(it);
}

int LoweredBuilder::begin_loop_of(int steps, Index count) {
  Instruction it{Code::loop};
  it.dtype = int64;
  it.operands[0] = steps;
  it.number = count;
  open_.push_back(++loops_);
  marks_.push_back(known_.size());
  epoch_ = ++writes_;
  return append(it);
}

void LoweredBuilder::next(int carried, int value) {
  Instruction it{Code::next};
  it.dtype = dtype(carried);
  it.operands[0] = carried;
  it.operands[1] = value;
  code_.instructions.push_back(it);
}

void LoweredBuilder::end_loop() {
  code_.instructions.push_back({Code::end});
  const std::size_t last = table_.size() - 1;
  for (; known_.size() > marks_.back(); known_.pop_back()) {
    std::size_t place = known_.back().hash & last;
    while (table_[place].value != known_.back().value) place = (place + 1) & last;
    table_[place] = {};
  }
  marks_.pop_back();
  open_.pop_back();
  epoch_ = ++writes_;
}

void LoweredBuilder::check(int condition, std::string error) {
  if (const std::int64_t* const known = number_of(condition); known && element_of<bool>(*known)) return;
  Instruction it{Code::check};
  it.operands[0] = condition;
  const auto found = std::find(code_.errors.begin(), code_.errors.end(), error);
  it.number = found - code_.errors.begin();
  if (found == code_.errors.end()) code_.errors.push_back(std::move(error));
  code_.instructions.push_back(it);
}

}  // namespace stave_detail
