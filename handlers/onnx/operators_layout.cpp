// Shapes and layouts: operators that move elements, and tensors that are made of shapes.
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/rearrange.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

using Known = OnnxOperator::Known;

Tensor int64s(const std::vector<Index>& values) { return from(values); }

Tensor shape_of(const NodeCall& n) {
  const Shape& shape = n(0).shape();
  const auto rank = static_cast<Index>(shape.rank());
  const auto bound = [&](Index position) {
    return std::clamp<Index>(position < 0 ? position + rank : position, 0, rank);
  };
  const Index start = bound(n.integer("start", 0)), end = bound(n.integer("end", rank));
  std::vector<Index> lengths;
  for (Index axis = start; axis < end; ++axis) lengths.push_back(shape[static_cast<std::size_t>(axis)]);
  return int64s(lengths);
}

Tensor reshaped(const NodeCall& n) {
  const Tensor& x = n(0);
  std::vector<Index> lengths = n.opset() < 5 ? n.integers("shape").value_or(std::vector<Index>()) : n.integers(1);
  const bool zero_is_length = n.integer("allowzero", 0) != 0;
  Index known = 1, unknown = -1;
  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
    if (lengths[axis] == 0 && !zero_is_length) lengths[axis] = x.shape(static_cast<Index>(axis));
    if (lengths[axis] == -1) unknown = static_cast<Index>(axis);
    else known *= lengths[axis];
  }
  // A length can be inferred beside a length of 0 if that was copied.
  if (unknown >= 0 && known == 0 && x.size() == 0 && !zero_is_length) lengths[static_cast<std::size_t>(unknown)] = 0;
  return reshape(x, Shape(lengths));
}

Tensor transposed(const NodeCall& n) {
  const auto axes = n.integers("perm");
  return axes ? permute_dims(n(0), Shape(*axes)) : transpose(n(0));
}

Tensor squeezed(const NodeCall& n) {
  const auto axes = n.integers("axes", 1, 13);
  return axes ? squeeze(n(0), Axes(*axes)) : squeeze(n(0));
}

Tensor unsqueezed(const NodeCall& n) {
  const auto axes = n.integers("axes", 1, 13);
  if (!axes) n.refuse("there are no axes");
  return expand_dims(n(0), Shape(*axes));
}

OnnxValues split_parts(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index axis = normalize_axis(n.integer("axis", 0), x.rank(), "axis"), length = x.shape(axis);
  std::vector<Index> lengths;
  lengths = n.integers("split", 1, 13).value_or(lengths);
  if (lengths.empty()) {  // equal parts, of which the last one may be shorter
    const Index parts = n.integer("num_outputs", static_cast<Index>(n.outputs()));
    if (parts < 1 || parts != static_cast<Index>(n.outputs()))
      n.refuse("there should be {} parts, and there are {} outputs", parts, n.outputs());
    const Index part = (length + parts - 1) / parts;
    for (Index begin = 0, i = 0; i < parts; ++i, begin += part)
      lengths.push_back(std::clamp<Index>(length - begin, 0, part));
  }
  OnnxValues parts;
  for (Tensor& part : parts_along(x, axis, lengths)) parts.emplace_back(std::move(part));
  if (std::accumulate(lengths.begin(), lengths.end(), Index{0}) != length)
    fail<ShapeError>("parts of {} elements do not fill {}", fmt::join(lengths, ", "), x.shape());
  return parts;
}

// The slice that ONNX defines. It begins at the first element where Python's is empty: if it runs
// backwards and its start lies before the axis.
Tensor::Slice part_of(Index length, Index start, Index end, Index step) {
  return slice(step < 0 && start < -length ? -length : start, end, step);
}

