#include <algorithm>
#include <optional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/taylor/jet_handler.h>

namespace stave_detail {

namespace {

// Returns the attributes of a fused operation, else null. It is performed as its steps, because
// coefficients of steps often follow directly from those of their inputs (has_structure in
// tower.cpp).
const FusedAttributes* as_fused(const Call& call) {
  return call.op().id == OpId::own ? dynamic_cast<const FusedAttributes*>(call.attributes()) : nullptr;
}

}  // namespace

// ---- the handler --------------------------------------------------------------------------------

Outputs JetHandler::handle(Call& call) {
  if (call.op().is_higher_order) [[unlikely]]
    return handle_higher_order(call);
  if (!has_series(call)) return perform(std::move(call));
  if (call.op().derivative == Derivative::zero) return stripped(perform(std::move(call)));
  for (const Tensor& input : call.inputs())
    if (const SeriesPtr* series = notes.find(input); series && !*series) {
      Outputs outputs = stripped(perform(std::move(call)));
      for (Tensor& output : outputs) output = lost(std::move(output));
      return outputs;
    }
  if (const FusedAttributes* fused = as_fused(call))
    return with(*this, [&] { return perform_steps(*fused->region, call.inputs()); });
  if (tower) return with_series(tower->perform_call(*this, call, series_of_inputs(call)));
  Tower own(order);
  const InTower in(*this, &own);
  return completed(own, own.perform_call(*this, call, series_of_inputs(call)));
}

// Only a loop in the function of series_of_solution has a tower: loops in derivative rules are not
// offered to recorders, and others perform each operation with a tower of its own.
Index JetHandler::handle(RecordLoop& loop) {
  std::optional<Tower::InLoop> in_loop;
  if (tower) in_loop.emplace(*tower);
  return perform(loop);
}

Tensor JetHandler::lost(Tensor x) const {
  if (lost_by_.empty()) lost_by_ = outside_.effect();
  return is_inexact(x.dtype()) ? notes.put(std::move(x), nullptr) : x;
}

SeriesPtr JetHandler::series_of(const Tensor& x) const {
  if (const SeriesPtr* series = notes.find(x)) {
    if (!*series) fail_lost("jet", lost_by_);
    return *series;
  }
  if (for_rules_ && for_rules_->notes.find(x))
    fail<TransformError>(
        "jet: a value that a custom derivative rule computed is used outside of the rule, where it would count as a "
        "constant: let the rule return the value");
  return nullptr;
}

Tensor JetHandler::put(Tensor x, SeriesPtr series) const {
  return series ? notes.put(std::move(x), std::move(series)) : notes.strip(std::move(x));
}

Tensor JetHandler::put(Tensor x, std::span<const Tensor> coefficients) const {
  const auto defined = [](const Tensor& c) { return c.defined(); };
  if (std::none_of(coefficients.begin(), coefficients.end(), defined)) return x;
  auto series = std::make_shared<Series>();
  series->known.assign(coefficients.begin(), coefficients.end());
  return put(std::move(x), std::move(series));
}

Tensor JetHandler::coefficient(const Tensor& x, int k) const {
  Tensor c = Tower(order).coefficient(series_of(x), k);
  return c.defined() ? c : zeros_like(x);
}

bool JetHandler::has_series(const Call& call) const {
  bool any = false;
  for (const Tensor& input : call.inputs()) any |= notes.find(input) || (for_rules_ && series_of(input));
  return any;
}

SmallVector<SeriesPtr, 3> JetHandler::series_of_inputs(const Call& call) const {
  SmallVector<SeriesPtr, 3> series;
  for (const Tensor& input : call.inputs()) series.push_back(series_of(input));
  return series;
}

Outputs JetHandler::stripped(Outputs outputs) const {
  for (Tensor& output : outputs) output = notes.strip(std::move(output));
  return outputs;
}

Outputs JetHandler::with_series(const Lazy& y) const {
  Outputs outputs;
  for (std::size_t i = 0; i < y.outputs.size(); ++i) outputs.push_back(put(y.outputs[i], y.series[i]));
  return outputs;
}

Outputs JetHandler::completed(Tower& own, Lazy& y) {
  own.complete(y);
  largest_tower = std::max(largest_tower, own.size());
  const auto defined = [](const Tensor& c) { return c.defined(); };
  for (SeriesPtr& series : y.series)
    if (series && std::none_of(series->known.begin(), series->known.end(), defined)) series = nullptr;
  return with_series(y);
}

namespace {

void check_coefficient(std::size_t i, std::size_t k, InputNames names, const Tensor& primal, const Tensor& given) {
  if (!is_inexact(primal.dtype()))
    fail<DtypeError>(
        "jet: {} is {} {}, which has no derivative: make it a floating tensor, or capture it in the function instead "
        "of giving it coefficients",
        names(i), primal.dtype(), primal.shape());
  if (given.shape() != primal.shape())
    fail<ShapeError>("jet: coefficient {} of {} has shape {}, the input {}", k, names(i), given.shape(),
                     primal.shape());
  if (given.dtype() != primal.dtype())
    fail<DtypeError>("jet: coefficient {} of {} is {}, the input {}", k, names(i), given.dtype(), primal.dtype());
  if (given.device() != primal.device())
    fail<DeviceError>("jet: coefficient {} of {} lives on {}, the input on {}: move one with to(x, device)", k,
                      names(i), given.device().str(), primal.device().str());
}

}  // namespace

FlatJet jet_of_function(JetHandler& handler, FlatFunction f, std::span<const Tensor> primals,
                        std::span<const std::vector<Tensor>> coefficients, InputNames names) {
  for (const auto& given : coefficients)
    if (given.size() != primals.size())
      fail<TransformError>("jet: {} inputs, but {} coefficients of one order", primals.size(), given.size());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    std::vector<Tensor> series;
    for (std::size_t k = 0; k < coefficients.size(); ++k) {
      series.push_back(coefficients[k][i]);
      if (series.back().defined()) check_coefficient(i, k + 1, names, primals[i], series.back());
    }
    inputs.push_back(handler.put(clone_node(primals[i]), series));
  }
  FlatJet result;
  result.outputs = handler.run([&] { return f(inputs); });
  check_results(result.outputs, "jet");
  for (int k = 1; k <= handler.order; ++k) {
    auto& found = result.coefficients.emplace_back();
    for (const Tensor& output : result.outputs) found.push_back(handler.coefficient(output, k));
  }
  for (Tensor& output : result.outputs) output = handler.put(std::move(output), nullptr);
  return result;
}

