// Reads the messages of an ONNX file. Field numbers are those of onnx.proto.
#include <stave/handlers/onnx/messages.h>

#include <array>

#include <stave/handlers/onnx/protobuf.h>

namespace stave_detail {

namespace {

// The limit of protobuf's own parsers. Subgraphs lie three messages deeper than the graph around.
constexpr int most_nested = 100;

struct Level {
  const std::string& where;
  int nested;
  Level below() const {
    if (nested >= most_nested) fail<FileError>("{}: messages are nested more than {} deep", where, most_nested);
    return {where, nested + 1};
  }
};

std::pair<std::string, std::string> read_pair(std::string_view bytes, const Level& level) {
  std::pair<std::string, std::string> pair;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: pair.first = m.text(); break;
      case 2: pair.second = m.text(); break;
    }
  return pair;
}

OnnxTensor read_tensor(std::string_view bytes, const Level& level) {
  OnnxTensor tensor;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: m.integers(tensor.dims); break;
      case 2: tensor.type = static_cast<OnnxType>(m.integer()); break;
      case 3: fail<FileError>("{}: a tensor is stored in segments, which are not supported", level.where);
      case 4: m.numbers(tensor.floats); break;
      case 5: m.integers(tensor.int32s); break;
      case 7: m.integers(tensor.int64s); break;
      case 8: tensor.name = m.text(); break;
      case 9: tensor.raw = m.bytes(); break;
      case 10: m.numbers(tensor.doubles); break;
      case 11: m.integers(tensor.uint64s); break;
      case 13: tensor.external.insert(read_pair(m.bytes(), level)); break;
      case 14: tensor.is_external = m.integer() == 1; break;
    }
  return tensor;
}

OnnxSparseTensor read_sparse_tensor(std::string_view bytes, const Level& level) {
  OnnxSparseTensor tensor;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: tensor.values = read_tensor(m.bytes(), level); break;
      case 2: tensor.indices = read_tensor(m.bytes(), level); break;
      case 3: m.integers(tensor.dims); break;
    }
  return tensor;
}

std::vector<OnnxValueInfo::Dimension> read_shape(std::string_view bytes, const Level& level) {
  std::vector<OnnxValueInfo::Dimension> shape;
  for (ProtobufReader m(bytes, level.where); m.next();) {
    if (m.field() != 1) continue;
    OnnxValueInfo::Dimension dimension;
    for (ProtobufReader d(m.bytes(), level.where); d.next();) switch (d.field()) {
        case 1: dimension.length = d.integer(); break;
        case 2: dimension.symbol = d.text(); break;
      }
    shape.push_back(std::move(dimension));
  }
  return shape;
}

void read_type(std::string_view bytes, const Level& level, OnnxValueInfo& to) {
  // A sequence and an optional hold the type of their elements as field 1.
  const auto read_inner = [&](std::string_view outer) {
    for (ProtobufReader m(outer, level.where); m.next();)
      if (m.field() == 1) read_type(m.bytes(), level.below(), to);
  };
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1:
        for (ProtobufReader t(m.bytes(), level.where); t.next();) switch (t.field()) {
            case 1: to.type = static_cast<OnnxType>(t.integer()); break;
            case 2: to.shape = read_shape(t.bytes(), level); break;
          }
        break;
      case 4:
        if (to.is_sequence) to.refused = "sequence of sequences";
        to.is_sequence = true;
        read_inner(m.bytes());
        break;
      case 5: to.refused = "map"; break;
      case 7: to.refused = "opaque type"; break;
      case 8: to.refused = "sparse tensor"; break;
      case 9:
        if (to.is_sequence) to.refused = "sequence of optionals";
        to.is_optional = true;
        read_inner(m.bytes());
        break;
    }
}

OnnxValueInfo read_value_info(std::string_view bytes, const Level& level) {
  OnnxValueInfo info;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: info.name = m.text(); break;
      case 2: read_type(m.bytes(), level.below(), info); break;
    }
  return info;
}

OnnxGraph read_graph(std::string_view bytes, const Level& level);

OnnxAttribute read_attribute(std::string_view bytes, const Level& level) {
  OnnxAttribute attribute;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: attribute.name = m.text(); break;
      case 2: attribute.number = m.number(); break;
      case 3: attribute.integer = m.integer(); break;
      case 4: attribute.text = m.text(); break;
      case 5:
      case 10: attribute.tensors.push_back(read_tensor(m.bytes(), level)); break;
      case 6:
      case 11: attribute.graphs.push_back(read_graph(m.bytes(), level.below())); break;
      case 7: m.numbers(attribute.numbers); break;
      case 8: m.integers(attribute.integers); break;
      case 9: attribute.texts.push_back(m.text()); break;
      case 20: attribute.type = static_cast<int>(m.integer()); break;
      case 21: attribute.reference = m.text(); break;
      case 22:
      case 23: attribute.sparse_tensors.push_back(read_sparse_tensor(m.bytes(), level)); break;
    }
  return attribute;
}

