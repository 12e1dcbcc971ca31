#include <stave/core/io/mapping.h>

#include <sys/mman.h>

#include <memory>

#include <stave/core/storage.h>

namespace stave_detail {

namespace {

// The owner of mapped storage, which takes it back. All else is asked of the CPU's backend, as tensors say that they are there.
class Mappings final : public Backend {
 public:
  const char* name() const override { return cpu_backend().name(); }
  Storage* allocate(std::size_t bytes) override { return cpu_backend().allocate(bytes); }
  void deallocate(Storage* storage) noexcept override {
    ::munmap(storage->data, storage->bytes);
    delete storage;
  }
  void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
           std::span<const View> outputs) override {
    cpu_backend().run(op, attributes, inputs, outputs);
  }
  void write(void* to, const void* from, std::size_t bytes) override { cpu_backend().write(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { cpu_backend().read(to, from, bytes); }
  void synchronize() override { cpu_backend().synchronize(); }
  MemoryStats memory_stats() const override { return cpu_backend().memory_stats(); }
  void reset_peak_memory() override { cpu_backend().reset_peak_memory(); }
  void release_cached_memory() override { cpu_backend().release_cached_memory(); }
};

// Never destroyed: tensors may be globals and die last.
Backend& mappings() {
  static auto& backend = *new Mappings;
  return backend;
}

}  // namespace

StoragePtr map_file(const InputFile& file) {
  auto storage = std::make_unique<Storage>();
  storage->owner = &mappings();
  storage->bytes = storage->capacity = file.size();
  storage->data = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (storage->data == MAP_FAILED)
    fail<FileError>("{}: cannot be mapped into memory: {}", file.where(), system_error_text());
  return StoragePtr(storage.release());
}

}  // namespace stave_detail
