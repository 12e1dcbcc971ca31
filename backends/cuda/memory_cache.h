// A cache of device memory by size: a request reuses a freed block of its size class without a call
// to the CUDA driver. This is host code over a MemorySource, so it is tested without a device.
//
// A freed block may be reused immediately, even if kernels that read it still wait on the stream.
// All work of a device goes to one stream, so the next use of the block runs after these kernels.
// This also holds if another thread frees or takes the block: the launches of its next user come
// later on the stream than the launches before the free.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// The source of the cache's blocks.
class MemorySource {
 public:
  /// Returns a block, or null if there is no memory. Throws other errors.
  virtual void* take(std::size_t bytes) = 0;
  virtual void give(void* block, std::size_t bytes) noexcept = 0;
  /// Makes all memory that was given back available for requests of any size. Throws if that fails.
  virtual void settle() = 0;
  /// Returns a text for errors, such as "of 79.1 GiB 0.4 GiB are free".
  virtual std::string free_memory() const = 0;

 protected:
  ~MemorySource() = default;
};

/// A size class. Up to 4 KiB the sizes are the multiples of 256 bytes. Above, there are eight sizes
/// per power of two, which waste at most an eighth of a block. Above 16 MiB, where an eighth is
/// much and blocks are few, there are 128 sizes per power of two, which waste less than a
/// hundredth.
struct SizeClass {
  int index;
  std::size_t bytes;
  static constexpr int count = 16 + 8 * 12 + 128 * 22;
  static SizeClass of(std::size_t bytes);
  static SizeClass at(int index);
};

/// A thread-safe cache of memory blocks. `device` names the device in errors.
class MemoryCache {
 public:
  MemoryCache(MemorySource& source, std::string device) : source_(source), device_(std::move(device)) {}

  /// Returns a block of at least `bytes` bytes, aligned as the source's blocks are. If there is no
  /// memory, it releases the cached blocks and tries again. If that fails too, it throws
  /// DeviceError with the sizes.
  void* take(std::size_t bytes);
  /// Gives back a block that `take(bytes)` returned.
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
  mutable std::mutex mutex_;  // guards the members below
  std::array<std::vector<void*>, SizeClass::count> free_;
  stave::MemoryStats stats_;
};

}  // namespace stave_cuda
