#include <stave/backends/cuda/runtime.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>

#include <stave/backends/cuda/driver.h>
#include <stave/backends/cuda/launch.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

// ---- devices ----------------------------------------------------------------------------------

namespace {

struct Found {
  int count = 0;
  std::string why_none;
};

constinit std::atomic<bool> has_devices = false, forked = false;

const Found& found() {
  static const Found* const result = [] {
    auto* made = new Found;
    // This is set before the CUDA driver starts, because another thread may fork at any time.
    has_devices = true;
    pthread_atfork(nullptr, nullptr, [] { forked = has_devices.load(); });
    const cudaError_t status = cudaGetDeviceCount(&made->count);
    if (status == cudaSuccess && made->count > 0) return made;
    has_devices = false;
    made->count = 0;
    made->why_none = status == cudaSuccess ? "the driver lists no device" : cudaGetErrorString(status);
    cudaGetLastError();
    return made;
  }();
  return *result;
}

constinit thread_local int forbidding = 0;  // the number of NoWaiting objects

}  // namespace

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }
int device_count() { return is_forked_child() ? 0 : found().count; }
const std::string& why_none() {
  static const std::string* const in_child = new std::string(
      "this process is a child of fork(), whose parent had used CUDA, and the driver does not work in such a child: "
      "fork before the first use of a device, or let the child exec");
  return is_forked_child() ? *in_child : found().why_none;
}

NoWaiting::NoWaiting() { ++forbidding; }
NoWaiting::~NoWaiting() { --forbidding; }

namespace {

void refuse_child(int index) {
  if (is_forked_child()) [[unlikely]]
    fail<stave::DeviceError>("cuda:{}: no CUDA device can be used: {}", index, why_none());
}

// Returns true if the device has a context, as cuDevicePrimaryCtxGetState of the CUDA driver
// reports.
bool has_context(int index) {
  static const auto get_state =
      reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(driver_function("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return !get_state || get_state(index, &flags, &active) != CUDA_SUCCESS ||
         active != 0;  // If the state is unknown, this assumes that there is a context.
}

}  // namespace

// cudaGetDevice reads a thread-local variable of the CUDA runtime. This is as cheap as a
// thread-local variable here would be, and that variable could be out of date.
CurrentDevice::CurrentDevice(int index) : index_(index) {
  refuse_child(index);
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ == index_) return;
  restores_ = has_context(before_);
  check(cudaSetDevice(index_), "cudaSetDevice");
}
CurrentDevice::~CurrentDevice() {
  if (restores_) cudaSetDevice(before_);
}

// ---- memory -----------------------------------------------------------------------------------

StreamMemory::StreamMemory(int index, cudaStream_t stream) : index_(index), stream_(stream) {
  check(cudaDeviceGetDefaultMemPool(&pool_, index), "cudaDeviceGetDefaultMemPool");
  // The pool returns memory to the system only on request.
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute");
  std::size_t unused = 0;
  const CurrentDevice current(index);
  check(cudaMemGetInfo(&unused, &all_), "cudaMemGetInfo");
}

// Returns null if memory is exhausted. Any other failure is usually the error of an earlier kernel,
// and is thrown as such.
void* StreamMemory::take(std::size_t bytes) {
  // For sizes that no device has, cudaMallocAsync returns another error than exhausted memory.
  if (bytes > all_) return nullptr;
  void* block = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&block, bytes, pool_, stream_);
  if (status != cudaErrorMemoryAllocation) return check(status, "allocating memory"), block;
  // Clears the error: the result null reports it, and the next call must not report it again.
  cudaGetLastError();
  return nullptr;
}

// This also runs at the end of the process, when the CUDA driver has freed all memory. Then
// cudaErrorCudartUnloading is ignored.
void StreamMemory::give(void* block, std::size_t) noexcept {
  cudaFreeAsync(block, stream_);
  cudaGetLastError();
}

void StreamMemory::settle() {
  check(cudaStreamSynchronize(stream_), "waiting for memory that is given back");
  check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
}

