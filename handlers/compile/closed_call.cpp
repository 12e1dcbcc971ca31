#include <stave/handlers/compile/closed_call.h>

#include <algorithm>
#include <set>

#include <stave/core/op/function.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/record.h>

namespace stave_detail {

namespace {

template <class Predicate>
bool any_note(const Node& node, Predicate predicate) {
  for (const Note* note = node.notes; note; note = note->next)
    if (note->live() && predicate(*note)) return true;
  return false;
}

bool is_differentiated(const Tensor& x) {
  for (const Tensor* value = &x; value; value = lanes_of(*value))
    if (any_note(value->node(), [](const Note& note) { return note.owner->differentiates != nullptr; })) return true;
  return false;
}

std::vector<Tensor> examples_of(std::span<const Tensor> xs) {
  std::vector<Tensor> examples;
  for (const Tensor& x : xs) examples.push_back(example_of(x));
  return examples;
}

bool contains(const std::vector<bool>& mask, bool value) {
  return std::find(mask.begin(), mask.end(), value) != mask.end();
}

}  // namespace

bool takes_closed_calls() noexcept {
  for (const Frame* frame = current ? current->nearest : nullptr; frame;
       frame = frame->below ? frame->below->nearest : nullptr)
    if (!frame->handler || !frame->handler->properties().takes_closed_calls) return false;
  return true;
}

std::string describe_handler_without_closed_calls() {
  for (const Frame* frame = current ? current->nearest : nullptr; frame;
       frame = frame->below ? frame->below->nearest : nullptr)
    if (!frame->handler || !frame->handler->properties().takes_closed_calls)
      return frame->handler ? frame->handler->describe() : "a handler";
  return "";
}

int orders_of_derivative(std::span<const Tensor> xs) {
  std::set<InstallationId> transforms;
  for (const Tensor& x : xs)
    for (const Tensor* value = &x; value && value->defined(); value = lanes_of(*value))
      for (const Note* note = value->node().notes; note; note = note->next)
        if (note->live() && note->owner->differentiates && note->owner->running) transforms.insert(note->owner->id);
  return static_cast<int>(transforms.size());
}

ClosedCall::ClosedCall(Program program, const ClosedCallSettings& settings)
    : program_(std::move(program)), settings_(settings) {}

template <class Key, class Value>
template <class Make>
Value ClosedCall::RecentResults<Key, Value>::find(const Key& key, Make make) {
  for (const auto& [known, value] : kept_)
    if (known == key) return value;
  Value value = make();
  if (kept_.size() == most) kept_.erase(kept_.begin());
  kept_.emplace_back(key, value);
  return value;
}

Outputs ClosedCall::operator()(std::span<const Tensor> inputs) const {
  if (!current || !current->nearest) return run(inputs);
  if (!takes_closed_calls()) return program_(inputs);
  if (std::none_of(inputs.begin(), inputs.end(), is_followed)) return run(inputs);
  Mask lanes;
  for (const Tensor& x : inputs) lanes.push_back(!x.node().storage);
  if (contains(lanes, true))
    if (const auto apart = lane_free_part(lanes)) return run_lane_free(*apart, inputs, lanes);
  Mask wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    wanted.push_back(is_inexact(inputs[i].dtype()) && is_differentiated(inputs[i]));
  return call(inputs, wanted);
}

Mask ClosedCall::differentiable_in(const Mask& inputs) const {
  const std::lock_guard lock(mutex_);
  return differentiable_.find(inputs, [&] {
    return reach_derivatives(program_, select(inputs, program_.inputs), Direction::forward).at(program_.outputs);
  });
}

Outputs ClosedCall::run_lane_free(const LaneFree& apart, std::span<const Tensor> inputs, const Mask& lanes) {
  std::vector<Tensor> first, rest;
  for (std::size_t i = 0; i < inputs.size(); ++i) (lanes[i] ? rest : first).push_back(inputs[i]);
  Outputs found = (*apart.parts.first)(first);
  const auto count = static_cast<std::size_t>(std::count(apart.outputs.begin(), apart.outputs.end(), true));
  rest.insert(rest.begin(), found.begin() + count, found.end());
  Outputs others = (*apart.parts.rest)(rest), all;
  std::size_t next = 0, next_other = 0;
  for (const bool is_apart : apart.outputs) all.push_back(std::move(is_apart ? found[next++] : others[next_other++]));
  return all;
}

// Runs the program outside of all handlers, so that no handler sees its operations.
Outputs ClosedCall::run(std::span<const Tensor> inputs) const {
  std::vector<Strides> strides;
  for (const Tensor& x : inputs) strides.push_back(x.strides());
  std::shared_ptr<const Executable> executable;
  std::shared_ptr<const Program> optimized;
  {
    const std::lock_guard lock(mutex_);
    if (!optimized_)
      optimized_ = std::make_shared<const Program>(stave::optimized(
          with_calls_inlined(program_),
          {.hoists_from_loops = settings_.native != Native::required, .folds_scales = settings_.for_inference}));
    optimized = optimized_;
    if (Executable::admits(*optimized))
      executable = executables_.find(strides, [&] {
        return std::make_shared<const Executable>(
            *optimized, strides,
            ExecutableSettings{
                .name = settings_.name, .native = settings_.native, .prepares_constants = settings_.for_inference});
      });
  }
  if (executable) return (*executable)(inputs);
  UnderFrame past_all_handlers(nullptr);
  return (*optimized)(inputs);
}

ClosedCall::Partitioned::Partitioned(Partition parts, const ClosedCallSettings& settings)
    : first(std::make_shared<const ClosedCall>(std::move(parts.first), settings)),
      rest(std::make_shared<const ClosedCall>(std::move(parts.rest), settings)) {}

ClosedCall::Partitioned ClosedCall::reverse(const Mask& wanted, std::span<const Tensor> inputs) const {
  const std::lock_guard lock(mutex_);
  return reverse_.find(wanted, [&] { return Partitioned(vjp_of(program_, wanted, examples_of(inputs)), settings_); });
}

ClosedCall::Partitioned ClosedCall::tangents(const Mask& wanted, std::span<const Tensor> inputs) const {
  const std::lock_guard lock(mutex_);
  return tangents_.find(wanted, [&] {
    const Program both = jvp_of(program_, wanted, examples_of(inputs));
    return Partitioned(partition(both, first_of(inputs.size(), both.inputs.size()),
                                 first_of(program_.outputs.size(), both.outputs.size())),
                       settings_);
  });
}

std::shared_ptr<const ClosedCall::LaneFree> ClosedCall::lane_free_part(const Mask& lanes) const {
  const std::lock_guard lock(mutex_);
  return lane_free_.find(lanes, [&]() -> std::shared_ptr<const LaneFree> {
    Mask without = lanes;
    Mask outputs = reach(program_, select(lanes, program_.inputs), Direction::forward).variables.at(program_.outputs);
    without.flip();
    outputs.flip();
    if (!contains(outputs, true)) return nullptr;
    return std::make_shared<const LaneFree>(
        LaneFree{outputs, Partitioned(partition(program_, without, outputs), settings_)});
  });
}

ClosedCallPtr ClosedCall::batched(const Lanes& lanes, std::span<const Tensor> inputs) const {
  const std::lock_guard lock(mutex_);
  return batched_.find(lanes, [&] {
    return std::make_shared<const ClosedCall>(batched_of(program_, lanes.count, lanes.batched, examples_of(inputs)),
                                              settings_);
  });
}

Outputs ClosedCall::call(std::span<const Tensor> inputs, const Mask& wanted) const {
  const auto self = shared_from_this();
  FunctionAttributes functions;
  functions.name = settings_.name;
  functions.function = [self](const FunctionInputs& given) { return self->run(given.inputs); };
  functions.batches_first = true;
  functions.batch = [self](const FunctionInputs& given) {
    return (*self->batched({given.lanes, Mask(given.batched.begin(), given.batched.end())}, given.inputs))(
        given.inputs);
  };
  if (!contains(wanted, true)) return call_function(std::move(functions), Inputs(inputs.begin(), inputs.end()));
  add_derivatives(functions, wanted);
  Outputs outputs = call_function(std::move(functions), Inputs(inputs.begin(), inputs.end()));
  // An output through which no derivative flows, such as the result of a stop_gradient, must not be
  // traced: it would not be if the operations were performed one by one.
  const Mask differentiable = differentiable_in(wanted);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!differentiable[i] && is_inexact(outputs[i].dtype())) outputs[i] = stop_gradient(std::move(outputs[i]));
  return outputs;
}

