// Chains and their encoding. A chain is a sequence of fused elementwise operations that one kernel
// interprets (chain.cpp), and a link is one instruction of it. fused_steps.cpp builds chains.
#pragma once

#include <cstdint>
#include <optional>

#include <stave/core/op/all_ops.h>

namespace stave_cpu {

using stave::OpId;

// The operations that links support: those that take no longer than a store and a load of a vector
// of floats. All other operations run their own kernels.
// clang-format off
#define STAVE_CHAINED_UNARY_OPS(X)                                                                                 \
  X(abs, Abs) X(negative, Negative) X(sign, Sign) X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(square, Square)                  \
  X(reciprocal, Reciprocal) X(relu, Relu) X(floor, Floor) X(ceil, Ceil) X(round, Round) X(trunc, Trunc)
#define STAVE_CHAINED_BINARY_OPS(X)                                                                                \
  X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale) X(divide, Divide) X(maximum, Maximum)    \
  X(minimum, Minimum) X(copysign, Copysign) X(scale_by_inverse, ScaleByInverse)
// clang-format on

/// The instruction code of a link. x is the result of the previous link. y is the other operand: an
/// array, or a number, which is one value for all elements. For example, subtract_array_x computes
/// x = y - x for an array y.
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

/// The form of an operand of a link.
enum class LinkOperand { x, array, number };

/// Returns the code of a link for an operation and the forms of its operands, at least one of which
/// is x. For a unary operation, `first` and `second` are both x. Returns std::nullopt if links do
/// not support the operation.
constexpr std::optional<LinkCode> link_code(OpId id, LinkOperand first, LinkOperand second) {
  const auto chosen = [&](LinkCode x_array, LinkCode array_x, LinkCode x_number, LinkCode number_x, LinkCode x_x) {
    if (second != LinkOperand::x) return second == LinkOperand::array ? x_array : x_number;
    return first == LinkOperand::x ? x_x : first == LinkOperand::array ? array_x : number_x;
  };
  switch (id) {
#define X(name, Struct) \
  case OpId::name: return LinkCode::name;
    STAVE_CHAINED_UNARY_OPS(X)
#undef X
#define X(name, Struct)                                                                          \
  case OpId::name:                                                                               \
    return chosen(LinkCode::name##_x_array, LinkCode::name##_array_x, LinkCode::name##_x_number, \
                  LinkCode::name##_number_x, LinkCode::name##_x_x);
    STAVE_CHAINED_BINARY_OPS(X)
#undef X
    default: return std::nullopt;
  }
}

/// Returns the link code that reads a number where `code` reads an array. Returns `code` itself
/// if it reads no array.
constexpr LinkCode of_number(LinkCode code) {
  switch (code) {
    case LinkCode::load_array: return LinkCode::load_number;
#define X(name, Struct)                                            \
  case LinkCode::name##_x_array: return LinkCode::name##_x_number; \
  case LinkCode::name##_array_x: return LinkCode::name##_number_x;
      STAVE_CHAINED_BINARY_OPS(X)
#undef X
    default: return code;
  }
}

/// One instruction of a chain.
struct Link {
  LinkCode code;
  int operand;  // The index in `arrays` of operand y, which is an array or a number.
  int to;       // The index of the array that stores the result; -1 if it is not stored.
};

}  // namespace stave_cpu
