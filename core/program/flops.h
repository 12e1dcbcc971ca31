// The number of floating-point operations of an operation, derived from shapes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <stave/core/op/op.h>

namespace stave_detail {

/// Returns the number of floating-point operations: one per element of an elementwise operation
/// (per element and step if several are fused) and per element that is reduced; 2 n m k for a
/// matrix product, and likewise for a convolution; 0 for operations that only move or select
/// elements. Returns nothing for an operation without such a formula here, such as a factorisation,
/// sorting, attention, or an operation that the user defined.
std::optional<std::uint64_t> flops_of(const Op& op, const Attributes* attributes, std::span<const Shape> inputs,
                                      const Shape& output);

}  // namespace stave_detail
