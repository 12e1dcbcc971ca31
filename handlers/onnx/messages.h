// The messages of an ONNX file, as structs: those fields of onnx.proto that the meaning of a model
// depends on. Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_detail {

using namespace stave;

/// The numbers of element types in ONNX files (TensorProto.DataType).
enum class OnnxType : std::int32_t {
  undefined,
  float_,
  uint8_,
  int8_,
  uint16_,
  int16_,
  int32_,
  int64_,
  string_,
  bool_,
  float16_,
  double_,
  uint32_,
  uint64_,
  complex64_,
  complex128_,
  bfloat16_,
  float8e4m3fn,
  float8e4m3fnuz,
  float8e5m2,
  float8e5m2fnuz,
  uint4,
  int4,
  float4e2m1,
  float8e8m0,
  uint2,
  int2,
  float6e2m3,
  float6e3m2
};
/// The dtype of an element type; none if Stave lacks it.
std::optional<Dtype> dtype_of_onnx(OnnxType type);
OnnxType onnx_type_of(Dtype dtype);
/// Returns true for types of two, four and eight bits that Stave lacks but reads: initializers of
/// these become int8, uint8 or float32, and only DequantizeLinear takes them.
bool is_narrow(OnnxType type);
/// The name of an element type in onnx.proto: "FLOAT8E4M3FN".
std::string name_of_onnx(OnnxType type);

struct OnnxTensor {
  std::string name;
  std::vector<Index> dims;
  OnnxType type = OnnxType::undefined;
  // Elements are in raw_data, in an external file, or in the field for their type.
  std::optional<std::string_view> raw;
  bool is_external = false;
  std::map<std::string, std::string> external;  // location, offset, length
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int32_t> int32s;
  std::vector<std::int64_t> int64s;
  std::vector<std::uint64_t> uint64s;
};
struct OnnxSparseTensor {
  OnnxTensor values, indices;
  std::vector<Index> dims;
};

/// The type of an input or output: a tensor; or a sequence of or an optional of that.
struct OnnxValueInfo {
  std::string name;
  bool is_sequence = false, is_optional = false;
  std::string refused;  // the kind of a type that Stave lacks: "map"
  OnnxType type = OnnxType::undefined;
  // The dimensions, if the rank is known: a length, the name of a symbolic one, or neither.
  struct Dimension {
    std::optional<Index> length;
    std::string symbol;
  };
  std::optional<std::vector<Dimension>> shape;
};

struct OnnxGraph;
struct OnnxAttribute {
  std::string name;
  std::string reference;  // the attribute of the function around, whose value this one has
  int type = 0;
  std::int64_t integer = 0;
  float number = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string> texts;
  std::vector<OnnxTensor> tensors;  // t, or tensors
  std::vector<OnnxSparseTensor> sparse_tensors;
  std::vector<OnnxGraph> graphs;  // g, or graphs
};
struct OnnxNode {
  std::vector<std::string> inputs, outputs;
  std::string name, operation, domain, overload;
  std::vector<OnnxAttribute> attributes;
};
struct OnnxGraph {
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxSparseTensor> sparse_initializers;
  std::vector<OnnxValueInfo> inputs, outputs;
};
using OnnxOpsets = std::map<std::string, Index>;  // the version of each domain
struct OnnxFunction {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<OnnxAttribute> defaults;
  std::vector<OnnxNode> nodes;
  OnnxOpsets opsets;
};
struct OnnxFile {
  std::string producer;
  OnnxOpsets opsets;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
  std::map<std::string, std::string> metadata;
};

/// Reads a model from the bytes of a file, of which raw data are views. Throws FileError, which
/// begins with `where`, if they are malformed.
OnnxFile read_onnx_file(std::string_view bytes, const std::string& where);

}  // namespace stave_detail
