#include <stave/handlers/observe/html_chains.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/inference/diagnostics.h>
#include <stave/handlers/observe/html_json.h>

namespace stave_detail {

namespace {

constexpr std::size_t bins = 20, most_parameters = 100, most_chains = 64, most_points = 200;

/// One scalar of the draws.
struct Parameter {
  std::string name;
  // The values of chain 0, then those of chain 1, and so on.
  std::vector<double> values;
  double rhat, ess_bulk, ess_tail;
};

std::vector<Parameter> parameters_of(const NamedTensors& draws, std::size_t count) {
  std::vector<Parameter> parameters;
  for (const auto& [name, tensor] : draws) {
    if (tensor.rank() < 2 || static_cast<std::size_t>(tensor.shape(0) * tensor.shape(1)) != count)
      fail<ShapeError>("HtmlReport: the draws of {} have shape {}, and the chains {} draws", name, tensor.shape(),
                       count);
    // The shape of one draw.
    Shape shape;
    shape.append(tensor.shape().begin() + 2, tensor.shape().end());
    const std::vector<double> r = rhat(tensor).to_vector<double>(), bulk = ess_bulk(tensor).to_vector<double>(),
                              tail = ess_tail(tensor).to_vector<double>(),
                              values = astype(to(tensor, cpu), float64).to_vector<double>();
    for (std::size_t i = 0; i < r.size(); ++i) {
      Parameter& parameter = parameters.emplace_back();
      parameter = {name_of_element(name, shape, static_cast<Index>(i)), {}, r[i], bulk[i], tail[i]};
      for (std::size_t draw = 0; draw < count; ++draw) parameter.values.push_back(values[draw * r.size() + i]);
    }
  }
  // The largest R-hat comes first. NaN comes before all finite values.
  const auto badness = [](const Parameter& it) { return std::isnan(it.rhat) ? 1e300 : it.rhat; };
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&](const auto& a, const auto& b) { return badness(a) > badness(b); });
  return parameters;
}

std::string parameter_as_json(const Parameter& it, std::size_t chains) {
  const std::size_t count = it.values.size(), length = count / chains;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    // NaN comes after all numbers.
    return it.values[a] < it.values[b] || (std::isnan(it.values[b]) && !std::isnan(it.values[a]));
  });
  std::vector<int> histograms(std::min(chains, most_chains) * bins);
  for (std::size_t rank = 0; rank < count; ++rank)
    if (const std::size_t chain = order[rank] / length; chain < most_chains)
      ++histograms[chain * bins + rank * bins / count];
  const auto quantile = [&](double q) {
    return it.values[order[static_cast<std::size_t>(q * static_cast<double>(count - 1))]];
  };
  double mean = 0, squares = 0;
  for (const double value : it.values) mean += value / static_cast<double>(count);
  for (const double value : it.values) squares += (value - mean) * (value - mean);
  std::vector<double> trace;
  const std::size_t every = (length + most_points - 1) / most_points;
  for (std::size_t chain = 0; chain < std::min(chains, most_chains); ++chain)
    for (std::size_t draw = 0; draw < length; draw += every) trace.push_back(it.values[chain * length + draw]);
  std::string text =
      fmt::format("{{\"name\":{},\"mean\":{},\"deviation\":{},\"low\":{},\"median\":{},\"high\":{},", in_json(it.name),
                  in_json(mean), in_json(std::sqrt(squares / std::max(1., static_cast<double>(count) - 1))),
                  in_json(quantile(0.05)), in_json(quantile(0.5)), in_json(quantile(0.95)));
  text += fmt::format("\"rhat\":{},\"bulk\":{},\"tail\":{},\"every\":{},\"ranks\":{},\"trace\":{}}}", in_json(it.rhat),
                      in_json(it.ess_bulk), in_json(it.ess_tail), every, list_in_json(histograms), list_in_json(trace));
  return text;
}

template <class T>
std::vector<T> numbers(const Tensor& x, Dtype dtype) {
  return astype(to(x, cpu), dtype).to_vector<T>();
}

}  // namespace

std::string chains_as_json(const std::string& title, const NamedTensors& draws, const ChainNotes& notes) {
  if (notes.diverged.rank() != 2)
    fail<ShapeError>("HtmlReport: of the divergences of chains, shape [chains, draws] is expected, not {}",
                     notes.diverged.shape());
  const auto chains = static_cast<std::size_t>(notes.diverged.shape(0)),
             length = static_cast<std::size_t>(notes.diverged.shape(1));
  std::vector<Parameter> parameters = parameters_of(draws, chains * length);
  const std::vector<std::int32_t> diverged = numbers<std::int32_t>(notes.diverged, int32),
                                  steps = numbers<std::int32_t>(notes.steps, int32),
                                  depth = numbers<std::int32_t>(notes.depth, int32);
  const std::vector<double> accept = numbers<double>(notes.accept_rate, float64),
                            step_size = numbers<double>(notes.step_size, float64);
  std::vector<int> where, deepest;
  std::vector<double> accepts, step_counts;
  for (std::size_t chain = 0; chain < chains; ++chain) {
    double accepted = 0, stepped = 0;
    int most = 0;
    for (std::size_t i = chain * length; i < (chain + 1) * length; ++i) {
      if (diverged[i]) where.insert(where.end(), {static_cast<int>(chain), static_cast<int>(i - chain * length)});
      accepted += accept[i] / static_cast<double>(length);
      stepped += steps[i] / static_cast<double>(length);
      most = std::max(most, depth[i]);
    }
    accepts.push_back(accepted);
    step_counts.push_back(stepped);
    deepest.push_back(most);
  }
  std::string text = fmt::format(
      "{{\"title\":{},\"chains\":{},\"draws\":{},\"shown\":{},\"bins\":{},\"left_out\":{},\"diverged\":{},\"accept\":{}"
      ","
      "\"steps\":{},\"depth\":{},\"step_size\":{},\"parameters\":[",
      in_json(title), chains, length, std::min(chains, most_chains), bins,
      parameters.size() - std::min(parameters.size(), most_parameters), list_in_json(where), list_in_json(accepts),
      list_in_json(step_counts), list_in_json(deepest), list_in_json(step_size));
  for (std::size_t i = 0; i < std::min(parameters.size(), most_parameters); ++i)
    text += (i ? "," : "") + parameter_as_json(parameters[i], chains);
  return text + "]}";
}

}  // namespace stave_detail
