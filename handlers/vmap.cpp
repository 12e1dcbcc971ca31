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
  bool takes_programs() const noexcept override { return true; }
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
  FunctionAttributes lifted(const Call& call, std::vector<bool> batched, std::shared_ptr<bool> outputs_batched);
  Outputs batched_by_rule(const FunctionAttributes& functions, const std::vector<bool>& batched,
                          std::span<const Tensor> xs);
  Inputs lanes(std::span<const Tensor> physical, const std::vector<bool>& batched) const;
  // What stands behind a value, and whether that carries the lanes.
  std::pair<Tensor, bool> behind(const Tensor& x) const {
    const Lanes* found = notes.find(x);
    return {found ? found->batched : x, found != nullptr};
  }
  // Behind each; all carry the lanes if one does, or `all`. Says so in `all`.
  Outputs behind_all(std::span<const Tensor> values, bool& all) const;

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

// ---- the operation `call` ----
// It goes on below as a call on all lanes, whose functions take what stands behind values, run under this handler on the
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

FunctionAttributes VmapHandler::lifted(const Call& call, std::vector<bool> batched,
                                       std::shared_ptr<bool> outputs_batched) {
  const auto self = shared_from_this();
  const IntrusivePtr<const FunctionAttributes> of(&functions_of(call));
  const auto residuals_batched = std::make_shared<std::vector<bool>>();
  // One of the functions on the lanes of `xs`.
  const auto run_lanes = [self, of](const auto& rule, std::span<const Tensor> xs, const std::vector<bool>& given) {
    return with(self, [&] { return of->run(rule, self->lanes(xs, given)); });
  };
  const bool by_rule = of->batch && std::find(batched.begin(), batched.end(), true) != batched.end();
  FunctionAttributes lifted = *of;
  lifted.around = nullptr;
  lifted.batch = nullptr;  // of these lanes; where none is, that of the lanes below
  lifted.function = [=](std::span<const Tensor> xs) {
    if (by_rule) return self->batched_by_rule(*of, batched, xs);
    return self->behind_all(run_lanes(of->function, xs, batched), *outputs_batched);
  };
  if (of->again)
    lifted.again = [=](std::span<const Tensor> xs) {
      return self->behind_all(run_lanes(of->again, xs, batched), *outputs_batched);
    };
  if (of->forward)
    lifted.forward = [=](std::span<const Tensor> xs) {
      const Forward lanes = run_lanes(of->forward, xs, batched);
      Forward all{self->behind_all(lanes.outputs, *outputs_batched), {}};
      std::vector<bool> found;
      for (const Tensor& residual : lanes.residuals) {
        const auto [physical, is_batched] = self->behind(residual);
        all.residuals.push_back(physical);
        found.push_back(is_batched);
      }
      if (found != *residuals_batched) *residuals_batched = std::move(found);
      return all;
    };
  if (of->backward)
    lifted.backward = [=](std::span<const Tensor> xs) {
      std::vector<bool> given = *residuals_batched;
      given.resize(xs.size(), *outputs_batched);
      Outputs cotangents = run_lanes(of->backward, xs, given);
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
  if (of->tangents)
    lifted.tangents = [=](std::span<const Tensor> xs) {
      std::vector<bool> given = batched;
      given.insert(given.end(), batched.begin(), batched.end());
      return self->behind_all(run_lanes(of->tangents, xs, given), *outputs_batched);
    };
  if (of->batch && !by_rule)
    lifted.batch = [=, guarded = without_captures(*of, {notes.id()}, "vmap")](auto lanes, auto given, auto xs) {
      return guarded.run(guarded.batch, lanes, given, xs);
    };
  return lifted;
}

Outputs VmapHandler::batched_by_rule(const FunctionAttributes& functions, const std::vector<bool>& batched,
                                     std::span<const Tensor> xs) {
  const SmallVector<bool, 4> given(batched.begin(), batched.end());
  const FunctionAttributes guarded = without_captures(functions, {notes.id()}, "vmap");
  const Outputs outputs = guarded.run(guarded.batch, size_, given, xs);
  check_defined("custom_vmap", "result", outputs);
  for (const Tensor& output : outputs)
    if (output.rank() == 0 || output.shape()[0] != size_)
      fail<ShapeError>("custom_vmap: the rule gave {} for {} lanes, which must be its axis 0", output.shape(), size_);
  return outputs;
}

Outputs VmapHandler::handle_carrying(Call& call) {
  Inputs inputs;
  std::vector<bool> batched;
  for (const Tensor& input : call.inputs()) {
    const auto [physical, is_batched] = behind(input);
    inputs.push_back(physical);
    batched.push_back(is_batched);
  }
  const auto outputs_batched = std::make_shared<bool>(std::find(batched.begin(), batched.end(), true) != batched.end());
  const FunctionAttributes& functions = functions_of(call);
  Outputs outputs;
  if (*outputs_batched && functions.batch && !functions.backward && !functions.tangents)
    outputs = batched_by_rule(functions, batched, inputs);
  else outputs = perform_functions(std::move(inputs), lifted(call, std::move(batched), outputs_batched));
  if (*outputs_batched)
    for (Tensor& output : outputs) output = lane(std::move(output));
  return outputs;
}

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
                   std::optional<Index> size, InputNames names) {
  FlatVmap result;
  result.size = lane_count(inputs, in_axes, size, names);
  const auto shared = std::make_shared<VmapHandler>(result.size);
  VmapHandler& handler = *shared;
  std::vector<Tensor> lanes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_axes[i].mapped)
      lanes.push_back(relabel(handler.lane(moveaxis(inputs[i], in_axes[i].axis, 0)), label_of(inputs[i].node())));
    else lanes.push_back(clone_node(inputs[i]));
  }
  result.outputs = handler.notes.run([&] { return with(handler, [&] { return f(lanes); }); });
  check_results(result.outputs, "vmap");
  for (Tensor& output : result.outputs) {
    const Lanes* found = handler.notes.find(output);
    result.batched.push_back(found != nullptr);
    if (found) output = Tensor(found->batched);
  }
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
