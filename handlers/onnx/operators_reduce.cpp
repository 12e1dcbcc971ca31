// Reductions, positions of extremes, cumulative sums and products, and the largest entries.
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/search.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

using ReduceFunction = Tensor(const Tensor&, const Axes&, KeepDims);

// `by_input` is the first opset in which the axes are an input; before, they are an attribute.
// Results have the dtype of the operand.
template <ReduceFunction function, Index by_input = 18>
Tensor reduced(const NodeCall& n) {
  const Tensor& x = n(0);
  const KeepDims keep(n.integer("keepdims", 1) != 0);
  std::vector<Index> axes;
  axes = n.integers("axes", 1, by_input).value_or(axes);
  if (axes.empty() && n.integer("noop_with_empty_axes", 0) != 0)
    return astype(function(x, Axes(Shape()), keep), x.dtype());
  return astype(function(x, axes.empty() ? all_axes : Axes(axes), keep), x.dtype());
}

// The extreme of no elements is that of the dtype.
template <bool largest>
Tensor extreme(const Tensor& x, const Axes& axes, KeepDims keep) {
  if (x.size() > 0 || x.dtype() == bool_) return largest ? (max)(x, axes, keep) : (min)(x, axes, keep);
  return full_like(sum(x, axes, keep), largest ? least_of(x.dtype()) : greatest_of(x.dtype()), x.dtype());
}

Tensor sum_of_squares(const Tensor& x, const Axes& axes, KeepDims keep) { return sum(square(x), axes, keep); }
Tensor sum_of_sizes(const Tensor& x, const Axes& axes, KeepDims keep) { return sum(abs(x), axes, keep); }
Tensor log_of_sum(const Tensor& x, const Axes& axes, KeepDims keep) { return log(sum(x, axes, keep)); }
Tensor log_of_sum_of_exp(const Tensor& x, const Axes& axes, KeepDims keep) {
  if (x.size() == 0) return log(sum(x, axes, keep));  // of no elements
  return logsumexp(x, axes, keep);
}

template <Tensor (*function)(const Tensor&, Index, KeepDims)>
Tensor position(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index axis = n.integer("axis", 0);
  const KeepDims keep(n.integer("keepdims", 1) != 0);
  if (n.integer("select_last_index", 0) == 0) return as_int64(function(x, axis, keep));
  return (x.shape(axis) - 1) - as_int64(function(flip(x, axis), axis, keep));
}

template <Tensor (*function)(const Tensor&, Index, CumulativeOptions)>
Tensor cumulative(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index axis = normalize_axis(n.integer(1), x.rank(), "axis");
  const bool reverse = n.integer("reverse", 0) != 0, exclusive = n.integer("exclusive", 0) != 0;
  Tensor all = function(x, axis, {.include_initial = exclusive, .reverse = reverse});
  if (exclusive) {  // without the result of all elements
    std::vector<Tensor::Subscript> entries(static_cast<std::size_t>(x.rank()), slice());
    entries[static_cast<std::size_t>(axis)] = reverse ? slice(1, none) : slice(none, -1);
    all = all(entries);
  }
  return astype(all, x.dtype());
}

OnnxValues largest(const NodeCall& n) {
  const Index k = n.opset() < 10 ? n.integer("k") : n.integer(1);
  const auto [values, positions] = topk(n(0), k, n.integer("axis", -1), {.largest = n.integer("largest", 1) != 0});
  return results({values, as_int64(positions)});
}

constexpr OnnxOperator reduce_rows[] = {
    {"ArgMax", 1, position<argmax>},
    {"ArgMin", 1, position<argmin>},
    {"CumProd", 26, cumulative<cumulative_prod>},
    {"CumSum", 11, cumulative<cumulative_sum>},
    {"ReduceL1", 1, reduced<sum_of_sizes>},
    {"ReduceL2", 1, reduced<norm>},
    {"ReduceLogSum", 1, reduced<log_of_sum>},
    {"ReduceLogSumExp", 1, reduced<log_of_sum_of_exp>},
    {"ReduceMax", 1, reduced<extreme<true>>},
    {"ReduceMean", 1, reduced<mean>},
    {"ReduceMin", 1, reduced<extreme<false>>},
    {"ReduceProd", 1, reduced<prod>},
    {"ReduceSum", 1, reduced<sum, 13>},
    {"ReduceSumSquare", 1, reduced<sum_of_squares>},
    {"TopK", 1, largest},
};

}  // namespace

std::span<const OnnxOperator> onnx_reduce() { return reduce_rows; }

}  // namespace stave_detail
