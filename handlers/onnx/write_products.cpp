// Matrix products, convolutions, pooling and attention as nodes of ONNX. The formulas of attention
// are those of core/program/stablehlo_products.cpp.
#include <algorithm>
#include <limits>
#include <optional>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/onnx/write_rules.h>

namespace stave_detail {

namespace {

struct ProductRules {
  using C = const OnnxWriting&;

  static OnnxOut wide(C c, std::size_t i) { return c.b.cast(c.in(i), onnx_computed(c.in(i).dtype)); }
  static OnnxOut product(OnnxBuilder& b, const OnnxOut& x, const OnnxOut& y) {
    const auto outer = [](const Shape& s) { return Shape(std::span<const Index>(s).first(s.size() - 2)); };
    Shape shape = broadcast_shapes(outer(x.shape), outer(y.shape), "write_onnx");
    shape.push_back(x.shape[x.last_axis() - 1]);
    shape.push_back(y.shape[y.last_axis()]);
    return b.emit("MatMul", {x, y}, x.dtype, shape);
  }
  static OnnxOut transposed(OnnxBuilder& b, const OnnxOut& x) {
    Shape axes;
    for (std::size_t k = 0; k < x.shape.size(); ++k) axes.push_back(static_cast<Index>(k));
    std::swap(axes[x.last_axis()], axes[x.last_axis() - 1]);
    return b.transpose(x, axes);
  }
  static OnnxOuts matmul(C c) { return {c.b.cast(product(c.b, wide(c, 0), wide(c, 1)), c.dtype())}; }

  // An array [first..., lengths...] of the spatial axes of `shape`, which begin at 3.
  static Shape with_lengths(Shape first, const Shape& shape) {
    first.append(shape.begin() + 3, shape.end());
    return first;
  }
  static OnnxOuts convolution(C c) {
    const auto& a = c.as<ConvolutionAttributes>();
    const Index groups = c.in(0).shape[1];
    const Shape &x_shape = c.in(0).shape, &w_shape = c.in(1).shape;
    OnnxOut x = c.b.reshape(wide(c, 0), with_lengths({x_shape[0], groups * x_shape[2]}, x_shape));
    OnnxOut w = c.b.reshape(wide(c, 1), with_lengths({groups * w_shape[1], w_shape[2]}, w_shape));
    if (!is_float(x.dtype)) {
      x = c.b.cast(x, int64);
      w = c.b.cast(w, int64);
    }
    // Conv neither spreads nor cuts x.
    Shape low{0, 0}, high{0, 0};
    for (std::size_t k = 0; k < a.low.size(); ++k) {
      if (a.input_dilations[k] > 1 && x.shape[k + 2] > 1) x = c.b.spread(x, k + 2, a.input_dilations[k], 0.);
      low.push_back(a.low[k]);
      high.push_back(a.high[k]);
    }
    x = c.b.pad(x, low, high, 0.);
    const Shape shape = with_lengths({c.shape()[0], groups * c.shape()[2]}, c.shape());
    // onnxruntime has no Conv of float64, and no operator convolves integers of 32 or 64 bits.
    const OnnxOut y = x.dtype == float64 || x.dtype == int64
                          ? product_of_windows(c, x, w)
                          : c.b.emit("Conv", {x, w}, x.dtype, shape,
                                     {onnx_attribute("strides", a.strides), onnx_attribute("dilations", a.dilations),
                                      onnx_attribute("group", groups)});
    return {c.b.cast(c.b.reshape(y, c.shape()), c.dtype())};
  }
  // A convolution of padded arrays as a product: [g, out, in k] by [n, g, in k, places]. The
  // windows are gathered, so x is repeated as often as the kernel has elements.
  static OnnxOut product_of_windows(C c, const OnnxOut& x, const OnnxOut& w) {
    const auto& a = c.as<ConvolutionAttributes>();
    const UnderFrame past_all_handlers(nullptr);
    Tensor places = zeros({1, 1}, int64);  // [elements of the kernel, places of the result]
    Index length = 1;                      // of the spatial axes, joined
    for (std::size_t k = 2; k < x.shape.size(); ++k) {
      const Index kernel = w.shape[k], result = c.shape()[k + 1];
      const Tensor of_kernel = reshape(arange(0, kernel, 1, int64) * a.dilations[k - 2], {kernel, 1, 1}),
                   of_result = arange(0, result, 1, int64) * a.strides[k - 2];
      places = reshape(expand_dims(places * x.shape[k], {1, 3}) + of_kernel + of_result,
                       {places.shape(0) * kernel, places.shape(1) * result});
      length *= x.shape[k];
    }
    const Index n = x.shape[0], groups = c.in(0).shape[1], in = w.shape[1], out = w.shape[0] / groups,
                terms = in * places.shape(0), count = places.shape(1);
    const OnnxOut flat = c.b.reshape(x, {n, groups, in, length});
    const OnnxOut windows = c.b.emit("Gather", {flat, c.b.constant(reshape(places, {-1}))}, x.dtype,
                                     {n, groups, in, places.size()}, {onnx_attribute("axis", Index{3})});
    return product(c.b, c.b.reshape(w, {1, groups, out, terms}), c.b.reshape(windows, {n, groups, terms, count}));
  }
  // Positions are counted in the whole array, of which each image takes as many as it has pixels.
  static OnnxOuts pool(C c) {
    const auto& a = c.as<PoolAttributes>();
    const std::size_t spatial = a.windows.size(), others = c.in().shape.size() - spatial;
    const auto flat = [&](const Shape& shape) {
      Shape joined{1, Shape(std::span<const Index>(shape).first(others)).elements()};
      joined.append(shape.begin() + static_cast<std::ptrdiff_t>(others), shape.end());
      return joined;
    };
    OnnxOut x = c.b.reshape(wide(c, 0), flat(c.in().shape));
    if (!is_float(x.dtype)) x = c.b.cast(x, float64);
    Shape pads;
    for (const Index low : a.low) pads.push_back(low);
    for (const Index high : a.high) pads.push_back(high);
    if (*std::min_element(pads.begin(), pads.end()) < 0) {  // x is cut first
      Shape low{0, 0}, high{0, 0};
      for (std::size_t k = 0; k < spatial; ++k) {
        low.push_back(std::min<Index>(a.low[k], 0));
        high.push_back(std::min<Index>(a.high[k], 0));
      }
      x = c.b.pad(x, low, high, 0.);
      if (c.id() == OpId::argmax_pool)
        fail<TransformError>("write_onnx: argmax_pool with negative padding cannot be written as ONNX");
      for (Index& width : pads) width = std::max<Index>(width, 0);
    }
    const Shape shape = flat(c.shape());
    const OnnxOuts both = c.b.emit("MaxPool", OnnxOuts{x}, {{nullptr, "", x.dtype, shape}, {nullptr, "", int64, shape}},
                                   {onnx_attribute("kernel_shape", a.windows), onnx_attribute("strides", a.strides),
                                    onnx_attribute("dilations", a.dilations), onnx_attribute("pads", pads)});
    if (c.id() == OpId::max_pool) return {c.b.cast(c.b.reshape(both[0], c.shape()), c.dtype())};
    const Index pixels = Shape(std::span<const Index>(x.shape).subspan(2)).elements();
    const OnnxOut at = c.b.binary("Mod", both[1], c.b.number(pixels, int64));
    return {c.b.cast(c.b.reshape(at, c.shape()), c.dtype())};
  }

