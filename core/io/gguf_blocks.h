// The types of tensors in .gguf files, and the blocks of quantized types as codes and scales.
#pragma once

#include <cstdint>

#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_detail {

using namespace stave;

/// A block in the form of Quantized (core/ops/quantize.h): the codes of its elements, and a scale
/// and a bias for each group.
struct GgufBlock {
  std::uint8_t codes[256];
  float scales[16], biases[16];
};

/// A type of quantized tensors.
struct GgufFormat {
  std::uint32_t number;  // the number of the type in files
  const char* name;
  Index elements, bytes, group;  // of a block
  int bits;                      // those of the codes as Quantized has them
  // For symmetric types, the code of 0 among the codes that `decode` writes; -1 for affine types.
  int zero;
  bool has_half_scales;  // scales and biases are float16 numbers
  void (*decode)(const std::uint8_t* bytes, GgufBlock& block);
};

/// Returns the format of a quantized type; null for other types.
const GgufFormat* find_gguf_format(std::uint32_t type);

/// A type of tensors whose elements are numbers.
struct GgufNumbers {
  std::uint32_t number;
  const char* name;
  Dtype dtype;
};
/// Returns the dtype of a type whose elements are numbers; null for other types.
const GgufNumbers* find_gguf_numbers(std::uint32_t type);

}  // namespace stave_detail
