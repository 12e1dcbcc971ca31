// Reverse mode of the higher-order operation `call` (core/op/higher_order.h).
//
//   checkpoint   In the forward pass, the function runs under the outer handlers, and none of its
//                operations is recorded. In the backward pass it runs again and is recorded on a
//                tape of its own. That tape continues this one, so captured values get cotangents
//                as arguments do. The operations by which other handlers answer the effects of the
//                function are recorded in the first run. The values that a policy saves are
//                returned after the results, so that outer handlers treat them as results.
//   custom_vjp   The rule `forward` runs under the outer handlers in place of the function. Its
//                operations are ordinary ones to these handlers, so a second derivative is that
//                of forward and backward.
//   custom_jvp   The tangent rule, as a function of tangents, is transposed.
//   custom_vmap  Reverse mode has no rule of its own for it: its function is differentiated.
//                vmap's rule is not used where grad is installed inside of vmap. A checkpoint
//                with everything_saveable is differentiated likewise.
//
// Custom rules must not capture values that are differentiated: such values would get no cotangent.
// CaptureGuard throws for them.
#include <algorithm>
#include <atomic>
#include <map>

#include <stave/core/op/rematerialization_barrier.h>
#include <stave/core/ops/create.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/tape.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

namespace {

// Throws TransformError if a function reads a value with a note of one of the handlers `ids`. The
// function's arguments carry no such notes, so it must have captured the value.
class CaptureGuard final : public Handler {
 public:
  CaptureGuard(std::vector<InstallationId> ids, const char* transform, const char* what)
      : ids_(std::move(ids)), transform_(transform), what_(what) {}
  Outputs handle(Call& call) override {
    check(call.inputs());
    return perform(std::move(call));
  }
  std::string describe() const override { return fmt::format("{} of {}", what_, transform_); }
  HandlerProperties properties() const noexcept override { return {.takes_closed_calls = true}; }
  void check(std::span<const Tensor> xs) const {
    for (const Tensor& x : xs)
      for (const InstallationId id : ids_)
        if (x.defined() && has_note(x, id))
          fail<TransformError>(
              "{}: its function captures a value that {} transforms, and the rule gives no derivative for it: pass it "
              "as an argument",
              what_, transform_);
  }

