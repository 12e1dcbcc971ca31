// The interpreter of regions whose arrays have one element.
#include <stave/backends/cpu/fused_single.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/fused_tiles.h>
#include <stave/core/ops/elementwise_ops.h>

namespace stave_cpu {

using stave::Dtype;
using stave::OpId;
using stave::Region;

namespace {

struct Register {
  alignas(8) unsigned char bytes[8];

  template <class T>
  T get() const {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <class T>
  void set(T value) {
    std::memcpy(bytes, &value, sizeof value);
  }
  // Copies an element of `size` bytes. The common sizes of 4 and 8 bytes need no call of memcpy.
  static void copy(void* to, const void* from, std::size_t size) {
    if (size == 4) std::memcpy(to, from, 4);
    else if (size == 8) std::memcpy(to, from, 8);
    else std::memcpy(to, from, size);
  }
};

struct Code {
  void (*run)(Register*, const Code&);
  std::uint16_t operands[3], result;
  // The kernel of an operation that has no function in `arithmetic`: `as_block` calls it for one
  // element.
  BlockKernel kernel;
};

/// A number with the interface that the structs of elementwise_ops.h expect of their argument.
template <class T>
struct One {
  T x;
  explicit One(T value) : x(value) {}
  friend One operator+(One a, One b) { return One(a.x + b.x); }
  friend One operator-(One a, One b) { return One(a.x - b.x); }
  friend One operator*(One a, One b) { return One(a.x * b.x); }
  friend One operator/(One a, One b) { return One(a.x / b.x); }
  friend One operator-(One a) { return One(-a.x); }
  friend bool operator==(One a, One b) { return a.x == b.x; }
  friend bool operator!=(One a, One b) { return a.x != b.x; }
  friend bool operator<(One a, One b) { return a.x < b.x; }
  friend bool operator<=(One a, One b) { return a.x <= b.x; }
  friend bool operator>(One a, One b) { return a.x > b.x; }
  friend bool operator>=(One a, One b) { return a.x >= b.x; }
  friend One select(bool choice, One a, One b) { return choice ? a : b; }
  friend bool isinf(One a) { return std::isinf(a.x); }
  friend One abs(One a) { return One(std::abs(a.x)); }
  friend One sqrt(One a) { return One(std::sqrt(a.x)); }
};

template <class T>
void put(Register& to, One<T> value) {
  to.set(value.x);
}
template <class T>
void put(Register& to, bool value) {
  to.set(value);
}

template <class Struct, class T>
void unary(Register* values, const Code& code) {
  put<T>(values[code.result], Struct::value(One<T>(values[code.operands[0]].get<T>())));
}
template <class Struct, class T>
void binary(Register* values, const Code& code) {
  put<T>(values[code.result],
         Struct::value(One<T>(values[code.operands[0]].get<T>()), One<T>(values[code.operands[1]].get<T>())));
}
void choose(Register* values, const Code& code) {
  values[code.result] = values[code.operands[values[code.operands[0]].get<bool>() ? 1 : 2]];
}
void as_block(Register* values, const Code& code) {
  const void* const in[] = {&values[code.operands[0]], &values[code.operands[1]], &values[code.operands[2]]};
  code.kernel(&values[code.result], in, 1);
}

/// Returns the function that computes an operation, or null if the operation's kernel must be
/// called.
// clang-format off
template <class T>
decltype(Code::run) arithmetic(OpId id) {
  switch (id) {
#define X(name, Struct) case OpId::name: return unary<stave_detail::Struct, T>;
    X(abs, Abs) X(negative, Negative) X(square, Square) X(reciprocal, Reciprocal) X(sqrt, Sqrt) X(relu, Relu)
#undef X
#define X(name, Struct) case OpId::name: return binary<stave_detail::Struct, T>;
    X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale) X(divide, Divide) X(maximum, Maximum)
    X(minimum, Minimum) X(equal, Equal) X(not_equal, NotEqual) X(less, Less) X(less_equal, LessEqual)
    X(greater, Greater) X(greater_equal, GreaterEqual) X(scale_by_inverse, ScaleByInverse)
#undef X
    default: return nullptr;
  }
}
// clang-format on

decltype(Code::run) code_of(OpId id, Dtype dtype) {
  if (id == OpId::where) return choose;
  if (dtype == stave::float32) return arithmetic<float>(id);
  if (dtype == stave::float64) return arithmetic<double>(id);
  return nullptr;
}

// ---- two operations at once ---------------------------------------------------------------------
// If only one operation reads the result of another, the two are performed together. This saves a
// call, and the first result stays in a register. Both operations round as they do alone.

template <class First, class Second, bool left, class T>
void pair(Register* values, const Code& code) {
  const One<T> first =
      First::value(One<T>(values[code.operands[0]].get<T>()), One<T>(values[code.operands[1]].get<T>()));
  const One<T> other(values[code.operands[2]].get<T>());
  put<T>(values[code.result], left ? Second::value(first, other) : Second::value(other, first));
}

// clang-format off
template <class First, class T>
decltype(Code::run) pair_with(OpId second, bool left) {
  switch (second) {
#define X(name, Struct) case OpId::name: \
      return left ? pair<First, stave_detail::Struct, true, T> : pair<First, stave_detail::Struct, false, T>;
    X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale)
#undef X
    default: return nullptr;
  }
}
template <class T>
decltype(Code::run) pair_of(OpId first, OpId second, bool left) {
  switch (first) {
#define X(name, Struct) case OpId::name: return pair_with<stave_detail::Struct, T>(second, left);
    X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale)
#undef X
    default: return nullptr;
  }
}
// clang-format on

