// astype between all dtypes, and where.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

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

/// Floats become integers by truncation; what does not fit saturates, and NaN becomes 0, so that no value is undefined.
/// 2^31 - 1 and the like are no floats: the comparison is with the power of two above, which is.
template <class To, class From>
STAVE_INLINE To saturate(From x) {
  constexpr From above = static_cast<From>(greatest<To> / 2 + 1) * 2;
  if (x != x) return 0;
  if (x >= above) return greatest<To>;
  if (x <= static_cast<From>(least<To>)) return least<To>;
  return static_cast<To>(x);
}
template <class To, class From>
STAVE_INLINE typename LaneOf<To>::Type converted(typename LaneOf<From>::Type x) {
  if constexpr (__is_same(To, bool)) return x != 0;
  else if constexpr (is_real<From> && !is_real<To>) return saturate<To>(x);
  else return static_cast<To>(x);
}
template <class To, class From>
void convert(void* out, const void* const* in, Index n) {
  auto* to = static_cast<typename LaneOf<To>::Type*>(out);
  auto* from = static_cast<const typename LaneOf<From>::Type*>(in[0]);
  for (Index i = 0; i < n; ++i) to[i] = converted<To, From>(from[i]);
}

template <class T>
void where(void* out, const void* const* in, Index n) {
  auto* condition = static_cast<const std::uint8_t*>(in[0]);
  auto* x = static_cast<const T*>(in[1]);
  auto* y = static_cast<const T*>(in[2]);
  auto* to = static_cast<T*>(out);
#pragma GCC ivdep  // `out` is none of the inputs, or one of them
  for (Index i = 0; i < n; ++i) {
    const T a = x[i], b = y[i];  // both, so that there is nothing to skip
    to[i] = condition[i] ? a : b;
  }
}

template <class From>
void fill_from(stave_cpu::BlockKernel* row) {
  row[static_cast<int>(Dtype::bool_)] = convert<bool, From>;
  row[static_cast<int>(Dtype::uint8)] = convert<std::uint8_t, From>;
  row[static_cast<int>(Dtype::uint32)] = convert<std::uint32_t, From>;
  row[static_cast<int>(Dtype::int32)] = convert<std::int32_t, From>;
  row[static_cast<int>(Dtype::int64)] = convert<std::int64_t, From>;
  row[static_cast<int>(Dtype::float32)] = convert<float, From>;
  row[static_cast<int>(Dtype::float64)] = convert<double, From>;
}

void fill_convert(Kernels& table) {
  fill_from<bool>(table.convert[static_cast<int>(Dtype::bool_)]);
  fill_from<std::uint8_t>(table.convert[static_cast<int>(Dtype::uint8)]);
  fill_from<std::uint32_t>(table.convert[static_cast<int>(Dtype::uint32)]);
  fill_from<std::int32_t>(table.convert[static_cast<int>(Dtype::int32)]);
  fill_from<std::int64_t>(table.convert[static_cast<int>(Dtype::int64)]);
  fill_from<float>(table.convert[static_cast<int>(Dtype::float32)]);
  fill_from<double>(table.convert[static_cast<int>(Dtype::float64)]);
  // Selecting moves bits: one kernel for each size.
  for (int d = 0; d < stave_cpu::dtype_count; ++d) {
    stave::visit_size(stave::size_of(static_cast<Dtype>(d)),
                      [&](auto element) { table.where[d] = where<decltype(element)>; });
  }
}

}  // namespace STAVE_KERNELS
