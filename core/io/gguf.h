// .gguf files, in which llama.cpp keeps models: metadata, and tensors of floats, integers or
// quantized blocks.
//
//   const Gguf file = load_gguf("model-q4_0.gguf");
//   const Quantized w = file.at("blk.0.ffn_up.weight").quantized();
//   const Tensor y = quantized_matmul(x, w), norm = file.at("blk.0.ffn_norm.weight").array();
//
// Source: the GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and
// for the blocks https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h and
// https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/quants.py
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <stave/core/ops/quantize.h>
#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A value of the metadata: a bool, a signed or unsigned integer or a float of any width, a text,
/// or an array of values of one type.
struct GgufValue : std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<GgufValue>> {
  using variant::variant;
};

/// A tensor of a .gguf file.
struct GgufTensor {
  std::string name;
  std::string type;  ///< "F32", "Q4_0"
  Shape shape;       ///< outermost axis first, in the reverse of the file's order

  /// The elements: F32, F16, BF16, F64, I8, I16, I32 and I64 in their dtype, and quantized blocks
  /// as float32. Of blocks, this computes each time. Throws DtypeError for types that Stave lacks,
  /// such as IQ2_XXS.
  Tensor array() const;
  /// True for blocks of which quantized() makes weights.
  bool is_quantized() const;
  /// A matrix, or a stack of matrices, of blocks as quantized weights, which are not widened to
  /// floats. The codes are repacked; dequantize(..., float32) gives array() exactly.
  ///   Q4_0 Q3_K       4 bits, symmetric     Q8_0 Q5_0 Q6_K  8 bits, symmetric
  ///   Q4_1 Q2_K Q4_K  4 bits, affine        Q5_1 Q5_K       8 bits, affine
  /// Scales and biases are float16 as in the file for types without a K, and float32 products of
  /// the file's numbers for the others. Groups have 32 elements; those of Q2_K, Q3_K and Q6_K have
  /// 16. Throws DtypeError if is_quantized() is false, and ShapeError for a vector.
  Quantized quantized() const;

  // The bytes of the tensor in the mapped file.
  std::uint32_t type_number = 0;
  StoragePtr file{};
  std::uint64_t offset = 0;
};

/// The contents of a .gguf file.
struct Gguf {
  std::map<std::string, GgufValue> metadata;
  std::map<std::string, GgufTensor> tensors;

  /// The tensor of this name. Throws FileError, which names some tensors, if there is none.
  const GgufTensor& at(const std::string& name) const;
  std::string where;  // the beginning of error messages
};

/// Reads a .gguf file, a model of llama.cpp, of version 2 or 3, little-endian. Tensors are read at
/// their use: the file is mapped while a tensor of it lives, as load_safetensors says. Throws
/// FileError for a file that is malformed.
Gguf load_gguf(const std::string& path);

}  // namespace stave