Tensor sliced(const NodeCall& n) {
  const Tensor& x = n(0);
  const bool by_input = n.opset() >= 10;
  const auto starts = by_input ? n.integers(1) : n.integers("starts").value_or(std::vector<Index>());
  const auto ends = by_input ? n.integers(2) : n.integers("ends").value_or(std::vector<Index>());
  const auto axes = n.integers("axes", 3, 10).value_or(axes_between(0, std::ssize(starts)));
  const auto steps = n.has(4) ? n.integers(4) : std::vector<Index>(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    fail<ShapeError>("there are {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
                     steps.size());
  std::vector<Tensor::Subscript> entries(static_cast<std::size_t>(x.rank()), slice());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(normalize_axis(axes[i], x.rank(), "axes"));
    entries[axis] = part_of(x.shape()[axis], starts[i], ends[i], steps[i]);
  }
  return entries.empty() ? x : x(entries);
}

// The number that a tensor of one element holds.
Scalar number_in(const NodeCall& n, std::size_t input) {
  if (is_float(n(input).dtype())) return n.fixed_number(input);
  return n.integer(input);
}

Tensor padded(const NodeCall& n) {
  const Tensor& x = n(0);
  const auto pads = n.opset() < 11 ? n.integers("pads").value_or(std::vector<Index>()) : n.integers(1);
  const auto axes = n.has(3) ? n.integers(3) : axes_between(0, x.rank());
  if (pads.size() != 2 * axes.size()) fail<ShapeError>("there are {} pads for {} axes", pads.size(), axes.size());
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i)
    widths[static_cast<std::size_t>(normalize_axis(axes[i], x.rank(), "axes"))] = {pads[i], pads[i + axes.size()]};
  const std::string mode = n.text("mode", "constant");
  if (mode == "constant")
    return pad(x, widths, n.has(2) ? number_in(n, 2) : n.has("value") ? Scalar(n.number("value", 0)) : Scalar(0));
  if (mode == "reflect") return pad(x, widths, PadMode::reflect);
  if (mode == "edge") return pad(x, widths, PadMode::edge);
  if (mode == "wrap") return pad(x, widths, PadMode::wrap);
  n.refuse("there is no mode '{}'", mode);
}

Tensor expanded(const NodeCall& n) {
  const Shape wanted(n.integers(1));
  return broadcast_to(n(0), broadcast_shapes(n(0).shape(), wanted, "Expand"));
}

Tensor tiled(const NodeCall& n) { return tile(n(0), Shape(n.integers(1))); }

Tensor concatenated(const NodeCall& n) { return concat(n.tensors(), n.integer("axis", 1)); }

// Each group of blocksize^2 channels becomes a block of pixels.
Tensor depth_to_space(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index b = n.integer("blocksize"), batch = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3);
  if (b < 1 || b > c || c % (b * b) != 0) fail<ShapeError>("{} channels do not divide into blocks of {}", c, b);
  const bool columns_first = n.text("mode", "DCR") == "CRD";
  const Tensor blocks = columns_first ? permute_dims(reshape(x, {batch, c / (b * b), b, b, h, w}), {0, 1, 4, 2, 5, 3})
                                      : permute_dims(reshape(x, {batch, b, b, c / (b * b), h, w}), {0, 3, 4, 1, 5, 2});
  return reshape(blocks, {batch, c / (b * b), h * b, w * b});
}

Tensor space_to_depth(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index b = n.integer("blocksize"), batch = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3);
  if (b < 1 || h % b != 0 || w % b != 0) fail<ShapeError>("{} does not divide into blocks of {}", x.shape(), b);
  const bool columns_first = n.text("mode", "DCR") == "CRD";
  const Tensor blocks = reshape(x, {batch, c, h / b, b, w / b, b});
  return reshape(permute_dims(blocks, columns_first ? Shape{0, 1, 3, 5, 2, 4} : Shape{0, 3, 5, 1, 2, 4}),
                 {batch, c * b * b, h / b, w / b});
}

