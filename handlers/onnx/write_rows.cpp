// Reductions, sorting, scans, softmax and layer_norm as nodes of ONNX. The formulas of gradients
// are those of core/program/stablehlo_rows.cpp.
#include <limits>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/handlers/onnx/write_rules.h>

namespace stave_detail {

namespace {

struct RowRules {
  using C = const OnnxWriting&;

  static OnnxOut wide(C c, std::size_t i = 0) { return c.b.cast(c.in(i), computed(c.in(i).dtype)); }
  static Dtype computed(Dtype dtype) { return dtype == bool_ ? int32 : onnx_computed(dtype); }
  static OnnxOut sum(OnnxBuilder& b, const OnnxOut& x, std::size_t axis) { return b.along("ReduceSum", x, axis); }
  // 0 where either factor is 0.
  static OnnxOut scale(OnnxBuilder& b, const OnnxOut& x, const OnnxOut& y) {
    return write_onnx_elementwise(b, OpId::scale, x, y);
  }

  static OnnxOuts reduction(C c) {
    const auto& a = c.as<ReduceAttributes>();
    const char* const op = c.id() == OpId::sum                          ? "ReduceSum"
                           : c.id() == OpId::prod                       ? "ReduceProd"
                           : c.id() == OpId::max || c.id() == OpId::any ? "ReduceMax"
                                                                        : "ReduceMin";
    OnnxOut x = c.in();
    if (x.shape.elements() == 0) {  // the result of no elements
      const bool is_one = c.id() == OpId::prod || c.id() == OpId::all;
      return {c.b.expand(c.b.number(is_one ? 1 : 0, c.dtype()), c.shape())};
    }
    if (c.id() == OpId::all || c.id() == OpId::any) x = c.b.cast(c.b.cast(x, bool_), int32);
    const OnnxOut reduced = c.b.reduce(op, c.b.cast(x, computed(x.dtype)), a.axes, a.keepdims);
    return {c.b.cast(reduced, c.dtype())};
  }
  static OnnxOuts position(C c) {
    const auto& a = c.as<ReduceAttributes>();
    OnnxOut x = wide(c);
    Index axis = a.axes.empty() ? 0 : a.axes[0];
    if (a.axes.size() != 1) {
      x = c.b.reshape(x, {x.shape.elements()});
      axis = 0;
    }
    Shape kept = x.shape;
    kept[static_cast<std::size_t>(axis)] = 1;
    const OnnxOut at =
        c.b.emit(c.id() == OpId::argmax ? "ArgMax" : "ArgMin", {x}, int64, kept, {onnx_attribute("axis", axis)});
    return {c.b.cast(c.b.reshape(at, c.shape()), c.dtype())};
  }

  // The first k values or positions in the order of sorting.
  static OnnxOut in_order(C c, std::size_t axis, Index k, bool largest, bool positions) {
    const OnnxOut x = wide(c);
    Shape shape = x.shape;
    shape[axis] = k;
    const OnnxOuts both =
        c.b.emit("TopK", OnnxOuts{x, c.b.int64s({k})}, {{nullptr, "", x.dtype, shape}, {nullptr, "", int64, shape}},
                 {onnx_attribute("axis", static_cast<Index>(axis)), onnx_attribute("largest", Index{largest})});
    return c.b.cast(both[positions ? 1 : 0], c.dtype());
  }
  static OnnxOuts sort(C c) {
    const auto& a = c.as<SortAttributes>();
    const auto axis = static_cast<std::size_t>(a.axis);
    return {in_order(c, axis, c.in().shape[axis], a.descending, c.id() == OpId::argsort)};
  }
  static OnnxOuts argtopk(C c) {
    const auto& a = c.as<TopkAttributes>();
    return {in_order(c, static_cast<std::size_t>(a.axis), a.k, true, true)};
  }
  static OnnxOuts cumulative_sum(C c) {
    const auto& a = c.as<ScanAttributes>();
    const OnnxOut x = c.b.cast(c.in(), onnx_computed(c.dtype())), axis = c.b.number(Index{a.axis}, int64);
    return {c.b.cast(c.b.emit("CumSum", {x, axis}, x.dtype, x.shape, {onnx_attribute("reverse", Index{a.reverse})}),
                     c.dtype())};
  }

