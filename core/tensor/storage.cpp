// Finds the backends of devices, allocates and copies storage, and notifies observers of storage.
#include <stave/core/tensor/storage.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <stave/core/effects/fork.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/pool.h>
#include <stave/core/tensor/storage_watcher.h>

namespace stave_detail {

namespace {

constinit std::atomic<std::size_t> watching{0};
constinit std::mutex watchers_mutex;

// The list is never destroyed: a tensor may be a global variable that dies last.
std::vector<StorageWatcher*>& watchers() {
  static auto& all = *new std::vector<StorageWatcher*>;
  return all;
}

void clear_watchers_in_child() {
  watchers().clear();
  watching = 0;
}
const HeldOverFork<watchers_mutex, clear_watchers_in_child> watchers_over_fork;

template <class Tell>
void tell_watchers(Tell tell) {
  if (watching.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const std::lock_guard<std::mutex> lock(watchers_mutex);
  for (StorageWatcher* const watcher : watchers()) tell(*watcher);
}

}  // namespace

WatchingStorage::WatchingStorage(StorageWatcher& watcher) : watcher_(watcher) {
  const std::lock_guard<std::mutex> lock(watchers_mutex);
  watchers().push_back(&watcher);
  watching = watchers().size();
}

WatchingStorage::~WatchingStorage() {
  const std::lock_guard<std::mutex> lock(watchers_mutex);
  std::erase(watchers(), &watcher_);
  watching = watchers().size();
}

}  // namespace stave_detail

namespace stave {

using stave_detail::fail;

// ---- devices ------------------------------------------------------------------------------------

namespace {

constexpr int most_devices = 256;
constinit std::array<std::atomic<Backend*>, most_devices> test_backends{};

}  // namespace

std::string Device::str() const { return kind == Kind::cpu ? "cpu" : fmt::format("cuda:{}", index); }

Device cuda(int index) {
  if (index < 0 || index >= most_devices)
    fail<DeviceError>("cuda: {} is not an index of a device: indices count from 0", index);
  return {Device::Kind::cuda, static_cast<std::uint8_t>(index)};
}

Backend& backend_of(Device device) {
  if (device.kind == Device::Kind::cpu) return cpu_backend();
  if (Backend* backend = test_backends[device.index].load(std::memory_order_acquire)) return *backend;
  return cuda_backend(device.index);
}

int cuda_device_count() { return cuda_backend_count(); }

#ifndef STAVE_HAVE_CUDA
int cuda_backend_count() { return 0; }

Backend& cuda_backend(int index) {
  fail<DeviceError>(
      "cuda:{}: this library was built without CUDA: build it where nvcc is found (cmake -DSTAVE_CUDA=ON says what is "
      "missing), or use the CPU",
      index);
}
#endif

// ---- storage ------------------------------------------------------------------------------------

void Backend::run_row_blocks(std::span<const Step> steps, Index /*rows*/) {
  for (const Step& step : steps) run(*step.op, step.attributes, step.inputs, step.outputs);
}

void Backend::run_product(const Step& product, const Step* epilogue) {
  for (const Step* const step : {&product, epilogue})
    if (step) run(*step->op, step->attributes, step->inputs, step->outputs);
}

std::unique_ptr<BackendStopwatch> Backend::stopwatch() {
  struct HostStopwatch final : BackendStopwatch {
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::chrono::nanoseconds elapsed() override { return std::chrono::steady_clock::now() - start; }
  };
  return std::make_unique<HostStopwatch>();
}

namespace {

struct HostConstantStorage final : Storage, stave_detail::Pooled {
  alignas(16) std::byte value[16];
};

}  // namespace

StoragePtr host_constant_storage() {
  auto storage = std::make_unique<HostConstantStorage>();
  storage->is_host_constant = true;
  storage->data = storage->value;
  return StoragePtr(storage.release());
}

void destroy(Storage* storage) noexcept {
  if (storage->is_host_constant) return delete static_cast<HostConstantStorage*>(storage);
  if (!storage->owner) return delete static_cast<stave_detail::ForeignStorage*>(storage);
  stave_detail::tell_watchers([&](stave_detail::StorageWatcher& watcher) { watcher.freed(*storage); });
  storage->owner->deallocate(storage);
}

StoragePtr allocate_storage(Device device, Dtype dtype, const Shape& shape, const char* operation) {
  return stave_detail::allocate_storage(backend_of(device), device, dtype, shape, operation);
}

void read_storage(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == cpu) std::memcpy(to, from, bytes);
  else backend_of(device).read(to, from, bytes);
}

void write_storage(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == cpu) std::memcpy(to, from, bytes);
  else backend_of(device).write(to, from, bytes);
}

void copy_storage(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (from_device == cpu) return write_storage(to_device, to, from, bytes);
  if (to_device == cpu) return read_storage(from_device, to, from, bytes);
  if (backend_of(to_device).copy_from(backend_of(from_device), to, from, bytes)) return;
  const std::size_t most = std::min(bytes, std::size_t{16} << 20);
  const auto buffer = std::make_unique_for_overwrite<char[]>(most);
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t part = std::min(most, bytes - done);
    read_storage(from_device, buffer.get(), static_cast<const char*>(from) + done, part);
    write_storage(to_device, static_cast<char*>(to) + done, buffer.get(), part);
  }
}

void synchronize(Device device) { backend_of(device).synchronize(); }
MemoryStats memory_stats(Device device) {
  MemoryStats stats = backend_of(device).memory_stats();
  if (device == cpu) stats.object_bytes = stave_detail::pool_stats().live_bytes;
  return stats;
}
void reset_peak_memory(Device device) { backend_of(device).reset_peak_memory(); }
void release_cached_memory(Device device) {
  backend_of(device).release_cached_memory();
  if (device == cpu) stave_detail::release_pool();
}

}  // namespace stave

namespace stave_detail {

ForeignStorage::ForeignStorage(stave::Device device, void* first, std::size_t size, Lender lender)
    : device_(device), lender_(std::move(lender)) {
  data = first;
  bytes = capacity = size;
}
ForeignStorage::~ForeignStorage() {
  if (device_ != stave::cpu) stave::backend_of(device_).drain();
}

void fail_memory(const char* operation, stave::Dtype dtype, const stave::Shape& shape, stave::Device device) {
  fail<stave::MemoryError>(
      "{}: not enough memory on {} for {} {} ({} bytes) and the temporary values of its computation: tensors have {} "
      "bytes there. Free some of them, or compute in parts",
      operation, device.str(), dtype, shape, static_cast<std::size_t>(shape.elements()) * size_of(dtype),
      stave::memory_stats(device).live_bytes);
}

stave::StoragePtr allocate_storage(stave::Backend& backend, stave::Device device, stave::Dtype dtype,
                                   const stave::Shape& shape, const char* operation) {
  const stave::Index elements = naming(operation, [&] { return shape.elements(); });
  try {
    stave::StoragePtr storage(backend.allocate(static_cast<std::size_t>(elements) * size_of(dtype)));
    tell_watchers([&](StorageWatcher& watcher) { watcher.made(*storage, device); });
    return storage;
  } catch (const std::bad_alloc&) {
    fail_memory(operation, dtype, shape, device);
  }
}

void set_backend_for_tests(int index, stave::Backend* backend) noexcept {
  stave::test_backends[static_cast<std::size_t>(index)].store(backend, std::memory_order_release);
}

}  // namespace stave_detail
