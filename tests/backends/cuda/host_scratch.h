// Scratch memory of drivers that run on the host.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <stave/backends/cuda/launch.h>

namespace stave_test {

/// Scratch memory that is filled with a byte pattern, so that reads of unwritten bytes give wrong
/// results.
struct HostScratch final : stave_cuda::Scratch {
  std::vector<std::unique_ptr<char[]>> blocks;
  std::size_t bytes = 0;  // the sum of all sizes
  int pattern = 0xff;
  void* allocate(std::size_t size) override {
    blocks.push_back(std::make_unique<char[]>(size + 256));
    std::memset(blocks.back().get(), pattern, size + 256);
    bytes += size;
    const auto address = (reinterpret_cast<std::uintptr_t>(blocks.back().get()) + 255) & ~std::uintptr_t{255};
    return reinterpret_cast<void*>(address);
  }
};

}  // namespace stave_test
