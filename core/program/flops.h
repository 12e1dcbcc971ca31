// How many floating-point operations an operation takes, counted by the shapes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <stave/core/op/op.h>

namespace stave_detail {

/// One for each element of an elementwise operation (for each of its steps, if several were fused) and for each element that is reduced;
/// 2 n m k for a product of matrices, likewise for a convolution; 0 for operations that only move or choose elements. No value for
/// operations of which no such formula is known here, as factorisations, sorting, attention, and a program's own.
std::optional<std::uint64_t> flops_of(const Op& op, const Attributes* attributes, std::span<const Shape> inputs,
                                      const Shape& output);

}  // namespace stave_detail