std::string StreamMemory::free_memory() const {
  std::size_t unused = 0, all = 0;
  const CurrentDevice current(index_);
  if (cudaMemGetInfo(&unused, &all) != cudaSuccess) return "the device does not say what is free";
  constexpr double gib = 1 << 30;
  return fmt::format("of {:.1f} GiB {:.1f} GiB are free", static_cast<double>(all) / gib,
                     static_cast<double>(unused) / gib);
}

// ---- the runtime of a device ------------------------------------------------------------------

namespace {

cudaStream_t new_stream(int index) {
  const CurrentDevice current(index);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "cudaDeviceGetAttribute");
  return value;
}

// Makes the memory pool for writes that go through separate memory. The CUDA driver must not add
// dependencies between streams in order to reuse a block: the write would then wait for the stream
// that it must not wait for.
cudaMemPool_t new_pool(int index) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, index};
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  int no = 0;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no), "cudaMemPoolSetAttribute");
  return pool;
}

// Orders work: all work put on `later` from now on runs after all work put on `earlier` so far.
void order(cudaStream_t earlier, int earlier_device, cudaStream_t later) {
  const CurrentDevice current(earlier_device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  const cudaError_t recorded = cudaEventRecord(event, earlier);
  const cudaError_t ordered = recorded == cudaSuccess ? cudaStreamWaitEvent(later, event, 0) : recorded;
  cudaEventDestroy(event);  // CUDA frees the event once it has happened.
  check(ordered, "cudaStreamWaitEvent");
}

std::span<IndexFault> new_faults(int index) {
  const CurrentDevice current(index);
  void* memory = nullptr;
  constexpr std::size_t count = Faults::most_threads;
  check(cudaHostAlloc(&memory, count * sizeof(IndexFault), cudaHostAllocMapped | cudaHostAllocPortable),
        "cudaHostAlloc");
  auto* const first = static_cast<IndexFault*>(memory);
  std::uninitialized_default_construct_n(first, count);
  // With unified addressing, the device uses the same address.
  return {first, count};
}

}  // namespace

DeviceRuntime::DeviceRuntime(int index)
    : index_(index), stream_(new_stream(index)), multiprocessors_(attribute(cudaDevAttrMultiProcessorCount, index)),
      source_(index, stream_), memory_(source_, fmt::format("cuda:{}", index)), faults_(new_faults(index)),
      staging_stream_(new_stream(index)), staging_pool_(new_pool(index)) {}

MemoryCache& DeviceRuntime::memory() {
  refuse_child(index_);
  return memory_;
}

void DeviceRuntime::check_may_wait(const char* what) const {
  if (forbidding > 0) fail<stave::Error>("cuda:{}: {} waits for the device inside NoWaiting", index_, what);
}

void DeviceRuntime::wait(cudaEvent_t event, const char* what) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaSuccess) return;
  if (status != cudaErrorNotReady) check(status, what);
  // Clears cudaErrorNotReady, so that the next launch does not report it.
  cudaGetLastError();
  check_may_wait(what);
  check(cudaEventSynchronize(event), what);
}

