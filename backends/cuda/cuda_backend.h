// The CUDA backend. Each operation has a host function that launches its kernels, called its driver
// here (not to be confused with NVIDIA's CUDA driver). Start with CudaBackend::run, then read the
// table `drivers` (cuda_backend.cpp).
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

class DeviceRuntime;
class Recording;

/// A host function that plans an operation and launches its kernels.
using Driver = void (*)(const Launch& launch, stave::OpId op, const stave::Attributes* attributes,
                        std::span<const stave::View> inputs, std::span<const stave::View> outputs);
/// Returns the driver of an operation. Returns null for operations that no backend computes: those
/// that always return views, `to`, and the higher-order operations.
Driver driver_of(stave::OpId op);

class CudaBackend final : public stave::Backend {
 public:
  /// Throws DeviceError if the device cannot be used.
  explicit CudaBackend(int index);
  const char* name() const override { return "cuda"; }
  stave::Storage* allocate(std::size_t bytes) override;
  void deallocate(stave::Storage* storage) noexcept override;
  void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override;
  /// Records the work as a CUDA graph. Returns null for work that cannot be recorded. This includes
  /// operations that report errors in their inputs, because such an error belongs to one launch. It
  /// also includes user-defined operations, because their use of memory is unknown.
  std::unique_ptr<stave::RecordedWork> record(stave::FunctionRef<void()> work) override;
  void write(void* to, const void* from, std::size_t bytes) override;
  void read(void* to, const void* from, std::size_t bytes) override;
  bool copy_from(stave::Backend& other, void* to, const void* from, std::size_t bytes) override;
  void synchronize() override;
  std::intptr_t stream() override;
  void make_stream_wait(std::intptr_t stream) override;
  void drain() noexcept override;
  std::unique_ptr<stave::BackendStopwatch> stopwatch() override;
  stave::MemoryStats memory_stats() const override;
  void reset_peak_memory() override;
  void release_cached_memory() override;

 private:
  void record_operation(Recording& recording, const stave::Op& op, const stave::Attributes* attributes,
                        std::span<const stave::View> inputs, std::span<const stave::View> outputs);

  DeviceRuntime& runtime_;
};

}  // namespace stave_cuda
