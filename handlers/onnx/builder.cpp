#include <stave/handlers/onnx/builder.h>

#include <algorithm>

#include <stave/core/io/elements.h>
#include <stave/core/ops/create.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// The types of attributes (AttributeProto.AttributeType).
enum class AttributeKind : std::uint8_t { integer = 2, text = 3, graph = 5, integers = 7 };

ProtobufWriter attribute_of(std::string_view name, AttributeKind kind) {
  return ProtobufWriter().text(1, name).integer(20, static_cast<Index>(kind));
}

ProtobufWriter value_info(const OnnxOut& value) {
  ProtobufWriter shape;
  for (const Index length : value.shape) shape.message(1, ProtobufWriter().integer(1, length));
  const auto tensor = ProtobufWriter().integer(1, static_cast<Index>(onnx_type_of(value.dtype))).message(2, shape);
  return ProtobufWriter().text(1, value.name).message(2, ProtobufWriter().message(1, tensor));
}

}  // namespace

ProtobufWriter onnx_attribute(std::string_view name, Index value) {
  return attribute_of(name, AttributeKind::integer).integer(3, value);
}
ProtobufWriter onnx_attribute(std::string_view name, const Shape& values) {
  ProtobufWriter attribute = attribute_of(name, AttributeKind::integers);
  for (const Index value : values) attribute.integer(8, value);
  return attribute;
}
ProtobufWriter onnx_attribute(std::string_view name, std::string_view value) {
  return attribute_of(name, AttributeKind::text).text(4, value);
}
ProtobufWriter onnx_graph_attribute(std::string_view name, const ProtobufWriter& graph) {
  return attribute_of(name, AttributeKind::graph).message(6, graph);
}

ProtobufWriter onnx_tensor(std::string_view name, const Tensor& x) {
  ProtobufWriter tensor;
  for (const Index length : x.shape()) tensor.integer(1, length);
  tensor.integer(2, static_cast<Index>(onnx_type_of(x.dtype()))).text(8, name);
  with_elements(x, [&](std::span<const char> bytes) { tensor.text(9, {bytes.data(), bytes.size()}); });
  return tensor;
}

std::string OnnxBuilder::new_name(std::string_view stem) { return fmt::format("{}_{}", stem, names_++); }

OnnxOuts OnnxBuilder::emit(std::string_view op, std::span<const OnnxOut> inputs, const OnnxOuts& results,
                           const OnnxAttributes& attributes) {
  ProtobufWriter node;
  OnnxOuts outputs = results;
  for (const OnnxOut& input : inputs) node.text(1, input.name);
  for (OnnxOut& output : outputs) {
    output.builder = this;
    node.text(2, output.name = new_name(op));
  }
  node.text(4, op);
  for (const ProtobufWriter& attribute : attributes) node.message(5, attribute);
  nodes_ += ProtobufWriter().message(1, node).bytes;
  return outputs;
}
OnnxOut OnnxBuilder::emit(std::string_view op, const OnnxOuts& inputs, Dtype dtype, const Shape& shape,
                          const OnnxAttributes& attributes) {
  return emit(op, inputs, OnnxOuts{{this, "", dtype, shape}}, attributes)[0];
}

OnnxOut OnnxBuilder::named(std::string_view op, const OnnxOut& x, std::string name) {
  const auto node = ProtobufWriter().text(1, x.name).text(2, name).text(4, op);
  nodes_ += ProtobufWriter().message(1, node).bytes;
  return {this, std::move(name), x.dtype, x.shape};
}

OnnxOut OnnxBuilder::constant(const Tensor& x) {
  OnnxOut value{this, new_name("constant"), x.dtype(), x.shape()};
  initializers_ += ProtobufWriter().message(5, onnx_tensor(value.name, x)).bytes;
  return value;
}
OnnxOut OnnxBuilder::number(Scalar value, Dtype dtype) {
  const auto [found, is_new] = constants_.try_emplace(fmt::format("{} {}", dtype, value.str()));
  if (is_new) found->second = constant(tensor(value, dtype));
  return found->second;
}
OnnxOut OnnxBuilder::int64s(const Shape& values) {
  const auto [found, is_new] = constants_.try_emplace(values.str());
  if (is_new) found->second = constant(from(std::vector<Index>(values.begin(), values.end())));
  return found->second;
}

OnnxOut OnnxBuilder::binary(std::string_view op, const OnnxOut& x, const OnnxOut& y) {
  return emit(op, {x, y}, x.dtype, broadcast_shapes(x.shape, y.shape, "write_onnx"));
}
OnnxOut OnnxBuilder::compare(std::string_view op, const OnnxOut& x, const OnnxOut& y) {
  return emit(op, {x, y}, bool_, broadcast_shapes(x.shape, y.shape, "write_onnx"));
}
OnnxOut OnnxBuilder::cast(const OnnxOut& x, Dtype dtype) {
  if (x.dtype == dtype) return x;
  return emit("Cast", {x}, dtype, x.shape, {onnx_attribute("to", static_cast<Index>(onnx_type_of(dtype)))});
}
OnnxOut OnnxBuilder::where(const OnnxOut& condition, const OnnxOut& x, const OnnxOut& y) {
  const Shape shape = broadcast_shapes(x.shape, y.shape, "write_onnx");
  return emit("Where", {condition, x, y}, x.dtype, broadcast_shapes(condition.shape, shape, "write_onnx"));
}

