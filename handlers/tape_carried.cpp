// Reverse mode of the operation `call` (core/carried.h).
//
//   checkpoint    forward, the function runs below and nothing of it is recorded; backward, it runs again and is recorded then,
//                 on a tape of its own that goes on in this one, so that values it captured get their cotangents as
//                 arguments do. What other handlers compute to answer its effects is recorded the first time.
//   custom_vjp    forward runs below, in place of the function; what it calls is ordinary to the handlers there, so a
//                 second derivative is that of forward and backward
//   custom_jvp    the tangent rule, as a function of tangents, is transposed
//   custom_vmap   nothing of reverse mode: its function is differentiated, and vmap's rule not used where grad stands inside
//
// Custom rules must not capture values that are differentiated: there would be no cotangent for them.
#include <algorithm>

#include <stave/core/epoch.h>
#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/handlers/tape.h>
#include <stave/handlers/vjp_flat.h>

namespace stave_detail {

namespace {

// Throws where a function touches values with notes that it must have captured.
class CaptureGuard final : public Handler {
 public:
  CaptureGuard(std::vector<InstallationId> ids, const char* transform, const char* what)
      : ids_(std::move(ids)), transform_(transform), what_(what) {}
  Outputs handle(Call& call) override {
    check(call.inputs());
    return perform(std::move(call));
  }
  std::string describe() const override { return fmt::format("{} of {}", what_, transform_); }
  void check(const Forward& results) const {
    check(results.outputs);
    check(results.residuals);
  }
  void check(std::span<const Tensor> xs) const {
    for (const Tensor& x : xs)
      for (const InstallationId id : ids_)
        if (x.defined() && has_note(x, id))
          fail<TransformError>(
              "{}: its function captures a value that {} transforms, and the rule says nothing of it: pass it as an "
              "argument",
              what_, transform_);
  }

 private:
  const std::vector<InstallationId> ids_;
  const char *const transform_, *const what_;
};

// Stands in the place of grad while a checkpoint's function runs for the first time.
class Unrecorded final : public Handler, public std::enable_shared_from_this<Unrecorded> {
 public:
  Unrecorded(GradHandler& grad, IntrusivePtr<EffectLog> log)
      : grad_(&grad), owner_(&grad.notes.owner()), log_(std::move(log)) {}
  Outputs handle(Call& call) override {
    GradHandler* const grad = running();
    if (!grad) return perform(std::move(call));
    if (log_->answering) return grad->handle(call);  // by who answers an effect: the answer keeps its derivative
    const bool before = std::exchange(touched, is_known(*grad, call.inputs()));
    // functions inside may touch more
    Outputs outputs = call.op().carries_functions ? perform(with_bare_rules(call)) : perform(std::move(call));
    if (touched) outputs = grad->unrecorded(std::move(outputs));
    touched |= before;
    return outputs;
  }
  std::string describe() const override { return ""; }

  /// Runs the function on inputs with the notes of `arguments`.
  Outputs run(const FunctionAttributes& functions, std::span<const Tensor> xs, std::span<const Tensor> arguments) {
    const GradHandler* const grad = running();
    Inputs inputs(xs.begin(), xs.end());
    for (std::size_t i = 0; grad && i < inputs.size(); ++i)
      if (const Slot* slot = grad->find(arguments[i])) inputs[i] = grad->notes.put(clone_node(inputs[i]), *slot);
    Outputs outputs = with(shared_from_this(), [&] { return functions.run(functions.function, inputs); });
    make_bare(outputs);  // they may be an argument, or a captured value itself
    return outputs;
  }
  bool touched = false;

