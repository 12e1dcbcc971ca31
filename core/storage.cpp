#include <stave/core/storage.h>

#include <stave/core/fail.h>

namespace stave {

std::string Device::str() const { return kind == Kind::cpu ? "cpu" : fmt::format("cuda:{}", index); }

Backend& backend_of(Device device) {
  if (device.kind == Device::Kind::cpu) return cpu_backend();
  stave_detail::fail<DeviceError>("no backend for device {}: this library was built for the CPU only", device.str());
}

void destroy(Storage* storage) noexcept { storage->owner->deallocate(storage); }

StoragePtr allocate_storage(Device device, Index bytes) {
  return StoragePtr(backend_of(device).allocate(static_cast<std::size_t>(bytes)));
}

MemoryStats memory_stats(Device device) { return backend_of(device).memory_stats(); }
void reset_peak_memory(Device device) { backend_of(device).reset_peak_memory(); }
void release_cached_memory(Device device) { backend_of(device).release_cached_memory(); }

}  // namespace stave
