// Who hears of each storage that is made and freed, on whatever thread: those who show memory over time. While nobody does, a
// storage costs one load and one branch more.
#pragma once

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>

namespace stave_detail {

/// Numbers (Storage::number) have no bytes of their own, and are left out.
class StorageWatcher {
 public:
  virtual ~StorageWatcher() = default;
  /// What it throws reaches who asked for the storage. Neither may make or free storage.
  virtual void made(const stave::Storage& storage, stave::Device device) = 0;
  virtual void freed(const stave::Storage& storage) noexcept = 0;
};

/// While it stands, `watcher` hears; in a child of fork() no longer, as a thread that the child has not may hold its locks.
class WatchingStorage {
 public:
  [[nodiscard]] explicit WatchingStorage(StorageWatcher& watcher);
  ~WatchingStorage();
  WatchingStorage(const WatchingStorage&) = delete;
  WatchingStorage& operator=(const WatchingStorage&) = delete;

 private:
  StorageWatcher& watcher_;
};

}  // namespace stave_detail
