// Matrices in memory, for the lowering of linear algebra. Matrices of up to 6 rows and columns
// (is_small) get code for each element, without loops over rows and columns.
#pragma once

#include <algorithm>

#include <stave/core/program/lower.h>

namespace stave_detail {

// The matrix at position `at` of a stack.
class Matrix {
 public:
  Matrix(Lowering& l, const Array& stack, Positions at) : l_(l), stack_(stack), place_(at) {
    place_.resize(stack.shape.size());
  }
  Index rows() const { return stack_.shape[stack_.shape.size() - 2]; }
  Index columns() const { return stack_.shape.back(); }
  int get(Position row, Position column) { return l_.element(stack_, at(row, column)); }
  void set(Position row, Position column, int value) { l_.store(stack_, at(row, column), value); }

 private:
  Positions at(Position row, Position column) {
    place_[place_.size() - 2] = row;
    place_.back() = column;
    return place_;
  }
  Lowering& l_;
  const Array& stack_;
  PositionList place_;
};

// Calls body(at) for each matrix of a stack, without a loop if `unrolled` is true and the stack is
// small.
inline void for_stack(const LoweringContext& c, const Array& stack, bool unrolled, FunctionRef<void(Positions)> body) {
  const Shape outer = axes_of(stack.shape, 0, stack.shape.size() - 2);
  c.l.for_each(outer, body, unrolled && Lowering::is_unrolled(stack.shape));
}
inline bool is_small(const Array& matrices) {
  constexpr Index most_unrolled = 6;
  return std::max(matrices.shape.back(), matrices.shape[matrices.shape.size() - 2]) <= most_unrolled;
}
inline Position after(Lowering& l, Position i) { return l.shifted(i, 1); }

// A copy of a stack of matrices in memory, for a caller that changes it.
inline Array copied(Lowering& l, const Array& x) {
  const Array out = l.allocate(x.shape, x.dtype);
  l.copy(x, out);
  return out;
}

/// Returns a bool value: true if all elements of a matrix are finite.
int is_finite(Lowering& l, Matrix a);
/// Computes the LU factors of a matrix in place, with partial pivoting. In step k, calls
/// exchange(k, row) after row k was exchanged with `row` (an int64 value), which may be k.
void factor(Lowering& l, Matrix a, bool unrolled, FunctionRef<void(Position, int)> exchange);

Arrays lower_det(const LoweringContext& c);
Arrays lower_slogdet(const LoweringContext& c);
Arrays lower_qr(const LoweringContext& c);

}  // namespace stave_detail
