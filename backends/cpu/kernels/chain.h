// The operations of chains, and their encoding as links, for the kernel and for the code
// that builds chains.
#pragma once

#include <cstdint>
#include <optional>

#include <stave/core/op/all_ops.h>

namespace stave_cpu {

using stave::OpId;

// Operations on floats that take no longer than a store and a load of a vector.
// clang-format off
#define STAVE_CHAINED_UNARY_OPS(X)                                                                                 \
  X(abs, Abs) X(negative, Negative) X(sign, Sign) X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(square, Square)                  \
  X(reciprocal, Reciprocal) X(relu, Relu) X(floor, Floor) X(ceil, Ceil) X(round, Round) X(trunc, Trunc)
#define STAVE_CHAINED_BINARY_OPS(X)                                                                                \
  X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale) X(divide, Divide) X(maximum, Maximum)    \
  X(minimum, Minimum) X(copysign, Copysign) X(scale_by_inverse, ScaleByInverse)
// clang-format on

/// The operation of a link: x is the result so far, y the operand, which is an array or one number
/// for all elements.
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

/// Returns the link code of an operation and its operands, of which at least one is x.
/// For an operation of one operand, both are the same. Returns nothing if chains do not have
/// the operation.
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

/// Returns the link code that reads one number where `code` reads an array, or else `code`.
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

/// One operation of a chain.
struct Link {
  LinkCode code;
  int operand;  // the index of y: an array, or a number
  int to;       // the array that also receives the result; -1: none
};

}  // namespace stave_cpu
