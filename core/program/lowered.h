// Lowered: a Program as instructions on single numbers, with loops and memory. Code generators read
// it: write_c_body.h for C, backends/cpu/native for machine code.
//
//   Lowered code = lower(trace(f)(x));   // f(x) = x * x + 1, for x of shape [100]
//   std::cout << code.str();             // in0: float64[100]
//                                        // out0: float64[100]
//                                        //   %0:float64 = number 1
//                                        //   loop %1 100
//                                        //     %2:float64 = load in0[%1]
//                                        //     %3:float64 = multiply %2 %2
//                                        //     %4:float64 = add %3 %0
//                                        //     store out0[%1] %4
//                                        //   end
//
// Each value is a number of one dtype, and is assigned by one instruction, before the instructions
// that read it. A value that is assigned in a loop is read in that loop only. Carried values are
// the exception: they are declared before a loop, which assigns them anew after each step, and
// after the loop they have the values of the last step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/program/program.h>

namespace stave_detail {

using namespace stave;

// clang-format off
// X(name, operands): the operations on numbers. An operation's result has the dtype of its operands
// unless a line here says otherwise. Integers wrap.
//   equal ... signbit         give a bool
//   fma                       a * b + c, rounded once
//   select                    the second operand where the first, a bool, is true; else the third
//   bit_and ... bit_not       take bools or integers; bit_not(true) is false
//   shift_left, shift_right   if the second operand is negative, or at least the number of bits,
//                             shift_left gives 0, and shift_right 0, or -1 of a negative number
//   convert                   as astype, to the dtype of the result
//   erfc_of_root_half         erfc(x / sqrt(2))
//   mantissa, exponent        x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; x and 0 if x is
//                             zero, infinite or NaN. The exponent is a float of the same dtype.
//   ldexp                     a * 2^b for a whole number b
//   floor_divide              rounds towards minus infinity; of integers, x / 0 is 0
//   remainder                 has the sign of the second operand; of integers, x modulo 0 is 0
// The others are arithmetic operators, and functions that core/ops/elementwise_ops.h lists.
#define STAVE_SCALAR_ARITHMETIC(X)                                                                    \
  X(negative, 1) X(abs, 1) X(sqrt, 1) X(floor, 1) X(ceil, 1) X(rint, 1) X(trunc, 1)                   \
  X(add, 2) X(subtract, 2) X(multiply, 2) X(divide, 2) X(copysign, 2) X(fma, 3)                       \
  X(equal, 2) X(not_equal, 2) X(less, 2) X(less_equal, 2) X(signbit, 1) X(select, 3)                  \
  X(bit_and, 2) X(bit_or, 2) X(bit_xor, 2) X(bit_not, 1) X(shift_left, 2) X(shift_right, 2)           \
  X(convert, 1)
#define STAVE_SCALAR_FUNCTIONS(X)                                                                     \
  X(exp, 1) X(exp2, 1) X(expm1, 1) X(log, 1) X(log2, 1) X(log10, 1) X(log1p, 1)                       \
  X(sin, 1) X(cos, 1) X(tan, 1) X(asin, 1) X(acos, 1) X(atan, 1)                                      \
  X(sinh, 1) X(cosh, 1) X(tanh, 1) X(asinh, 1) X(acosh, 1) X(atanh, 1)                                \
  X(erf, 1) X(erfc, 1) X(erfinv, 1) X(lgamma, 1) X(digamma, 1) X(erfc_of_root_half, 1)                \
  X(mantissa, 1) X(exponent, 1) X(ldexp, 2)                                                           \
  X(pow, 2) X(atan2, 2) X(hypot, 2) X(nextafter, 2) X(zeta, 2) X(floor_divide, 2) X(remainder, 2)
#define STAVE_SCALAR_OPS(X) STAVE_SCALAR_ARITHMETIC(X) STAVE_SCALAR_FUNCTIONS(X)
// clang-format on

enum class ScalarOp : std::uint8_t {
#define X(name, operands) name,
  STAVE_SCALAR_OPS(X)
#undef X
};
/// The name of an operation, as Lowered::str prints it.
const char* name_of(ScalarOp op);
/// The number of operands of an operation.
int operand_count(ScalarOp op);

struct Lowered {
  /// Memory for elements of one dtype, which instructions read and write by index. Arrays in it are
  /// row-major, except inputs with LoweringOptions::input_strides.
  struct Buffer {
    enum class Kind : std::uint8_t {
      input,     // the memory of input `number`, which is only read
      output,    // the array of output `number`. Outputs overlap no other buffer.
      constant,  // the elements of `constant`, which is contiguous
      work       // memory that a run may use as it likes; its contents are undefined at first
    };
    Kind kind;
    Dtype dtype;
    Index elements;
    int number = -1;
    Tensor constant{};
    // The first byte in the workspace, of a `work` buffer; 0 for other kinds. Work buffers that are
    // not in use at the same time may overlap.
    Index offset = 0;
  };

