// The .safetensors format: the length of a header, the header in JSON, and the elements of all
// tensors.
// Source: https://huggingface.co/docs/safetensors, and the reference implementation,
// https://github.com/huggingface/safetensors
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/io/file.h>
#include <stave/core/io/io.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// The dtypes in the order in which the reference implementation writes tensors: no element is
/// smaller than those that follow it.
inline constexpr std::pair<Dtype, const char*> safetensors_dtypes[] = {
    {uint64, "U64"}, {int64, "I64"}, {float64, "F64"},   {complex64, "C64"}, {float32, "F32"},
    {uint32, "U32"}, {int32, "I32"}, {bfloat16, "BF16"}, {float16, "F16"},   {uint16, "U16"},
    {int16, "I16"},  {int8, "I8"},   {uint8, "U8"},      {bool_, "BOOL"}};
// The format has no complex128.
static_assert(std::size(safetensors_dtypes) == dtype_count - 1);

// The most bytes of a header, as in the reference implementation.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;

struct SafetensorsEntry : SafetensorsInfo {
  // The elements are the bytes [begin, end), counted from the end of the header.
  std::uint64_t begin, end;
};

/// A checked header. Entries are in the order of their bytes, without gaps, and the last one ends
/// at the end of the file. Each has as many bytes as its shape and dtype need, if Stave has the
/// dtype.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;
  std::uint64_t data;  // the offset of the elements in the file
};
/// Reads and checks the header. Throws FileError.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// Reads the tensors into memory of their own.
ArraysOfFile copy_tensors(const InputFile& file, const SafetensorsHeader& header);

/// Reads the weight_map of an index: for each tensor the name of its file, which is in the folder
/// of the index.
std::map<std::string, std::string> read_safetensors_index(const InputFile& file);

}  // namespace stave_detail
