// Memory-mapped files as the storage of tensors.
#pragma once

#include <stave/core/io/file.h>
#include <stave/core/tensor/backend.h>

namespace stave_detail {

/// Maps a whole file as read-only storage on the CPU. The file must not be empty. Throws FileError.
StoragePtr map_file(const InputFile& file);

}  // namespace stave_detail
