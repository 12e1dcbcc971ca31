// Numbers and positions that the rules of several families share.
#pragma once

#include <stave/core/program/lower.h>

namespace stave_detail {

/// A constant: the largest number of a dtype, or the smallest one; for floats, an infinity.
int extreme_number(Lowering& l, Dtype dtype, bool largest);
/// The dtype in which sums and products of a dtype are computed.
inline Dtype accumulator(Dtype dtype) { return is_float(dtype) ? float64 : dtype; }
/// The larger or the smaller of two numbers, or NaN if one of them is NaN. `larger` says which.
int choose(Lowering& l, bool larger, int present, int x);
/// A bool value: true if x replaces `best`, the largest or smallest element so far. The first of
/// equal elements stays, and NaN replaces numbers.
int replaces(Lowering& l, bool larger, int best, int x);
/// A reduction (sum, prod, max, min, all or any) whose running result is one number. It serves
/// all dtypes, except for sums of float64, which are compensated (LoweredSum).
struct PlainReduction {
  Lowering& l;
  OpId op;
  Dtype dtype;
  Dtype accumulator() const;     // the dtype of the running result
  int neutral() const;           // the running result before the first element
  int both(int a, int b) const;  // two running results, combined
  // An element, in the dtype of the running result.
  int read(int x) const { return l.convert(x, accumulator()); }
};
/// a * b, but 0 where a or b is 0, even if the other is infinite or NaN.
int scaled(Lowering& l, int a, int b);

/// The positions `at`, with another position along one axis.
inline PositionList with(Positions at, std::size_t axis, Position place) {
  PositionList found(at);
  found[axis] = place;
  return found;
}
/// The shape, with the length 1 along one axis.
inline Shape keepdims_shape(const Shape& shape, std::size_t axis) {
  Shape found = shape;
  found[axis] = 1;
  return found;
}

}  // namespace stave_detail