OnnxNode read_node(std::string_view bytes, const Level& level) {
  OnnxNode node;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: node.inputs.push_back(m.text()); break;
      case 2: node.outputs.push_back(m.text()); break;
      case 3: node.name = m.text(); break;
      case 4: node.operation = m.text(); break;
      case 5: node.attributes.push_back(read_attribute(m.bytes(), level.below())); break;
      case 7: node.domain = m.text(); break;
      case 8: node.overload = m.text(); break;
    }
  if (node.domain == "ai.onnx") node.domain.clear();  // another name of the default domain
  return node;
}

OnnxGraph read_graph(std::string_view bytes, const Level& level) {
  OnnxGraph graph;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: graph.nodes.push_back(read_node(m.bytes(), level.below())); break;
      case 5: graph.initializers.push_back(read_tensor(m.bytes(), level)); break;
      case 11: graph.inputs.push_back(read_value_info(m.bytes(), level)); break;
      case 12: graph.outputs.push_back(read_value_info(m.bytes(), level)); break;
      case 15: graph.sparse_initializers.push_back(read_sparse_tensor(m.bytes(), level)); break;
    }
  return graph;
}

void read_opset(std::string_view bytes, const Level& level, OnnxOpsets& to) {
  std::string domain;
  Index version = 0;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: domain = m.text(); break;
      case 2: version = m.integer(); break;
    }
  to[domain == "ai.onnx" ? "" : domain] = version;
}

OnnxFunction read_function(std::string_view bytes, const Level& level) {
  OnnxFunction function;
  for (ProtobufReader m(bytes, level.where); m.next();) switch (m.field()) {
      case 1: function.name = m.text(); break;
      case 4: function.inputs.push_back(m.text()); break;
      case 5: function.outputs.push_back(m.text()); break;
      case 7: function.nodes.push_back(read_node(m.bytes(), level.below())); break;
      case 9: read_opset(m.bytes(), level, function.opsets); break;
      case 10: function.domain = m.text(); break;
      case 11: function.defaults.push_back(read_attribute(m.bytes(), level.below())); break;
      case 13: function.overload = m.text(); break;
    }
  if (function.domain == "ai.onnx") function.domain.clear();
  return function;
}

struct TypeRow {
  std::string_view name;
  std::optional<Dtype> dtype;
};
const std::array<TypeRow, 29> types{{{"UNDEFINED", {}},
                                     {"FLOAT", float32},
                                     {"UINT8", uint8},
                                     {"INT8", int8},
                                     {"UINT16", uint16},
                                     {"INT16", int16},
                                     {"INT32", int32},
                                     {"INT64", int64},
                                     {"STRING", {}},
                                     {"BOOL", bool_},
                                     {"FLOAT16", float16},
                                     {"DOUBLE", float64},
                                     {"UINT32", uint32},
                                     {"UINT64", uint64},
                                     {"COMPLEX64", complex64},
                                     {"COMPLEX128", complex128},
                                     {"BFLOAT16", bfloat16},
                                     {"FLOAT8E4M3FN", {}},
                                     {"FLOAT8E4M3FNUZ", {}},
                                     {"FLOAT8E5M2", {}},
                                     {"FLOAT8E5M2FNUZ", {}},
                                     {"UINT4", {}},
                                     {"INT4", {}},
                                     {"FLOAT4E2M1", {}},
                                     {"FLOAT8E8M0", {}},
                                     {"UINT2", {}},
                                     {"INT2", {}},
                                     {"FLOAT6E2M3", {}},
                                     {"FLOAT6E3M2", {}}}};

}  // namespace

std::optional<Dtype> dtype_of_onnx(OnnxType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < types.size() ? types[number].dtype : std::nullopt;
}

OnnxType onnx_type_of(Dtype dtype) {
  for (std::size_t number = 0; number < types.size(); ++number)
    if (types[number].dtype == dtype) return static_cast<OnnxType>(number);
  return OnnxType::undefined;  // not reached: every dtype has a row
}

bool is_narrow(OnnxType type) {
  return type >= OnnxType::float8e4m3fn && type <= OnnxType::int2;  // not those of six bits
}

std::string name_of_onnx(OnnxType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < types.size() ? std::string(types[number].name) : fmt::format("number {}", static_cast<int>(type));
}

OnnxFile read_onnx_file(std::string_view bytes, const std::string& where) {
  const Level level{where, 0};
  OnnxFile file;
  bool has_graph = false;
  for (ProtobufReader m(bytes, where); m.next();) switch (m.field()) {
      case 2: file.producer = m.text(); break;
      case 7:
        file.graph = read_graph(m.bytes(), level.below());
        has_graph = true;
        break;
      case 8: read_opset(m.bytes(), level, file.opsets); break;
      case 14: file.metadata.insert(read_pair(m.bytes(), level)); break;
      case 25: file.functions.push_back(read_function(m.bytes(), level.below())); break;
    }
  if (!has_graph) fail<FileError>("{}: there is no graph: the file is not an ONNX model", where);
  return file;
}

}  // namespace stave_detail
