#include <stave/backends/cuda/memory_cache.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <stave/core/fail.h>

namespace stave_cuda {

namespace {

constexpr std::size_t unit = 256, small_bytes = 4096, most_bytes = std::size_t{1} << 46;

std::string in_words(std::size_t bytes) {
  constexpr double gib = 1 << 30, mib = 1 << 20;
  const auto size = static_cast<double>(bytes);
  return size >= gib ? fmt::format("{:.1f} GiB", size / gib) : fmt::format("{:.1f} MiB", size / mib);
}

}  // namespace

SizeClass SizeClass::of(std::size_t bytes) {
  if (bytes <= small_bytes) {
    const std::size_t units = std::max<std::size_t>(1, (bytes + unit - 1) / unit);
    return {static_cast<int>(units) - 1, units * unit};
  }
  const int power = std::bit_width(bytes - 1);  // 2^(power - 1) < bytes <= 2^power, power >= 13
  const std::size_t step = std::size_t{1} << (power - 4), steps = (bytes + step - 1) / step;  // 9 ... 16
  return {16 + 8 * (power - 13) + static_cast<int>(steps) - 9, steps * step};
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

void* MemoryCache::take_uncached(SizeClass size) noexcept {
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
    } catch (const std::bad_alloc&) {  // no room to remember it
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
  // The class of 256 bytes is the first; of the others the size follows from the index, as SizeClass::of has it.
  for (int index = 0; index < SizeClass::count; ++index) {
    const auto i = static_cast<std::size_t>(index);
    const std::size_t bytes = index < 16 ? (i + 1) * unit : ((i - 16) % 8 + 9) << ((i - 16) / 8 + 9);
    for (void* block : blocks[i]) source_.give(block, bytes);
  }
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
      "{}: out of memory: {} ({} bytes) are asked for, tensors hold {}; {}: free tensors, use smaller batches, or "
      "checkpoint",
      device_, in_words(bytes), bytes, in_words(stats().live_bytes), source_.free_memory());
}

}  // namespace stave_cuda