 private:
  // While it records, on its thread; else values are constants to it.
  GradHandler* running() const { return owner_->running && owner_->thread == this_thread() ? grad_ : nullptr; }
  static bool is_known(const GradHandler& grad, std::span<const Tensor> xs) {
    return std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return grad.find(x) != nullptr; });
  }
  void make_bare(std::span<Tensor> xs) {
    const GradHandler* const grad = running();
    if (!grad) return;
    touched |= is_known(*grad, xs);
    for (Tensor& x : xs) x = grad->without_notes(std::move(x));
  }
  void make_bare(Forward& results) {
    make_bare(results.outputs);
    make_bare(results.residuals);
  }
  // Handlers below keep what rules give, as tangents, say, beside results: these leave the checkpoint without notes.
  Call with_bare_rules(const Call& call) {
    auto bare = make_intrusive<FunctionAttributes>(functions_of(call));
    FunctionAttributes::for_rules([&](auto member) {
      auto& rule = *bare.*member;
      if (!rule) return;
      rule = [self = shared_from_this(), rule = std::move(rule)](auto... arguments) {
        auto results = rule(arguments...);
        self->make_bare(results);
        return results;
      };
    });
    return call.with_attributes(std::move(bare));
  }
  GradHandler* const grad_;  // while it runs
  const IntrusivePtr<NoteOwner> owner_;
  const IntrusivePtr<EffectLog> log_;
};

struct RunAgainAttributes final : Attributes {
  AttributesPtr functions;
  std::shared_ptr<const GradHandler> recorder;  // lent, if it is the first one
  std::string str() const override { return ""; }
};

struct PullbackAttributes final : Attributes {
  FlatPullback pullback;
  SmallVector<bool, 4> differentiated;  // input i has a cotangent
  std::string str() const override { return ""; }
};

Outputs with_zeros(std::span<const Tensor> cotangents, const CarriedOutputs& outputs) {
  Outputs full;
  for (std::size_t i = 0; i < outputs.abstracts.size(); ++i) {
    const Abstract& output = outputs.abstracts[i];
    const bool given = i < cotangents.size() && cotangents[i].defined();
    full.push_back(given ? cotangents[i] : zeros(output.shape, output.dtype, outputs.devices[i]));
  }
  return full;
}

}  // namespace

FunctionAttributes without_captures(const FunctionAttributes& functions, std::vector<InstallationId> ids,
                                    const char* transform) {
  const auto guard = std::make_shared<CaptureGuard>(std::move(ids), transform, functions.name);
  return functions.lifted([guard](auto call) {
    auto results = with(guard, call);
    guard->check(results);
    return results;
  });
}

Outputs GradHandler::handle_carrying(Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  if (functions.runs_again) return checkpoint(call);
  const bool any = is_noted(call);
  if (!functions.backward && !functions.tangents) {
    if (!any) return perform(std::move(call));
    return with(*this, [&] { return functions.run(functions.function, call.inputs()); });
  }
  FunctionAttributes guarded = without_captures(functions, ids(), notes.owner().name);
  if (!any) return perform_functions(Inputs(call.inputs()), std::move(guarded));
  return functions.backward ? custom_vjp(call, std::move(guarded)) : custom_jvp(call, guarded);
}

Outputs GradHandler::checkpoint(Call& call) {
  FunctionAttributes first = functions_of(call);
  const auto unrecorded = std::make_shared<Unrecorded>(*this, first.log);
  first.around = nullptr;
  first.function = [unrecorded, functions = call.attributes_ptr(), arguments = Inputs(call.inputs())](auto xs) {
    return unrecorded->run(static_cast<const FunctionAttributes&>(*functions), xs, arguments);
  };
  Outputs outputs = perform_functions(without_notes(call.inputs()), std::move(first));
  if (!unrecorded->touched && !is_noted(call)) return outputs;
  const auto again = make_intrusive<RunAgainAttributes>();
  again->functions = call.attributes_ptr();
  again->recorder = weak_from_this().lock();
  if (!again->recorder) again->recorder = {std::shared_ptr<void>(), this};
  const EntryPtr entry = record(call);
  entry->attributes = again;
  std::copy(call.inputs().begin(), call.inputs().end(), entry->inputs().begin());  // with notes: the same producers
  return noted(without_notes(std::move(outputs)), entry);
}