  enum class Code : std::uint8_t {
    number,     // result = a constant, whose bytes are the first bytes of the field `number`
    operation,  // result = op(operands)
    load,       // result = buffer[operands[0] + number]; buffer[number] if operands[0] is -1
    store,      // buffer[operands[0] + number] = operands[1]; operands[0] may be -1 here, too
    carried,    // result = operands[0]; declares a carried value of the loop that follows
    loop,       // runs the instructions up to `end` with result = 0, 1, ..., n - 1 (int64). n is
                // operands[0] (int64), or `number` if that is -1. For n <= 0 it runs nothing.
    next,       // operands[0], a carried value, becomes operands[1] at the `end` that follows.
                // All `next` of a loop stand directly before its `end`, and happen at once.
    end,        // the end of a loop
    check       // unless operands[0], a bool, is true, the run ends with the error errors[number]
  };

  struct Instruction {
    Code code;
    ScalarOp op{};        // what an `operation` computes
    Dtype dtype = bool_;  // the dtype of the result or of the stored value
    int result = -1;      // the value that is assigned
    int operands[3] = {-1, -1, -1};
    int buffer = -1;
    std::int64_t number = 0;
  };

  std::vector<Buffer> buffers;  // the inputs in their order, the outputs in theirs, then others
  std::vector<Dtype> values;    // the dtype of each value
  std::vector<Instruction> instructions;
  std::vector<std::string> errors;  // the messages of failed checks
  // The shapes of the arrays. A complex array of the program is an array of floats with a last axis
  // of length 2, the real and the imaginary part.
  std::vector<Shape> input_shapes, output_shapes;
  std::vector<bool> complex_inputs, complex_outputs;  // whether each array is complex; empty: none
                                                      // is
  std::vector<std::string> input_labels;              // empty strings: no label
  Index work_bytes = 0;                               // the size of the workspace

  std::size_t inputs() const noexcept { return input_shapes.size(); }
  std::size_t outputs() const noexcept { return output_shapes.size(); }
  Dtype dtype(int value) const { return values[static_cast<std::size_t>(value)]; }
  /// The code as text, one line for each instruction, loops indented.
  std::string str() const;
};

struct LoweringOptions {
  /// The strides of each input; row-major arrays without gaps if this is empty. No stride may be
  /// negative.
  std::span<const Strides> input_strides = {};
  /// The size of the vectors of the CPU's kernels. The elements of float arrays of up to 64
  /// elements are then reduced in the order of these kernels. 0: they are reduced one after the
  /// other.
  Index vector_bytes = 0;
  bool is_optimized = false;       // the program is `optimized` already, and calls no functions
  const char* function = "lower";  // errors name this function
};

/// Lowers a program. The elements of an array of up to 64 elements become values if the code reads
/// and writes them at known positions; larger arrays lie in memory, and loops compute them. Sums
/// are computed as the CPU's kernels do it: float32 in float64, float64 with compensation. Throws
/// TransformError, which names the operation, for an operation that cannot be lowered (eigh, svd, a
/// transfer between devices, a user's own operation ...), DtypeError for float16 and bfloat16 and
/// for an operation that cannot be lowered for complex numbers (solve, fft ...), and DeviceError
/// for values that are not on the CPU. Complex numbers become pairs of floats; their arithmetic
/// rounds as that of the CPU's kernels.
Lowered lower(const Program& program, const LoweringOptions& options = {});

/// The label of a variable, or an empty text.
inline std::string label_text(const Program::Variable& variable) { return variable.label ? variable.label->text : ""; }

/// Throws TransformError, which names the instruction, if the code breaks a rule of this file: a
/// value is read before it is assigned or outside of its loop, operands have other dtypes than the
/// operation takes, a constant index is out of range, or a loop does not end.
void verify(const Lowered& code);

/// Appends instructions to a Lowered, which is empty at first. It merges repeated operations, and
/// folds some operations on constants. It takes and returns values as their indices in
/// Lowered::values.
class LoweredBuilder {
 public:
  explicit LoweredBuilder(Lowered& code) : code_(code) {}

