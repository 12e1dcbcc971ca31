// Memory for machine code, on Linux. Pages are never writable and executable at once, because
// hardened systems forbid that. The first choice is a file in memory that is mapped twice, once for
// writing and once for execution. This works even on systems that refuse to make written pages
// executable. If it fails, the pages of one mapping are written and then made executable.
#include <stave/backends/cpu/native/executable_memory.h>

#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace stave_cpu {

#if defined(__linux__)

namespace {

// Returns an executable view of a file in memory that holds the code, or null.
void* map_twice(std::span<const unsigned char> code, std::size_t bytes) {
  const int file = memfd_create("stave-code", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* executable = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    void* const writable = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (writable != MAP_FAILED) {
      std::memcpy(writable, code.data(), code.size());
      executable = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
      munmap(writable, bytes);
    }
  }
  close(file);
  return executable == MAP_FAILED ? nullptr : executable;
}

void* map_and_protect(std::span<const unsigned char> code, std::size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::memcpy(pages, code.data(), code.size());
  if (mprotect(pages, bytes, PROT_READ | PROT_EXEC) == 0) return pages;
  munmap(pages, bytes);
  return nullptr;
}

}  // namespace

ExecutableMemory::ExecutableMemory(std::span<const unsigned char> code) noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (code.size() + page - 1) / page * page;
  if (bytes_ == 0) return;
  address_ = map_twice(code, bytes_);
  if (!address_) address_ = map_and_protect(code, bytes_);
  // A processor may have caches of instructions that do not follow what is written to memory.
  if (address_) __builtin___clear_cache(static_cast<char*>(address_), static_cast<char*>(address_) + code.size());
}

ExecutableMemory::~ExecutableMemory() {
  if (address_) munmap(address_, bytes_);
}

#else

ExecutableMemory::ExecutableMemory(std::span<const unsigned char>) noexcept : bytes_(0) {}
ExecutableMemory::~ExecutableMemory() = default;

#endif

}  // namespace stave_cpu
