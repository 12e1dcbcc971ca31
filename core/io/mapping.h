// Files as the memory of tensors.
#pragma once

#include <stave/core/backend.h>
#include <stave/core/io/file.h>

namespace stave_detail {

/// A file's bytes as storage on the CPU, from its first on. They cannot be written to, so whoever makes a tensor of them leaves out
/// the first: no operation puts its result over an input that is not the whole of its storage (core/call.cpp). An empty file has none.
StoragePtr map_file(const InputFile& file);

}  // namespace stave_detail
