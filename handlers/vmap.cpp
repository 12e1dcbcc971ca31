#include <stave/handlers/vmap.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/label.h>
#include <stave/core/note.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/function.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/tape.h>

namespace stave_detail {
namespace {

// What stands behind a lane's value.
struct Lanes {
  Tensor batched;  // the batch is axis 0
  const Tensor* physical() const noexcept { return batched.defined() ? &batched : nullptr; }
  void labelled(const NamePtr& name) { batched = relabel(std::move(batched), name); }
};

class VmapHandler final : public Handler, public std::enable_shared_from_this<VmapHandler> {
 public:
  explicit VmapHandler(Index size) : size_(size) {}

  Outputs handle(Call& call) override {
    if (call.op().carries_functions) [[unlikely]]
      return handle_carrying(call);
    const auto is_lane = [&](const Tensor& x) { return notes.find(x) != nullptr; };
    if (std::none_of(call.inputs().begin(), call.inputs().end(), is_lane)) return perform(std::move(call));
    Inputs inputs;
    SmallVector<bool, 4> batched;
    for (const Tensor& input : call.inputs()) {
      const Lanes* lanes = notes.find(input);
      inputs.push_back(lanes ? lanes->batched : input);
      batched.push_back(lanes != nullptr);
    }
    if (!call.op().batch)
      fail<TransformError>("vmap: the operation {} has no batching rule: give it one, or compute it outside of vmap",
                           call.op().name);
    Outputs outputs = call.op().batch(BatchContext{call, inputs, batched, size_});
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = lane(std::move(outputs[i]), call, i);
    return outputs;
  }
  bool discreet() const noexcept override { return true; }
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
  Outputs handle_carrying(Call& call);
  Outputs custom_vmap(Call& call, std::span<const Tensor> inputs, const std::vector<bool>& is_batched);
  FunctionAttributes lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                            std::shared_ptr<bool> outputs_batched);
  Inputs lanes(std::span<const Tensor> physical, const std::vector<bool>& batched) const;
  // What stands behind a value, and whether that carries the lanes.
  std::pair<Tensor, bool> behind(const Tensor& x) const {
    const Lanes* found = notes.find(x);
    return {found ? found->batched : x, found != nullptr};
  }
  // Behind each; all carry the lanes if one does, or `all`. Says so in `all`.
  Outputs behind_all(std::span<const Tensor> values, bool& all) const;
  auto run_lanes(const auto& function, std::span<const Tensor> inputs) {
    HandlerFrame frame(current, this, this);
    UnderFrame install(&frame);
    return function(inputs);
  }

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

// ---- operations that carry functions ----
// They go on below as operations on all lanes, whose functions take what stands behind values, run under this handler on the
// lanes, and give back what stands behind the results. So captured lanes stay lanes, and what is below may run them again.

Inputs VmapHandler::lanes(std::span<const Tensor> physical, const std::vector<bool>& batched) const {
  Inputs values;
  for (std::size_t i = 0; i < physical.size(); ++i) values.push_back(batched[i] ? lane(physical[i]) : physical[i]);
  return values;
}

Outputs VmapHandler::behind_all(std::span<const Tensor> values, bool& all) const {
  for (const Tensor& value : values) all |= notes.find(value) != nullptr;
  Outputs result;
  for (const Tensor& value : values) {
    const auto [physical, batched] = behind(value);
    result.push_back(all && !batched ? broadcast_lanes(physical, size_) : physical);
  }
  return result;
}

FunctionAttributes VmapHandler::lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                                       std::shared_ptr<bool> outputs_batched) {
  const auto self = shared_from_this();
  const auto residuals_batched = std::make_shared<std::vector<bool>>();
  FunctionAttributes lifted;
  lifted.function = [=, function = functions.function](std::span<const Tensor> xs) {
    const Outputs outputs = self->run_lanes(function, self->lanes(xs, batched));
    return self->behind_all(outputs, *outputs_batched);
  };
  if (functions.forward)
    lifted.forward = [=, forward = functions.forward](std::span<const Tensor> xs) {
      const Forward lanes = self->run_lanes(forward, self->lanes(xs, batched));
      Forward all{self->behind_all(lanes.outputs, *outputs_batched), {}};
      residuals_batched->clear();
      for (const Tensor& residual : lanes.residuals) {
        const auto [physical, is_batched] = self->behind(residual);
        all.residuals.push_back(physical);
        residuals_batched->push_back(is_batched);
      }
      return all;
    };
  if (functions.backward)
    lifted.backward = [=, backward = functions.backward](std::span<const Tensor> xs) {
      std::vector<bool> given = *residuals_batched;
      given.resize(xs.size(), *outputs_batched);
      Outputs cotangents = self->run_lanes(backward, self->lanes(xs, given));
      for (std::size_t i = 0; i < cotangents.size(); ++i) {
        if (!cotangents[i].defined()) continue;
        auto [physical, is_batched] = self->behind(cotangents[i]);
        if (!is_batched && (batched[i] || *outputs_batched)) physical = broadcast_lanes(physical, self->size_);
        else if (is_batched && !batched[i] && !*outputs_batched)
          fail<TransformError>("custom_vjp: under vmap, the cotangents differ between lanes, but the results do not");
        if (!batched[i] && *outputs_batched) physical = sum(physical, 0);  // every lane read the same argument
        cotangents[i] = physical;
      }
      return cotangents;
    };
  if (functions.tangents)
    lifted.tangents = [=, tangents = functions.tangents](std::span<const Tensor> xs) {
      std::vector<bool> given = batched;
      given.insert(given.end(), batched.begin(), batched.end());
      const Outputs both = self->run_lanes(tangents, self->lanes(xs, given));
      return self->behind_all(both, *outputs_batched);
    };
  if (functions.batch) {
    const auto guard = std::make_shared<UnderHandler>(forbid_captures(notes.id(), "vmap", op_custom_vmap));
    lifted.batch = wrapped(functions.batch, guard);
  }
  return lifted;
}

Outputs VmapHandler::handle_carrying(Call& call) {
  Inputs inputs;
  std::vector<bool> batched;
  for (const Tensor& input : call.inputs()) {
    const auto [physical, is_batched] = behind(input);
    inputs.push_back(physical);
    batched.push_back(is_batched);
  }
  const bool any = std::find(batched.begin(), batched.end(), true) != batched.end();
  if (any && call.op().id == OpId::custom_vmap) return custom_vmap(call, inputs, batched);
  const auto outputs_batched = std::make_shared<bool>(any);
  Outputs outputs =
      perform_carrying(call.op(), std::move(inputs), lifted(functions_of(call), std::move(batched), outputs_batched));
  if (*outputs_batched)
    for (Tensor& output : outputs) output = lane(std::move(output));
  return outputs;
}

// The rule runs below: it is a function of all lanes.
Outputs VmapHandler::custom_vmap(Call& call, std::span<const Tensor> inputs, const std::vector<bool>& is_batched) {
  const SmallVector<bool, 4> batched(is_batched.begin(), is_batched.end());
  const auto guard = std::make_shared<UnderHandler>(forbid_captures(notes.id(), "vmap", call.op()));
  Outputs outputs = wrapped(functions_of(call).batch, guard)(size_, batched, inputs);
  for (Tensor& output : outputs) {
    if (output.rank() == 0 || output.shape()[0] != size_)
      fail<ShapeError>("custom_vmap: the rule gave {} for {} lanes, which must be its axis 0", output.shape(), size_);
    output = lane(std::move(output));
  }
  return outputs;
}

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
  const auto shared = std::make_shared<VmapHandler>(result.size);
  VmapHandler& handler = *shared;
  std::vector<Tensor> lanes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_axes[i].mapped)
      lanes.push_back(relabel(handler.lane(moveaxis(inputs[i], in_axes[i].axis, 0)), label_of(inputs[i].node())));
    else lanes.push_back(clone_node(inputs[i]));
  }
  result.outputs = with(handler, [&] { return f(lanes); });
  handler.notes.owner().running = false;
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
  return moveaxis(broadcast_lanes(output, result.size), 0, axis.axis);
}

}  // namespace stave
