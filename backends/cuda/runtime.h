// The run-time state of a CUDA device: its stream, memory, transfers, and the
// faults that its kernels report.
//
// - One non-blocking stream per device takes all its work from all host threads. So operations run
//   in the order in which they are launched, and memory is reused without events (memory_cache.h).
// - The host waits when a value is read, in synchronize(), while a pinned buffer of a transfer is
//   still in use, and before it reports that memory is exhausted. A test can forbid waiting with
//   NoWaiting.
// - A write does not wait for earlier work. If no pinned buffer is free, the write goes through
//   separate memory on the device, on a second stream that does nothing else. A write waits in two
//   cases only: the device has no memory left for this, or a pinned buffer is allocated for the
//   first time.
// - A child of fork() has no devices, because the CUDA driver does not work there (DeviceError says
//   so). It leaves the inherited state untouched.
// - The state of a device is never destroyed, because tensors may be globals, which may outlive
//   even the state of the CUDA driver.
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

/// Returns the number of usable devices. If it is 0, `why_none` returns the reason.
int device_count();
const std::string& why_none();
/// Returns true if this process is a child of fork() whose parent had devices at that time.
bool is_forked_child();

/// Forbids waiting on this thread: while an object exists, a wait for a device throws
/// stave::Error. Reading a value also throws, even if the device has finished. For
/// tests of code that must not wait.
class NoWaiting {
 public:
  NoWaiting();
  ~NoWaiting();
  NoWaiting(const NoWaiting&) = delete;
};

/// Makes a device current on this thread and restores the previous one at the end. It does not
/// restore a device that has no context yet, because that would create one, which takes some
/// hundred megabytes of device memory.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  int index_, before_ = 0;
  bool restores_ = false;
};

/// Memory from cudaMallocAsync, on a device's stream and from its default pool.
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
  std::size_t all_ = 0;  // the total memory of the device in bytes
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
  /// Copies from memory of another device. The copy runs after the earlier work and before the
  /// later work of both devices' streams.
  void copy_from(DeviceRuntime& other, void* to, const void* from, std::size_t bytes);
  void synchronize();
  /// Orders another stream after this one: work put on `stream` from now on runs after all
  /// work put on this stream so far. The handles of CUDA's default streams equal their
  /// numbers in the Python array API.
  void make_stream_wait(cudaStream_t stream);
  /// Waits for the stream. An error is left for synchronize() or a read to throw.
  /// Does nothing in a child of fork().
  void drain() noexcept;
  /// Returns a stopwatch that uses events on the stream.
  std::unique_ptr<stave::BackendStopwatch> stopwatch();

 private:
  // A pinned buffer for a transfer. It is reused when the event says that the transfer is done.
  struct Buffer {
    void* data = nullptr;
    cudaEvent_t event = nullptr;
  };
  // Bytes [at, at + bytes) of a value that is being read. `buffer` holds them.
  struct Part {
    Buffer* buffer = nullptr;
    std::size_t at = 0, bytes = 0;
  };
  // There are many small buffers, so that a series of scalars can be written without waiting for
  // earlier work.
  static constexpr std::size_t small_bytes = 16 << 10, large_bytes = 4 << 20, large_count = 2;

  // n buffers, which are used in rotation.
  template <std::size_t n>
  struct Ring {
    std::array<Buffer, n> buffers{};
    std::size_t turn = 0;
    const std::size_t bytes;  // the size of each buffer
    explicit Ring(std::size_t each) : bytes(each) {}
    Buffer& next();
    /// Returns true if the transfers of the next `count` buffers are done.
    bool are_free(std::size_t count) const;
  };

  // The callers of the following functions, except for check_may_wait(), hold the mutex
  // `transfers_`.
  bool waits_for_nothing(std::size_t bytes) const;
  void write_directly(void* to, const void* from, std::size_t bytes);
  bool write_staged(void* to, const void* from, std::size_t bytes);
  void copy_in(Buffer& buffer, void* to, const void* from, std::size_t bytes, cudaStream_t stream);
  Buffer& buffer_for(std::size_t bytes);
  Part start_reading(const void* from, std::size_t at, std::size_t bytes);
  void finish_reading(void* to, const Part& part);
  void wait(cudaEvent_t event, const char* what);
  /// Throws if a NoWaiting object exists on this thread.
  void check_may_wait(const char* what) const;

  const int index_;
  const cudaStream_t stream_;
  const int multiprocessors_;
  StreamMemory source_;
  MemoryCache memory_;
  Faults faults_;
  std::mutex transfers_;  // guards the members below
  Ring<64> small_{small_bytes};
  Ring<large_count> large_{large_bytes};
  // The stream, memory pool and pinned buffers of writes that go through separate memory.
  const cudaStream_t staging_stream_;
  const cudaMemPool_t staging_pool_;
  Ring<2> staging_buffers_{large_bytes};
};

/// Returns the runtime of a device, created at the first call. Throws stave::DeviceError if the
/// device does not exist or cannot be used.
DeviceRuntime& runtime_of(int index);

}  // namespace stave_cuda
