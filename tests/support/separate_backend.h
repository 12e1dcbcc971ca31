// A device without a GPU: a backend that computes like the CPU's, but has its own memory with
// addresses that the host cannot use. Each address is moved by `distance` to a place where no
// processor has memory. A host access that bypasses the backend crashes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/backend.h>

namespace stave_test {

class SeparateBackend : public stave::Backend {
 public:
  /// Acts as the CUDA device `index` during its lifetime. Its tensors must not outlive it.
  explicit SeparateBackend(int index) : index_(index) { stave_detail::set_backend_for_tests(index, this); }
  ~SeparateBackend() override { stave_detail::set_backend_for_tests(index_, nullptr); }

  const char* name() const override { return "separate"; }
  stave::Storage* allocate(std::size_t bytes) override {
    auto storage = std::make_unique<Separate>();
    storage->host = take(bytes);
    storage->owner = this;
    storage->data = moved(storage->host->data, distance);
    storage->bytes = bytes;
    storage->capacity = storage->host->capacity;
    live_bytes_ += bytes;
    return storage.release();
  }
  void deallocate(stave::Storage* storage) noexcept override {
    live_bytes_ -= storage->bytes;
    give(std::move(static_cast<Separate*>(storage)->host));
    delete static_cast<Separate*>(storage);
  }
  void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override {
    ++runs;
    filled += op.id == stave::OpId::full || (op.id == stave::OpId::copy && inputs[0].is_host_constant);
    std::vector<stave::View> in(inputs.begin(), inputs.end()), out(outputs.begin(), outputs.end());
    for (auto* views : {&in, &out})
      for (stave::View& view : *views)
        if (!view.is_host_constant) view.data = moved(view.data, -distance);
    compute(op, attributes, in, out);
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    ++writes;
    std::memcpy(moved(to, -distance), from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override {
    ++reads;
    std::memcpy(to, moved(const_cast<void*>(from), -distance), bytes);
  }
  void synchronize() override { ++synchronizations; }
  /// A stopwatch whose clock advances by one second per operation.
  std::unique_ptr<stave::BackendStopwatch> stopwatch() override {
    struct CountsRuns final : stave::BackendStopwatch {
      const std::atomic<int>& runs;
      const int start = runs;
      explicit CountsRuns(const std::atomic<int>& runs) : runs(runs) {}
      std::chrono::nanoseconds elapsed() override { return std::chrono::seconds(runs - start); }
    };
    return std::make_unique<CountsRuns>(runs);
  }
  stave::MemoryStats memory_stats() const override { return {live_bytes_, live_bytes_, 0}; }
  void reset_peak_memory() override {}
  void release_cached_memory() override {}

  std::atomic<int> runs = 0, filled = 0, writes = 0, reads = 0, synchronizations = 0;

 protected:
  /// `take` allocates the host memory of a storage. `give` receives it when the storage is freed.
  virtual stave::StoragePtr take(std::size_t bytes) { return stave::StoragePtr(stave::cpu_backend().allocate(bytes)); }
  virtual void give(stave::StoragePtr /*memory*/) noexcept {}
  /// Computes with addresses that the host can use.
  virtual void compute(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                       std::span<const stave::View> out) {
    stave::cpu_backend().run(op, attributes, in, out);
  }

 private:
  struct Separate : stave::Storage {
    stave::StoragePtr host;
  };
  // No valid address of x86-64 or AArch64 has this bit set without the bits above it.
  static constexpr std::intptr_t distance = std::intptr_t{1} << 61;
  static void* moved(void* address, std::intptr_t by) {
    return reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(address) + by);
  }

  int index_;
  std::atomic<std::size_t> live_bytes_ = 0;
};

}  // namespace stave_test
