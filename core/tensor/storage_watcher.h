// Notifications about each storage that any thread allocates or frees, for observers that show
// memory over time. Without an observer, they cost a storage one load and one branch.
#pragma once

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>

namespace stave_detail {

/// An observer of storage. Numbers (Storage::is_host_constant) have no bytes of their own and are
/// not reported.
class StorageWatcher {
 public:
  virtual ~StorageWatcher() = default;
  /// Called for new storage. An exception that it throws reaches the code that allocates. Neither
  /// `made` nor `freed` may allocate or free storage.
  virtual void made(const stave::Storage& storage, stave::Device device) = 0;
  virtual void freed(const stave::Storage& storage) noexcept = 0;
};

/// While this object lives, `watcher` is notified. In a child of fork() the notifications stop,
/// since a thread that does not exist in the child may hold the watcher's locks.
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