template <std::size_t n>
DeviceRuntime::Buffer& DeviceRuntime::Ring<n>::next() {
  Buffer& buffer = buffers[turn++ % n];
  // Here a write may wait for the device, because CUDA waits when it pins memory.
  if (!buffer.data) {
    check(cudaEventCreateWithFlags(&buffer.event, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaHostAlloc(&buffer.data, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  return buffer;
}
template <std::size_t n>
bool DeviceRuntime::Ring<n>::are_free(std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    const Buffer& buffer = buffers[(turn + i) % n];
    if (!buffer.data) continue;
    const cudaError_t status = cudaEventQuery(buffer.event);
    if (status == cudaSuccess) continue;
    if (status != cudaErrorNotReady) check(status, "a transfer's buffer");
    cudaGetLastError();
    return false;
  }
  return true;
}

/// Returns the next buffer, which may still be in use.
DeviceRuntime::Buffer& DeviceRuntime::buffer_for(std::size_t bytes) {
  return bytes <= small_bytes ? small_.next() : large_.next();
}

void DeviceRuntime::copy_in(Buffer& buffer, void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  std::memcpy(buffer.data, from, bytes);
  check(cudaMemcpyAsync(to, buffer.data, bytes, cudaMemcpyHostToDevice, stream), "writing to the device");
  check(cudaEventRecord(buffer.event, stream), "cudaEventRecord");
}

void DeviceRuntime::write(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(index_);
  const std::lock_guard lock(transfers_);
  if (waits_for_nothing(bytes) || !write_staged(to, from, bytes)) write_directly(to, from, bytes);
}

/// Returns true if a write of `bytes` need not wait for earlier work: enough pinned buffers are
/// free, or the stream is idle. A large write may still wait until its own first parts are copied,
/// so that it can reuse their buffers.
bool DeviceRuntime::waits_for_nothing(std::size_t bytes) const {
  const std::size_t parts = (bytes + large_bytes - 1) / large_bytes;
  if (bytes <= small_bytes ? small_.are_free(1) : parts <= large_count && large_.are_free(parts)) return true;
  const cudaError_t status = cudaStreamQuery(stream_);
  if (status != cudaErrorNotReady) return check(status, "writing to the device"), true;
  cudaGetLastError();
  return false;
}

void DeviceRuntime::write_directly(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, large_bytes);
    Buffer& buffer = buffer_for(part);
    check(cudaEventSynchronize(buffer.event), "writing to the device");
    copy_in(buffer, static_cast<char*>(to) + done, static_cast<const char*>(from) + done, part, stream_);
    done += part;
  }
}

// Writes a value through separate memory: the second stream copies it from the host to a new block
// on the device, and then `stream_` copies the block to the destination, which earlier work on
// `stream_` may still read. Returns false if there is no memory for the block.
bool DeviceRuntime::write_staged(void* to, const void* from, std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, staging_pool_, staging_stream_);
  if (status == cudaErrorMemoryAllocation) return cudaGetLastError(), false;
  check(status, "allocating memory");
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, large_bytes);
    Buffer& buffer = staging_buffers_.next();
    check(cudaEventSynchronize(buffer.event),
          // This waits only for the last transfer from the same buffer, which is the second last
          // transfer of all.
          "writing to the device");
    copy_in(buffer, static_cast<char*>(memory) + done, static_cast<const char*>(from) + done, part, staging_stream_);
    done += part;
  }
  order(staging_stream_, index_, stream_);
  check(cudaMemcpyAsync(to, memory, bytes, cudaMemcpyDeviceToDevice, stream_), "writing to the device");
  check(cudaFreeAsync(memory, stream_), "cudaFreeAsync");
  return true;
}

DeviceRuntime::Part DeviceRuntime::start_reading(const void* from, std::size_t at, std::size_t bytes) {
  Buffer& buffer = buffer_for(bytes);
  wait(buffer.event, "a transfer's buffer");
  check(cudaMemcpyAsync(buffer.data, static_cast<const char*>(from) + at, bytes, cudaMemcpyDeviceToHost, stream_),
        "reading a value");
  check(cudaEventRecord(buffer.event, stream_), "cudaEventRecord");
  return {&buffer, at, bytes};
}

void DeviceRuntime::finish_reading(void* to, const Part& part) {
  if (!part.buffer) return;
  wait(part.buffer->event, "reading a value");
  std::memcpy(static_cast<char*>(to) + part.at, part.buffer->data, part.bytes);
}

// Reads a value in parts. While the device copies one part into a buffer, the host copies the
// previous part out of another buffer.
void DeviceRuntime::read(void* to, const void* from, std::size_t bytes) {
  check_may_wait("reading a value");
  const CurrentDevice current(index_);
  {
    const std::lock_guard lock(transfers_);
    Part before;
    for (std::size_t done = 0; done < bytes; done += before.bytes) {
      const Part part = start_reading(from, done, std::min(bytes - done, large_bytes));
      finish_reading(to, before);
      before = part;
    }
    finish_reading(to, before);
  }
  faults_.raise();
}

void DeviceRuntime::copy_from(DeviceRuntime& other, void* to, const void* from, std::size_t bytes) {
  order(other.stream_, other.index_, stream_);
  {
    const CurrentDevice current(index_);
    check(cudaMemcpyPeerAsync(to, index_, from, other.index_, bytes, stream_), "copying between devices");
  }
  // Makes the other device's stream wait for the copy: otherwise that device could reuse `from` too
  // early.
  order(stream_, index_, other.stream_);
}

