// Figures of one operation that observers add up.
#pragma once

#include <cstdint>
#include <optional>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

/// The bytes that an operation reads. An operation that looks up elements of an array reads only
/// those that it returns.
std::uint64_t bytes_read(const Call& call);
/// The floating-point operations of a call (Op::flops_of); nothing if there is no formula.
std::optional<std::uint64_t> flops_of(const Call& call);

}  // namespace stave_detail
