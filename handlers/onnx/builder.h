// OnnxBuilder: writes the nodes of a graph, and the messages around it.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/tensor/scalar.h>
#include <stave/core/tensor/tensor.h>
#include <stave/handlers/onnx/messages.h>

namespace stave_detail {

/// A message in protobuf's wire format (protobuf.h), field by field.
struct ProtobufWriter {
  std::string bytes;

  ProtobufWriter& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufWriter& text(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  ProtobufWriter& message(int field, const ProtobufWriter& value) { return text(field, value.bytes); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
};

class OnnxBuilder;

/// A value of a graph that is written. Operators write a node each.
struct OnnxOut {
  OnnxBuilder* builder = nullptr;
  std::string name{};  // empty: an input that is left out
  Dtype dtype = float32;
  Shape shape{};

  int rank() const { return shape.rank(); }
  std::size_t last_axis() const { return shape.size() - 1; }
};
using OnnxOuts = std::vector<OnnxOut>;

/// The attributes of a node: {onnx_attribute("axis", 1), ...}.
using OnnxAttributes = std::vector<ProtobufWriter>;
ProtobufWriter onnx_attribute(std::string_view name, Index value);
ProtobufWriter onnx_attribute(std::string_view name, const Shape& values);
ProtobufWriter onnx_attribute(std::string_view name, std::string_view value);
ProtobufWriter onnx_graph_attribute(std::string_view name, const ProtobufWriter& graph);

/// Writes one graph. The names of all values of a model are different.
class OnnxBuilder {
 public:
  /// `names` counts the names of a model, and is shared by its graphs.
  explicit OnnxBuilder(int& names) : names_(names) {}

  // ---- nodes ------------------------------------------------------------------------------------

  OnnxOuts emit(std::string_view op, std::span<const OnnxOut> inputs, const OnnxOuts& results,
                const OnnxAttributes& attributes = {});
  OnnxOut emit(std::string_view op, const OnnxOuts& inputs, Dtype dtype, const Shape& shape,
               const OnnxAttributes& attributes = {});
  /// A node with one input and a result of the same type, whose name is given.
  OnnxOut named(std::string_view op, const OnnxOut& x, std::string name);
  OnnxOut constant(const Tensor& x);
  OnnxOut number(Scalar value, Dtype dtype);
  OnnxOut int64s(const Shape& values);

  // Elementwise operators. Operands broadcast, and have one dtype.
  OnnxOut unary(std::string_view op, const OnnxOut& x) { return emit(op, {x}, x.dtype, x.shape); }
  OnnxOut binary(std::string_view op, const OnnxOut& x, const OnnxOut& y);
  OnnxOut compare(std::string_view op, const OnnxOut& x, const OnnxOut& y);
  OnnxOut like(const OnnxOut& x, Scalar value) { return number(value, x.dtype); }
  OnnxOut add(const OnnxOut& x, const OnnxOut& y) { return binary("Add", x, y); }
  OnnxOut subtract(const OnnxOut& x, const OnnxOut& y) { return binary("Sub", x, y); }
  OnnxOut multiply(const OnnxOut& x, const OnnxOut& y) { return binary("Mul", x, y); }
  OnnxOut divide(const OnnxOut& x, const OnnxOut& y) { return binary("Div", x, y); }
  OnnxOut less(const OnnxOut& x, const OnnxOut& y) { return compare("Less", x, y); }
  OnnxOut less_equal(const OnnxOut& x, const OnnxOut& y) { return compare("LessOrEqual", x, y); }
  OnnxOut greater(const OnnxOut& x, const OnnxOut& y) { return compare("Greater", x, y); }
  OnnxOut equal(const OnnxOut& x, const OnnxOut& y) { return compare("Equal", x, y); }
  OnnxOut both(const OnnxOut& x, const OnnxOut& y) { return compare("And", x, y); }
  OnnxOut either(const OnnxOut& x, const OnnxOut& y) { return compare("Or", x, y); }
  OnnxOut cast(const OnnxOut& x, Dtype dtype);
  OnnxOut where(const OnnxOut& condition, const OnnxOut& x, const OnnxOut& y);

  // Layout and reductions.
  OnnxOut reshape(const OnnxOut& x, const Shape& shape);
  OnnxOut transpose(const OnnxOut& x, const Shape& axes);
  OnnxOut expand(const OnnxOut& x, const Shape& shape);
  OnnxOut concat(const OnnxOuts& xs, Index axis);
  OnnxOut slice(const OnnxOut& x, const Shape& starts, const Shape& lengths, const Shape& steps);
  OnnxOut reverse(const OnnxOut& x, std::size_t axis);
  /// Negative widths remove elements.
  OnnxOut pad(const OnnxOut& x, const Shape& low, const Shape& high, Scalar value);
  /// x with step - 1 values after each element of an axis but the last.
  OnnxOut spread(const OnnxOut& x, std::size_t axis, Index step, Scalar value);
  OnnxOut reduce(std::string_view op, const OnnxOut& x, const Shape& axes, bool keepdims);
  /// A reduction of one axis, which is kept.
  OnnxOut along(std::string_view op, const OnnxOut& x, std::size_t axis) {
    return reduce(op, x, Shape(static_cast<Index>(axis)), true);
  }
  /// x without its last axis, of length 1; and with a new one.
  OnnxOut without_last(const OnnxOut& x);
  OnnxOut with_last(const OnnxOut& x);

  // ---- the graph --------------------------------------------------------------------------------

  std::string new_name(std::string_view stem);
  ProtobufWriter graph(std::string_view name, const OnnxOuts& inputs, const OnnxOuts& outputs) const;

 private:
  int& names_;
  std::string nodes_, initializers_;  // as fields of a graph
  std::map<std::string, OnnxOut> constants_;
};

#define STAVE_OPERATOR(symbol, write)                                                                   \
  inline OnnxOut operator symbol(const OnnxOut& x, const OnnxOut& y) { return x.builder->write(x, y); } \
  inline OnnxOut operator symbol(const OnnxOut& x, Scalar y) { return x symbol x.builder->like(x, y); } \
  inline OnnxOut operator symbol(Scalar x, const OnnxOut& y) { return y.builder->like(y, x) symbol y; }
STAVE_OPERATOR(+, add)
STAVE_OPERATOR(-, subtract)
STAVE_OPERATOR(*, multiply)
STAVE_OPERATOR(/, divide)
STAVE_OPERATOR(<, less)
STAVE_OPERATOR(<=, less_equal)
STAVE_OPERATOR(>, greater)
STAVE_OPERATOR(==, equal)
STAVE_OPERATOR(&&, both)
STAVE_OPERATOR(||, either)
#undef STAVE_OPERATOR
inline OnnxOut operator-(const OnnxOut& x) { return x.builder->unary("Neg", x); }
inline OnnxOut operator!(const OnnxOut& x) { return x.builder->unary("Not", x); }

/// A TensorProto.
ProtobufWriter onnx_tensor(std::string_view name, const Tensor& x);

}  // namespace stave_detail