 private:
  const std::vector<InstallationId> ids_;
  const char *const transform_, *const what_;
};

// The values of one run that a policy saves: outputs by the number of their operation.
struct Saving {
  std::shared_ptr<const Saveable> what;
  std::map<std::size_t, SavedOutputs> saved{};
  std::size_t number = 0;
  int inside = 0;  // nesting depth inside functions of higher-order operations
};

// The outputs of an operation, which are saved if one of them is given a label of the policy.
struct Candidate {
  std::shared_ptr<Saving> saving;
  SavedOutputs outputs;
  void labelled(const NamePtr& name) const {
    const auto& labels = saving->what->labels;
    if (std::find(labels.begin(), labels.end(), name->text) != labels.end())
      saving->saved.emplace(outputs.number, outputs);
  }
};

// The handler that takes the place of grad while a checkpoint's function runs for the first time.
class Unrecorded final : public Handler, public RepresentsTransform, public std::enable_shared_from_this<Unrecorded> {
 public:
  Unrecorded(GradHandler& grad, const FunctionAttributes& functions)
      : grad_(&grad), owner_(&grad.notes.owner()), log_(functions.log), saves_(functions.saves),
        candidates_("checkpoint") {}
  /// Creates the handler for another run of the function.
  Unrecorded(const Unrecorded& first)
      : Handler(), std::enable_shared_from_this<Unrecorded>(), grad_(first.grad_), owner_(first.owner_),
        log_(first.log_), saves_(first.saves_), candidates_("checkpoint"), any_touched_(first.any_touched_) {}
  std::shared_ptr<Unrecorded> for_a_run() {
    return ran_.exchange(true) ? std::make_shared<Unrecorded>(*this) : shared_from_this();
  }
  Outputs handle(Call& call) override {
    GradHandler* const grad = running();
    if (grad && log_->answering)
      // A handler performs this operation to answer an effect. It is recorded, so that the answer
      // keeps its derivative.
      return grad->handle(call);
    if (!grad) return saved(call, [&] { return perform(std::move(call)); });
    const bool before = std::exchange(touched, is_known(*grad, call.inputs()));
    // The functions of a higher-order operation may use more differentiated values, which sets
    // `touched`.
    Outputs outputs = saved(
        call, [&] { return call.op().is_higher_order ? perform(with_bare_rules(call)) : perform(std::move(call)); });
    if (touched) outputs = grad->unrecorded(std::move(outputs));
    touched |= before;
    return outputs;
  }
  // grad runs no user code either, and is installed here when the function runs again.
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .counts_slot_effects = saves_ != nullptr};
  }
  std::string describe() const override { return ""; }
  const AnyHandler* stands_for() const noexcept override { return owner_->differentiates; }

  /// Runs the function on inputs with the notes of `arguments`. The saved values
  /// follow the results.
  Outputs run(FunctionRef<FunctionResults(const FunctionInputs&)> function, std::span<const Tensor> xs,
              std::span<const Tensor> arguments) {
    if (saves_) saving_ = std::make_shared<Saving>(Saving{.what = saves_});
    const GradHandler* const grad = running();
    Inputs inputs(xs.begin(), xs.end());
    for (std::size_t i = 0; grad && i < inputs.size(); ++i)
      if (const Slot* slot = grad->find(arguments[i])) inputs[i] = grad->notes.put(clone_node(inputs[i]), *slot);
    Outputs outputs = with(shared_from_this(), [&] { return function({inputs}); });
    // Outputs may carry notes of grad: by `unrecorded`, or as arguments or captured values that the
    // function returns.
    make_bare(outputs);
    if (touched) *any_touched_ = true;
    if (saves_) append_saved(outputs);
    return outputs;
  }
  /// Returns true if any run computed a value that depends on values known to grad.
  /// There are several runs if the lanes of a vmap split: one for each path.
  bool any_touched() const noexcept { return *any_touched_; }
  bool touched = false;  // true if this run computed a value that depends on values known to grad
  std::vector<SavedOutputs> saved_outputs;

 private:
  // Returns grad while it is recording on this thread, and null otherwise: then all values
  // are constants to it.
  GradHandler* running() const { return owner_->running && owner_->thread == id_of_this_thread() ? grad_ : nullptr; }
  static bool is_known(const GradHandler& grad, std::span<const Tensor> xs) {
    return std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return grad.find(x) != nullptr; });
  }
  void make_bare(std::span<Tensor> xs) {
    const GradHandler* const grad = running();
    if (!grad) return;
    touched |= is_known(*grad, xs);
    for (Tensor& x : xs) x = grad->without_notes(std::move(x));
  }
  // Returns the call with rules whose results, also the additional ones, such as tangents, carry no
  // notes of grad. Outer handlers keep the additional results beside the results of the call.
  Call with_bare_rules(const Call& call) {
    const FunctionAttributes& functions = functions_of(call);
    auto bare = make_intrusive<FunctionAttributes>(
        lifted(functions, [self = shared_from_this()](FunctionRole role, const FunctionInputs& given, auto run) {
          FunctionResults results = run(given);
          if (role == FunctionRole::function || role == FunctionRole::again) return results;
          self->make_bare(results);
          self->make_bare(results.more);
          return results;
        }));
    bare->results = functions.results;
    return call.with_attributes(std::move(bare));
  }
  // Returns the outputs of an operation, and saves copies that share their storage if
  // the policy says so.
  template <class Perform>
  Outputs saved(const Call& call, Perform perform) {
    if (!saving_) return perform();
    const std::shared_ptr<Saving> saving = saving_;
    if (call.op().is_higher_order || saving->inside > 0) {
      ++saving->inside;
      Outputs outputs = perform();
      --saving->inside;
      return outputs;
    }
    SavedOutputs found{saving->number++, &call.op(), {}};
    Outputs outputs = perform();
    const bool saves = saves_->operations && saves_->operations(*found.op);
    if (!saves && saves_->labels.empty()) return outputs;
    for (const Tensor& output : outputs) found.outputs.push_back(clone_node(output));
    if (saves) saving->saved.emplace(found.number, std::move(found));
    else
      for (Tensor& output : outputs) output = candidates_.put(std::move(output), Candidate{saving, found});
    return outputs;
  }
  void append_saved(Outputs& outputs) {
    for (auto& [number, saved] : saving_->saved) {
      make_bare(saved.outputs);
      outputs.append(saved.outputs.begin(), saved.outputs.end());
      saved_outputs.push_back(std::move(saved));
    }
  }
  GradHandler* const grad_;  // valid while grad runs
  const IntrusivePtr<NotesState> owner_;
  const IntrusivePtr<EffectLog> log_;
  const std::shared_ptr<const Saveable> saves_;
  const Notes<Candidate> candidates_;
  std::shared_ptr<Saving> saving_;
  std::atomic<bool> ran_{false};
  const std::shared_ptr<std::atomic<bool>> any_touched_ = std::make_shared<std::atomic<bool>>(false);
};

