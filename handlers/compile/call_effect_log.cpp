#include <stave/handlers/compile/call_effect_log.h>

#include <optional>

#include <stave/core/effects/controller.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

bool is_of_the_library(const EffectType& effect) noexcept {
  return !effect.remembering || effect == effect_type<WhichFloat>() || effect == effect_type<UncancellableMark>();
}

namespace {

class AnswersAgain final : public AnyHandler {
 public:
  explicit AnswersAgain(CallEffectLog asked) : effect_log_(std::move(asked)) {}
  void* handling(const EffectType& effect) override {
    return effect.recordable && !is_of_the_library(effect) ? effect.recordable->handling : nullptr;
  }
  std::any answer_recordable(const EffectType& effect, std::any performed) override {
    return effect_log_.answer(effect, std::move(performed));
  }
  std::string describe() const override { return ""; }

 private:
  CallEffectLog effect_log_;
};

}  // namespace

std::shared_ptr<AnyHandler> CallEffectLog::answering(CallEffectLog asked) {
  return std::make_shared<AnswersAgain>(std::move(asked));
}

void CallEffectLog::refuse(const EffectType& effect, const char* why) {
  refused = fmt::format("it performs {}, which a handler outside answers: {}", type_name(effect.type), why);
  if (at_example_) throw TransformError(fmt::format("{}: {}", name_, refused));
}

bool CallEffectLog::is_next(const EffectType& type, const std::any& bare) const {
  return next_ < all_.size() && *all_[next_].type == type && type.recordable->same_effect(all_[next_].effect, bare);
}

const CallEffectLog::LoggedEffect& CallEffectLog::ask(const EffectType& type, std::any effect) {
  const int first = tensors_.add(type, effect);
  if (!is_next(type, effect)) {
    // The run differs from what is logged, so the rest of the log is dropped.
    all_.resize(next_);
    bool holds_tensors = false;
    for (int number = first; number < tensors_.size(); ++number) holds_tensors |= tensors_[number].defined();
    if (at_example_ && (holds_tensors || deferred_)) {
      if (deferred_ || type.recordable->has_answer)
        refuse(type,
               "under a transform, an effect that holds tensors cannot be recorded if it has an answer or if other "
               "effects follow");
      deferred_ = true;
      none_ = {};
      none_.type = &type;
      none_.effect = std::move(effect);
      return none_;
    }
    all_.push_back(performed(type, std::move(effect), first));
  }
  const LoggedEffect& logged = all_[next_++];
  if (logged.error) std::rethrow_exception(logged.error);
  return logged;
}

namespace {

// Tracks which tensors of the effects a value is computed from, while a handler answers.
class TracksEffectTensors final : public TracksValues {
 public:
  explicit TracksEffectTensors(const Notes<EffectTensors::Mark>& marks) noexcept : marks_(marks) {}
  std::uint64_t sources(const Tensor& x) const noexcept override {
    const EffectTensors::Mark* const mark = marks_.find(x);
    if (!mark) return 0;
    return mark->number < 0 ? mark->sources : source(static_cast<std::size_t>(mark->number));
  }
  Tensor made_of(Tensor x, std::uint64_t sources) const override { return marks_.put(std::move(x), {-1, sources}); }

 private:
  const Notes<EffectTensors::Mark>& marks_;
};

}  // namespace

// Performs the effect, which the handlers around the call answer.
CallEffectLog::LoggedEffect CallEffectLog::performed(const EffectType& type, std::any effect, int first) {
  LoggedEffect logged;
  logged.type = &type;
  logged.effect = effect;
  tensors_.put_marked(type, effect, first);
  const Notes<EffectTensors::Mark>* const marks = tensors_.marks();
  try {
    std::optional<TracksEffectTensors> tracks;
    if (marks) tracks.emplace(*marks);
    static_cast<RecordedAnswer&>(logged) = RecordedAnswer(type, type.recordable->perform(effect));
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    logged.error = std::current_exception();
    return logged;
  }
  for (const Tensor& x : logged.tensors) {
    const EffectTensors::Mark* const mark = marks ? marks->find(x) : nullptr;
    logged.made_of.push_back(mark ? mark->sources : 0);
  }
  tensors_.recognise(logged);
  return logged;
}

Tensor CallEffectLog::tensor(const LoggedEffect& logged, std::size_t i) const {
  if (const int number = logged.passed[i]; number >= 0) return tensors_[number];
  const std::uint64_t sources = logged.made_of[i];
  if (sources == 0) return logged.tensors[i];
  std::vector<Tensor> made_of;
  for (int number = 0; number < tensors_.size(); ++number)
    if (sources & TracksValues::source(static_cast<std::size_t>(number))) made_of.push_back(tensors_[number]);
  return mark_lost(logged.tensors[i], made_of);
}

std::any CallEffectLog::answer(const EffectType& type, std::any effect) {
  const LoggedEffect& logged = ask(type, std::move(effect));
  return logged.with([&](std::size_t i) { return tensor(logged, i); });
}

}  // namespace stave_detail
