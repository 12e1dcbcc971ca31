#include <stave/handlers/taylor/loop_series.h>

#include <fmt/format.h>

#include <stave/core/ops/create.h>
#include <stave/core/program/passes/passes.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/loop_parts.h>
#include <stave/handlers/taylor/jet_flat.h>

namespace stave_detail {

Program jet_of(const Program& program, int order, const Mask& wanted, std::span<const Tensor> examples) {
  std::vector<Tensor> given(examples.begin(), examples.end());
  for (int k = 1; k <= order; ++k)
    for (const Tensor& x : select(wanted, examples)) given.push_back(zeros_like(x));
  const auto all = [&](std::span<const Tensor> xs) {
    std::vector<std::vector<Tensor>> coefficients;
    auto next = xs.begin() + static_cast<std::ptrdiff_t>(examples.size());
    for (int k = 1; k <= order; ++k) {
      auto& of_order = coefficients.emplace_back();
      for (const bool wants : wanted) of_order.push_back(wants ? *next++ : Tensor());
    }
    FlatJet found = jet_flat([&](auto inputs) { return program(inputs); }, xs.first(examples.size()), coefficients);
    for (const Outputs& c : found.coefficients) found.outputs.append(c.begin(), c.end());
    return std::move(found.outputs);
  };
  return with_calls_inlined(without_repetitions(simplified(traced("jet", all, given))), InlineCalls::without_rules);
}

// Performs a loop whose states are those of the loop, and their coefficients. All orders that can
// be known are computed at once.
Outputs loop_series(const SeriesContext& c) {
  const auto& loop = c.as<LoopAttributes>();
  const std::span<const Tensor> given = c.call.inputs();
  Mask by;
  for (std::size_t i = 0; i < given.size(); ++i) {
    by.push_back(false);
    for (int k = 1; k <= c.last && !by.back(); ++k) by.back() = c.in(i, k).defined();
  }
  const auto orders = static_cast<std::size_t>(c.last);
  const auto series = loop.derived(derived_key(fmt::format("jet{}:", orders).c_str(), by), [&] {
    return loop_of_series(loop, by, given, orders, [&](const Program& body, const Mask& of, auto examples) {
      return jet_of(body, c.last, of, examples);
    });
  });
  Inputs inputs;
  for (const std::size_t number : series->inputs) {
    const std::size_t i = number % given.size(), k = number / given.size();
    const Tensor coefficient = k == 0 ? given[i] : c.in(i, static_cast<int>(k));
    inputs.push_back(coefficient.defined() ? coefficient : zeros_like(given[i]));
  }
  const Outputs all = perform_loop(series->loop, std::move(inputs));
  const std::size_t count = c.outputs.size(), before = static_cast<std::size_t>(c.order) * count;
  Outputs found((orders + 1) * count - before, Tensor());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const std::size_t number = series->outputs[i]; number >= before) found[number - before] = all[i];
  return found;
}

}  // namespace stave_detail