struct RunAgainAttributes final : Attributes {
  AttributesPtr functions;
  std::shared_ptr<const GradHandler> recorder;  // does not own the first recorder
  // The saved operations, without their outputs, which the entry holds. counts[i] is the number of
  // outputs of saved[i].
  std::vector<SavedOutputs> saved;
  std::vector<std::size_t> counts;
  std::string str() const override { return ""; }
};

struct PullbackAttributes final : Attributes {
  FlatPullback pullback;
  SmallVector<bool, 4> differentiated;  // differentiated[i]: input i has a cotangent
  std::string str() const override { return ""; }
};

// Moves the saved values, which follow the results of a function, from `outputs` to `kept`.
void take_saved(const Unrecorded& unrecorded, Outputs& outputs, RunAgainAttributes& again, HigherOrderOutputs& kept) {
  std::size_t count = 0;
  for (const SavedOutputs& saved : unrecorded.saved_outputs) {
    again.saved.push_back({saved.number, saved.op, {}});
    again.counts.push_back(saved.outputs.size());
    count += saved.outputs.size();
  }
  kept.residuals.append(outputs.end() - static_cast<std::ptrdiff_t>(count), outputs.end());
  outputs.resize(outputs.size() - count);
}

std::vector<SavedOutputs> saved_of(const Entry& entry, const RunAgainAttributes& attributes) {
  std::vector<SavedOutputs> saved = attributes.saved;
  const Tensor* next = entry.carried->residuals.begin();
  for (std::size_t i = 0; i < saved.size(); ++i, next += attributes.counts[i - 1])
    saved[i].outputs = Outputs(next, next + attributes.counts[i]);
  return saved;
}

Outputs with_zeros(std::span<const Tensor> cotangents, const HigherOrderOutputs& outputs) {
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
  return lifted(functions, [guard](FunctionRole, const FunctionInputs& given, auto run) {
    FunctionResults results = with(guard, [&] { return run(given); });
    guard->check(results);
    guard->check(results.more);
    return results;
  });
}

const Outputs* Replay::next(const Call& call) {
  if (inside > 0) return nullptr;
  const std::size_t number = number_++;
  if (next_ == saved_.size() || saved_[next_].number != number) return nullptr;
  const SavedOutputs& saved = saved_[next_++];
  const auto expected = call.abstract_outputs();
  bool same = saved.op == &call.op() && expected.size() == saved.outputs.size();
  for (std::size_t i = 0; same && i < expected.size(); ++i)
    same = saved.outputs[i].shape() == expected[i].shape && saved.outputs[i].dtype() == expected[i].dtype;
  if (!same) fail<TransformError>("checkpoint: the function performed different operations when it ran again");
  return &saved.outputs;
}

Outputs GradHandler::handle_higher_order(Call& call) {
  struct Inside {
    int* const depth;
    explicit Inside(Replay* replay) : depth(replay ? &++replay->inside : nullptr) {}
    ~Inside() {
      if (depth) --*depth;
    }
  } inside(replay_ ? &*replay_ : nullptr);
  const FunctionAttributes& functions = functions_of(call);
  if (functions.rematerializes) return checkpoint(call);
  const bool any = is_noted(call);
  if (!functions.has_derivative_rule()) {
    if (!any) return perform(std::move(call));
    return with(*this, [&] { return functions.run(FunctionRole::function, call.inputs()); });
  }
  FunctionAttributes guarded = without_captures(functions, ids(), notes.owner().name);
  if (!any) return perform_functions(Inputs(call.inputs()), std::move(guarded));
  if (const Slot* const lost = find_lost(call)) {
    const Slot like = *lost;
    return unrecorded(perform_functions(without_notes(call.inputs()), std::move(guarded)), like);
  }
  return functions.backward ? custom_vjp(call, std::move(guarded)) : custom_jvp(call, guarded);
}

