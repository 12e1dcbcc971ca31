// The CPU backend. It performs operations on CPU tensors and owns their memory.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

class CpuBackend final : public stave::Backend {
 public:
  constexpr CpuBackend() = default;
  const char* name() const override { return "cpu"; }
  stave::Storage* allocate(std::size_t bytes) override;
  void deallocate(stave::Storage* storage) noexcept override;
  void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override;
  void run_row_blocks(std::span<const Step> steps, stave::Index rows) override;
  std::shared_ptr<const stave::PreparedInput> prepare(const Step& product) override;
  void run_product(const Step& product, const Step* epilogue) override;
  std::shared_ptr<const stave::MachineCode> compile(const stave::Program& program,
                                                    std::span<const stave::Strides> strides,
                                                    std::string& reason) override;
  void write(void* to, const void* from, std::size_t bytes) override;
  void read(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override {}
  stave::MemoryStats memory_stats() const override;
  void reset_peak_memory() override;
  void release_cached_memory() override;
};

}  // namespace stave_cpu
