#include <stave/handlers/vmap.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/label.h>
#include <stave/core/note.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>

namespace stave_detail {
namespace {

// What stands behind a lane's value.
struct Lanes {
  Tensor batched;  // the batch is axis 0
  const Tensor* physical() const noexcept { return batched.defined() ? &batched : nullptr; }
  void labelled(const NamePtr& name) { batched = relabel(std::move(batched), name); }
};

class VmapHandler final : public Handler {
 public:
  explicit VmapHandler(Index size) : size_(size) {}

  Outputs handle(Call& call) override {
    Inputs inputs;
    SmallVector<bool, 4> batched;
    bool any = false;
    for (const Tensor& input : call.inputs()) {
      const Lanes* lanes = notes.find(input);
      inputs.push_back(lanes ? lanes->batched : input);
      batched.push_back(lanes != nullptr);
      any |= lanes != nullptr;
    }
    if (!any) return perform(std::move(call));
    if (!call.op().batch)
      fail<TransformError>("vmap: the operation {} has no batching rule: give it one, or compute it outside of vmap",
                           call.op().name);
    Outputs outputs = call.op().batch(BatchContext{call, inputs, batched, size_});
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = lane(std::move(outputs[i]), call, i);
    return outputs;
  }
  std::string describe() const override { return fmt::format("vmap over {} lanes", size_); }

  // The value of one lane, of which `batched` holds all.
  Tensor lane(Tensor batched) const {
    Shape shape(std::span<const Index>(batched.shape().begin() + 1, batched.shape().end()));
    Strides strides = contiguous_strides(shape);
    auto node = NodePtr(new Node(batched.dtype(), batched.device(), std::move(shape), std::move(strides), nullptr));
    return notes.put(Tensor(std::move(node)), Lanes{std::move(batched)});
  }

  Notes<Lanes> notes{"vmap"};

 private:
  Tensor lane(Tensor batched, const Call& call, std::size_t i) const {
    const Abstract& expected = call.abstract_outputs()[i];
    if (batched.rank() != expected.shape.rank() + 1 || batched.shape()[0] != size_ ||
        batched.dtype() != expected.dtype ||
        !std::equal(expected.shape.begin(), expected.shape.end(), batched.shape().begin() + 1))
      fail<TransformError>("the batching rule of {} gave {} {} for {} lanes of {} {}", call.op().name, batched.dtype(),
                           batched.shape(), size_, expected.dtype, expected.shape);
    return lane(std::move(batched));
  }

  Index size_;
};

Index lanes_of(const Tensor& input, MapAxis axis, int argument) {
  if (input.rank() == 0)
    fail<ShapeError>("vmap: argument {} has rank 0 and no axis to map: give `unmapped` for it in in_axes", argument);
  if (axis.axis < -input.rank() || axis.axis >= input.rank())
    fail<IndexError>("vmap: in_axes gives axis {} for argument {}, which has shape {}", axis.axis, argument,
                     input.shape());
  return input.shape(axis.axis);
}

Index lane_count(std::span<const Tensor> inputs, std::span<const MapAxis> in_axes, std::span<const int> arguments,
                 std::optional<Index> size) {
  int first = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!in_axes[i].mapped) continue;
    const Index lanes = lanes_of(inputs[i], in_axes[i], arguments[i]);
    if (size && *size != lanes) {
      if (first < 0)
        fail<ShapeError>("vmap: axis_size is {}, but argument {} of shape {} has {} lanes along axis {}", *size,
                         arguments[i], inputs[i].shape(), lanes, in_axes[i].axis);
      const auto f = static_cast<std::size_t>(first);
      fail<ShapeError>(
          "vmap: arguments disagree on the number of lanes: argument {} of shape {} has {} along axis {}, "
          "argument {} of shape {} has {} along axis {}",
          arguments[f], inputs[f].shape(), *size, in_axes[f].axis, arguments[i], inputs[i].shape(), lanes,
          in_axes[i].axis);
    }
    if (first < 0) first = static_cast<int>(i);
    size = lanes;
  }
  if (!size) fail<ShapeError>("vmap: no argument is mapped: map one in in_axes, or give axis_size");
  if (*size < 0) fail<ShapeError>("vmap: axis_size is {}", *size);
  return *size;
}

}  // namespace

MapAxis axis_of(const MapAxes& axes, std::size_t i, std::size_t count, const char* what) {
  if (axes.list.size() != 1 && axes.list.size() != count)
    fail<TransformError>("vmap: {} has {} entries for {} {}", what, axes.list.size(), count,
                         std::string_view(what) == "in_axes" ? "arguments" : "results");
  return axes.list[axes.list.size() == 1 ? 0 : i];
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

FlatVmap vmap_flat(FlatFunction f, std::span<const Tensor> inputs, std::span<const MapAxis> in_axes,
                   std::span<const int> arguments, std::optional<Index> size) {
  FlatVmap result;
  result.size = lane_count(inputs, in_axes, arguments, size);
  VmapHandler handler(result.size);
  std::vector<Tensor> lanes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_axes[i].mapped)
      lanes.push_back(relabel(handler.lane(moveaxis(inputs[i], in_axes[i].axis, 0)), label_of(inputs[i].node())));
    else lanes.push_back(clone_node(inputs[i]));
  }
  result.outputs = with(handler, [&] { return f(lanes); });
  check_results(result.outputs, "vmap");
  for (Tensor& output : result.outputs) {
    const Lanes* found = handler.notes.find(output);
    result.batched.push_back(found != nullptr);
    if (found) output = Tensor(found->batched);
  }
  return result;
}

Tensor vmap_output(const FlatVmap& result, std::size_t i, MapAxis axis) {
  const Tensor& output = result.outputs[i];
  if (!axis.mapped) {
    if (result.batched[i])
      fail<TransformError>("vmap: out_axes says `unmapped` for result {}, but it differs between lanes", i);
    return output;
  }
  const int rank = output.rank() + (result.batched[i] ? 0 : 1);
  if (axis.axis < -rank || axis.axis >= rank)
    fail<IndexError>("vmap: out_axes gives axis {} for result {}, which has rank {} with its lanes", axis.axis, i,
                     rank);
  if (result.batched[i]) return moveaxis(output, 0, axis.axis);
  Shape shape = output.shape();
  shape.insert(shape.begin(), result.size);
  return moveaxis(broadcast_to(output, shape), 0, axis.axis);
}

}  // namespace stave