  int add_buffer(Lowered::Buffer buffer);
  /// A constant: the number converted to the dtype, which must be able to hold it.
  int number(Scalar value, Dtype dtype);
  /// A constant: the element with these bytes.
  int number_of_bytes(std::int64_t bytes, Dtype dtype);
  /// The value op(a, b, c). `result` is the dtype of a conversion's result.
  int add(ScalarOp op, int a, int b = -1, int c = -1, Dtype result = bool_);
  int load(int buffer, int index, Index offset);
  void store(int buffer, int index, Index offset, int value);
  int carried(int initial);
  /// Begins a loop and returns the value that counts its steps from 0. The loop carries the values
  /// that `carried` made since the last other instruction.
  int begin_loop(Index steps) { return begin_loop_of(-1, steps); }
  /// Begins a loop whose number of steps is a value, or `count` if that is -1.
  int begin_loop_of(int steps, Index count = 0);
  void next(int carried, int value);
  void end_loop();
  void check(int condition, std::string error);

  /// The open loops, outermost first, each as its unique number (1, 2, ...).
  const std::vector<int>& open_loops() const noexcept { return open_; }
  /// The bytes of the value if it is a constant, else null. The address is valid until the next
  /// instruction is appended.
  const std::int64_t* number_of(int value) const {
    const Lowered::Instruction& it = maker_of(value);
    return it.code == Lowered::Code::number ? &it.number : nullptr;
  }
  Dtype dtype(int value) const { return code_.dtype(value); }

 private:
  // What makes a value: the index of its instruction and, for a load, the value of `writes_` when
  // the buffer may last have changed (0 for a buffer that is only read).
  struct Maker {
    std::size_t instruction;
    int version;
  };
  // A value that a later instruction may reuse, and the hash of its Maker; -1: no value.
  struct Known {
    std::uint32_t hash = 0;
    int value = -1;
  };
  int append(Lowered::Instruction instruction, int version = 0);
  int append_or_reuse(const Lowered::Instruction& instruction, int version = 0);
  void grow_table();
  const Lowered::Instruction& maker_of(int value) const {
    return code_.instructions[makers_[static_cast<std::size_t>(value)].instruction];
  }
  int fold(ScalarOp op, int a, int b, int c, Dtype result);

  Lowered& code_;
  std::vector<Maker> makers_;       // for each value
  std::vector<Known> known_;        // the values to reuse, in the order of their instructions
  std::vector<Known> table_;        // the same values as a hash table, with linear probing
  std::vector<std::size_t> marks_;  // for each open loop, the size of `known_` before it
  std::vector<int> open_;
  // The value that was stored last at a known index of a buffer, and the values of
  // Writes::last_computed and `epoch_` then.
  struct Stored {
    int value, version, epoch;
  };
  struct Writes {
    int last = 0;           // the number of the buffer's last write
    int last_computed = 0;  // the number of its last write at a computed index
    std::unordered_map<Index, Stored> stored{};
  };
  std::vector<Writes> writes_to_;  // for each buffer
  int loops_ = 0, writes_ = 0;
  // The value of `writes_` where a loop last began or ended. The writes of a loop are not known at
  // its beginning, so a load after that point does not reuse the value of a load before it.
  int epoch_ = 0;
};

}  // namespace stave_detail
