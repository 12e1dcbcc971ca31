// Memory for machine code.
#pragma once

#include <cstddef>
#include <span>

namespace stave_cpu {

/// Pages that hold machine code. They are executable and not writable.
class ExecutableMemory {
 public:
  /// Copies the code into new pages. address() is null if the system does not allow this.
  explicit ExecutableMemory(std::span<const unsigned char> code) noexcept;
  ~ExecutableMemory();
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;

  const void* address() const noexcept { return address_; }

 private:
  void* address_ = nullptr;
  std::size_t bytes_;
};

}  // namespace stave_cpu