  // ---- softmax ----------------------------------------------------------------------------------

  static OnnxOuts softmax(C c) {
    const Index axis = c.as<AxisAttributes>().axis;
    const OnnxOut x = wide(c);
    const char* const op = c.id() == OpId::softmax ? "Softmax" : "LogSoftmax";
    return {c.b.cast(c.b.emit(op, {x}, x.dtype, x.shape, {onnx_attribute("axis", axis)}), c.dtype())};
  }
  static OnnxOuts logsumexp(C c) {
    return {c.b.cast(c.b.reduce("ReduceLogSumExp", wide(c), {Index{c.as<AxisAttributes>().axis}}, true), c.dtype())};
  }
  static OnnxOuts softmax_gradient(C c) {
    const OnnxOut y = wide(c, 0), ct = wide(c, 1);
    return {c.b.cast(scale(c.b, y, ct - sum(c.b, scale(c.b, y, ct), y.last_axis())), c.dtype())};
  }
  static OnnxOuts log_softmax_gradient(C c) {
    const OnnxOut x = wide(c, 0), ct = wide(c, 1);
    const OnnxOut p = c.b.emit("Softmax", {x}, x.dtype, x.shape, {onnx_attribute("axis", Index{-1})});
    return {c.b.cast(ct - scale(c.b, sum(c.b, ct, ct.last_axis()), p), c.dtype())};
  }

  // ---- layer_norm: see NormAttributes -----------------------------------------------------------

  struct Normalized {
    OnnxOut h, r;
  };
  static OnnxOut mean(OnnxBuilder& b, const OnnxOut& x) { return b.along("ReduceMean", x, x.last_axis()); }
  static Normalized normalized(OnnxBuilder& b, const OnnxOut& x, double epsilon) {
    const OnnxOut off = x - mean(b, x), inverse = b.unary("Reciprocal", b.unary("Sqrt", mean(b, off * off) + epsilon));
    const OnnxOut r = b.where(inverse == std::numeric_limits<double>::infinity(), b.like(inverse, 1), inverse);
    return {off * r, r};
  }
  static OnnxOuts layer_norm(C c) {
    return {wide(c, 1) * normalized(c.b, wide(c), c.as<NormAttributes>().epsilon).h + wide(c, 2)};
  }
  static OnnxOuts layer_norm_gradient(C c) {
    const OnnxOut x = wide(c), ct = wide(c, 2), u = scale(c.b, wide(c, 1), ct);
    const Normalized rows = normalized(c.b, x, c.as<NormAttributes>().epsilon);
    Shape outer;
    for (std::size_t k = 0; k + 1 < x.shape.size(); ++k) outer.push_back(static_cast<Index>(k));
    const OnnxOut rest = u - mean(c.b, u) - rows.h * mean(c.b, scale(c.b, rows.h, u));
    return {rows.r * rest, c.b.reduce("ReduceSum", scale(c.b, ct, rows.h), outer, false),
            c.b.reduce("ReduceSum", ct, outer, false)};
  }
};

}  // namespace

OnnxRule onnx_rule_of_rows(OpId id) {
  switch (id) {
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min:
    case OpId::all:
    case OpId::any: return RowRules::reduction;
    case OpId::argmax:
    case OpId::argmin: return RowRules::position;
    case OpId::sort:
    case OpId::argsort: return RowRules::sort;
    case OpId::argtopk: return RowRules::argtopk;
    case OpId::cumulative_sum: return RowRules::cumulative_sum;
    case OpId::softmax:
    case OpId::log_softmax: return RowRules::softmax;
    case OpId::logsumexp: return RowRules::logsumexp;
    case OpId::softmax_gradient: return RowRules::softmax_gradient;
    case OpId::log_softmax_gradient: return RowRules::log_softmax_gradient;
    case OpId::layer_norm: return RowRules::layer_norm;
    case OpId::layer_norm_gradient: return RowRules::layer_norm_gradient;
    default: return nullptr;
  }
}

}  // namespace stave_detail
