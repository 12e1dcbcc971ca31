// StableHLO text, written one operation at a time, for write_stablehlo and the rules of operations
// (stablehlo_rules.h).
//
//   HloValue square = b.multiply(x, x);        // "%3 = stablehlo.multiply %2, %2 : tensor<4xf32>"
//   HloValue total = b.sum(square, {0}, keepdims_no);
//
// The text is written for one function. Values are numbered in the order in which they are written.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/program/write_stablehlo.h>

namespace stave_detail {

using namespace stave;

struct HloType {
  Dtype dtype;
  Shape shape;
};
/// The type as text: "tensor<2x3xf32>".
std::string hlo_type(Dtype dtype, const Shape& shape);

/// A value of the text, "%7".
struct HloValue {
  int id = -1;
  Dtype dtype = bool_;
  Shape shape = {};
  HloType type() const { return {dtype, shape}; }
  int rank() const { return shape.rank(); }
};
using HloValues = std::vector<HloValue>;
using HloSpan = std::span<const HloValue>;

/// "[1, 2]" and "array<i64: 1, 2>".
std::string hlo_list(const Shape& numbers);
std::string hlo_array(const Shape& numbers);
/// first, first + 1, ..., first + count - 1
Shape hlo_range(std::size_t first, std::size_t count);
/// The shape with another length along one axis.
Shape hlo_with(Shape shape, std::size_t axis, Index length);

class HloBuilder {
 public:
  explicit HloBuilder(const StableHloOptions& options) : options_(options) { constants_.emplace_back(); }

  const StableHloOptions& options() const noexcept { return options_; }
  const std::string& text() const noexcept { return text_; }
  /// The dtype in which sums of `dtype` are computed.
  Dtype accumulator(Dtype dtype) const;

  /// A new value without text, such as an argument of a function.
  HloValue value(const HloType& type) { return {next_++, type.dtype, type.shape}; }

  // ---- operations in general --------------------------------------------------------------------

  /// "%n = stablehlo.`name` operands`middle` : (types) -> type", with the operands between the
  /// characters of `brackets` if there are any.
  HloValue emit(std::string_view name, HloSpan operands, const std::string& middle, const HloType& result,
                std::string_view brackets = {});
  HloValue emit(std::string_view name, std::initializer_list<HloValue> operands, const std::string& middle,
                const HloType& result) {
    return emit(name, HloSpan(operands.begin(), operands.size()), middle, result);
  }
  /// A region: the types of its arguments, and a function that writes it and returns its results.
  struct Region {
    std::vector<HloType> arguments;
    FunctionRef<HloValues(HloSpan)> body;
  };
  /// An operation with regions, in MLIR's generic form; `attributes` is its dictionary.
  HloValues emit_with(std::string_view name, HloSpan operands, std::initializer_list<Region> regions,
                      const std::string& attributes, const std::vector<HloType>& results);
  /// A call of a function of the module.
  HloValues call(const std::string& function, HloSpan operands, const std::vector<HloType>& results);

  // ---- constants --------------------------------------------------------------------------------

  /// A number, repeated.
  HloValue number(const Scalar& value, Dtype dtype, const Shape& shape = {});
  HloValue number_of_bytes(const void* bytes, Dtype dtype, const Shape& shape = {});
  HloValue constant(const Tensor& value);
  HloValue constant(std::span<const Index> values, Dtype dtype);
  HloValue iota(Dtype dtype, const Shape& shape, std::size_t axis);

  // ---- elementwise, on operands of one shape ----------------------------------------------------

  HloValue unary(std::string_view name, const HloValue& x) { return same(name, {x}, x.type()); }
  HloValue binary(std::string_view name, const HloValue& a, const HloValue& b) { return same(name, {a, b}, a.type()); }
  HloValue add(const HloValue& a, const HloValue& b) { return binary("add", a, b); }
  HloValue subtract(const HloValue& a, const HloValue& b) { return binary("subtract", a, b); }
  HloValue multiply(const HloValue& a, const HloValue& b) { return binary("multiply", a, b); }
  HloValue divide(const HloValue& a, const HloValue& b) { return binary("divide", a, b); }
  HloValue both(const HloValue& a, const HloValue& b) { return binary("and", a, b); }
  HloValue either(const HloValue& a, const HloValue& b) { return binary("or", a, b); }
  HloValue invert(const HloValue& x) { return unary("not", x); }
  /// `direction`: EQ, NE, LT, LE, GT or GE.
  HloValue compare(const char* direction, const HloValue& a, const HloValue& b);
  HloValue is_nan(const HloValue& x) { return compare("NE", x, x); }
  HloValue is_finite(const HloValue& x);
  /// The absolute value; for complex numbers it is real.
  HloValue abs(const HloValue& x);
  /// The parts of complex numbers, the conjugates, and numbers made of parts. A real number is its
  /// own real part and conjugate.
  HloValue real(const HloValue& z);
  HloValue imag(const HloValue& z);
  HloValue conj(const HloValue& z);
  HloValue complex(const HloValue& re, const HloValue& im);
  /// x, which may be complex, times real factors.
  HloValue times_real(const HloValue& x, const HloValue& factor);
  HloValue select(const HloValue& condition, const HloValue& a, const HloValue& b);
  /// The same elements in another dtype, as stablehlo.convert gives them.
  HloValue convert(const HloValue& x, Dtype dtype);
  /// The same, as Stave's astype: floats beyond the range of an integer saturate, NaN becomes 0.
  HloValue astype(const HloValue& x, Dtype dtype);
  HloValue bitcast(const HloValue& x, Dtype dtype);
  HloValue full_like(const HloValue& x, const Scalar& number_) { return number(number_, x.dtype, x.shape); }
  /// 0 where a or b is 0, else a * b.
  HloValue scale(const HloValue& a, const HloValue& b);
  /// Arithmetic with broadcasting of b along its axes of length 1.
  HloValue over(std::string_view name, const HloValue& a, const HloValue& b) {
    return binary(name, a, broadcast(b, a.shape));
  }

