// Helpers that turn operands, as users write them, into inputs of operations. For the .cpp files
// of core/ops.
#pragma once

#include <concepts>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

[[noreturn]] void fail_empty(const char* function, std::size_t operand);
/// Returns x. If x is an empty Tensor, throws an error that names the function and the operand's
/// position.
inline const Tensor& require_defined(const Tensor& x, const char* function, std::size_t operand = 0) {
  if (!x.defined()) [[unlikely]]
    fail_empty(function, operand);
  return x;
}
inline void check_defined(std::span<const Tensor> xs, const char* function) {
  for (std::size_t i = 0; i < xs.size(); ++i) require_defined(xs[i], function, i);
}

/// Returns the number converted to `dtype`. Every number converts to bool. Throws DtypeError if an
/// integer dtype cannot hold the number.
Scalar converted_number(Scalar value, Dtype dtype);
/// Writes the number as one element of `dtype`. Throws DtypeError if that dtype cannot hold it.
void write_number(void* to, Scalar value, Dtype dtype);

/// Returns a tensor of equal elements: a single number in memory, viewed with strides of 0. This is
/// not an operation, so handlers do not see it. Throws DtypeError if dtype cannot hold the number.
Tensor constant(Scalar value, Dtype dtype, const Shape& shape, Device device);

/// Returns the operand as a tensor of `dtype`, broadcast to `shape` if one is given. A number goes
/// to `device`.
Tensor as_tensor(Operand&& x, Dtype dtype, const Shape* shape, Device device);

/// Returns another view of x's storage: a new node, without notes. This is not an operation, so
/// handlers do not see it.
Tensor view_of(const Tensor& x, Shape shape, Strides strides, Index offset);
inline Tensor view_of(const Tensor& x) { return view_of(x, x.shape(), x.strides(), x.node().offset); }

/// Returns x broadcast to `shape`. The caller must know that x broadcasts to this shape. Performs
/// the operation broadcast_to if a handler of operations is installed, or if x is traced or has no
/// storage; otherwise only makes a view.
Tensor broadcast_quietly(const Tensor& x, const Shape& shape);

/// Returns the common dtype of two operands. A number takes the dtype of a tensor beside it.
inline Dtype dtype_of_both(const Operand& a, const Operand& b) {
  if (a.is_scalar())
    return b.is_scalar() ? common_dtype({a.scalar(), b.scalar()}) : a.scalar().with(b.tensor().dtype());
  return b.is_scalar() ? b.scalar().with(a.tensor().dtype()) : promote(a.tensor().dtype(), b.tensor().dtype());
}
/// Returns the common dtype of any number of operands: that of the tensors, promoted, which numbers
/// take as well.
Dtype dtype_of_all(std::span<const Operand> operands);
/// Returns the shape of an operand; that of a number is [].
inline const Shape& shape_of(const Operand& x) {
  if (!x.is_scalar()) return x.tensor().shape();
  static const Shape scalar;
  return scalar;
}
/// Returns the device of the first operand that is a tensor, on which numbers are stored too; the
/// CPU if all are numbers.
inline Device device_of(std::initializer_list<const Operand*> operands) {
  for (const Operand* x : operands)
    if (!x->is_scalar()) return x->tensor().device();
  return cpu;
}
/// Throws an error that names the function and the position if an operand is an empty Tensor.
/// `place` is the position of the first operand.
inline void check_defined(const char* function, std::initializer_list<const Operand*> operands, std::size_t place = 0) {
  for (const Operand* x : operands) {
    if (!x->is_scalar()) require_defined(x->tensor(), function, place);
    ++place;
  }
}

/// Returns the shape without its last axes, and the last axes alone.
inline Shape without_last(const Shape& shape, Index count = 1) {
  return Shape(std::span<const Index>(shape.begin(), shape.end() - count));
}
inline Shape last_axes(const Shape& shape, Index count) {
  return Shape(std::span<const Index>(shape.end() - count, shape.end()));
}

/// Returns the shape of a reduction's result. Throws the errors that the reduction would throw.
Shape infer_reduced(const Op& op, const Shape& shape, const ReduceAttributes& reduce);

