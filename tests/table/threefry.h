// Random numbers for references: an independent Threefry-2x32, written from Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), section 5.3 and its reference code.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "table/reference.h"

namespace table {

using Words = std::array<std::uint32_t, 2>;

inline Words threefry(Words key, Words counter) {
  constexpr int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::uint32_t schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  Words x = {counter[0] + schedule[0], counter[1] + schedule[1]};
  for (unsigned round = 0; round < 20; ++round) {
    x[0] += x[1];
    const int r = rotations[round % 8];
    x[1] = (x[1] << r | x[1] >> (32 - r)) ^ x[0];
    if (round % 4 != 3) continue;
    const unsigned injection = round / 4 + 1;
    x[0] += schedule[injection % 3];
    x[1] += schedule[(injection + 1) % 3] + injection;
  }
  return x;
}

inline Words key_of(const Array& x) {
  return {static_cast<std::uint32_t>(x.values[0]), static_cast<std::uint32_t>(x.values[1])};
}

inline std::uint32_t bits(Words key, std::uint32_t counter) {
  const Words words = threefry(key, {0, counter});
  return words[0] ^ words[1];
}

/// A number in [0, 1) with as many random bits as the significand stores after its leading bit.
inline Real unit(Words key, std::uint32_t counter, Dtype dtype) {
  if (dtype == float32) return static_cast<Real>(bits(key, counter) >> 9) * 0x1p-23L;
  if (dtype == float16) return static_cast<Real>((bits(key, counter) & 0xffff) >> 6) * 0x1p-10L;
  if (dtype == bfloat16) return static_cast<Real>((bits(key, counter) & 0xff) >> 1) * 0x1p-7L;
  const Words words = threefry(key, {0, counter});
  return static_cast<Real>((std::uint64_t{words[0]} << 32 | words[1]) >> 12) * 0x1p-52L;
}

/// u (high - low) + low, rounded as in the dtype. In 16-bit floats the product is rounded
/// separately.
inline Real uniform_number(Words key, std::uint32_t counter, Real low, Real high, Dtype dtype) {
  low = rounded(low, dtype);
  const Real range = rounded(rounded(high, dtype) - low, dtype);
  const Real product = unit(key, counter, dtype) * range;
  return std::max(low, rounded((size_of(dtype) == 2 ? rounded(product, dtype) : product) + low, dtype));
}

/// The array with f(row-major number of the element) as elements.
template <class F>
Array counted(Dtype dtype, const Shape& shape, F f) {
  std::uint32_t counter = 0;
  return make(dtype, shape, [&](const Shape&) -> Real { return f(counter++); });
}

inline std::vector<Index> permutation_of(Words key, Index n) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
  for (int round = 0; n > 1 && round < std::ceil(3 * std::log(static_cast<double>(n)) / std::log(4294967295.0));
       ++round) {
    const Words sorting = threefry(key, {0, 1});
    key = threefry(key, {0, 0});
    std::vector<std::pair<std::uint32_t, Index>> keyed;
    for (std::size_t i = 0; i < order.size(); ++i)
      keyed.emplace_back(bits(sorting, static_cast<std::uint32_t>(i)), order[i]);
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
  }
  return order;
}

}  // namespace table
