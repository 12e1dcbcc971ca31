#include <algorithm>
#include <utility>

#include <stave/core/ops/create.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/recorder.h>

namespace stave_detail {

namespace {

constexpr std::size_t most_instructions = std::size_t{1} << 20;

}  // namespace

Layout::Layout(const Tensor& x) {
  if (!x.defined()) return;
  defined = true;
  dtype = x.dtype();
  device = x.device();
  shape = x.shape();
  strides = x.strides();
}

bool Layout::describes(const Tensor& x) const {
  if (!x.defined() || !defined) return x.defined() == defined;
  const Node& node = x.node();
  return node.dtype == dtype && node.device == device && node.shape == shape && node.strides == strides;
}

Outputs Recorder::run(FlatFunction f, std::span<const Tensor> inputs) {
  Outputs outputs = home_->notes.run([&] { return with(*this, [&] { return f(inputs); }); });
  for (Tensor& output : outputs) {
    if (!facts.too_long) program.outputs.push_back(output.defined() ? variable_of(output) : -1);
    output = home_->notes.strip(std::move(output));
  }
  return outputs;
}

// ---- operations ---------------------------------------------------------------------------------

Outputs Recorder::handle(Call& call) {
  const auto inputs = call.inputs();
  const auto pass_on = [&] { return unrecorded([&] { return perform(std::move(call)); }); };
  if (facts.too_long) return pass_on();
  if (program.instructions.size() >= most_instructions) {
    facts.too_long = true;
    program = {};
    return pass_on();
  }
  // A loop's step must not perform higher-order operations (record_step): the outer transforms have
  // rules for these, so the loop is unrolled.
  if (call.op().is_higher_order && kind_ == Kind::step) {
    has_higher_order_ = true;
    return pass_on();
  }
  if (call.op().is_higher_order && calls_ == HigherOrderCalls::inlined) return handle_higher_order(call);
  if (call.op().is_higher_order) return unrecorded([&] { return handle_higher_order(call); });
  if (inputs.empty()) {
    creations_.push_back({&call.op(), call.attributes_ptr(), -1});
    Outputs outputs = pass_on();
    if (outputs.size() != 1) return outputs;
    outputs[0] = home_->put(std::move(outputs[0]), -1, static_cast<int>(creations_.size()) - 1);
    return outputs;
  }
  if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return depends(x); })) {
    facts.captures_traced |=
        std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return is_followed_outside(x); });
    return pass_on();
  }
  Program::Instruction step{&call.op(), call.attributes_ptr()};
  for (const Tensor& input : inputs) step.inputs.push_back(variable_of(input));
  Outputs outputs = performed(call, step);
  return add(std::move(step), std::move(outputs));
}

Outputs Recorder::performed(Call& call, const Program::Instruction& step) {
  const auto inferred = call.abstract_outputs();
  const SmallVector<Abstract, 1> outputs(inferred.begin(), inferred.end());
  const Device device = call.input(0).device();
  try {
    return perform(std::move(call));
  } catch (Error& error) {
    if (!makes_guards() || step.op->id == OpId::to) {
      facts.caught = true;
      throw;
    }
    RecordedGuard guard;
    guard.step = step;
    guard.step.barrier = barrier();
    guard.variables = static_cast<int>(program.variables.size());
    guard.threw = &typeid(error);
    for (const Abstract& it : outputs) guard.outputs.push_back({it.shape, it.dtype, device, nullptr});
    add_guard(std::move(guard));
    watch_text(error, texts_read_.emplace_back(std::make_shared<bool>(false)));
    throw;
  } catch (...) {
    facts.caught = true;
    throw;
  }
}

// Returns true if a transform that was installed before this recorder traces x, and would not see
// the recorded operations.
bool Recorder::is_followed_outside(const Tensor& x) const {
  // The outer transforms see the operations, except while a rule is recorded or the function is
  // recorded on examples.
  if (!rules_ && !(effect_log_ && effect_log_->at_example())) return false;
  for (const Note* note = x.node().notes; note; note = note->next)
    if (note->owner->thread && note->live() && note->owner->id < home_->notes.id()) return true;
  return false;
}

