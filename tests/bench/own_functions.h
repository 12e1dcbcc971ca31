// Elementwise functions written as in a user's program. fused.cpp runs them as recorded regions and
// as loops (own_operations.cpp).
#pragma once

#include <cmath>

namespace stave_bench {

inline constexpr auto written_sigmoid = [](const auto& x) { return 1 / (1 + exp(-x)); };
inline constexpr auto written_gelu = [](const auto& x) { return 0.5 * x * (1 + erf(x * std::sqrt(0.5))); };

}  // namespace stave_bench