  // ---- layout -----------------------------------------------------------------------------------

  HloValue reshape(const HloValue& x, const Shape& shape);
  HloValue transpose(const HloValue& x, const Shape& axes);
  /// The last two axes exchanged.
  HloValue matrix_transpose(const HloValue& x);
  /// The conjugates of matrix_transpose.
  HloValue adjoint(const HloValue& x);
  /// Broadcasting as in NumPy.
  HloValue broadcast(const HloValue& x, const Shape& shape);
  /// Axis k of x becomes axis dims[k] of the result.
  HloValue broadcast_in_dim(const HloValue& x, const Shape& shape, const Shape& dims);
  HloValue slice(const HloValue& x, const Shape& starts, const Shape& limits, const Shape& steps);
  /// The entries [start, start + length) along an axis.
  HloValue slice(const HloValue& x, std::size_t axis, Index start, Index length);
  HloValue reverse(const HloValue& x, const Shape& axes);
  HloValue pad(const HloValue& x, const HloValue& value, const Shape& low, const Shape& high, const Shape& interior);
  HloValue concatenate(HloSpan parts, std::size_t axis);
  /// The start of each axis is a scalar integer.
  HloValue dynamic_slice(const HloValue& x, HloSpan starts, const Shape& sizes);
  HloValue dynamic_update_slice(const HloValue& x, const HloValue& update, HloSpan starts);

  // ---- reductions -------------------------------------------------------------------------------

  /// Reduces axes, which the results lack. The body combines two scalars of each operand.
  HloValues reduce(HloSpan operands, HloSpan initial, const Shape& axes, FunctionRef<HloValues(HloSpan)> body);
  HloValue reduce(std::string_view combine, const HloValue& x, const HloValue& initial, const Shape& axes);
  /// The sum in the dtype of x. sum_along and max_along reduce one axis, which the result keeps
  /// with length 1.
  HloValue sum(const HloValue& x, const Shape& axes) { return reduce("add", x, number(0, x.dtype), axes); }
  HloValue sum_along(const HloValue& x, std::size_t axis);
  HloValue max_along(const HloValue& x, std::size_t axis);
  /// A scalar: true if all elements of x are true.
  HloValue all(const HloValue& x);
  /// The smallest number of a dtype, or the largest one; for floats, an infinity.
  HloValue extreme(Dtype dtype, bool largest, const Shape& shape = {});
  /// The product of stacks of matrices, accumulated in float32 at least, in the dtype `result`.
  HloValue matmul(const HloValue& a, const HloValue& b, bool transpose_a = false, bool transpose_b = false);

  // ---- checks -----------------------------------------------------------------------------------

  /// Notes that the library would throw unless all elements of `condition`, which the function
  /// writes, are true. Nothing is written without StableHloOptions::checks.
  void check(FunctionRef<HloValue()> condition);
  /// A scalar: whether all checks so far hold; its id is -1 if there was none.
  const HloValue& checked() const noexcept { return checked_; }

 private:
  HloValue same(std::string_view name, std::initializer_list<HloValue> operands, const HloType& result);
  HloValue literal(const std::string& text, const HloType& type);
  void line(const std::string& text);
  std::string results(HloSpan values) const;

  const StableHloOptions& options_;
  std::string text_, indent_ = "    ";
  int next_ = 0;
  // For each region that is open, its constants by their text and type: a constant of a region is
  // not used outside of it, nor one from outside in it.
  std::vector<std::map<std::string, HloValue>> constants_;
  HloValue checked_;
};

}  // namespace stave_detail
