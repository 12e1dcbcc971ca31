// Primitives that all x86-64 processors have.
#pragma once

#include <immintrin.h>
#include <sleef.h>

#include <stave/backends/cpu/kernels/vec.h>

namespace STAVE_KERNELS {

/// stream(to, from) copies 16 bytes with a non-temporal store, which bypasses the caches; `to` must
/// be a multiple of 16. order_streams() is a fence between non-temporal stores and later stores.
inline constexpr bool can_stream = true;
STAVE_INLINE void stream(void* to, const void* from) {
  _mm_stream_si128(static_cast<__m128i*>(to), _mm_loadu_si128(static_cast<const __m128i*>(from)));
}
STAVE_INLINE void order_streams() { _mm_sfence(); }

}  // namespace STAVE_KERNELS
