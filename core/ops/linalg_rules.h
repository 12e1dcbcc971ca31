// Helpers for the rules of linear algebra. For the .cpp files of core/ops.
#pragma once

#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>

namespace stave_detail {

using namespace stave;

inline Index rows_of(const Shape& matrices) { return matrices[matrices.size() - 2]; }
inline Index columns_of(const Shape& matrices) { return matrices.back(); }
inline Index least_of(const Shape& matrices) { return (std::min)(rows_of(matrices), columns_of(matrices)); }
/// The axes of the stack: all but the last two.
inline Shape stack_of(const Shape& matrices) {
  return Shape(std::span<const Index>(matrices.begin(), matrices.end() - 2));
}
/// The shape [stack..., lengths...].
inline Shape stacked(Shape stack, std::initializer_list<Index> lengths) {
  stack.append(lengths.begin(), lengths.end());
  return stack;
}

/// Returns input i of the call. Throws unless it is a stack of matrices of float32, float64 or a
/// complex dtype. Shape inference calls it.
const Tensor& matrices(const Call& call, std::size_t i);
/// Returns input i of the call. Throws unless it is a stack of square matrices of float32, float64
/// or a complex dtype.
const Tensor& square_matrices(const Call& call, std::size_t i);
/// Returns b of the system a x = b. Throws unless b has the number of rows, the leading axes and
/// the dtype of a.
const Tensor& right_sides(const Call& call);

inline Tensor transposed(const Tensor& x) { return matrix_transpose(x); }
inline Tensor adjoint(const Tensor& x) { return conj(transposed(x)); }
inline Tensor hermitian_part(const Tensor& x) { return (x + adjoint(x)) * 0.5; }
/// x diag(v)
inline Tensor times_diagonal(const Tensor& x, const Tensor& v) { return x * expand_dims(v, -2); }
/// diag(v)
Tensor as_diagonal(const Tensor& v);
/// The columns first, ..., first + count - 1 of x.
inline Tensor columns(const Tensor& x, Index first, Index count) { return entries(x, x.rank() - 1, first, count); }
inline Tensor rows(const Tensor& x, Index first, Index count) { return entries(x, x.rank() - 2, first, count); }
/// Returns x, or zeros like y if x is undefined. An output that is not used has an undefined
/// cotangent x.
inline Tensor or_zeros(const Tensor& x, const Tensor& y) { return x.defined() ? x : zeros_like(y); }

/// Returns the cotangent of `input` by a rule for gradients, which are the conjugates of
/// cotangents. Formulas for real matrices hold for gradients of complex ones if every transpose
/// becomes an adjoint; those for cotangents would have transposes at some places and adjoints at
/// others. `rule` takes the gradients of the outputs, some of which may be undefined.
template <class Rule, class... Cotangents>
Tensor by_gradients(Rule rule, const Cotangents&... cts) {
  return conj(rule((cts.defined() ? conj(cts) : cts)...));
}

/// 1 / x, and 0 where |x| is at most `least`.
Tensor safe_reciprocal(const Tensor& x, const Tensor& least);
/// Returns a bound of the rounding error of differences of `values` along their last axis, which
/// keeps length 1: `length` epsilons of the largest |value|.
Tensor rounding_bound(const Tensor& values, Index length);

/// Moves lanes into the columns of right sides, for a system with one matrix for all lanes:
///   lanes_as_columns: [lanes, ..., n, k] -> [..., n, lanes * k]
/// columns_as_lanes moves them back.
Tensor lanes_as_columns(const Tensor& b);
Tensor columns_as_lanes(const Tensor& x, Index lanes);

/// The cofactors of the matrices `a`. They have derivatives where `a` is singular too: those of
/// det(a) up to the sixth order are right (linalg_det.cpp).
Tensor cofactors(const Tensor& a);

[[noreturn]] void fail_no_derivative(const Op& op, int input);

}  // namespace stave_detail