OnnxValues constant(const NodeCall& n) {
  if (n.has("value")) return results({n.tensor("value")});
  if (n.has("sparse_value")) return results({n.tensor("sparse_value")});
  if (n.has("value_float")) return results({tensor(n.number("value_float", 0), float32)});
  if (n.has("value_int")) return results({tensor(n.integer("value_int"), int64)});
  if (n.has("value_ints")) return results({int64s(*n.integers("value_ints"))});
  if (n.has("value_floats")) {
    const std::vector<double> values = n.numbers("value_floats");
    return results({from(std::vector<float>(values.begin(), values.end()))});
  }
  n.refuse("there is no value, or one of strings, which Stave does not have");
}

Tensor constant_of_shape(const NodeCall& n) {
  const Shape shape(n.integers(0));
  if (!n.has("value")) return zeros(shape, float32);
  return contiguous(broadcast_to(reshape(n.tensor("value"), Shape()), shape));
}

Tensor range(const NodeCall& n) {
  const Dtype dtype = n(0).dtype();
  if (is_integer(dtype)) return arange(n.integer(0), n.integer(1), n.integer(2), dtype);
  const double start = n.number(0), limit = n.number(1), delta = n.number(2);
  const double count = std::ceil((limit - start) / delta);
  if (!(count < 1e15)) fail<ShapeError>("a range from {} to {} in steps of {} is too long", start, limit, delta);
  return astype(start + delta * arange(0, static_cast<Index>(std::max(count, 0.)), 1, float64), dtype);
}

Tensor eye_like(const NodeCall& n) {
  if (n(0).rank() != 2) fail<ShapeError>("EyeLike needs a matrix, not {}", n(0).shape());
  return eye(n(0).shape(0), n(0).shape(1), n.integer("k", 0), n.dtype("dtype", n(0).dtype()));
}

Tensor triangle(const NodeCall& n) {
  const Index k = n.has(1) ? n.integer(1) : 0;
  return n.integer("upper", 1) != 0 ? triu(n(0), k) : tril(n(0), k);
}

// Crops or pads around the centre.
Tensor center_crop_pad(const NodeCall& n) {
  const Tensor& x = n(0);
  const auto lengths = n.integers(1);
  const auto axes = n.integers("axes").value_or(axes_between(0, x.rank()));
  if (axes.size() != lengths.size()) fail<ShapeError>("there are {} lengths for {} axes", lengths.size(), axes.size());
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank(), "axes");
    const Index more = lengths[i] - x.shape(axis), before = more > 0 ? more / 2 : -(-more / 2);
    widths[static_cast<std::size_t>(axis)] = {before, more - before};
  }
  return pad(x, widths);
}

constexpr OnnxOperator layout_rows[] = {
    {"CenterCropPad", 18, center_crop_pad},
    {"Concat", 4, concatenated},
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape},
    {"DepthToSpace", 1, depth_to_space},
    {"Expand", 8, expanded},
    {"EyeLike", 9, eye_like, Known::always},
    {"Flatten", 1, [](const NodeCall& n) { return as_matrix(n(0), n.integer("axis", 1)); }},
    {"Identity", 1, [](const NodeCall& n) { return OnnxValues{n.value(0)}; }},
    {"Pad", 2, padded},
    {"Range", 11, range},
    {"Reshape", 1, reshaped},
    {"Shape", 1, shape_of, Known::always},
    {"Size", 1, [](const NodeCall& n) { return tensor(n(0).size(), int64); }, Known::always},
    {"Slice", 1, sliced},
    {"SpaceToDepth", 1, space_to_depth},
    {"Split", 2, split_parts},
    {"Squeeze", 1, squeezed},
    {"Tile", 6, tiled},
    {"Transpose", 1, transposed},
    {"Trilu", 14, triangle},
    {"Unsqueeze", 1, unsqueezed},
};

}  // namespace

std::span<const OnnxOperator> onnx_layout() { return layout_rows; }

}  // namespace stave_detail