struct SingleRegion final : Region::Prepared {
  std::vector<Code> codes;
  std::vector<std::pair<std::size_t, Register>> numbers;
  std::size_t values;

  explicit SingleRegion(const Region& region) : values(region.inputs().size() + region.steps().size()) {
    const std::size_t inputs = region.inputs().size();
    for (std::size_t s = 0; s < region.steps().size(); ++s) {
      const Region::Step& step = region.steps()[s];
      if (!step.op) {
        Register number{};
        std::memcpy(number.bytes, &step.bytes, stave::size_of(step.dtype));
        numbers.emplace_back(inputs + s, number);
        continue;
      }
      Code code{code_of(step.op->id, region.dtype(step.operands.back())),
                {},
                static_cast<std::uint16_t>(inputs + s),
                nullptr};
      for (std::size_t i = 0; i < step.operands.size(); ++i)
        code.operands[i] = static_cast<std::uint16_t>(step.operands[i]);
      if (!code.run) {
        code.run = as_block;
        code.kernel = kernel_of(region, step);
      }
      codes.push_back(code);
    }
    join_pairs(region);
  }

 private:
  void join_pairs(const Region& region) {
    const std::size_t inputs = region.inputs().size();
    std::vector<int> reads(values);
    for (const Region::Step& step : region.steps())
      for (const int operand : step.operands) ++reads[static_cast<std::size_t>(operand)];
    for (const int output : region.outputs()) ++reads[static_cast<std::size_t>(output)];
    // For each value: the code that computes it, if it can become the first of a pair; otherwise
    // null. Such a value has only one reader.
    std::vector<Code*> alone(values);
    for (Code& code : codes) {
      const Region::Step& step = region.steps()[code.result - inputs];
      if (reads[code.result] == 1) alone[code.result] = &code;
      if (step.operands.size() != 2) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        Code* const first = alone[code.operands[i]];
        if (!first) continue;
        const OpId first_id = region.steps()[first->result - inputs].op->id;
        const auto run = step.dtype == stave::float32   ? pair_of<float>(first_id, step.op->id, i == 0)
                         : step.dtype == stave::float64 ? pair_of<double>(first_id, step.op->id, i == 0)
                                                        : nullptr;
        if (!run) continue;
        code = {run, {first->operands[0], first->operands[1], code.operands[1 - i]}, code.result, nullptr};
        first->run = nullptr;
        // `code` is a pair already, and cannot be the first of another pair.
        alone[code.result] = nullptr;
        break;
      }
    }
    std::erase_if(codes, [](const Code& code) { return !code.run; });
  }
};

}  // namespace

bool supports_scalar_interpreter(const Region& region) {
  return region.reductions().empty() && !region.has_complex() &&
         region.inputs().size() + region.steps().size() < 1 << 16;
}

void interpret_scalars(const Region& region, std::span<const View> inputs, std::span<const View> outputs) {
  static constexpr char key = 0;
  const SingleRegion& single =
      region.prepared<SingleRegion>(&key, [&] { return std::make_unique<SingleRegion>(region); });
  constexpr std::size_t few = 256;
  Register on_stack[few];
  std::vector<Register> many;
  if (single.values > few) many.resize(single.values);
  Register* const values = many.empty() ? on_stack : many.data();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    Register::copy(values[i].bytes, inputs[i].data, stave::size_of(inputs[i].dtype));
  for (const auto& [value, number] : single.numbers) values[value] = number;
  for (const Code& code : single.codes) code.run(values, code);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    Register::copy(outputs[k].data, values[static_cast<std::size_t>(region.outputs()[k])].bytes,
                   stave::size_of(outputs[k].dtype));
}

}  // namespace stave_cpu
