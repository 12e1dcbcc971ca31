#include <stave/handlers/transforms/vmap.h>

#include <algorithm>

#include <stave/core/op/function.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>

namespace stave_detail {
namespace {

Index lanes_of(const Tensor& input, MapAxis axis, std::size_t i, InputNames names) {
  if (input.rank() == 0)
    fail<ShapeError>("vmap: {} has rank 0 and no axis to map: give `unmapped` for it in in_axes", names(i));
  if (axis.axis < -input.rank() || axis.axis >= input.rank())
    fail<IndexError>("vmap: in_axes gives axis {} for {}, which has shape {}", axis.axis, names(i), input.shape());
  return input.shape(axis.axis);
}

Index lane_count(std::span<const Tensor> inputs, std::span<const MapAxis> in_axes, std::optional<Index> size,
                 InputNames names) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!in_axes[i].mapped) continue;
    const Index lanes = lanes_of(inputs[i], in_axes[i], i, names);
    if (size && *size != lanes) {
      if (!first)
        fail<ShapeError>("vmap: axis_size is {}, but {} of shape {} has {} lanes along axis {}", *size, names(i),
                         inputs[i].shape(), lanes, in_axes[i].axis);
      fail<ShapeError>(
          "vmap: arguments disagree on the number of lanes: {} of shape {} has {} along axis {}, "
          "{} of shape {} has {} along axis {}",
          names(*first), inputs[*first].shape(), *size, in_axes[*first].axis, names(i), inputs[i].shape(), lanes,
          in_axes[i].axis);
    }
    if (!first) first = i;
    size = lanes;
  }
  if (!size) fail<ShapeError>("vmap: no argument is mapped: map one in in_axes, or give axis_size");
  if (*size < 0) fail<ShapeError>("vmap: axis_size is {}", *size);
  return *size;
}

}  // namespace

void fail_other_lanes(bool comparable) {
  if (comparable)
    fail<TransformError>(
        "vmap: lanes took different paths, and the function's results differ in a part that is not a tensor, or in "
        "their structure: return tensors for values that differ between lanes");
  fail<TransformError>(
      "vmap: lanes took different paths, and the function's result holds a part that is not a tensor and cannot be "
      "compared by ==: that part would be the value of a single lane");
}

void fail_used_up() {
  fail<TransformError>(
      "vmap: lanes take different paths, so the function runs again, but an argument was moved into it that cannot be "
      "copied: pass it by reference, or let the function capture it");
}

void check_axes(const MapAxes& axes, std::size_t children, const char* what, const std::string& where) {
  if (axes.list.size() > 1 && axes.list.size() != children)
    fail<TransformError>("vmap: {} has {} entries for {} {}", what, axes.list.size(), children, where);
}

void LeafAxes::add(const MapAxes& prefix, bool is_key) {
  const MapAxes* axes = &prefix;
  for (; !axes->list.empty(); axes = &axes->list[0]) check_axes(*axes, 1, what, "tensor");
  this->axes.push_back(is_key ? axes->axis.of_keys() : axes->axis);
  are_keys.push_back(is_key);
}

void check_mapped_keys(std::span<const Tensor> inputs, std::span<const MapAxis> axes, const std::vector<bool>& are_keys,
                       InputNames names) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (are_keys[i] && axes[i].mapped && inputs[i].rank() == 1)
      fail<TransformError>(
          "vmap: {} is one key: give `unmapped` for it in in_axes, and all lanes draw the same, or give a key for "
          "each, as split(key, lanes)",
          names(i));
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

FlatVmap vmap_flat(FlatFunction f, std::span<const Tensor> inputs, std::span<const MapAxis> in_axes,
                   std::optional<Index> size, InputNames names, const std::string& axis_name) {
  FlatVmap result;
  result.size = lane_count(inputs, in_axes, size, names);
  const auto vmap = std::make_shared<const Vmap>(result.size, axis_name);
  std::vector<Tensor> lanes;
  std::vector<bool> mapped;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    mapped.push_back(in_axes[i].mapped);
    if (mapped.back()) lanes.push_back(relabel(moveaxis(inputs[i], in_axes[i].axis, 0), label_of(inputs[i].node())));
    else lanes.push_back(clone_node(inputs[i]));
  }
  PathRun run(vmap, vmap->all, PathRun::Kind::vmap);
  const auto checked = [&](std::span<const Tensor> values) {
    Outputs found = f(values);
    check_results(found, "vmap");
    return found;
  };
  PathRun::Results results = vmap->notes.run([&] { return run(checked, lanes, mapped); });
  result.outputs = std::move(results.outputs);
  for (const bool batched : results.batched) result.batched.push_back(batched);
  result.divided = results.divided;
  return result;
}

Outputs vmap_outputs(const FlatVmap& result, std::span<const MapAxis> axes) {
  Outputs outputs;
  for (std::size_t i = 0; i < axes.size(); ++i) outputs.push_back(vmap_output(result, i, axes[i]));
  return outputs;
}

Tensor vmap_output(const FlatVmap& result, std::size_t i, MapAxis axis) {
  const Tensor& output = result.outputs[i];
  if (!axis.mapped) {
    if (!result.batched[i]) return output;
    if (!result.divided || !HostRows(output, result.size).agree())
      fail<TransformError>("vmap: out_axes says `unmapped` for result {}, but it differs between lanes", i);
    return output[0];
  }
  const int rank = output.rank() + (result.batched[i] ? 0 : 1);
  if (axis.axis < -rank || axis.axis >= rank)
    fail<IndexError>("vmap: out_axes gives axis {} for result {}, which has rank {} with its lanes", axis.axis, i,
                     rank);
  if (result.batched[i]) return moveaxis(output, 0, axis.axis);
  return moveaxis(broadcast_lanes(output, result.size), 0, axis.axis);
}

}  // namespace stave
