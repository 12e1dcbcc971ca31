// Creation, layout and computed positions as nodes of ONNX.
#include <algorithm>
#include <cmath>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/onnx/node.h>
#include <stave/handlers/onnx/write_rules.h>

namespace stave_detail {

namespace {

// The rules, in a scope of their own because their names are those of functions.
struct LayoutRules {
  using C = const OnnxWriting&;

  static OnnxOuts same(C c) { return {c.in()}; }
  static OnnxOuts full(C c) { return {c.b.expand(c.b.number(c.as<FullAttributes>().value, c.dtype()), c.shape())}; }
  static OnnxOuts iota(C c) {
    const auto& a = c.as<IotaAttributes>();
    const Dtype computed = is_float(a.dtype) ? float64 : int64;
    const Tensor i = arange(0, a.length, 1, computed);
    return {c.b.constant(astype(tensor(a.start, computed) + i * tensor(a.step, computed), a.dtype))};
  }
  static OnnxOuts reshape(C c) { return {c.b.reshape(c.in(), c.shape())}; }
  static OnnxOuts permute_dims(C c) { return {c.b.transpose(c.in(), c.as<PermuteAttributes>().axes)}; }
  static OnnxOuts broadcast_to(C c) { return {c.b.expand(c.in(), c.shape())}; }
  static OnnxOuts concat(C c) { return {c.b.concat(c.inputs, c.as<AxisAttributes>().axis)}; }
  static OnnxOuts slice(C c) {
    const auto& a = c.as<SliceAttributes>();
    return {c.b.slice(c.in(), a.starts, a.lengths, a.steps)};
  }

  // The elements of x at start + i step, in an array of `value`.
  static OnnxOuts pad(C c) {
    const auto& a = c.as<PadAttributes>();
    OnnxOut x = c.in();
    if (x.shape.elements() == 0) return {c.b.expand(c.b.number(a.value, c.dtype()), c.shape())};
    Shape low, high;
    for (std::size_t k = 0; k < a.starts.size(); ++k) {
      const Index length = x.shape[k], step = std::abs(a.steps[k]);
      if (a.steps[k] < 0) x = c.b.reverse(x, k);
      if (step > 1 && length > 1) x = c.b.spread(x, k, step, a.value);
      low.push_back(a.starts[k] + std::min<Index>((length - 1) * a.steps[k], 0));
      high.push_back(a.shape[k] - low[k] - x.shape[k]);
    }
    return {c.b.pad(x, low, high, a.value)};
  }

  // ---- computed positions -----------------------------------------------------------------------

  // The operands of gather and scatter. Indices without coordinates, which address the whole array,
  // become indices 0 of a new axis.
  struct Places {
    OnnxOut x, at;
    std::size_t batch;

    explicit Places(C c)
        : x(c.in(0)), at(c.b.cast(c.in(1), int64)),
          batch(static_cast<std::size_t>(c.as<GatherAttributes>().batch_dims)) {
      if (at.shape.back() > 0) return;
      Shape spaced(std::span<const Index>(x.shape).first(batch)), places = at.shape;
      spaced.push_back(1);
      spaced.append(x.shape.begin() + static_cast<std::ptrdiff_t>(batch), x.shape.end());
      places.back() = 1;
      x = c.b.reshape(x, spaced);
      at = c.b.expand(c.b.number(0, int64), places);
    }
  };
  static OnnxOuts gather(C c) {
    const Places p(c);
    return {c.b.emit("GatherND", {p.x, p.at}, c.dtype(), c.shape(),
                     {onnx_attribute("batch_dims", static_cast<Index>(p.batch))})};
  }

  // The coordinates of an array of `shape` along its first axes, as a constant [shape..., axes].
  static Tensor coordinates(const Shape& shape, std::size_t axes) {
    std::vector<Tensor> all;
    for (std::size_t k = 0; k < axes; ++k) {
      const Tensor along = vector_along(arange(0, shape[k], 1, int64), static_cast<Index>(k), shape.rank());
      all.push_back(stave::broadcast_to(along, shape));
    }
    return stack(all, -1);
  }

