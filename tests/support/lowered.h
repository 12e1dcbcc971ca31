// An interpreter of lowered code, for tests: it computes what the code says, one instruction after
// the other.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/lowered.h>

namespace stave_test {

using namespace stave;
using stave_detail::Lowered;
using stave_detail::LoweredBuilder;
using stave_detail::ScalarOp;

class LoweredRun {
 public:
  explicit LoweredRun(const Lowered& code) : code_(code), values_(code.values.size()) {}

  /// The outputs, or the error of the check that failed in `error`.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    work_.resize(static_cast<std::size_t>(code_.work_bytes) + 64);
    std::vector<Tensor> kept;
    std::vector<std::vector<char>> outputs(code_.outputs());
    for (const Lowered::Buffer& buffer : code_.buffers) {
      const auto bytes = static_cast<std::size_t>(buffer.elements) * size_of(buffer.dtype);
      switch (buffer.kind) {
        case Lowered::Buffer::Kind::input:
          kept.push_back(contiguous(inputs[static_cast<std::size_t>(buffer.number)]));
          memory_.push_back(static_cast<char*>(kept.back().node().data()));
          break;
        case Lowered::Buffer::Kind::output:
          outputs[static_cast<std::size_t>(buffer.number)].resize(bytes + 1);
          memory_.push_back(outputs[static_cast<std::size_t>(buffer.number)].data());
          break;
        case Lowered::Buffer::Kind::constant:
          memory_.push_back(static_cast<char*>(buffer.constant.node().data()));
          break;
        case Lowered::Buffer::Kind::work: memory_.push_back(work_.data() + buffer.offset);
      }
    }
    run(0, code_.instructions.size());
    std::vector<Tensor> results;
    if (!error.empty()) return results;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Lowered::Buffer& buffer = code_.buffers[code_.inputs() + k];
      results.push_back(from_bytes(outputs[k].data(), static_cast<std::size_t>(buffer.elements), buffer.dtype,
                                   code_.output_shapes[k]));
    }
    return results;
  }
  std::string error;

 private:
  using Code = Lowered::Code;
  template <class T>
  T as(int value) const {
    T x{};
    std::memcpy(&x, &values_[static_cast<std::size_t>(value)], sizeof(T));
    return x;
  }
  template <class T>
  void set(int value, T x) {
    values_[static_cast<std::size_t>(value)] = 0;
    std::memcpy(&values_[static_cast<std::size_t>(value)], &x, sizeof(T));
  }

  // Runs instructions [first, end).
  void run(std::size_t first, std::size_t end) {
    for (std::size_t at = first; at < end && error.empty(); ++at) {
      const Lowered::Instruction& it = code_.instructions[at];
      const std::size_t size = size_of(it.dtype);
      const auto element = [&] {
        const std::int64_t index = it.number + (it.operands[0] < 0 ? 0 : as<std::int64_t>(it.operands[0]));
        const Lowered::Buffer& buffer = code_.buffers[static_cast<std::size_t>(it.buffer)];
        if (index < 0 || index >= buffer.elements) throw std::out_of_range("lowered code left a buffer");
        return memory_[static_cast<std::size_t>(it.buffer)] + static_cast<std::size_t>(index) * size;
      };
      switch (it.code) {
        case Code::number: values_[static_cast<std::size_t>(it.result)] = it.number; break;
        case Code::operation: perform(it); break;
        case Code::load:
          values_[static_cast<std::size_t>(it.result)] = 0;
          std::memcpy(&values_[static_cast<std::size_t>(it.result)], element(), size);
          break;
        case Code::store: std::memcpy(element(), &values_[static_cast<std::size_t>(it.operands[1])], size); break;
        case Code::carried:
          values_[static_cast<std::size_t>(it.result)] = values_[static_cast<std::size_t>(it.operands[0])];
          break;
        case Code::loop: {
          std::size_t last = at + 1;
          for (int depth = 1; depth > 0; ++last) {
            if (code_.instructions[last].code == Code::loop) ++depth;
            if (code_.instructions[last].code == Code::end) --depth;
          }
          const std::int64_t steps = it.operands[0] < 0 ? it.number : as<std::int64_t>(it.operands[0]);
          for (std::int64_t step = 0; step < steps && error.empty(); ++step) {
            set(it.result, step);
            run(at + 1, last - 1);
            std::vector<std::pair<int, std::int64_t>> next;
            for (std::size_t k = last - 1; k-- > at && code_.instructions[k].code == Code::next;)
              next.emplace_back(code_.instructions[k].operands[0],
                                values_[static_cast<std::size_t>(code_.instructions[k].operands[1])]);
            for (const auto& [value, bytes] : next) values_[static_cast<std::size_t>(value)] = bytes;
          }
          at = last - 1;
          break;
        }
        case Code::check:
          if (!as<bool>(it.operands[0])) error = code_.errors[static_cast<std::size_t>(it.number)];
          break;
        case Code::next:
        case Code::end: break;
      }
    }
  }

  void perform(const Lowered::Instruction& it) {
    const int a = it.operands[0], b = it.operands[1], c = it.operands[2];
    if (it.op == ScalarOp::select)
      values_[static_cast<std::size_t>(it.result)] = values_[static_cast<std::size_t>(as<bool>(a) ? b : c)];
    else visit_real_dtype(code_.dtype(a), [&](auto zero) { perform_on<decltype(zero)>(it, a, b, c); });
  }

  // A number as a tensor, and back; operations that are not arithmetic are the library's own.
  template <class T>
  Tensor tensor_of(int value) const {
    return full({}, as<T>(value), code_.dtype(value));
  }
  static const Op* find(std::string_view name) {
    for (const Op* op : all_ops())
      if (op->name == name) return op;
    return nullptr;
  }

  template <class T>
  void perform_on(const Lowered::Instruction& it, int a, int b, int c) {
    if constexpr (stave::is_half<T>) {
      throw std::runtime_error("lowered code has no floats of sixteen bits");
    } else {
      const T x = as<T>(a), y = b < 0 ? T{} : as<T>(b);
      constexpr bool is_floating = std::is_floating_point_v<T>, is_bool = std::is_same_v<T, bool>;
      switch (it.op) {
        case ScalarOp::equal: return set(it.result, x == y);
        case ScalarOp::not_equal: return set(it.result, x != y);
        case ScalarOp::less: return set(it.result, x < y);
        case ScalarOp::less_equal: return set(it.result, x <= y);
        case ScalarOp::convert: {
          const Tensor converted = astype(tensor_of<T>(a), it.dtype);
          return visit_real_dtype(it.dtype, [&](auto to) {
            using To = decltype(to);
            set(it.result, *static_cast<const To*>(converted.node().data()));
          });
        }
        default: break;
      }
      if constexpr (is_bool) {
        switch (it.op) {
          case ScalarOp::bit_and: return set(it.result, x && y);
          case ScalarOp::bit_or: return set(it.result, x || y);
          case ScalarOp::bit_xor: return set(it.result, x != y);
          case ScalarOp::bit_not: return set(it.result, !x);
          default: throw std::runtime_error("no such operation of bools");
        }
      } else {
        if constexpr (is_floating) {
          switch (it.op) {
            case ScalarOp::negative: return set(it.result, -x);
            case ScalarOp::add: return set(it.result, static_cast<T>(x + y));
            case ScalarOp::subtract: return set(it.result, static_cast<T>(x - y));
            case ScalarOp::multiply: return set(it.result, static_cast<T>(x * y));
            case ScalarOp::divide: return set(it.result, static_cast<T>(x / y));
            case ScalarOp::sqrt: return set(it.result, std::sqrt(x));
            case ScalarOp::fma: return set(it.result, std::fma(x, y, as<T>(c)));
            case ScalarOp::signbit: return set(it.result, std::signbit(x));
            case ScalarOp::mantissa:
            case ScalarOp::exponent: {
              int exponent = 0;
              const T mantissa = std::isfinite(x) ? std::frexp(x, &exponent) : x;
              return set(it.result, it.op == ScalarOp::mantissa ? mantissa : static_cast<T>(exponent));
            }
            case ScalarOp::ldexp:
              return set(it.result,
                         std::isnan(y) ? y : std::ldexp(x, static_cast<int>(std::clamp<T>(y, -10000, 10000))));
            case ScalarOp::erfc_of_root_half:
              return set(it.result, static_cast<T>(std::erfc(static_cast<long double>(x) / std::sqrt(2.0L))));
            default: break;
          }
        }
        // The operations of integers, and functions, by the library.
        std::string_view name = name_of(it.op);
        if (it.op == ScalarOp::bit_and) name = "bitwise_and";
        if (it.op == ScalarOp::bit_or) name = "bitwise_or";
        if (it.op == ScalarOp::bit_xor) name = "bitwise_xor";
        if (it.op == ScalarOp::bit_not) name = "bitwise_invert";
        if (it.op == ScalarOp::shift_left) name = "bitwise_left_shift";
        if (it.op == ScalarOp::shift_right) name = "bitwise_right_shift";
        if (it.op == ScalarOp::rint) name = "round";
        const Op* const op = find(name);
        if (!op) throw std::runtime_error("the library has no operation " + std::string(name));
        Inputs inputs{tensor_of<T>(a)};
        if (b >= 0) inputs.push_back(tensor_of<T>(b));
        const Tensor result = apply(*op, std::move(inputs));
        set(it.result, *static_cast<const T*>(result.node().data()));
      }
    }
  }

  const Lowered& code_;
  std::vector<std::int64_t> values_;
  std::vector<char*> memory_;
  std::vector<char> work_;
};

/// The type of an input or output of lowered code.
struct Argument {
  Dtype dtype;
  Shape shape;
  std::string label = "";
};
/// Returns code with inputs and outputs of these types; `body` writes the instructions.
inline Lowered code_with(const std::vector<Argument>& inputs, const std::vector<Argument>& outputs,
                         FunctionRef<void(Lowered&, LoweredBuilder&)> body) {
  Lowered code;
  LoweredBuilder builder(code);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    builder.add_buffer(
        {Lowered::Buffer::Kind::input, inputs[i].dtype, inputs[i].shape.elements(), static_cast<int>(i)});
    code.input_shapes.push_back(inputs[i].shape);
    code.input_labels.push_back(inputs[i].label);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    builder.add_buffer(
        {Lowered::Buffer::Kind::output, outputs[i].dtype, outputs[i].shape.elements(), static_cast<int>(i)});
    code.output_shapes.push_back(outputs[i].shape);
  }
  body(code, builder);
  verify(code);
  return code;
}

}  // namespace stave_test
