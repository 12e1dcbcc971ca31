// Copies with non-temporal stores, which bypass the caches, for results that are too large
// to stay in a cache. A normal store that misses the cache would first read the cache line that it
// overwrites.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Index;

void stream_bytes(char* to, const char* from, Index bytes) {
  const Index until_aligned = static_cast<Index>(-reinterpret_cast<std::uintptr_t>(to) & 15);
  Index i = until_aligned < bytes ? until_aligned : bytes;
  __builtin_memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + 16 <= bytes; i += 16) stream(to + i, from + i);
  __builtin_memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}
void end_streams() { order_streams(); }

void fill_stream(stave_cpu::Kernels& table) {
  if constexpr (can_stream) {
    table.stream_bytes = stream_bytes;
    table.end_streams = end_streams;
  }
}

}  // namespace STAVE_KERNELS
