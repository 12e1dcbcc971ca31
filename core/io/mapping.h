// Files as the memory of tensors.
#pragma once

#include <stave/core/io/file.h>
#include <stave/core/tensor/backend.h>

namespace stave_detail {

/// A file's bytes as storage on the CPU, from its first on, which nothing writes to. An empty file has none.
StoragePtr map_file(const InputFile& file);

}  // namespace stave_detail
