// The higher-order operation `call` under vmap. It is passed on to the outer handlers as one call
// on all lanes of the path. The functions of that call take batched tensors, run for the lanes,
// path by path, and return batched tensors. So captured values of lanes keep their lanes, and the
// outer handlers may run the functions again. As an exception, a batching rule runs in place of the
// call if an input carries the lanes, and if the call has no derivative rule (custom_vmap alone),
// or the rule is to be used first (compiled functions).
#include <algorithm>

#include <stave/core/op/function.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

namespace {

bool contains(const std::vector<bool>& mask, bool value) {
  return std::find(mask.begin(), mask.end(), value) != mask.end();
}

Outputs batched_by_rule(const Vmap& vmap, Index lanes, const FunctionAttributes& functions,
                        const std::vector<bool>& batched, std::span<const Tensor> xs) {
  const SmallVector<bool, 4> given(batched.begin(), batched.end());
  const FunctionAttributes guarded = without_captures(functions, {vmap.notes.id()}, "vmap");
  Outputs outputs = guarded.run(FunctionRole::batch, {xs, {}, lanes, given});
  check_defined("custom_vmap", "result", outputs);
  for (const Tensor& output : outputs)
    if (output.rank() == 0 || output.shape()[0] != lanes)
      fail<ShapeError>("custom_vmap: the rule gave {} for {} lanes, which must be its axis 0", output.shape(), lanes);
  return outputs;
}

// Returns the cotangents of the inputs. All lanes read the same unbatched input, so the cotangents
// of the lanes are added for such an input.
Outputs summed(PathRun::Results found, const std::vector<bool>& batched, bool outputs_batched, Index lanes) {
  for (std::size_t i = 0; i < found.outputs.size(); ++i) {
    Tensor& cotangent = found.outputs[i];
    if (!cotangent.defined()) continue;
    if (!found.batched[i] && (batched[i] || outputs_batched)) cotangent = broadcast_lanes(cotangent, lanes);
    else if (found.batched[i] && !batched[i] && !outputs_batched)
      fail<TransformError>("custom_vjp: under vmap, the cotangents differ between lanes, but the results do not");
    if (!batched[i] && outputs_batched) cotangent = sum(cotangent, 0);
  }
  return std::move(found.outputs);
}

}  // namespace

FunctionAttributes PathRun::lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                                   std::shared_ptr<bool> outputs_batched, std::shared_ptr<bool> repeats) const {
  const IntrusivePtr<const FunctionAttributes> of(&functions);
  const bool by_rule = of->batch && contains(batched, true);
  const auto residuals_batched = std::make_shared<std::vector<bool>>();
  const auto lift = [=, vmap = vmap_, lanes = path_->lanes](FunctionRole role, const FunctionInputs& given,
                                                            auto run) -> FunctionResults {
    const Index size = lanes->size();
    if (role == FunctionRole::function && by_rule) return batched_by_rule(*vmap, size, *of, batched, given.inputs);
    if (role == FunctionRole::batch) return without_captures(*of, {vmap->notes.id()}, "vmap").run(role, given);
    const bool is_backward = role == FunctionRole::backward, is_forward = role == FunctionRole::forward;
    std::vector<bool> carry = is_backward ? *residuals_batched : batched;
    if (is_backward) carry.resize(given.inputs.size() + given.derivatives.size(), *outputs_batched);
    else if (!given.derivatives.empty()) carry.insert(carry.end(), batched.begin(), batched.end());
    std::size_t count = 0;
    const auto one_path = [&](std::span<const Tensor> values) {
      const bool is_function = role == FunctionRole::function || role == FunctionRole::again;
      if (*repeats && of->log && is_function) of->log->run() = {};
      FunctionResults results = run(given.with(values));
      count = results.size();
      return std::move(results).flat();
    };
    PathRun paths(vmap, lanes, of->gives_more ? Kind::undivided_call : Kind::call);
    Results found = paths(one_path, given.flat(), carry);
    if (is_backward) return summed(std::move(found), batched, *outputs_batched, size);
    // If one output or tangent carries the lanes, all do. This does not hold for residuals.
    const auto end = found.batched.begin() + static_cast<std::ptrdiff_t>(is_forward ? count : found.batched.size());
    if (is_forward && !std::equal(end, found.batched.end(), residuals_batched->begin(), residuals_batched->end()))
      *residuals_batched = {end, found.batched.end()};
    *outputs_batched |= std::find(found.batched.begin(), end, true) != end;
    for (auto carries = found.batched.begin(); *outputs_batched && carries != end; ++carries)
      if (Tensor& output = found.outputs[static_cast<std::size_t>(carries - found.batched.begin())];
          !*carries && output.defined())
        output = broadcast_lanes(output, size);
    return FunctionResults::split(std::move(found.outputs), count);
  };
  FunctionAttributes result = stave_detail::lifted(functions, lift);
  // The custom rule maps the lanes of this vmap. If no input carries a lane, the rule is left for
  // an outer vmap.
  if (by_rule) result.batch = nullptr;
  return result;
}

Outputs PathRun::handle_higher_order(Call& call) {
  const LanePath& path = *path_;
  Inputs inputs;
  std::vector<bool> batched;
  for (const Tensor& input : call.inputs()) {
    const Lanes* const lanes = vmap_->notes.find(input);
    inputs.push_back(lanes ? rows_of(*lanes, path) : input);
    batched.push_back(lanes && !path.alone);
  }
  const auto outputs_batched = std::make_shared<bool>(contains(batched, true));
  const FunctionAttributes& functions = functions_of(call);
  const RowsPtr lanes = path.lanes;
  const bool by_rule =
      *outputs_batched && functions.batch && (functions.batches_first || !functions.has_derivative_rule());
  // `*repeats` says that the operation is repeated. It becomes false once the operation has been
  // performed, so it is false when the functions run later.
  const auto repeats = std::make_shared<bool>(repeats_);
  Outputs outputs =
      by_rule ? batched_by_rule(*vmap_, lanes->size(), functions, batched, inputs)
              : perform_functions(std::move(inputs), lifted(functions, std::move(batched), outputs_batched, repeats));
  *repeats = false;
  if (*outputs_batched)
    for (Tensor& output : outputs) output = vmap_->lane(std::move(output), lanes);
  return outputs;
}

}  // namespace stave_detail