void DeviceRuntime::synchronize() {
  refuse_child(index_);
  check_may_wait("synchronize()");
  check(cudaStreamSynchronize(stream_), "synchronize");
  faults_.raise();
}

static_assert(sizeof(cudaStream_t) == sizeof(std::intptr_t));
void DeviceRuntime::make_stream_wait(cudaStream_t stream) { order(stream_, index_, stream); }

// Errors are ignored here: every later call reports an error of the device again.
void DeviceRuntime::drain() noexcept {
  if (is_forked_child()) return;
  cudaStreamSynchronize(stream_);
  cudaGetLastError();
}

namespace {

class EventStopwatch final : public stave::BackendStopwatch {
 public:
  EventStopwatch(int index, cudaStream_t stream) : index_(index), stream_(stream) {
    const CurrentDevice current(index_);
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
    check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
  }
  ~EventStopwatch() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  std::chrono::nanoseconds elapsed() override {
    const CurrentDevice current(index_);
    check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
    check(cudaEventSynchronize(events_[1]), "measuring time");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<float, std::milli>(milliseconds));
  }

 private:
  const int index_;
  const cudaStream_t stream_;
  cudaEvent_t events_[2] = {};
};

}  // namespace

std::unique_ptr<stave::BackendStopwatch> DeviceRuntime::stopwatch() {
  return std::make_unique<EventStopwatch>(index_, stream_);
}

// ---- the runtimes of all devices --------------------------------------------------------------

namespace {

constexpr int most_devices = 256;

[[noreturn]] void fail_absent(int index) {
  const int count = device_count();
  if (count == 0)
    fail<stave::DeviceError>(
        "cuda:{}: no CUDA device can be used: {}: see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES hides "
        "it, or use the CPU",
        index, why_none());
  if (count == 1) fail<stave::DeviceError>("cuda:{}: there is 1 CUDA device, cuda:0", index);
  fail<stave::DeviceError>("cuda:{}: there are {} CUDA devices, cuda:0 to cuda:{}", index, count, count - 1);
}

#ifndef STAVE_CUDA_CODE
#define STAVE_CUDA_CODE "no architecture"
#endif

// Checks that the library has code for the device. Otherwise every launch would fail, one operation
// after the other, with an unhelpful message.
void expect_code(int index) {
  const CurrentDevice current(index);
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, any_kernel());
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index),
            minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    // The library contains PTX, but the CUDA driver is older than the compiler that made it, and
    // cannot translate it.
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
      cudaGetLastError();
      fail<stave::DeviceError>(
          "cuda:{}: the device has compute capability {}.{}, for which this library holds no code: it was built for "
          "{}; "
          "build it with -DSTAVE_CUDA_ARCHITECTURES={}{}-real, or use another device",
          index, major, minor, STAVE_CUDA_CODE, major, minor);
    default: check(status, "asking for the device's code");
  }
}

DeviceRuntime* open(int index) {
  expect_code(index);
  if (!attribute(cudaDevAttrMemoryPoolsSupported, index))
    fail<stave::DeviceError>("cuda:{}: the device or its driver has no stream-ordered memory: use a newer driver",
                             index);
  return new DeviceRuntime(index);
}

}  // namespace

DeviceRuntime& runtime_of(int index) {
  static constinit std::array<std::atomic<DeviceRuntime*>, most_devices> open_ones{};
  static constinit std::mutex opening;
  if (index < 0 || index >= most_devices || index >= device_count()) fail_absent(index);
  std::atomic<DeviceRuntime*>& place = open_ones[static_cast<std::size_t>(index)];
  if (DeviceRuntime* runtime = place.load(std::memory_order_acquire)) return *runtime;
  const std::lock_guard lock(opening);
  if (!place.load(std::memory_order_relaxed)) place.store(open(index), std::memory_order_release);
  return *place.load(std::memory_order_relaxed);
}

}  // namespace stave_cuda
