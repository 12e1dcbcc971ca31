// StoragePeak counts the bytes of the tensors that are made while it lives.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

#include <stave/core/tensor/storage_watcher.h>

namespace stave_test {

class StoragePeak : stave_detail::StorageWatcher {
 public:
  StoragePeak() : watching_(*this) {}
  /// The largest sum of bytes of such tensors that were alive at one time.
  std::size_t bytes() const { return peak_; }
  /// The bytes of the largest one.
  std::size_t largest() const { return largest_; }

 private:
  void made(const stave::Storage& storage, stave::Device) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    alive_[&storage] = storage.bytes;
    live_ += storage.bytes;
    peak_ = std::max(peak_, live_);
    largest_ = std::max(largest_, storage.bytes);
  }
  void freed(const stave::Storage& storage) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = alive_.find(&storage);
    if (found == alive_.end()) return;
    live_ -= found->second;
    alive_.erase(found);
  }

  std::mutex mutex_;
  std::map<const stave::Storage*, std::size_t> alive_;
  std::size_t live_ = 0, peak_ = 0, largest_ = 0;
  stave_detail::WatchingStorage watching_;
};

}  // namespace stave_test