void fail_negative_order(int order) { fail<TransformError>("taylor: the order is {}: it must not be negative", order); }
void fail_no_coefficients() { fail<TransformError>("evaluate_series: there are no coefficients"); }

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

FlatJet jet_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const std::vector<Tensor>> coefficients,
                 InputNames names) {
  const auto handler = std::make_shared<JetHandler>(static_cast<int>(coefficients.size()));
  return jet_of_function(*handler, f, primals, coefficients, names);
}

std::vector<Tensor> series_of_solution_flat(FunctionRef<Tensor(const Tensor& y, const Tensor& t)> f,
                                            const Tensor& start, const Tensor& time, int order) {
  const auto handler = std::make_shared<JetHandler>(order);
  Tower tower(order);
  const InTower in(*handler, &tower);
  Lazy& y = tower.add_solution(*handler, clone_node(start));
  const std::vector<Tensor> one{constant(1., time.dtype(), time.shape(), time.device())};
  const Tensor y_of_t = handler->put(y.outputs[0], y.series[0]), t = handler->put(clone_node(time), one);
  const Tensor slope = handler->run([&] { return f(y_of_t, t); });
  if (!slope.defined() || slope.shape() != start.shape() || slope.dtype() != start.dtype())
    fail<ShapeError>("jet: the derivative of the solution is {}, the solution {} {}",
                     slope.defined() ? fmt::format("{} {}", slope.dtype(), slope.shape()) : "an empty Tensor",
                     start.dtype(), start.shape());
  const SeriesPtr series = handler->series_of(slope);
  y.derivative.push_back({handler->put(slope, nullptr), series});
  tower.complete_solution(y);
  std::vector<Tensor> coefficients{start};
  for (const Tensor& c : y.series[0]->known) coefficients.push_back(c.defined() ? c : zeros_like(start));
  return coefficients;
}

}  // namespace stave
