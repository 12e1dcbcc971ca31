// The rules by which operations are written as StableHLO, one file for each family
// (stablehlo_*.cpp).
#pragma once

#include <limits>

#include <stave/core/program/stablehlo_builder.h>
#include <stave/core/program/writing_context.h>

namespace stave_detail {

inline constexpr double hlo_infinity = std::numeric_limits<double>::infinity();
inline constexpr double hlo_nan = std::numeric_limits<double>::quiet_NaN();

using HloContext = WritingContext<HloBuilder, HloSpan, std::span<const HloType>>;
using HloRule = HloValues (*)(const HloContext&);

/// The rule of an operation, or null if there is none. Each function has the rules of one family.
HloRule hlo_rule_of_layout(OpId id);
HloRule hlo_rule_of_reduction(OpId id);
HloRule hlo_rule_of_rows(OpId id);
HloRule hlo_rule_of_scan(OpId id);
HloRule hlo_rule_of_index(OpId id);
HloRule hlo_rule_of_product(OpId id);
HloRule hlo_rule_of_fourier(OpId id);
HloRule hlo_rule_of_linalg(OpId id);
HloRule hlo_rule_of_factor(OpId id);
HloRule hlo_rule_of_random(OpId id);
/// Returns the reason why StableHLO text cannot have an operation; null if there is no particular
/// reason.
const char* hlo_reason_of_refusal(OpId id);

/// The result of an elementwise operation (all_ops.h, astype, where, stop_gradient) on operands of
/// one shape; `dtype` is that of the result.
HloValue hlo_elementwise(HloBuilder& b, const Op& op, HloSpan operands, Dtype dtype);
HloValues hlo_fused(const HloContext& c);

/// The reduction of x by sum, prod, max, min, all or any over axes that count from the front. The
/// result has the dtype and the elements of `result`.
HloValue hlo_reduction(HloBuilder& b, OpId id, const HloValue& x, const Shape& axes, const HloType& result);

/// Whether a comes before b in the order of sorting, in which NaN is the largest number.
HloValue hlo_is_before(HloBuilder& b, const HloValue& a, const HloValue& c);
/// The body of a reduction of pairs of a value and its position: the largest or smallest value, at
/// the first of its positions; NaN is both the largest and the smallest.
HloValues hlo_extreme_of_pairs(HloBuilder& b, HloSpan pairs, bool largest);

/// gather and scatter, as GatherAttributes describes them, of indices in range: `indices` is
/// [batch..., at..., k].
HloValue hlo_gather(HloBuilder& b, const HloValue& x, const HloValue& indices, std::size_t batch);
HloValue hlo_scatter(HloBuilder& b, const HloValue& x, const HloValue& indices, const HloValue& updates,
                     std::size_t batch, FunctionRef<HloValue(const HloValue&, const HloValue&)> combine);

/// A loop of a number of steps over values: body(step, values) returns the next values. The step is
/// a scalar of int64.
HloValues hlo_loop(HloBuilder& b, const HloValue& steps, HloSpan values,
                   FunctionRef<HloValues(const HloValue&, HloSpan)> body);

/// x * 2^e for a float e that is a whole number.
HloValue hlo_ldexp(HloBuilder& b, const HloValue& x, const HloValue& e);
/// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; x and 0 if x is zero, infinite or NaN.
/// Both have the dtype of x, which must be float32 or float64.
struct HloFrexp {
  HloValue mantissa, exponent;
};
HloFrexp hlo_frexp(HloBuilder& b, const HloValue& x);

/// A value for each matrix of a stack, [count], repeated over all axes of `shape`.
inline HloValue hlo_per_matrix(HloBuilder& b, const HloValue& x, const Shape& shape) {
  return b.broadcast_in_dim(x, shape, {0});
}
/// Whether all elements of each matrix of a stack [count, m, n] are finite.
inline HloValue hlo_all_finite(HloBuilder& b, const HloValue& x) {
  return b.reduce("and", b.is_finite(x), b.number(true, bool_), {1, 2});
}

/// LU factors of a stack [count, m, n] with partial pivoting, as op_lu gives them.
struct HloLu {
  HloValue packed, exchanges, order, is_finite;
};
HloLu hlo_lu(HloBuilder& b, const HloValue& x);
/// The solution of triangular systems of equations.
HloValue hlo_triangular_solve(HloBuilder& b, const HloValue& a, const HloValue& x, bool lower, bool transpose,
                              bool unit);
/// The solution of systems, by the factors of a stack [count, n, n].
HloValue hlo_solve(HloBuilder& b, const HloValue& packed, const HloValue& order, const HloValue& right, bool transpose);

/// The two random words T(key, counter) of Threefry-2x32, elementwise.
struct HloWords {
  HloValue w0, w1;
};
HloWords hlo_threefry(HloBuilder& b, const HloWords& key, const HloWords& counter);

}  // namespace stave_detail
