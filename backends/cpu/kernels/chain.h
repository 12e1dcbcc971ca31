// The operations that chains are made of, and how links say them: for the kernel and for those who make links.
#pragma once

#include <cstdint>

#include <stave/core/ops/all_ops.h>

namespace stave_cpu {

// Of floats; they take no longer than a vector to go to memory and back.
#define STAVE_CHAINED_UNARY_OPS(X)                                                                      \
  X(abs, Abs)                                                                                           \
  X(negative, Negative)                                                                                 \
  X(sign, Sign) X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(square, Square) X(reciprocal, Reciprocal) X(relu, Relu) \
      X(floor, Floor) X(ceil, Ceil) X(round, Round) X(trunc, Trunc)
#define STAVE_CHAINED_BINARY_OPS(X)                                                               \
  X(add, Add)                                                                                     \
  X(subtract, Subtract)                                                                           \
  X(multiply, Multiply) X(scale, Scale) X(divide, Divide) X(maximum, Maximum) X(minimum, Minimum) \
      X(copysign, Copysign)

/// What a link does: x is the result so far, y the operand, an array or a number for all elements.
enum class LinkCode : std::uint16_t {
  load_array,   // x = y
  load_number,  // x = y
#define X(name, Struct) name,
  STAVE_CHAINED_UNARY_OPS(X)
#undef X
#define X(name, Struct) name##_x_array, name##_array_x, name##_x_number, name##_number_x, name##_x_x,
      STAVE_CHAINED_BINARY_OPS(X)
#undef X
};

/// An operation of a chain.
struct Link {
  LinkCode code;
  int operand;  // which array, or number, is y
  int to;       // the array that gets the result, too; -1: none
};

}  // namespace stave_cpu