/// Returns x in the dtype in which its elements are summed: integers of less than 32 bits become
/// int32 or uint32, and bool becomes int32.
Tensor widened(const Tensor& x);

/// Returns the dtype in which elements of `dtype` are multiplied and added by * and +.
/// It is int32 for bool, whose elements count as 0 and 1.
inline Dtype multiplied_in(Dtype dtype) { return dtype == bool_ ? int32 : dtype; }

/// Returns x if it is floating or complex, else x in default_dtype().
Tensor floating(const Tensor& x);
/// Returns the dtype of intermediate values in computations on floats of
/// `dtype`: float32 for 16-bit floats.
inline Dtype computed_in(Dtype dtype) { return is_half_float(dtype) ? float32 : dtype; }
/// Returns the distance from 1 to the next larger number of a floating dtype, or of the parts of a
/// complex one.
constexpr double epsilon_of(Dtype dtype) {
  return real_of(dtype) == float64 ? 0x1p-52 : dtype == bfloat16 ? 0x1p-7 : dtype == float16 ? 0x1p-10 : 0x1p-23;
}
/// Returns the common floating or complex dtype of the tensors, some of which may be undefined;
/// default_dtype() if all are integers.
template <std::same_as<Tensor>... T>
Dtype common_inexact(const T&... xs) {
  Dtype dtype = bool_;
  ((dtype = xs.defined() ? promote(dtype, xs.dtype()) : dtype), ...);
  return is_inexact(dtype) ? dtype : default_dtype();
}
/// Returns the same for functions of real numbers. Throws DtypeError if a tensor is complex.
template <std::same_as<Tensor>... T>
Dtype common_float(const T&... xs) {
  const Dtype dtype = common_inexact(xs...);
  if (is_complex(dtype)) [[unlikely]]
    throw_complex(dtype);
  return dtype;
}
/// Applies f to the tensors in their common floating or complex dtype, and rounds its result to
/// that dtype. 16-bit floats are computed in float32, so that intermediate values neither overflow
/// nor lose digits. Undefined tensors are passed on.
template <class F, std::same_as<Tensor>... T>
Tensor in_inexact(F f, const T&... xs) {
  const Dtype dtype = common_inexact(xs...), computed = computed_in(dtype);
  return astype(f((xs.defined() ? astype(xs, computed) : xs)...), dtype);
}
/// The same for functions of real numbers. Throws DtypeError if a tensor is complex.
template <class F, std::same_as<Tensor>... T>
Tensor in_floats(F f, const T&... xs) {
  common_float(xs...);
  return in_inexact(std::move(f), xs...);
}

/// Returns the least or the greatest value of a dtype; for floats, an infinity. Throws DtypeError
/// for complex dtypes.
Scalar least_of(Dtype dtype);
Scalar greatest_of(Dtype dtype);

/// Returns the dtype of positions up to `count`: int32, or int64 if int32 is too small.
inline Dtype positions_dtype(Index count) { return count > (std::numeric_limits<std::int32_t>::max)() ? int64 : int32; }
/// Returns indices of any integer dtype as int32 or int64. A uint64 that int64 cannot hold becomes
/// an index that is out of range. Throws DtypeError for other dtypes.
Tensor as_indices(const Tensor& indices, const char* operation);
/// Throws DtypeError for indices that are neither int32 nor int64.
void check_indices(const Tensor& indices, const char* operation);
/// Returns the entries first, ..., first + count - 1 along an axis.
Tensor entries(const Tensor& x, int axis, Index first, Index count);

/// Op::flops of an operation without arithmetic.
inline std::uint64_t no_flops(const Attributes*, std::span<const Shape>, const Shape&) { return 0; }

/// Returns a + b, where an undefined tensor counts as zero.
Tensor add_tangents(Tensor a, Tensor b);

/// Returns the inputs of a call, moved. A braced list would copy them, and a kernel may write its
/// result into the memory of an input only if no other tensor shares that memory.
inline Inputs moved(Tensor first, Tensor second, Tensor third) {
  Inputs inputs;
  inputs.push_back(std::move(first));
  inputs.push_back(std::move(second));
  inputs.push_back(std::move(third));
  return inputs;
}

}  // namespace stave_detail
