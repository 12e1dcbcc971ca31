// Taylor mode of the operation `call` (core/op/higher_order.h).
#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/taylor/jet_handler.h>
#include <stave/handlers/transforms/jvp_rules.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

Outputs JetHandler::handle_higher_order(Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  if (functions.rematerializes && !tower) return checkpoint(call);
  if (functions.rematerializes || !functions.has_derivative_rule()) {
    if (!functions.rematerializes && !has_series(call)) return perform(std::move(call));
    return with(*this, [&] { return functions.run(FunctionRole::function, call.inputs()); });
  }
  return custom_rule(call);
}

// Passes a checkpoint on to the outer handlers as a checkpoint of another function, which maps
// values and coefficients to outputs and their coefficients. Captured values keep theirs.
Outputs JetHandler::checkpoint(Call& call) {
  const std::size_t count = call.inputs().size(), each = static_cast<std::size_t>(order);
  Inputs all;
  for (const Tensor& x : call.inputs()) all.push_back(put(x, nullptr));
  std::vector<bool> given;  // which coefficients are among the inputs
  for (const Tensor& x : call.inputs()) {
    const SeriesPtr series = series_of(x);
    for (std::size_t k = 0; k < each; ++k) {
      given.push_back(series && k < series->known.size() && series->known[k].defined());
      if (given.back()) all.push_back(series->known[k]);
    }
  }
  const auto lift = [self = shared_from_this(), given, count, each](FunctionRole, const FunctionInputs& xs,
                                                                    auto run) -> FunctionResults {
    std::vector<Tensor> coefficients;
    std::size_t next = count;
    for (const bool is_given : given) coefficients.push_back(is_given ? xs.inputs[next++] : Tensor());
    Inputs inputs;
    for (std::size_t i = 0; i < count; ++i)
      inputs.push_back(self->put(clone_node(xs.inputs[i]), std::span(coefficients).subspan(i * each, each)));
    FunctionResults results = with(self, [&] { return run({inputs}); });
    for (const Tensor& output : results)
      for (int k = 1; k <= self->order; ++k) results.more.push_back(self->coefficient(output, k));
    for (Tensor& output : results) output = self->put(std::move(output), nullptr);
    return std::move(results).flat();
  };
  Outputs found = perform_functions(std::move(all), lifted(functions_of(call), lift));
  const std::size_t outputs = found.size() / (each + 1);
  Outputs results;
  for (std::size_t i = 0; i < outputs; ++i) {
    Tensor y = put(found[i], nullptr);
    const std::span<const Tensor> coefficients{found.data() + outputs + i * each, each};
    results.push_back(is_inexact(y.dtype()) ? put(std::move(y), coefficients) : y);
  }
  return results;
}

// The value comes from the outer handlers, for which the call stays what it is. The rule runs when
// a coefficient is asked for: it may call the function itself.
Outputs JetHandler::custom_rule(Call& call) {
  FunctionAttributes guarded = without_captures(functions_of(call), ids(), "jet");
  if (!has_series(call)) return perform_functions(Inputs(call.inputs()), std::move(guarded));
  SmallVector<SeriesPtr, 3> series = series_of_inputs(call);
  Inputs primals;
  for (const Tensor& x : call.inputs()) primals.push_back(put(x, nullptr));
  Call kept = call.with_attributes(make_intrusive<FunctionAttributes>(guarded));
  Outputs outputs = perform_functions(std::move(primals), std::move(guarded));
  if (tower) return with_series(tower->add_call(*this, std::move(kept), std::move(series), std::move(outputs)));
  Tower own(order);
  const InTower in(*this, &own);
  return completed(own, own.add_call(*this, std::move(kept), std::move(series), std::move(outputs)));
}

std::vector<ValueWithSeries> JetHandler::by_custom_rule(const Call& call, std::span<const Tensor> tangents) {
  JetHandler& inside = for_rules();
  const InTower in(inside, tower);
  const auto moved = [&](const Tensor& x) { return inside.put(put(x, nullptr), series_of(x)); };
  Inputs inputs, directions;
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    inputs.push_back(moved(call.inputs()[i]));
    directions.push_back(tangents[i].defined() ? moved(tangents[i]) : Tensor());
  }
  const Call inner = call.with_inputs(inputs);
  const FunctionResults results = with(inside, [&] {
    return functions_of(call).tangents ? inside.tangents_by_jvp(inner, directions)
                                       : tangents_by_backward_rule(functions_of(call), inputs, directions);
  });
  std::vector<ValueWithSeries> derivative;
  for (const Tensor& tangent : results.more) {
    const SeriesPtr series = inside.series_of(tangent);
    derivative.push_back({inside.put(tangent, nullptr), series});
  }
  return derivative;
}

FunctionResults JetHandler::tangents_by_jvp(const Call& call, const Inputs& tangents) {
  Inputs all;
  for (std::size_t i = 0; i < tangents.size(); ++i)
    all.push_back(tangents[i].defined() ? tangents[i] : zeros_like(call.inputs()[i]));
  return functions_of(call).run(FunctionRole::tangents, {call.inputs(), all});
}

JetHandler& JetHandler::for_rules() {
  if (!for_rules_) {
    for_rules_ = std::make_shared<JetHandler>(order);
    for_rules_->parent_ = this;
  }
  return *for_rules_;
}

std::vector<InstallationId> JetHandler::ids() const {
  std::vector<InstallationId> ids;
  for (const JetHandler* jet = this; jet; jet = jet->parent_) ids.push_back(jet->notes.id());
  return ids;
}

}  // namespace stave_detail
