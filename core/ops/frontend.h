// From operands as users write them to the inputs of operations. For the .cpp files of core/ops.
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
/// x, which is not an empty Tensor; else an error names the function and the operand's place.
inline const Tensor& given(const Tensor& x, const char* function, std::size_t operand = 0) {
  if (!x.defined()) [[unlikely]]
    fail_empty(function, operand);
  return x;
}
inline void check_given(std::span<const Tensor> xs, const char* function) {
  for (std::size_t i = 0; i < xs.size(); ++i) given(xs[i], function, i);
}

/// The number as `dtype` has it: an integer for integers, a bool for bool, which takes anything. Throws DtypeError for one
/// that an integer dtype does not hold.
Scalar held(Scalar value, Dtype dtype);
/// The number as one element of `dtype`. Throws DtypeError if that cannot hold it.
void write_number(void* to, Scalar value, Dtype dtype);

/// A tensor of equal elements that was never computed: one number, viewed with strides of 0. Not an operation.
/// Throws DtypeError if dtype cannot hold the number.
Tensor constant(Scalar value, Dtype dtype, const Shape& shape, Device device);

/// The operand as a tensor of `dtype`, broadcast to `shape` if one is given; a number on `device`.
Tensor as_tensor(Operand&& x, Dtype dtype, const Shape* shape, Device device);

/// Another view of x's storage: a node of its own, without notes. Not an operation.
Tensor view_of(const Tensor& x, Shape shape, Strides strides, Index offset);
inline Tensor view_of(const Tensor& x) { return view_of(x, x.shape(), x.strides(), x.node().offset); }

/// broadcast_to for a shape that x is known to broadcast to; no operation where no handler would see it.
Tensor broadcast_quietly(const Tensor& x, const Shape& shape);

/// The shape of what a reduction gives of `shape`. Throws as the operation does.
Shape infer_reduced(const Op& op, const Shape& shape, const ReduceAttributes& reduce);

/// Integers in the dtype in which they are summed: those of less than 32 bits in int32 or uint32, bool in int32.
Tensor widened(const Tensor& x);

/// The dtype in which elements of `dtype` are multiplied and added, as by * and +: int32 for bool,
/// whose elements count as 0 and 1.
inline Dtype multiplied_in(Dtype dtype) { return dtype == bool_ ? int32 : dtype; }

/// x if it is of floats, else x in default_dtype().
Tensor floating(const Tensor& x);
/// The dtype in which floats of `dtype` are computed on the way to a result: float32 for halves.
inline Dtype computed_in(Dtype dtype) { return is_half_float(dtype) ? float32 : dtype; }
/// The distance from 1 to the next number of a floating dtype.
constexpr double epsilon_of(Dtype dtype) {
  return dtype == float64 ? 0x1p-52 : dtype == bfloat16 ? 0x1p-7 : dtype == float16 ? 0x1p-10 : 0x1p-23;
}
/// The floating dtype of tensors together, of which some may be undefined: default_dtype() if all are of integers.
template <std::same_as<Tensor>... T>
Dtype common_float(const T&... xs) {
  Dtype dtype = bool_;
  ((dtype = xs.defined() ? promote(dtype, xs.dtype()) : dtype), ...);
  return is_float(dtype) ? dtype : default_dtype();
}
/// f of tensors in their common floating dtype, halves as float32, so that what f computes on its way neither overflows nor loses
/// digits; what it gives is rounded once. Undefined ones are passed on.
template <class F, std::same_as<Tensor>... T>
Tensor in_floats(F f, const T&... xs) {
  const Dtype dtype = common_float(xs...), computed = computed_in(dtype);
  return astype(f((xs.defined() ? astype(xs, computed) : xs)...), dtype);
}

/// The dtype of positions up to `count`.
inline Dtype positions_dtype(Index count) { return count > (std::numeric_limits<std::int32_t>::max)() ? int64 : int32; }
/// Indices of any integer dtype as int32 or int64, those that neither holds as one that is out of range. Throws
/// DtypeError for others.
Tensor as_indices(const Tensor& indices, const char* operation);
/// Throws DtypeError for indices that are neither int32 nor int64.
void check_indices(const Tensor& indices, const char* operation);
/// Entries first, ..., first + count - 1 along an axis.
Tensor entries(const Tensor& x, int axis, Index first, Index count);

/// Whether computing it again takes no longer than memory does, or nothing at all: elementwise arithmetic, and views.
bool is_cheap(const Op& op);

/// a + b, where an undefined tensor is zero.
Tensor add_tangents(Tensor a, Tensor b);

}  // namespace stave_detail
