// The name of an operation, for headers that only pass it on: they are not compiled again when all_ops.h gains one.
#pragma once

#include <cstdint>

namespace stave {

enum class OpId : std::uint16_t;

}  // namespace stave
