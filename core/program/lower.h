// Lowering: arrays, and the loops that compute them, for the rules that lower operations
// (lower_*.cpp).
//
// An int that stands for a number is the index of a value of the lowered code (lowered.h). A rule
// describes how one element of an output is computed. Lowering decides whether each element of the
// array becomes a value, or loops write the elements to memory:
//
//   Array square(Lowering& l, const Array& x) {
//     return l.compute(x.shape, x.dtype, [&](Positions at) {
//       const int element = l.element(x, at);
//       return l.add(ScalarOp::multiply, element, element);
//     });
//   }
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/program/lowered.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_detail {

/// A position along an axis: a value of the code or, if `value` is -1, the constant `number`.
struct Position {
  int value = -1;
  Index number = 0;
  Position(Index known = 0) : number(known) {}
  static Position of(int value) {
    Position place;
    place.value = value;
    return place;
  }
};
using Positions = std::span<const Position>;
using PositionList = SmallVector<Position, 6>;

/// A shape, or strides, with equal entries.
inline Shape all_equal(std::size_t rank, Index entry) {
  Shape shape;
  shape.resize(rank, entry);
  return shape;
}
/// The entries [first, end) of a shape, or of strides.
inline Shape axes_of(const Shape& shape, std::size_t first, std::size_t end) {
  return Shape(std::span<const Index>(shape.begin() + first, shape.begin() + end));
}

/// The elements of a small array, as values of the code.
using Elements = SmallVector<int, 4>;

/// The storage of the elements of arrays: values of the code, or a buffer, or both.
struct ArraySource {
  Elements values{};  // empty: only in the buffer
  int buffer = -1;    // -1: only values
  // The innermost loop (LoweredBuilder::open_loops) in which the values were written to the buffer;
  // 0: they were written outside of all loops, or never.
  int loop = 0;
};

/// An array: element `at` is at offset + at[0] * strides[0] + ... of its source, plus the value of
/// `base` if it is not -1. A complex array is an array of floats, whose last axis, of length 2,
/// holds the real and the imaginary part.
struct Array {
  std::shared_ptr<ArraySource> source;
  Dtype dtype = bool_;
  Shape shape;
  Strides strides;
  Index offset = 0;
  int base = -1;
};
using Arrays = SmallVector<Array, 1>;

/// The shape of the Array for a variable of this shape and dtype.
inline Shape lowered_shape(Shape shape, Dtype dtype) {
  if (is_complex(dtype)) shape.push_back(2);
  return shape;
}
/// A number as values of the code: its parts, or a real number and -1.
struct LoweredNumber {
  int re = -1, im = -1;
};

/// The most elements of an array whose elements become values of the code.
inline constexpr Index most_elements = 64;

class Lowering {
 public:
  /// Errors name `function`.
  Lowering(Lowered& code, Index vector_bytes, const char* function)
      : code_(code), builder_(code), vector_bytes_(vector_bytes), function_(function) {}

  LoweredBuilder& builder() { return builder_; }
  /// LoweringOptions::vector_bytes.
  Index vector_bytes() const noexcept { return vector_bytes_; }
  const char* function() const noexcept { return function_; }

  // ---- numbers ----------------------------------------------------------------------------------

  int add(ScalarOp op, int a, int b = -1, int c = -1) { return builder_.add(op, a, b, c); }
  int number(Scalar value, Dtype dtype) { return builder_.number(value, dtype); }
  int index(Index value) { return builder_.number(value, int64); }
  int convert(int value, Dtype dtype) { return builder_.add(ScalarOp::convert, value, -1, -1, dtype); }
  /// The position as a value, an int64.
  int value_of(Position place) { return place.value < 0 ? index(place.number) : place.value; }
  /// A value, an int64, as a position. It is a constant position if the value is a constant.
  Position position_of(int value) const;
  /// The position factor * place + offset.
  Position shifted(Position place, Index offset, Index factor = 1);
  /// The position a + b.
  Position sum(Position a, Position b);
  /// A bool value: true if a float is neither infinite nor NaN.
  int is_finite(int value);

  // ---- arrays -----------------------------------------------------------------------------------

  /// The element of x at these positions, one along each axis, as a value.
  int element(const Array& x, Positions at);
  /// An array of these values, which are in row-major order.
  Array of_values(const Shape& shape, Dtype dtype, Elements values);
  /// An array in memory whose elements are not written yet.
  Array allocate(const Shape& shape, Dtype dtype);
  /// Writes an element of an array in memory.
  void store(const Array& x, Positions at, int value);
  /// A view of x with another shape and strides; the offset is relative to that of x.
  static Array view(const Array& x, Shape shape, Strides strides, Index offset = 0);
  /// x repeated along new leading axes and axes of length 1.
  static Array broadcast(const Array& x, const Shape& shape);
  /// Entry `at` of x along axis 0.
  Array row(const Array& x, Position at);
  /// x in row-major order without gaps: x itself or a copy.
  Array contiguous(const Array& x);
  /// The elements of x in row-major order, in another shape.
  Array reshaped(const Array& x, const Shape& shape);
  /// Copies the elements of `from` to `to`, which is in memory and has the same shape.
  void copy(const Array& from, const Array& to);

  /// Computes an array whose element at each position is element(at). `cost` is roughly how many
  /// operations one element takes; it decides whether the code is unrolled (is_unrolled).
  Array compute(const Shape& shape, Dtype dtype, FunctionRef<int(Positions)> element, Index cost = 1);
  /// Computes several arrays of one shape at once. element(at, results) sets results[k] to the
  /// element of array k.
  Arrays compute(const Shape& shape, std::span<const Dtype> dtypes,
                 FunctionRef<void(Positions, std::span<int>)> element, Index cost = 1);
  /// The same for arrays of which some may be complex, with results[k] as the number k. `shape` is
  /// without the axis of the parts.
  Arrays compute_numbers(const Shape& shape, std::span<const Dtype> dtypes,
                         FunctionRef<void(Positions, std::span<LoweredNumber>)> element, Index cost = 1);
  /// The number of a complex array, or of a real one, at these positions, which are without the
  /// axis of the parts.
  LoweredNumber number_at(const Array& x, Dtype dtype, Positions at);
  /// Writes the code of body(at) for the positions in row-major order: calls body once, inside a
  /// loop for each axis, or, if the code is `unrolled`, once for each position.
  void for_each(const Shape& shape, FunctionRef<void(Positions)> body, bool unrolled);
  /// Carries values through the positions of a shape in row-major order: step(at, state) replaces
  /// the values in `state` by the next ones. Afterwards `state` has the last ones. `cost` is as in
  /// `compute`.
  void fold(const Shape& shape, std::span<int> state, FunctionRef<void(Positions, std::span<int>)> step,
            Index cost = 1);
  /// Like for_each, for i = first, ..., end - 1. If the code is `unrolled`, `first` and `end` must
  /// be constants.
  void for_range(Position first, Position end, FunctionRef<void(Position)> body, bool unrolled);
  /// Like fold, for i = first, ..., end - 1. If the code is `unrolled`, `first` and `end` must be
  /// constants.
  void fold_range(Position first, Position end, std::span<int> state, FunctionRef<void(Position, std::span<int>)> step,
                  bool unrolled);

  void check(int condition, std::string error) { builder_.check(condition, std::move(error)); }

  // ---- programs, and arrays for them -----------------------------------------------------------

  /// Lowers the instructions of an optimized program and returns its outputs. Moves from `inputs`,
  /// whose entries are empty afterwards.
  Arrays run(const Program& program, std::span<Array> inputs);
  Array constant(const Tensor& value);
  /// x in memory that the caller may write: x itself if it is a whole work buffer and no other
  /// Array has its source, else a copy. The caller must move x in, since its own copy would count
  /// as another Array.
  Array writable(Array x);
  /// x with its elements as values, if x has at most 64. Code that reads x at known positions then
  /// needs no loads. If x is a work buffer that is not read at computed positions, the stores to it
  /// become dead code.
  Array preloaded(const Array& x);
  /// Returns true if each position of a shape should get code of its own, instead of a loop. `cost`
  /// is as in `compute`.
  static bool is_unrolled(const Shape& shape, Index cost = 1);
  /// Returns true if x is in memory, and is all of its buffer in row-major order.
  bool is_whole_buffer(const Array& x) const;

 private:
  struct Address {
    int computed;  // a value, or -1
    Index offset;
  };
  bool has_valid_buffer(const ArraySource& source) const;
  Address address(const Array& x, Positions at);
  void fold_loops(const Shape& shape, std::size_t axis, PositionList& at, std::span<int> state,
                  FunctionRef<void(Positions, std::span<int>)> step);
  Arrays lower(const Program& program, const Program::Instruction& step, std::span<Array> inputs);

  Lowered& code_;
  LoweredBuilder builder_;
  const Index vector_bytes_;
  const char* const function_;
};

/// The arguments of a rule, which lowers an operation: it computes the outputs from the inputs. A
/// rule may move from an input.
struct LoweringContext {
  Lowering& l;
  const Program::Instruction& instruction;
  std::span<Array> inputs;
  std::span<const Program::Variable* const> results;  // the variables of the outputs

  Array& in(std::size_t i) const { return inputs[i]; }
  const Shape& shape(std::size_t i = 0) const { return results[i]->shape; }
  Dtype dtype(std::size_t i = 0) const { return results[i]->dtype; }
  template <class A>
  const A& as() const {
    return static_cast<const A&>(*instruction.attributes);
  }
};
using LoweringRule = Arrays (*)(const LoweringContext&);

/// The value of an elementwise operation (all_ops.h), astype or stop_gradient on values; `dtype` is
/// that of the new value.
int lower_elementwise(Lowering& l, const Op& op, std::span<const int> operands, Dtype dtype);
/// The same for numbers that may be complex, and for operations that make complex numbers of parts,
/// or take parts of them.
LoweredNumber lower_elementwise(Lowering& l, const Op& op, std::span<const LoweredNumber> operands, Dtype dtype);
/// The output of a view operation (Op::view) as a view of the input; its `source` is null if there
/// is no such view.
Array lowered_view(const Array& x, const Program::Instruction& step);

/// The rule of an operation, or null if there is none. Each function has the rules of one family.
LoweringRule lowering_of_layout(OpId id);
LoweringRule lowering_of_reduction(OpId id);
LoweringRule lowering_of_scan(OpId id);
LoweringRule lowering_of_index(OpId id);
LoweringRule lowering_of_product(OpId id);
LoweringRule lowering_of_linalg(OpId id);
LoweringRule lowering_of_random(OpId id);
/// The rule of an operation of any family, or null if there is none.
LoweringRule lowering_rule_of(OpId id);
Arrays lower_fused(const LoweringContext& c);
/// Lowers an operation with complex inputs or outputs. `dtypes` are those of the inputs in the
/// program, and `dtype` is that of the first output, whereas the variables in the context are those
/// of the lowered arrays (lowered_shape). Throws DtypeError, which names the operation, if it has
/// no lowered code for them.
Arrays lower_complex(const LoweringContext& c, std::span<const Dtype> dtypes, Dtype dtype);
Arrays lower_loop(const LoweringContext& c);
/// The reduction of an array by sum, prod, max, min, all or any. Axes may count from the end;
/// `shape` is that of the reduced array.
Array lower_reduction(Lowering& l, const Op& op, const Array& x, const Shape& axes, const Shape& shape);
/// The same for an array of the shape `given` whose element at a position is element(position).
/// `strides` are those that the array would have in memory, on which the order of the reduction
/// depends.
Array lower_reduction(Lowering& l, const Op& op, const Shape& given, const Strides& strides, Dtype dtype,
                      const Shape& axes, const Shape& shape, FunctionRef<int(Positions)> element);

/// Removes instructions, buffers and values of the code that nothing needs, and gives each work
/// buffer its place in the workspace.
void finish(Lowered& code);

/// A sum of numbers as the CPU's kernels compute it: float32 in float64, float64 with compensation,
/// integers in their own dtype. `start` returns the state of an empty sum, `step` adds x, and
/// `finish` returns the sum.
struct LoweredSum {
  Lowering& l;
  Dtype dtype;
  std::vector<int> start() const;
  void step(std::span<int> state, int x) const;
  int finish(std::span<const int> state) const;
};

}  // namespace stave_detail