  static OnnxOuts scatter(C c) {
    if (c.in(2).shape.elements() == 0) return {c.in(0)};
    Places p(c);
    if (p.batch > 0) {  // ScatterND has no batch: its coordinates come first
      const Shape places(std::span<const Index>(p.at.shape).first(p.at.last_axis()));
      p.at = c.b.concat({c.b.constant(coordinates(places, p.batch)), p.at}, static_cast<Index>(p.at.last_axis()));
    }
    const char* const reduction = c.id() == OpId::scatter_add        ? "add"
                                  : c.id() == OpId::scatter_multiply ? "mul"
                                  : c.id() == OpId::scatter_min      ? "min"
                                  : c.id() == OpId::scatter_max      ? "max"
                                                                     : "none";
    const Dtype wide = c.id() == OpId::scatter ? c.dtype() : onnx_computed(c.dtype());
    const OnnxOut x = c.b.cast(p.x, wide), updates = c.b.cast(c.in(2), wide);
    const OnnxOut y =
        c.b.emit("ScatterND", {x, p.at, updates}, wide, x.shape, {onnx_attribute("reduction", reduction)});
    return {c.b.cast(c.b.reshape(y, c.shape()), c.dtype())};
  }

  // Starts that count from the end become positions.
  static OnnxOut positions(C c, std::size_t input, const Shape& lengths) {
    const OnnxOut at = c.b.cast(c.in(input), int64);
    return c.b.where(at < 0, at + c.b.int64s(lengths), at);
  }
  static OnnxOuts dynamic_slice(C c) {
    const auto& a = c.as<DynamicSliceAttributes>();
    if (a.sizes.empty()) return {c.in(0)};
    if (a.batch_dims > 0) return gathered_slices(c, a);
    const OnnxOut start = positions(c, 1, c.in(0).shape);
    return {c.b.emit("Slice", {c.in(0), start, start + c.b.int64s(a.sizes)}, c.dtype(), c.shape())};
  }
  // The positions [batch..., sizes..., axes] of slices that begin at starts [batch..., axes].
  static OnnxOut slice_positions(C c, std::size_t starts, std::size_t batch, const Shape& sizes) {
    const Shape lengths(std::span<const Index>(c.in(0).shape).subspan(batch));
    const OnnxOut at = positions(c, starts, lengths);
    Shape spaced(std::span<const Index>(at.shape).first(batch));
    for (std::size_t k = 0; k < sizes.size(); ++k) spaced.push_back(1);
    spaced.push_back(static_cast<Index>(sizes.size()));
    return c.b.reshape(at, spaced) + c.b.constant(coordinates(sizes, sizes.size()));
  }
  static OnnxOuts gathered_slices(C c, const DynamicSliceAttributes& a) {
    const auto batch = static_cast<std::size_t>(a.batch_dims);
    const OnnxOut at = slice_positions(c, 1, batch, a.sizes);
    return {
        c.b.emit("GatherND", {c.in(0), at}, c.dtype(), c.shape(), {onnx_attribute("batch_dims", Index{a.batch_dims})})};
  }
  static OnnxOuts dynamic_update_slice(C c) {
    const auto batch = static_cast<std::size_t>(c.as<DynamicSliceAttributes>().batch_dims);
    const OnnxOut& update = c.in(1);
    if (update.shape.elements() == 0) return {c.in(0)};
    const Shape sizes(std::span<const Index>(update.shape).subspan(batch));
    OnnxOut at = sizes.empty() ? OnnxOut() : slice_positions(c, 2, batch, sizes);
    if (sizes.empty()) return {update};
    if (batch > 0)
      at = c.b.concat({c.b.constant(coordinates(update.shape, batch)), at}, static_cast<Index>(at.last_axis()));
    return {c.b.emit("ScatterND", {c.in(0), at, update}, c.dtype(), c.shape())};
  }
};

}  // namespace

OnnxRule onnx_rule_of_layout(OpId id) {
  switch (id) {
    case OpId::stop_gradient:
    case OpId::copy:
    case OpId::to: return LayoutRules::same;
    case OpId::full: return LayoutRules::full;
    case OpId::iota: return LayoutRules::iota;
    case OpId::reshape: return LayoutRules::reshape;
    case OpId::permute_dims: return LayoutRules::permute_dims;
    case OpId::broadcast_to: return LayoutRules::broadcast_to;
    case OpId::concat: return LayoutRules::concat;
    case OpId::slice: return LayoutRules::slice;
    case OpId::pad: return LayoutRules::pad;
    case OpId::gather: return LayoutRules::gather;
    case OpId::scatter:
    case OpId::scatter_add:
    case OpId::scatter_multiply:
    case OpId::scatter_min:
    case OpId::scatter_max: return LayoutRules::scatter;
    case OpId::dynamic_slice: return LayoutRules::dynamic_slice;
    case OpId::dynamic_update_slice: return LayoutRules::dynamic_update_slice;
    default: return nullptr;
  }
}

}  // namespace stave_detail
