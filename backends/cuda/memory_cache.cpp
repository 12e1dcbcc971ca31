#include <stave/backends/cuda/memory_cache.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

namespace {

constexpr std::size_t unit = 256, small_bytes = 4096, most_bytes = std::size_t{1} << 46;

std::string description_of(std::size_t bytes) {
  constexpr double gib = 1 << 30, mib = 1 << 20;
  const auto size = static_cast<double>(bytes);
  return size >= gib ? fmt::format("{:.1f} GiB", size / gib) : fmt::format("{:.1f} MiB", size / mib);
}

}  // namespace

namespace {

// A range of size classes with 2^bits sizes per power of two. All of its sizes are greater than
// 2^(power - 1).
struct Octaves {
  int first_index, power, bits;
};
constexpr Octaves medium{16, 13, 3}, large{16 + 8 * 12, 25, 7};
constexpr std::size_t medium_bytes = std::size_t{1} << 24;
static_assert(SizeClass::count == large.first_index + (46 - 24) * (1 << large.bits) && most_bytes == std::size_t{1}
                                                                                                         << 46);

}  // namespace

SizeClass SizeClass::of(std::size_t bytes) {
  if (bytes <= small_bytes) {
    const std::size_t units = std::max<std::size_t>(1, (bytes + unit - 1) / unit);
    return {static_cast<int>(units) - 1, units * unit};
  }
  const Octaves& octaves = bytes <= medium_bytes ? medium : large;
  // 2^(power - 1) < bytes <= 2^power
  const int power = std::bit_width(bytes - 1), each = 1 << octaves.bits;
  const std::size_t step = std::size_t{1} << (power - 1 - octaves.bits);
  const std::size_t steps = (bytes + step - 1) / step;  // from each + 1 to 2 each
  return {octaves.first_index + each * (power - octaves.power) + static_cast<int>(steps) - each - 1, steps * step};
}

SizeClass SizeClass::at(int index) {
  if (index < medium.first_index) return {index, (static_cast<std::size_t>(index) + 1) * unit};
  const Octaves& octaves = index < large.first_index ? medium : large;
  const int each = 1 << octaves.bits, octave = (index - octaves.first_index) / each;
  const auto steps = static_cast<std::size_t>((index - octaves.first_index) % each + each + 1);
  return {index, steps << (octave + octaves.power - 1 - octaves.bits)};
}

void* MemoryCache::take(std::size_t bytes) {
  if (bytes > most_bytes) fail(bytes);
  const SizeClass size = SizeClass::of(bytes);
  void* block = cached(size);
  if (!block) block = take_uncached(size);
  if (!block) fail(bytes);
  count(bytes);
  return block;
}

void* MemoryCache::cached(SizeClass size) noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<void*>& blocks = free_[static_cast<std::size_t>(size.index)];
  if (blocks.empty()) return nullptr;
  void* const block = blocks.back();
  blocks.pop_back();
  stats_.cached_bytes -= size.bytes;
  return block;
}

void* MemoryCache::take_uncached(SizeClass size) {
  if (void* block = source_.take(size.bytes)) return block;
  release();
  return source_.take(size.bytes);
}

void MemoryCache::count(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.live_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
}

void MemoryCache::give(void* block, std::size_t bytes) noexcept {
  const SizeClass size = SizeClass::of(bytes);
  {
    const std::lock_guard lock(mutex_);
    stats_.live_bytes -= bytes;
    try {
      free_[static_cast<std::size_t>(size.index)].push_back(block);
      stats_.cached_bytes += size.bytes;
      return;
    } catch (const std::bad_alloc&) {  // no memory to remember the block
    }
  }
  source_.give(block, size.bytes);
}

void MemoryCache::release() {
  std::array<std::vector<void*>, SizeClass::count> blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks.swap(free_);
    stats_.cached_bytes = 0;
  }
  for (int index = 0; index < SizeClass::count; ++index)
    for (void* block : blocks[static_cast<std::size_t>(index)]) source_.give(block, SizeClass::at(index).bytes);
  source_.settle();
}

stave::MemoryStats MemoryCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void MemoryCache::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void MemoryCache::fail(std::size_t bytes) const {
  stave_detail::fail<stave::DeviceError>(
      "{}: out of memory: {} ({} bytes) are requested, tensors hold {}; {}: free tensors, use smaller batches, or "
      "checkpoint",
      device_, description_of(bytes), bytes, description_of(stats().live_bytes), source_.free_memory());
}

}  // namespace stave_cuda
