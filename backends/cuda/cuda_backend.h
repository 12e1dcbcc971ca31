// The CUDA backend: where an operation finds its driver. Start with CudaBackend::run, then `drivers`.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

class DeviceRuntime;
class Recording;

/// Plans an operation and launches its kernels.
using Driver = void (*)(const Launch& launch, stave::OpId op, const stave::Attributes* attributes,
                        std::span<const stave::View> inputs, std::span<const stave::View> outputs);
/// Null for operations that no backend is asked to compute: those that are always views, `to`, and those that carry functions.
Driver driver_of(stave::OpId op);

class CudaBackend final : public stave::Backend {
 public:
  /// Throws DeviceError where the device cannot be used.
  explicit CudaBackend(int index);
  const char* name() const override { return "cuda"; }
  stave::Storage* allocate(std::size_t bytes) override;
  void deallocate(stave::Storage* storage) noexcept override;
  void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override;
  /// As a CUDA graph, but for operations that report errors of their inputs, which belong to one launch, and for those of a program's
  /// own, whose memory nobody here knows.
  std::unique_ptr<stave::RecordedWork> record(stave::FunctionRef<void()> work) override;
  void write(void* to, const void* from, std::size_t bytes) override;
  void read(void* to, const void* from, std::size_t bytes) override;
  bool copy_from(stave::Backend& other, void* to, const void* from, std::size_t bytes) override;
  void synchronize() override;
  std::intptr_t stream() override;
  void lead(std::intptr_t stream) override;
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