Outputs GradHandler::checkpoint(Call& call) {
  const auto unrecorded = std::make_shared<Unrecorded>(*this, functions_of(call));
  FunctionAttributes first = lifted(functions_of(call),
                                    [unrecorded, arguments = Inputs(call.inputs())](
                                        FunctionRole, const FunctionInputs& given, auto run) -> FunctionResults {
                                      return unrecorded->for_a_run()->run(run, given.inputs, arguments);
                                    });
  first.gives_more |= first.saves != nullptr;
  first.saves = nullptr;
  Outputs outputs = perform_functions(without_notes(call.inputs()), std::move(first));
  const auto again = make_intrusive<RunAgainAttributes>();
  auto kept = std::make_unique<HigherOrderOutputs>();
  take_saved(*unrecorded, outputs, *again, *kept);
  if (!unrecorded->any_touched() && !is_noted(call)) return outputs;
  again->functions = call.attributes_ptr();
  again->recorder = weak_from_this().lock();
  if (!again->recorder) again->recorder = {std::shared_ptr<void>(), this};
  const EntryPtr entry = record(call);
  entry->attributes = again;
  entry->carried = std::move(kept);
  // The entry holds the inputs with their notes, so that the second run finds the same producers.
  std::copy(call.inputs().begin(), call.inputs().end(), entry->inputs().begin());
  return noted(without_notes(std::move(outputs)), entry);
}

Outputs GradHandler::custom_vjp(Call& call, FunctionAttributes functions) {
  const EntryPtr entry = record(call);
  FunctionResults forward = functions.run(FunctionRole::forward, {without_notes(call.inputs())});
  entry->attributes = make_intrusive<FunctionAttributes>(std::move(functions));
  entry->carried = std::make_unique<HigherOrderOutputs>();
  entry->carried->residuals.append(forward.more.begin(), forward.more.end());
  return noted(without_notes(std::move(forward)), entry);
}

Outputs GradHandler::custom_jvp(Call& call, const FunctionAttributes& functions) {
  const Inputs primals = without_notes(call.inputs());
  const auto pullback = make_intrusive<PullbackAttributes>();
  std::vector<Tensor> tangents;  // tangents of the differentiated inputs
  for (std::size_t i = 0; i < primals.size(); ++i) {
    pullback->differentiated.push_back(find(call.inputs()[i]) != nullptr);
    if (pullback->differentiated.back()) tangents.push_back(zeros_like(primals[i]));
  }
  Outputs outputs;
  FlatVjp transposed = vjp_flat(
      [&](std::span<const Tensor> given) {
        Inputs all;
        for (std::size_t i = 0, next = 0; i < primals.size(); ++i)
          all.push_back(pullback->differentiated[i] ? given[next++] : zeros_like(primals[i]));
        FunctionResults both = functions.run(FunctionRole::tangents, {primals, all});
        outputs = std::move(both);
        return std::move(both.more);
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

bool rematerializes(const Entry& entry) { return dynamic_cast<const RunAgainAttributes*>(entry.attributes.get()); }

Recorded run_again(Entry& entry) {
  const auto& attributes = static_cast<const RunAgainAttributes&>(*entry.attributes);
  const auto& functions = static_cast<const FunctionAttributes&>(*attributes.functions);
  const auto recorder =
      std::make_shared<GradHandler>(attributes.recorder, entry.sequence + 1, saved_of(entry, attributes));
  const RematerializationBarrier barrier;
  Recorded recorded{{}, recorder};
  const FunctionRole role = functions.again ? FunctionRole::again : FunctionRole::function;
  recorded.outputs =
      recorder->notes.run([&] { return with(recorder, [&] { return functions.run(role, {entry.inputs()}); }); });
  const auto& first = entry.carried->abstracts;
  bool same = recorded.outputs.size() == first.size();
  for (std::size_t i = 0; same && i < first.size(); ++i)
    same = recorded.outputs[i].shape() == first[i].shape && recorded.outputs[i].dtype() == first[i].dtype;
  if (!same) fail<TransformError>("checkpoint: the function returned different results when it ran again");
  return recorded;
}

Outputs custom_cotangents(Entry& entry, std::span<const Tensor> cotangents, bool consume) {
  const Outputs full = with_zeros(cotangents, *entry.carried);
  if (const auto* functions = dynamic_cast<const FunctionAttributes*>(entry.attributes.get()))
    return functions->run(FunctionRole::backward, {entry.carried->residuals, full});
  const auto& rule = static_cast<const PullbackAttributes&>(*entry.attributes);
  FlatPullback pullback = rule.pullback;
  const std::vector<Tensor> found = consume ? pullback.consume(full) : pullback(full);
  Outputs result;
  for (std::size_t i = 0, next = 0; i < rule.differentiated.size(); ++i)
    result.push_back(rule.differentiated[i] ? found[next++] : Tensor());
  return result;
}

}  // namespace stave_detail
