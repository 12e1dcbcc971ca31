// A forward declaration of OpId, for headers that only pass it on: they need no recompilation when
// all_ops.h changes.
#pragma once

#include <cstdint>

namespace stave {

enum class OpId : std::uint16_t;

}  // namespace stave
