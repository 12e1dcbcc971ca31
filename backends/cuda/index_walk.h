// The map of index_map.h as a kernel uses it: from a linear index to the offsets of operands.
#pragma once

#include <cstdint>

#include <stave/backends/cuda/host_device.h>

namespace stave_cuda {

using Index = std::int64_t;

/// Division by a divisor that the host knows, computed with one multiplication. (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1: with words
/// of N bits, s = ceil(log2 d) and m = floor(2^N (2^s - d) / d) + 1, n / d = (hi(m n) + n) >> s.
/// The sum does not overflow because n < 2^(N-1).)
struct Divider {
  std::uint64_t divisor = 1;
  std::uint64_t multiplier64 = 1;
  std::uint32_t multiplier32 = 1;  // the multiplier of `narrow`, for divisors of 31 bits
  std::uint32_t shift = 0;

  Divider() = default;
#ifndef __CUDACC_RTC__
  explicit Divider(Index d) : divisor(static_cast<std::uint64_t>(d)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    const std::uint64_t above = (std::uint64_t{1} << shift) - divisor;
    multiplier64 = static_cast<std::uint64_t>((Wide{above} << 64) / divisor + 1);
    if (d <= most_narrow) multiplier32 = static_cast<std::uint32_t>((above << 32) / divisor + 1);
  }
  __extension__ using Wide = unsigned __int128;
#endif
  /// Divides n. Both n and the divisor are at most most_narrow.
  STAVE_BOTH std::uint32_t narrow(std::uint32_t n) const {
    auto high = static_cast<std::uint32_t>(std::uint64_t{n} * multiplier32 >> 32);
    return (high + n) >> shift;
  }
  /// Divides n, for n < 2^63.
  STAVE_BOTH std::uint64_t wide(std::uint64_t n) const {
#ifdef __CUDA_ARCH__
    const std::uint64_t high = __umul64hi(n, multiplier64);
#else
    const auto high = static_cast<std::uint64_t>(Wide{n} * multiplier64 >> 64);
#endif
    return (high + n) >> shift;
  }

  static constexpr Index most_narrow = 0x7fffffff;
};

template <int operands>
struct MapAxis {
  Divider length;
  Index step[operands];
};

/// The offsets of the operands, in elements.
template <int operands>
struct Offsets {
  Index at[operands] = {};
  STAVE_BOTH Index operator[](int operand) const { return at[operand]; }
};

inline constexpr int inline_axes = 6;

template <int operands>
struct IndexMap {
  int rank = 0;
  // True if some index or offset does not fit in 31 bits.
  bool wide = false;
  MapAxis<operands> axes[inline_axes];  // innermost first
  // The axes beyond the first `inline_axes`.
  const MapAxis<operands>* more = nullptr;

  /// Returns the offsets at this index, 0 <= index < the number of elements.
  STAVE_BOTH Offsets<operands> operator()(std::uint64_t index) const {
    if (wide) return walk_wide(index);
    return walk<std::uint32_t>(static_cast<std::uint32_t>(index));
  }

 private:
  STAVE_OUTLINE STAVE_BOTH Offsets<operands> walk_wide(std::uint64_t index) const { return walk<std::uint64_t>(index); }
  template <class Word>
  STAVE_BOTH Offsets<operands> walk(Word rest) const {
    Offsets<operands> offsets;
    // There are two loops with the same body for speed. An axis that may lie in either array is
    // read through a generic pointer. An axis within the kernel's parameters is a constant, which
    // is read as fast as a register.
    const int within = rank < inline_axes ? rank : inline_axes;
    STAVE_ROLLED
    for (int i = 0; i < within; ++i) step_along(offsets, axes[i], rest, i + 1 == rank);
    STAVE_ROLLED
    for (int i = inline_axes; i < rank; ++i) step_along(offsets, more[i - inline_axes], rest, i + 1 == rank);
    return offsets;
  }
  /// Adds the offset along one axis. `rest` is the linear index over this axis and all outer axes;
  /// for the outermost axis it is the position on the axis.
  template <class Word>
  STAVE_BOTH static void step_along(Offsets<operands>& offsets, const MapAxis<operands>& a, Word& rest,
                                    bool outermost) {
    if (outermost) return add<Word>(offsets, a, rest);
    const Word quotient = sizeof(Word) == 4 ? static_cast<Word>(a.length.narrow(static_cast<std::uint32_t>(rest)))
                                            : static_cast<Word>(a.length.wide(rest));
    add<Word>(offsets, a, rest - quotient * static_cast<Word>(a.length.divisor));
    rest = quotient;
  }
  template <class Word>
  STAVE_BOTH static void add(Offsets<operands>& offsets, const MapAxis<operands>& a, Word position) {
    for (int k = 0; k < operands; ++k) {
      if constexpr (sizeof(Word) == 4)  // one 32-bit multiplication with a 64-bit result
        offsets.at[k] += Index{static_cast<std::int32_t>(a.step[k])} * static_cast<std::int32_t>(position);
      else offsets.at[k] += a.step[k] * static_cast<Index>(position);
    }
  }
};

}  // namespace stave_cuda