void Recorder::add_guard(RecordedGuard guard) {
  guard.at = program.instructions.size();
  guard.step.scopes = scopes_of_performer(last_scopes_);
  facts.guards.push_back(std::move(guard));
}

// ---- effects ------------------------------------------------------------------------------------

void* Recorder::handling(const EffectType& effect) {
  if (is_of_the_library(effect)) return Handles::handling(effect);
  if (makes_guards() && effect.recordable) return effect.recordable->handling;
  facts.has_unrecorded_effect = true;
  if (makes_guards())
    effect_log_->refuse(
        effect,
        "it, or its answer, cannot be copied and compared (stave/core/effects/recordable.h says which types can)");
  else if (effect_log_ && kind_ == Kind::carried)
    effect_log_->refuse(effect, "it is performed by a function that has rules of its own");
  return nullptr;
}

std::any Recorder::answer_recordable(const EffectType& effect, std::any performed) {
  if (facts.too_long) return effect_log_->answer(effect, std::move(performed));
  RecordedGuard guard;
  effect.recordable->visit_effect(performed,
                                  [&](Tensor& x) { guard.step.inputs.push_back(x.defined() ? variable_of(x) : -1); });
  guard.variables = static_cast<int>(program.variables.size());
  guard.asked = &effect;
  struct WhileAnswering {
    bool& asking;
    const bool before = std::exchange(asking, true);
    ~WhileAnswering() { asking = before; }
  };
  const CallEffectLog::LoggedEffect* asked = nullptr;
  unrecorded([&] {
    const WhileAnswering quietly{answering_};
    asked = &effect_log_->ask(effect, std::move(performed));
    return Outputs();
  });
  guard.effect = asked->effect;
  guard.answer = asked->answer;
  std::any answer = asked->with([&](std::size_t i) {
    const Tensor given = effect_log_->tensor(*asked, i);
    const bool is_new = asked->passed[i] < 0;
    guard.tensors.push_back({asked->passed[i], asked->made_of[i], is_new ? Layout(given) : Layout()});
    return is_new && given.defined() ? answered(given) : given;
  });
  add_guard(std::move(guard));
  return answer;
}

Tensor Recorder::answered(const Tensor& x) {
  const int variable = program.add_variable(x.shape(), x.dtype(), x.device(), label_of(x.node()));
  return home_->put(clone_node(effect_log_->at_example() ? example_of(x) : x), variable);
}

// ---- a function ---------------------------------------------------------------------------------

bool is_followed(const Tensor& x) {
  if (!x.node().storage) return true;
  for (const Note* note = x.node().notes; note; note = note->next)
    if (note->owner->thread && note->live()) return true;
  return false;
}

Recording record(const char* name, FlatFunction f, std::span<const Tensor> given, HigherOrderCalls calls,
                 CallEffectLog* asked, int orders) {
  Recorder recorder(name, calls, orders, asked);
  std::vector<Tensor> inputs;
  const auto first = std::find_if(given.begin(), given.end(), [](const Tensor& x) { return x.defined(); });
  for (const Tensor& x : given) inputs.push_back(recorder.input(x, first == given.end() ? cpu : first->device()));
  Outputs outputs = recorder.run(f, inputs);
  inputs.clear();
  recorder.close();
  Recording recording = recorder.take_recording();
  recording.outputs = std::move(outputs);
  return recording;
}

Recording Recorder::take_recording() {
  Recording recording = std::move(facts);
  recording.read_error_text =
      std::any_of(texts_read_.begin(), texts_read_.end(), [](const auto& asked) { return *asked; });
  for (Program::Constant& constant : program.constants) {
    constant.value = home_->notes.strip(std::move(constant.value));
    recording.captures_traced |= is_followed(constant.value);
  }
  recording.program = std::move(program);
  return recording;
}

}  // namespace stave_detail
