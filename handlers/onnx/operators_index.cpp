// Reading and writing at computed positions.
#include <stave/core/ops/index.h>

#include <algorithm>
#include <numeric>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/sort.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

using ScatterFunction = Tensor(const Tensor&, const Tensor&, const Tensor&, Index);

Tensor scattered(const NodeCall& n, const Tensor& x, const Tensor& indices, const Tensor& updates) {
  const std::string reduction = n.text("reduction", "none");
  ScatterFunction* const function = reduction == "none"  ? scatter
                                    : reduction == "add" ? scatter_add
                                    : reduction == "mul" ? scatter_multiply
                                    : reduction == "max" ? scatter_max
                                    : reduction == "min" ? scatter_min
                                                         : nullptr;
  if (!function) n.refuse("there is no reduction '{}'", reduction);
  return astype(function(x, indices, updates, 0), x.dtype());
}

// All coordinates of elements: along `axis` those of `indices`, along other axes their own.
Tensor coordinates(const Tensor& indices, Index axis) {
  std::vector<Tensor> all;
  for (Index other = 0; other < indices.rank(); ++other) {
    if (other == axis) {
      all.push_back(as_int64(indices));
      continue;
    }
    const Tensor along = vector_along(arange(0, indices.shape(other), 1, int64), other, indices.rank());
    all.push_back(broadcast_to(along, indices.shape()));
  }
  return stack(all, -1);
}

Tensor gather_elements(const NodeCall& n) {
  const Index axis = normalize_axis(n.integer("axis", 0), n(0).rank(), "axis");
  return gather(n(0), coordinates(n(1), axis));
}

Tensor scatter_elements(const NodeCall& n) {
  const Index axis = normalize_axis(n.integer("axis", 0), n(0).rank(), "axis");
  return scattered(n, n(0), coordinates(n(1), axis), n(2));
}

// Writes entries into a cache, from a position on that differs for each example.
Tensor tensor_scatter(const NodeCall& n) {
  const Tensor &cache = n(0), &update = n(1);
  const Index axis = normalize_axis(n.integer("axis", -2), cache.rank(), "axis");
  Tensor positions = vector_along(arange(0, update.shape(axis), 1, int64), axis, cache.rank());
  if (n.has(2)) positions = positions + vector_along(as_int64(n(2)), 0, cache.rank());
  const std::string mode = n.text("mode", "linear");
  if (mode == "circular") positions = positions % cache.shape(axis);
  else if (mode != "linear") n.refuse("there is no mode '{}'", mode);
  return scatter(cache, coordinates(broadcast_to(positions, update.shape()), axis), update);
}

Tensor one_hot_values(const NodeCall& n) {
  const Index depth = is_float(n(1).dtype()) ? static_cast<Index>(n.fixed_number(1)) : n.integer(1);
  const Tensor indices = as_int64(n(0));
  const Index axis = normalize_axis(n.integer("axis", -1), indices.rank() + 1, "axis");
  const Tensor places = vector_along(arange(0, depth, 1, int64), axis, indices.rank() + 1);
  const Tensor hot = expand_dims(where(indices < 0, indices + depth, indices), axis) == places;
  return where(hot, n(2)[1], n(2)[0]);
}

Tensor compressed(const NodeCall& n) {
  const std::vector<Index> condition = n.integers(1);
  std::vector<Index> chosen;
  for (std::size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) chosen.push_back(static_cast<Index>(i));
  if (!n.has("axis")) return take(reshape(n(0), -1), from(chosen));
  return take(n(0), from(chosen), n.integer("axis", 0));
}

Tensor nonzero_positions(const NodeCall& n) {
  const Tensor& x = n(0);
  if (x.rank() == 0) return zeros({0, bool(x != 0) ? 1 : 0}, int64);
  return as_int64(stack(nonzero(x)));
}

OnnxValues unique_entries(const NodeCall& n) {
  const Tensor& x = n(0);
  const bool along = n.has("axis");
  const Index axis = along ? n.integer("axis") : 0;
  UniqueAll found = along ? unique_all(x, axis) : unique_all(x);
  if (n.integer("sorted", 1) == 0) {  // in the order of the first occurrences
    const Tensor order = argsort(found.indices);
    found.values = take(found.values, order, axis);
    found.indices = take(found.indices, order);
    found.counts = take(found.counts, order);
    found.inverse_indices = take(argsort(order), found.inverse_indices);
  }
  return results(
      {found.values, as_int64(found.indices), as_int64(reshape(found.inverse_indices, -1)), as_int64(found.counts)});
}

// Reverses the first entries of each example, as many as its length.
Tensor reverse_sequence(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index batch = normalize_axis(n.integer("batch_axis", 1), x.rank(), "batch_axis"),
              time = normalize_axis(n.integer("time_axis", 0), x.rank(), "time_axis");
  Shape steps(std::vector<Index>(static_cast<std::size_t>(x.rank()), 1)), examples = steps;
  steps[static_cast<std::size_t>(time)] = x.shape(time);
  examples[static_cast<std::size_t>(batch)] = x.shape(batch);
  const Tensor t = reshape(arange(0, x.shape(time), 1, int64), steps), length = reshape(as_int64(n(1)), examples);
  return take_along_axis(x, where(t < length, length - 1 - t, t), time);
}

constexpr OnnxOperator index_rows[] = {
    {"Compress", 9, compressed},
    {"Gather", 1, [](const NodeCall& n) { return take(n(0), n(1), n.integer("axis", 0)); }},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, [](const NodeCall& n) { return gather(n(0), n(1), n.integer("batch_dims", 0)); }},
    {"NonZero", 9, nonzero_positions},
    {"OneHot", 9, one_hot_values},
    {"ReverseSequence", 10, reverse_sequence},
    {"Scatter", 9, scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND", 11, [](const NodeCall& n) { return scattered(n, n(0), n(1), n(2)); }},
    {"TensorScatter", 24, tensor_scatter},
    {"Unique", 11, unique_entries},
};

}  // namespace

std::span<const OnnxOperator> onnx_index() { return index_rows; }

}  // namespace stave_detail
