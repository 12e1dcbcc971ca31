// The higher-order operation `call` under vmap. It is passed on to the outer handlers as one call
// on all lanes of the path. The functions of that call take batched tensors, run for the lanes,
// path by path, and return batched tensors. So captured values of lanes stay such values, and the
// outer handlers may run the functions again.
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

// Broadcasts all results to the lanes if one of them carries the lanes, or if `all` is true. Sets
// `all` to true in these cases.
Outputs alike(PathRun::Results results, bool& all, Index lanes) {
  all |= contains(results.batched, true);
  for (std::size_t i = 0; all && i < results.outputs.size(); ++i)
    if (!results.batched[i] && results.outputs[i].defined())
      results.outputs[i] = broadcast_lanes(results.outputs[i], lanes);
  return std::move(results.outputs);
}

Outputs batched_by_rule(const Vmap& vmap, Index lanes, const FunctionAttributes& functions,
                        const std::vector<bool>& batched, std::span<const Tensor> xs) {
  const SmallVector<bool, 4> given(batched.begin(), batched.end());
  const FunctionAttributes guarded = without_captures(functions, {vmap.notes.id()}, "vmap");
  const Outputs outputs = guarded.run(guarded.batch, lanes, given, xs);
  check_defined("custom_vmap", "result", outputs);
  for (const Tensor& output : outputs)
    if (output.rank() == 0 || output.shape()[0] != lanes)
      fail<ShapeError>("custom_vmap: the rule gave {} for {} lanes, which must be its axis 0", output.shape(), lanes);
  return outputs;
}

}  // namespace

FunctionAttributes PathRun::lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                                   std::shared_ptr<bool> outputs_batched, std::shared_ptr<bool> repeats) const {
  const IntrusivePtr<const FunctionAttributes> of(&functions);
  const auto residuals_batched = std::make_shared<std::vector<bool>>();
  const Index size = path_->lanes->size();
  // Runs one of the functions on the lanes of `xs`.
  const auto run_lanes = [vmap = vmap_, lanes = path_->lanes, of](FlatFunction function, std::span<const Tensor> xs,
                                                                  const std::vector<bool>& given) {
    return PathRun(vmap, lanes, of->gives_more ? Of::undivided_call : Of::call)(function, xs, given);
  };
  const auto lift = [=](const FunctionArgument& rule, std::vector<bool> given) -> FunctionArgument {
    if (!rule) return nullptr;
    return [=, &rule](std::span<const Tensor> xs) {  // the rule is owned by `of`
      const FunctionArgument anew = [&](std::span<const Tensor> values) {
        of->log->run() = {};
        return rule(values);
      };
      const FunctionArgument& function = *repeats && of->log ? anew : rule;
      const auto run = [&](std::span<const Tensor> values) { return of->run(function, values); };
      return alike(run_lanes(run, xs, given), *outputs_batched, size);
    };
  };
  const bool by_rule = of->batch && contains(batched, true);
  FunctionAttributes lifted = *of;
  lifted.around = nullptr;
  // The custom rule maps the lanes of this vmap. If no input carries a lane, an outer vmap may use
  // it.
  lifted.batch = nullptr;
  lifted.function = lift(of->function, batched);
  if (by_rule)
    lifted.function = [vmap = vmap_, size, of, batched](std::span<const Tensor> xs) {
      return batched_by_rule(*vmap, size, *of, batched, xs);
    };
  lifted.again = lift(of->again, batched);
  std::vector<bool> twice = batched;
  twice.insert(twice.end(), batched.begin(), batched.end());
  lifted.tangents = lift(of->tangents, twice);
  if (of->forward)
    lifted.forward = [=](std::span<const Tensor> xs) {
      std::size_t count = 0;
      const auto function = [&](std::span<const Tensor> values) {
        ForwardResults one = of->run(of->forward, values);
        count = one.outputs.size();
        one.outputs.append(one.residuals.begin(), one.residuals.end());
        return std::move(one.outputs);
      };
      Results both = run_lanes(function, xs, batched);
      Results outputs, residuals;
      for (std::size_t i = 0; i < both.outputs.size(); ++i) {
        Results& to = i < count ? outputs : residuals;
        to.outputs.push_back(std::move(both.outputs[i]));
        to.batched.push_back(both.batched[i]);
      }
      if (residuals.batched != *residuals_batched) *residuals_batched = std::move(residuals.batched);
      return ForwardResults{alike(std::move(outputs), *outputs_batched, size), std::move(residuals.outputs)};
    };
  if (of->backward)
    lifted.backward = [=](std::span<const Tensor> xs) {
      std::vector<bool> given = *residuals_batched;
      given.resize(xs.size(), *outputs_batched);
      const auto function = [&](std::span<const Tensor> values) { return of->run(of->backward, values); };
      Results found = run_lanes(function, xs, given);
      Outputs& cotangents = found.outputs;
      for (std::size_t i = 0; i < cotangents.size(); ++i) {
        Tensor& cotangent = cotangents[i];
        if (!cotangent.defined()) continue;
        const bool carries = found.batched[i];
        if (!carries && (batched[i] || *outputs_batched)) cotangent = broadcast_lanes(cotangent, size);
        else if (carries && !batched[i] && !*outputs_batched)
          fail<TransformError>("custom_vjp: under vmap, the cotangents differ between lanes, but the results do not");
        // Every lane read the same argument, so the cotangents of the lanes are added.
        if (!batched[i] && *outputs_batched) cotangent = sum(cotangent, 0);
      }
      return std::move(cotangents);
    };
  if (of->batch && !by_rule)
    lifted.batch = [guarded = without_captures(*of, {vmap_->notes.id()}, "vmap")](auto lanes, auto given, auto xs) {
      return guarded.run(guarded.batch, lanes, given, xs);
    };
  return lifted;
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
  const bool by_rule = *outputs_batched && functions.batch && !functions.backward && !functions.tangents;
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
