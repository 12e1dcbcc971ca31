#include <stave/backends/cuda/runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include <stave/backends/cuda/launch.h>
#include <stave/core/fail.h>

namespace stave_cuda {

using stave_detail::fail;

// ---- which devices there are -------------------------------------------------------------------------------

namespace {

struct Found {
  int count = 0;
  std::string why_none;
};

const Found& found() {
  static const Found* const result = [] {
    auto* made = new Found;
    const cudaError_t status = cudaGetDeviceCount(&made->count);
    if (status == cudaSuccess && made->count > 0) return made;
    made->count = 0;
    made->why_none = status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status);
    cudaGetLastError();
    return made;
  }();
  return *result;
}

constinit thread_local int forbidding = 0;  // NoWaiting objects

}  // namespace

int device_count() { return found().count; }
const std::string& why_none() { return found().why_none; }

NoWaiting::NoWaiting() { ++forbidding; }
NoWaiting::~NoWaiting() { --forbidding; }

// cudaGetDevice reads a thread-local variable of the runtime: as cheap as one of our own, which could be wrong.
CurrentDevice::CurrentDevice(int index) : index_(index) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != index_) check(cudaSetDevice(index_), "cudaSetDevice");
}
CurrentDevice::~CurrentDevice() {
  if (before_ != index_) cudaSetDevice(before_);
}

// ---- memory ------------------------------------------------------------------------------------------------

StreamMemory::StreamMemory(int index, cudaStream_t stream) : index_(index), stream_(stream) {
  check(cudaDeviceGetDefaultMemPool(&pool_, index), "cudaDeviceGetDefaultMemPool");
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();  // gives back to the system when asked to only
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute");
}

void* StreamMemory::take(std::size_t bytes) noexcept {
  void* block = nullptr;
  if (cudaMallocFromPoolAsync(&block, bytes, pool_, stream_) == cudaSuccess) return block;
  cudaGetLastError();  // it is told by the null, and not to be met again by the next call
  return nullptr;
}

// Also at the end of the process, when the driver has freed everything: cudaErrorCudartUnloading is no error then.
void StreamMemory::give(void* block, std::size_t) noexcept {
  cudaFreeAsync(block, stream_);
  cudaGetLastError();
}

void StreamMemory::settle() noexcept {
  cudaStreamSynchronize(stream_);
  cudaMemPoolTrimTo(pool_, 0);
  cudaGetLastError();
}

std::string StreamMemory::free_memory() const {
  std::size_t unused = 0, all = 0;
  const CurrentDevice current(index_);
  if (cudaMemGetInfo(&unused, &all) != cudaSuccess) return "the device does not say what is free";
  constexpr double gib = 1 << 30;
  return fmt::format("of {:.1f} GiB {:.1f} GiB are free", static_cast<double>(all) / gib,
                     static_cast<double>(unused) / gib);
}

// ---- a device ----------------------------------------------------------------------------------------------

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

IndexFault* new_fault(int index) {
  const CurrentDevice current(index);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(IndexFault), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  return ::new (memory) IndexFault;  // with unified addressing the device knows it by the same address
}

}  // namespace

DeviceRuntime::DeviceRuntime(int index)
    : index_(index), stream_(new_stream(index)), multiprocessors_(attribute(cudaDevAttrMultiProcessorCount, index)),
      source_(index, stream_), memory_(source_, fmt::format("cuda:{}", index)), faults_(new_fault(index)) {}

void DeviceRuntime::wait(cudaEvent_t event, const char* what) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaSuccess) return;
  if (status != cudaErrorNotReady) check(status, what);
  if (forbidding > 0) fail<stave::Error>("cuda:{}: {} waits for the device where NoWaiting stands", index_, what);
  check(cudaEventSynchronize(event), what);
}

template <std::size_t n>
DeviceRuntime::Buffer& DeviceRuntime::next(std::array<Buffer, n>& buffers, std::size_t& turn, std::size_t bytes) {
  Buffer& buffer = buffers[turn++ % n];
  if (!buffer.data) {
    check(cudaEventCreateWithFlags(&buffer.event, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaHostAlloc(&buffer.data, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  wait(buffer.event, "a transfer's buffer");  // at once, unless it was used lately
  return buffer;
}

DeviceRuntime::Buffer& DeviceRuntime::buffer_for(std::size_t bytes) {
  return bytes <= small_bytes ? next(small_, small_turn_, small_bytes) : next(large_, large_turn_, large_bytes);
}

void DeviceRuntime::write(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(index_);
  const std::lock_guard lock(transfers_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, large_bytes);
    Buffer& buffer = buffer_for(part);
    std::memcpy(buffer.data, static_cast<const char*>(from) + done, part);
    check(cudaMemcpyAsync(static_cast<char*>(to) + done, buffer.data, part, cudaMemcpyHostToDevice, stream_),
          "writing to the device");
    check(cudaEventRecord(buffer.event, stream_), "cudaEventRecord");
    done += part;
  }
}

DeviceRuntime::Part DeviceRuntime::start_reading(const void* from, std::size_t at, std::size_t bytes) {
  Buffer& buffer = buffer_for(bytes);
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

// The device copies one part while the host takes the one before it from the other buffer.
void DeviceRuntime::read(void* to, const void* from, std::size_t bytes) {
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

namespace {

// Work that `later` is given from now on comes after all that `earlier` has been given.
void order(cudaStream_t earlier, int earlier_device, cudaStream_t later) {
  const CurrentDevice current(earlier_device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  const cudaError_t recorded = cudaEventRecord(event, earlier);
  const cudaError_t ordered = recorded == cudaSuccess ? cudaStreamWaitEvent(later, event, 0) : recorded;
  cudaEventDestroy(event);  // takes effect when the event has happened
  check(ordered, "cudaStreamWaitEvent");
}

}  // namespace

void DeviceRuntime::copy_from(DeviceRuntime& other, void* to, const void* from, std::size_t bytes) {
  order(other.stream_, other.index_, stream_);
  {
    const CurrentDevice current(index_);
    check(cudaMemcpyPeerAsync(to, index_, from, other.index_, bytes, stream_), "copying between devices");
  }
  order(stream_, index_, other.stream_);  // or the other could give its memory to later work too soon
}

void DeviceRuntime::synchronize() {
  if (forbidding > 0) fail<stave::Error>("cuda:{}: synchronize() waits for the device where NoWaiting stands", index_);
  check(cudaStreamSynchronize(stream_), "synchronize");
  faults_.raise();
}

namespace {

class EventStopwatch final : public stave::Stopwatch {
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

std::unique_ptr<stave::Stopwatch> DeviceRuntime::stopwatch() {
  return std::make_unique<EventStopwatch>(index_, stream_);
}

// ---- all devices -------------------------------------------------------------------------------------------

namespace {

constexpr int most_devices = 256;

[[noreturn]] void fail_absent(int index) {
  const int count = device_count();
  if (count == 0)
    fail<stave::DeviceError>(
        "cuda:{}: no CUDA device can be used: {}: see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES hides "
        "it, "
        "or use the CPU",
        index, why_none());
  if (count == 1) fail<stave::DeviceError>("cuda:{}: there is 1 CUDA device, cuda:0", index);
  fail<stave::DeviceError>("cuda:{}: there are {} CUDA devices, cuda:0 to cuda:{}", index, count, count - 1);
}

DeviceRuntime* open(int index) {
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
