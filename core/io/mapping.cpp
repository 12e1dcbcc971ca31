#include <stave/core/io/mapping.h>

#include <sys/mman.h>

#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

struct Mapped {
  void* data;
  std::size_t bytes;
};

void unmap(void* lent) {
  const auto* const mapped = static_cast<Mapped*>(lent);
  ::munmap(mapped->data, mapped->bytes);
  delete mapped;
}

}  // namespace

StoragePtr map_file(const InputFile& file) {
  auto mapped = std::make_unique<Mapped>();
  mapped->bytes = file.size();
  mapped->data = ::mmap(nullptr, mapped->bytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped->data == MAP_FAILED)
    fail<FileError>("{}: cannot be mapped into memory: {}", file.where(), system_error_text());
  const Mapped all = *mapped;
  return StoragePtr(new ForeignStorage(cpu, all.data, all.bytes, ForeignStorage::Lender(mapped.release(), unmap)));
}

}  // namespace stave_detail
