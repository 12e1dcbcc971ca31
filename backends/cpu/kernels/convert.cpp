// The kernels of astype between all dtypes, and of where.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/half.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::Kernels;

template <class I>
inline constexpr I greatest = static_cast<I>(-1) > 0
                                  ? static_cast<I>(-1)
                                  : static_cast<I>(~(static_cast<std::uint64_t>(1) << (8 * sizeof(I) - 1)));
template <class I>
inline constexpr I least = static_cast<I>(-1) > 0
                               ? 0
                               : static_cast<I>(static_cast<std::uint64_t>(1) << (8 * sizeof(I) - 1));

/// Converts a float to an integer by truncation. Values out of range saturate, and NaN becomes 0,
/// so that no conversion is undefined. A limit such as 2^31 - 1 is not representable as a float,
/// so x is compared with the next power of two, which is representable.
template <class To, class From>
STAVE_INLINE To saturate(From x) {
  constexpr From above = static_cast<From>(greatest<To> / 2 + 1) * 2;
  if (x != x) return 0;
  if (x >= above) return greatest<To>;
  if (x <= static_cast<From>(least<To>)) return least<To>;
  return static_cast<To>(x);
}
template <class To, class From>
STAVE_INLINE Element<To> converted(Element<From> x) {
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (is_real<From> && std::is_integral_v<To>) return saturate<To>(x);
  else return static_cast<Element<To>>(x);
}
template <class To, class From>
void convert(void* out, const void* const* in, Index n) {
  auto* to = static_cast<Element<To>*>(out);
  auto* from = static_cast<const Element<From>*>(in[0]);
  // True if a float represents every value of From exactly.
  constexpr bool exact = sizeof(From) <= 2 || std::is_same_v<From, float>;
  if constexpr (is_half<From> || (is_half<To> && exact)) {
    constexpr Index block = 256;
    float floats[block];
    for (Index i = 0; i < n; i += block) {
      const Index count = n - i < block ? n - i : block;
      if constexpr (is_half<From>) widen(from + i, count, floats);
      else
        for (Index j = 0; j < count; ++j) floats[j] = static_cast<float>(from[i + j]);
      if constexpr (is_half<To>) narrow(floats, count, to + i);
      else
        for (Index j = 0; j < count; ++j) to[i + j] = converted<To, float>(floats[j]);
    }
  } else {
    for (Index i = 0; i < n; ++i) to[i] = converted<To, From>(from[i]);
  }
}

template <class T>
void where(void* out, const void* const* in, Index n) {
  auto* condition = static_cast<const std::uint8_t*>(in[0]);
  auto* x = static_cast<const T*>(in[1]);
  auto* y = static_cast<const T*>(in[2]);
  auto* to = static_cast<T*>(out);
#ifndef __clang__  // Clang checks for overlap at run time.
#pragma GCC ivdep  // `out` overlaps no input, or is exactly one of the inputs.
#endif
  for (Index i = 0; i < n; ++i) {
    const T a = x[i], b = y[i];  // Both values are loaded, so that no load is conditional.
    to[i] = condition[i] ? a : b;
  }
}

/// The kernel from From to To. Conversions between integers that give the same bits share one: a
/// result has no sign, and an operand has one only where it is narrower than the result.
template <class To, class From>
constexpr stave_cpu::BlockKernel kernel_of() {
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From> && !std::is_same_v<To, bool>) {
    using Operand = std::conditional_t<(sizeof(To) > sizeof(From)), Element<From>, stave::BitsOf<From>>;
    return convert<stave::BitsOf<To>, Operand>;
  } else {
    return convert<To, From>;
  }
}
template <class From>
void fill_from(stave_cpu::BlockKernel* row) {
#define X(name, type) row[static_cast<int>(Dtype::name)] = kernel_of<type, From>();
  STAVE_REALS(X)
#undef X
}

void fill_convert(Kernels& table) {
#define X(name, type) fill_from<type>(table.convert[static_cast<int>(Dtype::name)]);
  STAVE_REALS(X)
#undef X
  // `where` only moves bits: there is one kernel for each element size.
  for (int d = 0; d < stave_cpu::dtype_count; ++d) {
    stave::visit_size(stave::size_of(static_cast<Dtype>(d)),
                      [&](auto element) { table.where[d] = where<decltype(element)>; });
  }
}

}  // namespace STAVE_KERNELS