void ClosedCall::add_derivatives(FunctionAttributes& functions, const Mask& wanted) const {
  const auto self = shared_from_this();
  // The backward pass. The rule `forward` sets it.
  const auto made = std::make_shared<ClosedCallPtr>();
  functions.forward = [self, wanted, made](const FunctionInputs& given) {
    const Partitioned passes = self->reverse(wanted, given.inputs);
    *made = passes.rest;
    return FunctionResults::split((*passes.first)(given.inputs), self->program_.outputs.size());
  };
  functions.backward = [self, wanted, made](const FunctionInputs& given) {
    const std::vector<int>& outputs = self->program_.outputs;
    std::vector<Tensor> inputs(given.inputs.begin(), given.inputs.end());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (is_inexact(self->program_.variable(outputs[i]).dtype)) inputs.push_back(given.derivatives[i]);
    const Outputs found = (**made)(inputs);
    Outputs cotangents;
    std::size_t next = 0;
    for (const bool wants : wanted) cotangents.push_back(wants ? found[next++] : Tensor());
    return cotangents;
  };
  functions.tangents = [self, wanted](const FunctionInputs& given) {
    const Partitioned parts = self->tangents(wanted, given.inputs);
    auto results = FunctionResults::split((*parts.first)(given.inputs), self->program_.outputs.size());
    std::vector<Tensor> inputs(results.more.begin(), results.more.end());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) inputs.push_back(given.derivatives[i]);
    results.more = (*parts.rest)(inputs);
    return results;
  };
}

}  // namespace stave_detail
