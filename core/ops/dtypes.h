// Questions about dtypes, as the array API standard asks them.
//
//   finfo(float32).eps                              // 2^-23
//   iinfo(int8).max                                 // 127
//   isdtype(x.dtype(), DtypeKind::real_floating)
//   can_cast(int32, float64), can_cast(uint8, int8) // true, false
//   result_type({x, 2.5, y})                        // the dtype of x + 2.5 + y
#pragma once

#include <cstdint>
#include <initializer_list>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// The limits of a floating dtype.
struct FloatInfo {
  int bits;                ///< the size of a number in memory
  double eps;              ///< the distance from 1 to the next larger number
  double max, min;         ///< the largest finite number, and the smallest, which is -max
  double smallest_normal;  ///< the smallest positive number of full precision
  Dtype dtype;             ///< the floating dtype itself
};
/// The limits of a floating dtype, or of the parts of a complex one. Throws DtypeError for others.
FloatInfo finfo(Dtype dtype);
FloatInfo finfo(const Tensor& x);

/// The limits of an integer dtype.
struct IntegerInfo {
  int bits;           ///< the size of a number in memory
  std::uint64_t max;  ///< the largest number
  std::int64_t min;   ///< the smallest number
  Dtype dtype;
};
/// The limits of an integer dtype. Throws DtypeError for others; bool is not an integer.
IntegerInfo iinfo(Dtype dtype);
IntegerInfo iinfo(const Tensor& x);

/// The kinds of dtypes that the standard names. `integral` is signed or unsigned, and `numeric` is
/// everything but bool.
enum class DtypeKind { boolean, signed_integer, unsigned_integer, integral, real_floating, complex_floating, numeric };
/// Returns whether a dtype is of a kind, of one of several kinds, or equal to another dtype.
bool isdtype(Dtype dtype, DtypeKind kind);
bool isdtype(Dtype dtype, std::initializer_list<DtypeKind> kinds);
bool isdtype(Dtype dtype, Dtype other);

/// Returns whether promotion turns `from` into `to`, so that x.dtype() + to gives `to`.
bool can_cast(Dtype from, Dtype to);
bool can_cast(const Tensor& x, Dtype to);

/// Returns the dtype of a sum of the operands. It is the promoted dtype of the tensors, which C++
/// numbers take as well, unless a number is of a higher kind (a float beside integers). Throws
/// DtypeError if no dtype holds the numbers of all.
Dtype result_type(std::initializer_list<Operand> operands);
/// The same for dtypes.
Dtype result_type(std::initializer_list<Dtype> dtypes);

}  // namespace stave
