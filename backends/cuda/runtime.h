// What a CUDA device needs at run time: its stream, memory, transfers, and what its kernels have to report.
//
//   - One non-blocking stream for each device takes all its work, from whatever host thread: so the order in which operations
//     are asked for is the order in which they run, and memory is reused without events (memory_cache.h).
//   - The host waits when a value is read, in synchronize(), where a pinned buffer of a transfer is still in use, and before it
//     gives up for want of memory. NoWaiting makes a test of it.
//   - A write never waits for the work before it: what no free buffer holds goes by way of memory of its own on the device, on a
//     second stream that has nothing else to do.
//   - A child of fork() has no devices: the driver does not work there (DeviceError says so), and what it inherits it leaves alone.
//   - Nothing here is ever destroyed: tensors may be globals, which outlive everything, the driver's own state included.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include <stave/backends/cuda/faults.h>
#include <stave/backends/cuda/memory_cache.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// How many devices can be used. 0 for whatever reason; `why_none` says which.
int device_count();
const std::string& why_none();
/// Whether this process is a child of one that had devices when it forked.
bool forked_from_user();

/// While one exists, a wait for a device on this thread throws stave::Error; so does reading a value, though the device may be done
/// with it. For tests of what must not wait.
class NoWaiting {
 public:
  NoWaiting();
  ~NoWaiting();
  NoWaiting(const NoWaiting&) = delete;
};

/// A device, current on this thread; then the one that was, unless nobody has used that one: to make it current again would set up
/// a context on it, some hundred megabytes of its memory.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  int index_, before_ = 0;
  bool restores_ = false;
};

/// cudaMallocAsync, on a device's stream, from its default pool.
class StreamMemory final : public MemorySource {
 public:
  StreamMemory(int index, cudaStream_t stream);
  void* take(std::size_t bytes) override;
  void give(void* block, std::size_t bytes) noexcept override;
  void settle() override;
  std::string free_memory() const override;

 private:
  int index_;
  cudaStream_t stream_;
  cudaMemPool_t pool_ = nullptr;
  std::size_t all_ = 0;  // of the device
};

class DeviceRuntime {
 public:
  explicit DeviceRuntime(int index);

  int index() const { return index_; }
  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  MemoryCache& memory();
  Faults& faults() { return faults_; }

  void write(void* to, const void* from, std::size_t bytes);
  void read(void* to, const void* from, std::size_t bytes);
  /// From memory of another device, in the order of both streams.
  void copy_from(DeviceRuntime& other, void* to, const void* from, std::size_t bytes);
  void synchronize();
  /// What another stream is given from now on comes after all that this one has been given. CUDA's own handles for default streams are
  /// the numbers that they have in Python's array API.
  void lead(cudaStream_t stream);
  /// Waits; what went wrong meanwhile is left for synchronize() or a read. Nothing in a child of fork().
  void drain() noexcept;
  /// By events on the stream.
  std::unique_ptr<stave::BackendStopwatch> stopwatch();

 private:
  // A pinned buffer that a transfer goes through: reused when the event says that it is through.
  struct Buffer {
    void* data = nullptr;
    cudaEvent_t event = nullptr;
  };
  // What a buffer holds of a value that is being read: bytes [at, at + bytes) of it.
  struct Part {
    Buffer* buffer = nullptr;
    std::size_t at = 0, bytes = 0;
  };
  // Many small ones, so that numbers written one after the other wait for none of the work before them.
  static constexpr std::size_t small_bytes = 16 << 10, large_bytes = 4 << 20, large_count = 2;

  // Buffers that take turns.
  template <std::size_t n>
  struct Ring {
    std::array<Buffer, n> buffers{};
    std::size_t turn = 0;
    const std::size_t bytes;  // of each
    explicit Ring(std::size_t each) : bytes(each) {}
    Buffer& next();
    /// Whether the next `count` ones are through.
    bool are_free(std::size_t count) const;
  };

  // All under the mutex.
  bool waits_for_nothing(std::size_t bytes) const;
  void write_straight(void* to, const void* from, std::size_t bytes);
  bool write_by_way(void* to, const void* from, std::size_t bytes);
  void copy_in(Buffer& buffer, void* to, const void* from, std::size_t bytes, cudaStream_t stream);
  Buffer& buffer_for(std::size_t bytes);
  Part start_reading(const void* from, std::size_t at, std::size_t bytes);
  void finish_reading(void* to, const Part& part);
  void wait(cudaEvent_t event, const char* what);
  /// Throws where NoWaiting stands.
  void expect_waiting(const char* what) const;

  const int index_;
  const cudaStream_t stream_;
  const int multiprocessors_;
  StreamMemory source_;
  MemoryCache memory_;
  Faults faults_;
  std::mutex transfers_;  // of all below
  Ring<64> small_{small_bytes};
  Ring<large_count> large_{large_bytes};
  // For writes that go by way of other memory.
  const cudaStream_t copies_;
  const cudaMemPool_t way_;
  Ring<2> on_the_way_{large_bytes};
};

/// Made at the first call. Throws stave::DeviceError where the device is not there, or cannot be used.
DeviceRuntime& runtime_of(int index);

}  // namespace stave_cuda
