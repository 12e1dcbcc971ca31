// Memory of a device, kept for reuse by size: a request finds a freed block of its class without asking the driver. Plain host
// code over a MemorySource, so that it is tested without a device.
//
// A freed block may be given out again at once, though kernels that read it may still be waiting on the stream: all work of a
// device goes to one stream, so whatever is done with the block next comes after them. The same holds where another thread frees
// or takes it: what it launches then is later on the stream than what was launched before it was freed.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Where the cache gets its blocks.
class MemorySource {
 public:
  /// Null if there is none; throws what else went wrong.
  virtual void* take(std::size_t bytes) = 0;
  virtual void give(void* block, std::size_t bytes) noexcept = 0;
  /// Lets all that was given back be used for requests of any size; throws what keeps it from that.
  virtual void settle() = 0;
  /// "of 79.1 GiB 0.4 GiB are free", for errors.
  virtual std::string free_memory() const = 0;

 protected:
  ~MemorySource() = default;
};

/// Multiples of 256 bytes up to 4 KiB, above it eight sizes for each power of two, of which at most an eighth is lost, and above
/// 16 MiB, where an eighth is much and blocks are few, 128: less than a hundredth.
struct SizeClass {
  int index;
  std::size_t bytes;
  static constexpr int count = 16 + 8 * 12 + 128 * 22;
  static SizeClass of(std::size_t bytes);
  static SizeClass at(int index);
};

/// Thread-safe. `device` names it in errors.
class MemoryCache {
 public:
  MemoryCache(MemorySource& source, std::string device) : source_(source), device_(std::move(device)) {}

  /// At least `bytes`, aligned as the source's. Gives cached memory back and asks again before it throws DeviceError with the
  /// sizes.
  void* take(std::size_t bytes);
  /// What `take(bytes)` gave.
  void give(void* block, std::size_t bytes) noexcept;
  void release();

  stave::MemoryStats stats() const;
  void reset_peak();

 private:
  void* cached(SizeClass size) noexcept;
  void* take_uncached(SizeClass size);
  void count(std::size_t bytes);
  [[noreturn]] void fail(std::size_t bytes) const;

  MemorySource& source_;
  const std::string device_;
  mutable std::mutex mutex_;  // of all below
  std::array<std::vector<void*>, SizeClass::count> free_;
  stave::MemoryStats stats_;
};

}  // namespace stave_cuda
