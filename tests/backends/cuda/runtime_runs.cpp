// Tests the runtime of a device over a simulated driver.
// Its streams are queues whose work runs as late as possible, when the host waits for it.
// So code that relies on work that has not finished gets wrong bytes.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <stave/backends/cuda/occupancy.h>
#include <stave/backends/cuda/runtime.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>

// ---- the driver --------------------------------------------------------------------------------

namespace {

struct Driver {
  struct Stream {
    std::deque<std::function<void()>> work;
    int device = 0;
  };
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Stream> streams;
  // The stream of each event, and whether the event has happened.
  std::map<std::uintptr_t, std::pair<Stream*, bool>> events;
  // The time of each event, by a clock on which each piece of work takes a millisecond.
  std::map<std::uintptr_t, int> times;
  int clock = 0;
  std::uintptr_t next = 1;
  std::size_t limit = std::size_t{1} << 32, given_out = 0;
  int waits = 0, wrong_device = 0;
  // The devices on which a context was created.
  std::set<int> contexts;
  // If true, the device fails at the next wait.
  bool breaks = false;
  // The error of a kernel. From then on, every call that can report it does.
  cudaError_t broken = cudaSuccess;
  // An error if there is no kernel code for the device.
  cudaError_t code = cudaSuccess;
  // The number of occupancy queries for each kernel.
  std::map<const void*, int> occupancies;
};
Driver driver;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fails(cudaError_t error) { return last_error = error; }
/// The result of a call that reports earlier errors.
cudaError_t done() { return driver.broken == cudaSuccess ? cudaSuccess : fails(driver.broken); }

Driver::Stream& stream_of(cudaStream_t stream) {
  Driver::Stream& found = driver.streams.at(reinterpret_cast<std::uintptr_t>(stream));
  return found;
}
void expect_current(const Driver::Stream& stream) { driver.wrong_device += stream.device != current_device; }

/// Runs the work of a stream until `done` returns true.
template <class F>
void work_until(Driver::Stream& stream, F done) {
  while (!done() && !stream.work.empty()) {
    const auto item = std::move(stream.work.front());
    stream.work.pop_front();
    item();
    ++driver.clock;
  }
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) { return *count = 3, cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal address" : "an error";
}
const char* cudaGetErrorName(cudaError_t) { return "error"; }
cudaError_t cudaGetDevice(int* device) { return *device = current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  driver.contexts.insert(device);
  return current_device = device, cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  if (std::strcmp(name, "cuDevicePrimaryCtxGetState") != 0) return fails(cudaErrorInvalidValue);
  *function = reinterpret_cast<void*>(+[](int device, unsigned* flags, int* active) {
    *flags = 0;
    *active = static_cast<int>(driver.contexts.count(device));
    return 0;
  });
  return *found = cudaDriverEntryPointSuccess, cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) {
  return driver.code == cudaSuccess ? cudaSuccess : fails(driver.code);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads, std::size_t) {
  ++driver.occupancies[kernel];
  return *blocks = 1536 / threads, cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 7, cudaSuccess; }
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) { return *pool = nullptr, cudaSuccess; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = nullptr, cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return done(); }
cudaError_t cudaMemGetInfo(std::size_t* unused, std::size_t* all) {
  *unused = std::size_t{1} << 30;
  *all = std::size_t{2} << 30;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return *memory = std::malloc(bytes), cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Lock lock(driver.mutex);
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  driver.streams[driver.next].device = current_device;
  *stream = reinterpret_cast<cudaStream_t>(driver.next++);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
  const Lock lock(driver.mutex);
  if (driver.broken != cudaSuccess) return done();
  if (bytes > std::size_t{2} << 30) return fails(cudaErrorInvalidValue);
  if (driver.given_out + bytes > driver.limit) return fails(cudaErrorMemoryAllocation);
  driver.given_out += bytes;
  *memory = std::malloc(bytes + sizeof bytes);
  std::memcpy(*memory, &bytes, sizeof bytes);
  *memory = static_cast<char*>(*memory) + sizeof bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  const Lock lock(driver.mutex);
  stream_of(stream).work.emplace_back([memory] {
    void* const block = static_cast<char*>(memory) - sizeof(std::size_t);
    std::size_t bytes;
    std::memcpy(&bytes, block, sizeof bytes);
    driver.given_out -= bytes;
    std::free(block);
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const Lock lock(driver.mutex);
  expect_current(stream_of(stream));
  stream_of(stream).work.emplace_back([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Lock lock(driver.mutex);
  driver.events[driver.next] = {nullptr, true};
  *event = reinterpret_cast<cudaEvent_t>(driver.next++);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const auto time = [](cudaEvent_t event) { return driver.times.at(reinterpret_cast<std::uintptr_t>(event)); };
  *milliseconds = static_cast<float>(time(to) - time(from));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(driver.mutex);
  expect_current(stream_of(stream));
  auto& state = driver.events.at(reinterpret_cast<std::uintptr_t>(event));
  state = {&stream_of(stream), false};
  stream_of(stream).work.emplace_back([&state, event] {
    state.second = true;
    driver.times[reinterpret_cast<std::uintptr_t>(event)] = driver.clock;
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(driver.mutex);
  return driver.events.at(reinterpret_cast<std::uintptr_t>(event)).second ? done() : fails(cudaErrorNotReady);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(driver.mutex);
  return stream_of(stream).work.empty() ? done() : fails(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(driver.mutex);
  auto& state = driver.events.at(reinterpret_cast<std::uintptr_t>(event));
  driver.waits += !state.second;
  if (state.first) work_until(*state.first, [&] { return state.second; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(driver.mutex);
  auto& state = driver.events.at(reinterpret_cast<std::uintptr_t>(event));
  stream_of(stream).work.emplace_back([&state] { work_until(*state.first, [&] { return state.second; }); });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(driver.mutex);
  ++driver.waits;
  work_until(stream_of(stream), [] { return false; });
  if (driver.breaks) driver.broken = cudaErrorIllegalAddress;
  return done();
}
}  // extern "C"

const void* stave_cuda::any_kernel() { return &driver; }

// ---- tests -------------------------------------------------------------------------------------

namespace {

using namespace stave_cuda;

std::vector<char> bytes_of(std::size_t count, unsigned seed) {
  std::vector<char> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251 + seed);
  return bytes;
}
std::vector<char> read(DeviceRuntime& device, const void* from, std::size_t count) {
  std::vector<char> bytes(count);
  device.read(bytes.data(), from, count);
  return bytes;
}
template <class E, class F>
std::string text_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Runtime, TransfersAnySize) {
  DeviceRuntime& device = runtime_of(0);
  for (std::size_t count : {0, 1, 100, 16384, 16385, 4 << 20, (4 << 20) + 1, (12 << 20) + 5, 40 << 20}) {
    void* const memory = device.memory().take(count);
    const std::vector<char> bytes = bytes_of(count, 1);
    {
      std::vector<char> gone = bytes;
      device.write(memory, gone.data(), count);
      // The host's memory may be reused when write returns.
      std::fill(gone.begin(), gone.end(), 0);
    }
    EXPECT_EQ(read(device, memory, count), bytes) << count;
    device.memory().give(memory, count);
  }
}

TEST(Runtime, ManyWritesShareTheirBuffers) {
  DeviceRuntime& device = runtime_of(0);
  std::vector<void*> places;
  for (unsigned i = 0; i < 500; ++i) {
    places.push_back(device.memory().take(64));
    device.write(places.back(), bytes_of(64, i).data(), 64);
  }
  for (unsigned i = 0; i < 500; ++i) EXPECT_EQ(read(device, places[i], 64), bytes_of(64, i)) << i;
  for (void* place : places) device.memory().give(place, 64);
}

TEST(Runtime, WritingDoesNotWaitAndReadingDoes) {
  DeviceRuntime& device = runtime_of(0);
  device.synchronize();
  void* const memory = device.memory().take(64);
  const int before = driver.waits;
  {
    const NoWaiting none;
    for (unsigned i = 0; i < 64; ++i) device.write(memory, bytes_of(64, i).data(), 64);
    EXPECT_EQ(text_of<stave::Error>([&] { device.synchronize(); }),
              "cuda:0: synchronize() waits for the device inside NoWaiting");
  }
  EXPECT_EQ(driver.waits, before);
  EXPECT_EQ(read(device, memory, 64), bytes_of(64, 63));
  {
    const NoWaiting none;
    EXPECT_EQ(text_of<stave::Error>([&] { read(device, memory, 64); }),
              "cuda:0: reading a value waits for the device inside NoWaiting");
  }
  device.memory().give(memory, 64);
}

TEST(Runtime, ReusedMemoryIsWrittenAfterItsReaders) {
  DeviceRuntime& device = runtime_of(0);
  void *const from = device.memory().take(1000), *const to = device.memory().take(1000);
  device.write(from, bytes_of(1000, 1).data(), 1000);
  {
    const CurrentDevice current(0);
    // The copy stands for a kernel.
    cudaMemcpyAsync(to, from, 1000, cudaMemcpyDeviceToDevice, device.stream());
  }
  device.memory().give(from, 1000);
  void* const again = device.memory().take(1000);
  EXPECT_EQ(again, from);
  device.write(again, bytes_of(1000, 2).data(), 1000);
  EXPECT_EQ(read(device, to, 1000), bytes_of(1000, 1));
  EXPECT_EQ(read(device, again, 1000), bytes_of(1000, 2));
  device.memory().give(to, 1000);
  device.memory().give(again, 1000);
}

TEST(Runtime, CopiesBetweenDevicesInTheOrderOfBoth) {
  DeviceRuntime &a = runtime_of(0), &b = runtime_of(1);
  void *const from = a.memory().take(5000), *const to = b.memory().take(5000);
  a.write(from, bytes_of(5000, 1).data(), 5000);
  b.copy_from(a, to, from, 5000);
  a.write(from, bytes_of(5000, 2).data(), 5000);  // runs after the copy
  a.synchronize();
  EXPECT_EQ(read(b, to, 5000), bytes_of(5000, 1));
  EXPECT_EQ(read(a, from, 5000), bytes_of(5000, 2));
  a.memory().give(from, 5000);
  b.memory().give(to, 5000);
}

TEST(Runtime, AnotherLibrarysStreamWaitsForTheWork) {
  DeviceRuntime& device = runtime_of(0);
  cudaStream_t theirs = nullptr;
  void *const ours = device.memory().take(1000), *const to = device.memory().take(1000);
  device.write(ours, bytes_of(1000, 1).data(), 1000);
  device.synchronize();
  // This write is still pending if there is no wait.
  device.write(ours, bytes_of(1000, 2).data(), 1000);
  {
    const NoWaiting none;
    device.make_stream_wait(device.stream());  // the device's own stream is in order already
    const CurrentDevice current(0);
    ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
    device.make_stream_wait(theirs);
    cudaMemcpyAsync(to, ours, 1000, cudaMemcpyDeviceToDevice, theirs);
    cudaStreamSynchronize(theirs);
  }
  EXPECT_EQ(std::memcmp(to, bytes_of(1000, 2).data(), 1000), 0);
  device.memory().give(ours, 1000);
  device.memory().give(to, 1000);
}

TEST(Runtime, DrainingWaitsAndKeepsFaults) {
  DeviceRuntime& device = runtime_of(0);
  void* const theirs = device.memory().take(1000);
  device.write(theirs, bytes_of(1000, 3).data(), 1000);
  *device.faults().place() = {device.faults().ticket(stave::OpId::gather), 0, 9, 4};
  device.drain();
  EXPECT_EQ(std::memcmp(theirs, bytes_of(1000, 3).data(), 1000), 0);
  EXPECT_EQ(text_of<stave::IndexError>([&] { device.synchronize(); }).find("gather: index 9 is out of range"), 0u);
  device.memory().give(theirs, 1000);
}

TEST(Runtime, FaultsAreThrownByReadingAndSynchronizing) {
  DeviceRuntime& device = runtime_of(0);
  void* const memory = device.memory().take(8);
  device.write(memory, "1234567", 8);
  *device.faults().place() = {device.faults().ticket(stave::OpId::scatter_add), 1, 5, 4};
  EXPECT_EQ(text_of<stave::IndexError>([&] { read(device, memory, 8); }).find("scatter_add: index 5 is out of range"),
            0u);
  EXPECT_EQ(read(device, memory, 8), std::vector<char>({'1', '2', '3', '4', '5', '6', '7', '\0'}));
  *device.faults().place() = {device.faults().ticket(stave::OpId::gather), 0, -9, 4};
  EXPECT_EQ(text_of<stave::IndexError>([&] { device.synchronize(); }).find("gather: index -9 is out of range"), 0u);
  device.memory().give(memory, 8);
}

TEST(Runtime, AStopwatchMeasuresTheDevicesWork) {
  DeviceRuntime& device = runtime_of(0);
  device.synchronize();
  void* const memory = device.memory().take(64);
  // queued before the stopwatch, although it runs later
  device.write(memory, bytes_of(64, 1).data(), 64);
  const auto stopwatch = device.stopwatch();
  const CurrentDevice current(0);
  for (int i = 0; i < 9; ++i)
    // Nine kernels; the event itself is the tenth.
    cudaMemcpyAsync(memory, memory, 0, cudaMemcpyDeviceToDevice, device.stream());
  EXPECT_EQ(stopwatch->elapsed(), std::chrono::milliseconds(10));
  device.memory().give(memory, 64);
}

TEST(Runtime, RestoresTheCurrentDevice) {
  DeviceRuntime& device = runtime_of(1);
  cudaSetDevice(0);
  void* const memory = device.memory().take(64);
  device.write(memory, bytes_of(64, 3).data(), 64);
  EXPECT_EQ(read(device, memory, 64), bytes_of(64, 3));
  device.memory().give(memory, 64);
  EXPECT_EQ(current_device, 0);
  EXPECT_EQ(driver.wrong_device, 0) << "each stream is used on its own device";
}

TEST(Runtime, OutOfMemoryErrorNamesSizes) {
  DeviceRuntime& device = runtime_of(1);
  void* const cached = device.memory().take(1 << 20);
  device.memory().give(cached, 1 << 20);
  driver.limit = driver.given_out + 1000;
  // The only memory left is the block that the cache gives back.
  void* const block = device.memory().take((1 << 20) - 5000000 / 8);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(
      text_of<stave::DeviceError>([&] { device.memory().take(8 << 20); })
          .find(
              "cuda:1: out of memory: 8.0 MiB (8388608 bytes) are requested, tensors hold 0.4 MiB; of 2.0 GiB 1.0 GiB "
              "are free"),
      0u);
  driver.limit = std::size_t{1} << 32;
  device.memory().give(block, (1 << 20) - 5000000 / 8);
  EXPECT_EQ(text_of<stave::DeviceError>([&] {
              device.memory().take(std::size_t{1} << 40);
            }).find("cuda:1: out of memory: 1024.0 GiB (1099511627776 bytes) are requested"),
            0u);
}

TEST(Runtime, AbsentDevicesAreErrors) {
  EXPECT_EQ(text_of<stave::DeviceError>([] { runtime_of(3); }), "cuda:3: there are 3 CUDA devices, cuda:0 to cuda:2");
}

TEST(Runtime, ADeviceWithoutCodeIsRefusedWhenItIsOpened) {
  for (cudaError_t why : {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion}) {
    driver.code = why;
    EXPECT_EQ(
        text_of<stave::DeviceError>([] { runtime_of(2); }),
        "cuda:2: the device has compute capability 7.7, for which this library holds no code: it was built for no "
        "architecture; build it with -DSTAVE_CUDA_ARCHITECTURES=77-real, or use another device");
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  driver.code = cudaErrorIllegalAddress;
  EXPECT_EQ(text_of<stave::Error>([] { runtime_of(2); }),
            "cuda: asking for the device's code: an illegal address (error)");
  driver.code = cudaSuccess;
  EXPECT_EQ(runtime_of(2).index(), 2);
}

TEST(Runtime, KernelErrorsAreNotReportedAsOutOfMemory) {
  DeviceRuntime& device = runtime_of(0);
  driver.broken = cudaErrorIllegalAddress;
  EXPECT_EQ(text_of<stave::Error>([&] { device.memory().take(123456789); }),
            "cuda: allocating memory: an illegal address (error)");
  driver.broken = cudaSuccess;
  driver.breaks = true;
  driver.limit = driver.given_out;
  EXPECT_EQ(text_of<stave::Error>([&] { device.memory().take(123456789); }),
            "cuda: waiting for memory that is given back: an illegal address (error)");
  driver.breaks = false;
  driver.broken = cudaSuccess;
  driver.limit = std::size_t{1} << 32;
}

TEST(Runtime, PendingEventIsNoErrorOfTheNextLaunch) {
  DeviceRuntime& device = runtime_of(0);
  void* const memory = device.memory().take(64);
  device.write(memory, bytes_of(64, 1).data(), 64);
  read(device, memory, 64);
  EXPECT_NO_THROW(check_launch("a kernel"));
  for (unsigned i = 0; i < 200; ++i) device.write(memory, bytes_of(64, i).data(), 64);
  EXPECT_NO_THROW(check_launch("a kernel"));
  device.memory().give(memory, 64);
}

TEST(Runtime, ReadingUnderNoWaitingAlwaysThrows) {
  DeviceRuntime& device = runtime_of(0);
  void* const memory = device.memory().take(64);
  device.synchronize();
  const NoWaiting none;
  EXPECT_EQ(text_of<stave::Error>([&] { read(device, memory, 0); }),
            "cuda:0: reading a value waits for the device inside NoWaiting");
  device.memory().give(memory, 64);
}

// The kernels before a write keep running during it, for any size and number of writes.
TEST(Runtime, WritesDoNotDrainTheQueue) {
  DeviceRuntime& device = runtime_of(0);
  device.synchronize();
  const std::size_t large = (40 << 20) + 5;
  void *const big = device.memory().take(large), *const little = device.memory().take(64);
  bool ran = false;
  driver.streams.at(reinterpret_cast<std::uintptr_t>(device.stream())).work.emplace_back([&] { ran = true; });
  {
    const NoWaiting none;
    for (unsigned i = 0; i < 4; ++i) device.write(big, bytes_of(large, i).data(), large);
    for (unsigned i = 0; i < 500; ++i) device.write(little, bytes_of(64, i).data(), 64);
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(read(device, big, large), bytes_of(large, 3));
  EXPECT_EQ(read(device, little, 64), bytes_of(64, 499));
  EXPECT_TRUE(ran);
  driver.streams.at(reinterpret_cast<std::uintptr_t>(device.stream())).work.emplace_back([] {});
  const std::size_t given_out = driver.given_out;
  driver.limit = given_out;  // no memory for a staging buffer
  device.write(big, bytes_of(large, 7).data(), large);
  driver.limit = std::size_t{1} << 32;
  EXPECT_EQ(read(device, big, large), bytes_of(large, 7));
  device.memory().give(big, large);
  device.memory().give(little, 64);
}

TEST(Runtime, RestoringAnUnusedDeviceDoesNotInitializeIt) {
  DeviceRuntime& device = runtime_of(1);
  // In a new thread, device 0 is the current one.
  std::thread([&] {
    driver.contexts.erase(0);
    void* const memory = device.memory().take(64);
    device.write(memory, bytes_of(64, 3).data(), 64);
    device.memory().give(memory, 64);
    EXPECT_EQ(driver.contexts.count(0), 0u);
    EXPECT_EQ(driver.contexts.count(1), 1u);
  }).join();
}

TEST(Runtime, GridHasTheBlocksThatRunAtOnce) {
  const auto kernel = [](int) {};
  const void* const name = reinterpret_cast<const void*>(+kernel);
  runtime_of(0);
  // 1536 threads, 256 for each block.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(blocks_at_once(name), 6);
  EXPECT_EQ(driver.occupancies[name], 1);
  struct NoScratch final : Scratch {
    void* allocate(std::size_t) override { return nullptr; }
  } scratch;
  const Launch launch{nullptr, 10, scratch, nullptr, 1};
  EXPECT_EQ(grid_for(launch, +kernel, 1000), 60u);
  EXPECT_EQ(grid_for(launch, +kernel, 59), 59u);
}

TEST(Runtime, ForkedChildGetsAnErrorForDevices) {
  DeviceRuntime& device = runtime_of(0);
  void* const memory = device.memory().take(64);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const std::string why =
        "cuda:0: no CUDA device can be used: this process is a child of fork(), whose parent had used CUDA, and the "
        "driver does not work in such a child: fork before the first use of a device, or let the child exec";
    char byte = 0;
    int right = text_of<stave::DeviceError>([&] { device.memory().take(64); }) == why;
    right += text_of<stave::DeviceError>([&] { device.write(memory, &byte, 1); }) == why;
    right += text_of<stave::DeviceError>([&] { device.read(&byte, memory, 1); }) == why;
    right += text_of<stave::DeviceError>([&] { device.synchronize(); }) == why;
    right += text_of<stave::DeviceError>([&] { device.stopwatch(); }) == why;
    right += text_of<stave::DeviceError>([&] { runtime_of(0); }).find(why) == 0;
    right += device_count() == 0 && is_forked_child();
    _exit(right);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(is_forked_child());
  EXPECT_EQ(device_count(), 3);
  device.memory().give(memory, 64);
}

TEST(Runtime, ThreadsShareADevice) {
  DeviceRuntime& device = runtime_of(0);
  const auto work = [&](unsigned seed) {
    for (unsigned i = 0; i < 100; ++i) {
      const std::size_t count = 1 + (i * 7919 + seed * 104729) % 100000;
      void* const memory = device.memory().take(count);
      device.write(memory, bytes_of(count, seed + i).data(), count);
      EXPECT_EQ(read(device, memory, count), bytes_of(count, seed + i));
      device.memory().give(memory, count);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i * 1000);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