Outputs GradHandler::custom_vjp(Call& call, FunctionAttributes functions) {
  const EntryPtr entry = record(call);
  Forward forward = functions.run(functions.forward, without_notes(call.inputs()));
  entry->attributes = make_intrusive<FunctionAttributes>(std::move(functions));
  entry->carried = std::make_unique<CarriedOutputs>();
  entry->carried->residuals.append(forward.residuals.begin(), forward.residuals.end());
  return noted(without_notes(std::move(forward.outputs)), entry);
}

Outputs GradHandler::custom_jvp(Call& call, const FunctionAttributes& functions) {
  const Inputs primals = without_notes(call.inputs());
  const auto pullback = make_intrusive<PullbackAttributes>();
  std::vector<Tensor> tangents;  // of the differentiated inputs
  for (std::size_t i = 0; i < primals.size(); ++i) {
    pullback->differentiated.push_back(find(call.inputs()[i]) != nullptr);
    if (pullback->differentiated.back()) tangents.push_back(zeros_like(primals[i]));
  }
  Outputs outputs;
  FlatVjp transposed = vjp_flat(
      [&](std::span<const Tensor> given) {
        Inputs all = primals;
        for (std::size_t i = 0, next = 0; i < primals.size(); ++i)
          all.push_back(pullback->differentiated[i] ? given[next++] : zeros_like(primals[i]));
        const Outputs both = functions.run(functions.tangents, all);
        const std::size_t count = both.size() / 2;
        outputs = Outputs(both.begin(), both.begin() + count);
        return Outputs(both.begin() + count, both.end());
      },
      tangents, "custom_jvp");
  pullback->pullback = std::move(transposed.pullback);
  const EntryPtr entry = record(call);
  entry->attributes = pullback;
  return noted(without_notes(std::move(outputs)), entry);
}

std::vector<InstallationId> GradHandler::ids() const {
  std::vector<InstallationId> ids;
  for (const GradHandler* handler = this; handler; handler = handler->base_.get()) ids.push_back(handler->notes.id());
  return ids;
}

bool runs_again(const Entry& entry) { return dynamic_cast<const RunAgainAttributes*>(entry.attributes.get()); }

Recorded run_again(Entry& entry) {
  const auto& attributes = static_cast<const RunAgainAttributes&>(*entry.attributes);
  const auto& functions = static_cast<const FunctionAttributes&>(*attributes.functions);
  const auto recorder = std::make_shared<GradHandler>(attributes.recorder, entry.sequence + 1);
  const Epoch epoch;
  Recorded recorded{{}, recorder};
  recorded.outputs = recorder->notes.run(
      [&] { return with(recorder, [&] { return functions.run(functions.function, entry.inputs()); }); });
  const auto& first = entry.carried->abstracts;
  bool same = recorded.outputs.size() == first.size();
  for (std::size_t i = 0; same && i < first.size(); ++i)
    same = recorded.outputs[i].shape() == first[i].shape && recorded.outputs[i].dtype() == first[i].dtype;
  if (!same) fail<TransformError>("checkpoint: the function gave other results when it ran again than at first");
  return recorded;
}

Outputs custom_cotangents(Entry& entry, std::span<const Tensor> cotangents, bool consume) {
  const Outputs full = with_zeros(cotangents, *entry.carried);
  if (const auto* functions = dynamic_cast<const FunctionAttributes*>(entry.attributes.get())) {
    Inputs arguments(entry.carried->residuals.begin(), entry.carried->residuals.end());
    arguments.append(full.begin(), full.end());
    return functions->run(functions->backward, arguments);
  }
  const auto& rule = static_cast<const PullbackAttributes&>(*entry.attributes);
  FlatPullback pullback = rule.pullback;
  const std::vector<Tensor> found = consume ? pullback.consume(full) : pullback(full);
  Outputs result;
  for (std::size_t i = 0, next = 0; i < rule.differentiated.size(); ++i)
    result.push_back(rule.differentiated[i] ? found[next++] : Tensor());
  return result;
}

}  // namespace stave_detail
