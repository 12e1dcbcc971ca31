#include <stave/handlers/structure/dependence.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/call_effect_log.h>

namespace stave_detail {

Tensor DependenceHandler::follow(Tensor x, Tensor numbers) {
  std::shared_ptr<const Tensor> held;
  if (numbers.defined()) {
    held = std::make_shared<const Tensor>(std::move(numbers));
    if (live_.size() >= 2 * live_after_sweep_ + 1024) sweep();
    live_.push_back(held);
  }
  return notes_.put(std::move(x), {std::move(held), &has_read});
}

Tensor DependenceHandler::sets_of(const Tensor& x) const {
  const Followed* const followed = notes_.find(x);
  return followed && followed->numbers ? *followed->numbers : Tensor();
}

Outputs DependenceHandler::handle(Call& call) {
  if (!call.op().is_higher_order) ++handled_;
  const auto has_note = [&](const Tensor& x) { return notes_.find(x) != nullptr; };
  const auto has_sets = [&](const Tensor& x) { return sets_of(x).defined(); };
  if (std::ranges::none_of(call.inputs(), has_note)) return perform(std::move(call));
  const bool follows = std::ranges::any_of(call.inputs(), has_sets);
  if (call.op().is_higher_order) {
    // The operations inside a higher-order operation reach this handler, too, unless a handler
    // below performs them unseen.
    const std::uint64_t before = handled_;
    Outputs outputs = perform(call);
    if (handled_ != before) return outputs;
    for (Tensor& output : outputs)
      if (!has_note(output)) {
        if (follows) dense_operations.insert(call.op().name);
        const Tensor all = follows ? dense_sets(call, {})[0] : Tensor();
        output = follow(std::move(output), all.defined() ? broadcast_to(all, output.shape()) : all);
      }
    return outputs;
  }
  Outputs outputs;
  try {
    outputs = perform(call.borrowed());
  } catch (...) {
    has_read = true;  // a function that catches the error takes another path than without it
    throw;
  }
  const Outputs numbers = follows ? find(call) : Outputs(outputs.size(), Tensor());
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = follow(std::move(outputs[i]), numbers[i]);
  if (sets.wants_collection()) collect();
  return outputs;
}

// Returns the sets of the outputs' elements.
Outputs DependenceHandler::find(const Call& call) {
  const Op& op = call.op();
  std::vector<Tensor> inputs;
  for (const Tensor& input : call.inputs()) inputs.push_back(sets_of(input));
  const UnderFrame outside(nullptr);
  const auto read_input = [&](std::size_t i) { return read(call.input(i)); };
  const DependsContext context{call, inputs, sets, read_input};
  Outputs found;
  if (op.depends) found = op.depends(context);
  else if (op.moves_elements) found = depends_moved(context);
  else if (op.elementwise) found = depends_elementwise(context);
  if (found.empty()) {
    dense_operations.insert(op.name);
    found = dense_sets(call, inputs);
  }
  const auto expected = call.abstract_outputs();
  if (found.size() != expected.size())
    fail<TransformError>("sparsity: the dependence rule of {} gave {} results for {} outputs", op.name, found.size(),
                         expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].defined()) found[i] = broadcast_to(found[i], expected[i].shape);
  return found;
}

// Returns sets of rank 0 for all outputs, with all elements that some input depends on.
Outputs DependenceHandler::dense_sets(const Call& call, std::span<const Tensor> inputs) {
  const UnderFrame outside(nullptr);
  Tensor all;
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    const Tensor numbers = inputs.empty() ? sets_of(call.input(i)) : inputs[i];
    if (!numbers.defined()) continue;
    all = sets.unite(all, reshape(sets.unite_over(numbers, all_axes_of(numbers.rank())), {}));
  }
  return Outputs(std::max<std::size_t>(1, call.abstract_outputs().size()), all);
}

// Returns the values of a constant (with `here`, of any value) on the CPU. Returns an undefined
// tensor for other values, and for a value of a lane, because reading it could split the batch.
// Outer transforms are told that the value is read: a recording makes it a guard.
Tensor DependenceHandler::read(const Tensor& x) const {
  if (!x.node_ptr()->storage || (!here_ && (notes_.find(x) || has_hidden_answers_))) return {};
  if (x.node_ptr()->notes) notify_read(notes_.strip(x));
  return to(observed(x), cpu);
}

// Drops the entries of live_ whose values no longer exist.
void DependenceHandler::sweep() {
  std::erase_if(live_, [](const auto& numbers) { return numbers.expired(); });
  live_after_sweep_ = live_.size();
}

void DependenceHandler::collect() {
  sweep();
  std::vector<Tensor> live;
  for (const auto& numbers : live_)
    if (const auto held = numbers.lock()) live.push_back(*held);
  const UnderFrame outside(nullptr);
  sets.collect(live);
}

// Effects are performed by the handlers below. The tensors of an answer do not count as constants.
void* DependenceHandler::handling(const EffectType& effect) {
  if (is_of_the_library(effect)) return nullptr;
  if (effect.recordable) return effect.recordable->has_answer ? effect.recordable->handling : nullptr;
  has_hidden_answers_ = true;
  return nullptr;
}

std::any DependenceHandler::answer_recordable(const EffectType& effect, std::any performed) {
  std::any answer = effect.recordable->perform(performed);
  effect.recordable->visit_answer(answer, [&](Leaf leaf) {
    Tensor& tensor = leaf;
    if (tensor.defined() && !notes_.find(tensor)) tensor = follow(std::move(tensor));
  });
  return answer;
}

}  // namespace stave_detail