OnnxOut OnnxBuilder::reshape(const OnnxOut& x, const Shape& shape) {
  if (x.shape == shape) return x;
  const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return emit("Reshape", {x, int64s(shape)}, x.dtype, shape,
              has_zero ? OnnxAttributes{onnx_attribute("allowzero", Index{1})} : OnnxAttributes());
}
OnnxOut OnnxBuilder::transpose(const OnnxOut& x, const Shape& axes) {
  Shape shape;
  for (const Index axis : axes) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return emit("Transpose", {x}, x.dtype, shape, {onnx_attribute("perm", axes)});
}
OnnxOut OnnxBuilder::expand(const OnnxOut& x, const Shape& shape) {
  return x.shape == shape ? x : emit("Expand", {x, int64s(shape)}, x.dtype, shape);
}
OnnxOut OnnxBuilder::concat(const OnnxOuts& xs, Index axis) {
  Shape shape = xs.at(0).shape;
  for (std::size_t i = 1; i < xs.size(); ++i)
    shape[static_cast<std::size_t>(axis)] += xs[i].shape[static_cast<std::size_t>(axis)];
  return emit("Concat", xs, xs[0].dtype, shape, {onnx_attribute("axis", axis)});
}
OnnxOut OnnxBuilder::slice(const OnnxOut& x, const Shape& starts, const Shape& lengths, const Shape& steps) {
  // A negative end counts from the end of the axis, so that an end before the first element is far
  // below.
  constexpr Index before_all = std::numeric_limits<std::int32_t>::min();
  Shape ends, axes;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const Index end = starts[k] + lengths[k] * steps[k];
    ends.push_back(end < 0 ? before_all : end);
    axes.push_back(static_cast<Index>(k));
  }
  return emit("Slice", {x, int64s(starts), int64s(ends), int64s(axes), int64s(steps)}, x.dtype, lengths);
}
OnnxOut OnnxBuilder::reverse(const OnnxOut& x, std::size_t axis) {
  Shape starts(std::vector<Index>(x.shape.size(), 0)), steps(std::vector<Index>(x.shape.size(), 1));
  starts[axis] = x.shape[axis] - 1;
  steps[axis] = -1;
  return slice(x, starts, x.shape, steps);
}
OnnxOut OnnxBuilder::pad(const OnnxOut& x, const Shape& low, const Shape& high, Scalar value) {
  Shape widths = low, shape = x.shape;
  widths.append(high.begin(), high.end());
  for (std::size_t k = 0; k < shape.size(); ++k) shape[k] += low[k] + high[k];
  if (shape == x.shape && std::all_of(low.begin(), low.end(), [](Index width) { return width == 0; })) return x;
  // onnxruntime pads neither bools nor small integers.
  const Dtype wide = is_float(x.dtype) || x.dtype == int64 || x.dtype == int32 ? x.dtype : int32;
  return cast(emit("Pad", {cast(x, wide), int64s(widths), number(value, wide)}, wide, shape), x.dtype);
}
OnnxOut OnnxBuilder::spread(const OnnxOut& x, std::size_t axis, Index step, Scalar value) {
  Shape with_axis, low, high;
  for (std::size_t k = 0; k <= x.shape.size(); ++k) {
    with_axis.push_back(k == axis + 1 ? 1 : x.shape[k > axis ? k - 1 : k]);
    low.push_back(0);
    high.push_back(k == axis + 1 ? step - 1 : 0);
  }
  Shape joined = x.shape, zeros(std::vector<Index>(x.shape.size(), 0)), cut = zeros;
  joined[axis] *= step;
  cut[axis] = 1 - step;
  return pad(reshape(pad(reshape(x, with_axis), low, high, value), joined), zeros, cut, value);
}

OnnxOut OnnxBuilder::reduce(std::string_view op, const OnnxOut& x, const Shape& axes, bool keepdims) {
  if (axes.empty()) return x;
  Shape shape;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<Index>(k)) != axes.end();
    if (!is_reduced) shape.push_back(x.shape[k]);
    else if (keepdims) shape.push_back(1);
  }
  return emit(op, {x, int64s(axes)}, x.dtype, shape, {onnx_attribute("keepdims", Index{keepdims})});
}

OnnxOut OnnxBuilder::without_last(const OnnxOut& x) {
  return reshape(x, Shape(std::span<const Index>(x.shape).first(x.last_axis())));
}
OnnxOut OnnxBuilder::with_last(const OnnxOut& x) {
  Shape shape = x.shape;
  shape.push_back(1);
  return reshape(x, shape);
}

ProtobufWriter OnnxBuilder::graph(std::string_view name, const OnnxOuts& inputs, const OnnxOuts& outputs) const {
  ProtobufWriter graph{nodes_};
  graph.text(2, name);
  graph.bytes += initializers_;
  for (const OnnxOut& input : inputs) graph.message(11, value_info(input));
  for (const OnnxOut& output : outputs) graph.message(12, value_info(output));
  return graph;
}

}  // namespace stave_detail