  // ---- attention: see AttentionAttributes -------------------------------------------------------

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static OnnxOut sum(OnnxBuilder& b, const OnnxOut& x) { return b.along("ReduceSum", x, x.last_axis()); }

  struct Scores {
    OnnxOut values;
    std::optional<OnnxOut> takes_part;
  };
  static Scores scores(C c, const OnnxOut& q, const OnnxOut& k, std::size_t mask) {
    const auto& a = c.as<AttentionAttributes>();
    Scores found{product(c.b, q, transposed(c.b, k)) * a.scale, {}};
    const auto keep = [&](const OnnxOut& condition) {
      found.takes_part = found.takes_part ? *found.takes_part && condition : condition;
    };
    if (mask < c.inputs.size() && c.in(mask).dtype == bool_) keep(c.in(mask));
    else if (mask < c.inputs.size()) found.values = found.values + c.b.cast(c.in(mask), found.values.dtype);
    if (a.causal) {
      const Shape& shape = found.values.shape;
      const Index queries = shape[shape.size() - 2], keys = shape.back();
      const OnnxOut query = c.b.constant(expand_dims(arange(0, queries, 1, int64), 1)),
                    key = c.b.constant(arange(0, keys, 1, int64));
      keep(key <= query);
    }
    if (found.takes_part) found.values = c.b.where(*found.takes_part, found.values, c.b.like(found.values, -infinity));
    return found;
  }
  static OnnxOuts attention(C c) {
    const OnnxOut s = scores(c, wide(c, 0), wide(c, 1), 3).values;
    const OnnxOut largest = c.b.along("ReduceMax", s, s.last_axis()), is_empty = largest == -infinity;
    const OnnxOut base = c.b.where(is_empty, c.b.like(largest, 0), largest), e = c.b.unary("Exp", s - base);
    const OnnxOut divisor = c.b.where(is_empty, c.b.like(largest, 1), sum(c.b, e));
    const OnnxOut out = product(c.b, e, wide(c, 2)) / divisor,
                  total = c.b.without_last(base + c.b.unary("Log", divisor));
    return {c.b.cast(out, c.dtype(0)), c.b.cast(total, c.dtype(1))};
  }
  static OnnxOuts attention_gradient(C c) {
    const auto& a = c.as<AttentionAttributes>();
    const OnnxOut q = wide(c, 0), k = wide(c, 1), v = wide(c, 2), ct = wide(c, 4);
    const Scores s = scores(c, q, k, 6);
    OnnxOut p = c.b.unary("Exp", s.values - c.b.with_last(wide(c, 3)));
    if (s.takes_part) p = c.b.where(*s.takes_part, p, c.b.like(p, 0));
    const OnnxOut relative = product(c.b, ct, transposed(c.b, v)) + c.b.with_last(wide(c, 5));
    const OnnxOut t = write_onnx_elementwise(c.b, OpId::scale, p, relative);
    const OnnxOut by_q = product(c.b, t, k) * a.scale, by_k = product(c.b, transposed(c.b, t), q) * a.scale,
                  by_v = product(c.b, transposed(c.b, p), ct);
    return {c.b.cast(by_q, c.dtype(0)), c.b.cast(by_k, c.dtype(1)), c.b.cast(by_v, c.dtype(2))};
  }
};

OnnxOuts determinant(const OnnxWriting& c) { return {c.b.emit("Det", {c.in()}, c.dtype(), c.shape())}; }

}  // namespace

OnnxRule onnx_rule_of_products(OpId id) {
  switch (id) {
    case OpId::matmul: return ProductRules::matmul;
    case OpId::convolution: return ProductRules::convolution;
    case OpId::max_pool:
    case OpId::argmax_pool: return ProductRules::pool;
    case OpId::attention: return ProductRules::attention;
    case OpId::attention_gradient: return ProductRules::attention_gradient;
    case OpId::det: return determinant;
    default: return nullptr;
  }
}

}  // namespace stave_detail
