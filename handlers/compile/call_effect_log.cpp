#include <stave/handlers/compile/call_effect_log.h>

#include <optional>

#include <stave/core/effects/controller.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

bool is_of_the_library(const EffectType& effect) noexcept {
  return !effect.remembering || effect == effect_type<WhichFloat>() || effect == effect_type<UncancellableMark>();
}

namespace {

class AnswersAgain final : public AnyHandler {
 public:
  explicit AnswersAgain(CallEffectLog asked) : asked_(std::move(asked)) {}
  void* handling(const EffectType& effect) override {
    return effect.recordable && !is_of_the_library(effect) ? effect.recordable->handling : nullptr;
  }
  std::any answer_recordable(const EffectType& effect, std::any performed) override {
    return asked_.answer(effect, std::move(performed));
  }
  std::string describe() const override { return ""; }

 private:
  CallEffectLog asked_;
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
  const std::size_t first = passed_.size();
  std::any bare = effect;
  bool holds = false;
  type.recordable->visit_effect(bare, [&](Tensor& x) {
    holds |= x.defined();
    passed_.push_back(std::exchange(x, Tensor()));
  });
  if (!is_next(type, bare)) {
    // The run differs from what is logged, so the rest of the log is dropped.
    all_.resize(next_);
    if (at_example_ && (holds || deferred_)) {
      if (deferred_ || type.recordable->has_answer)
        refuse(type,
               "under a transform, an effect that holds tensors cannot be recorded if it has an answer or if other "
               "effects follow");
      deferred_ = true;
      none_ = {&type, std::move(bare)};
      return none_;
    }
    all_.push_back(performed(type, std::move(effect), std::move(bare), first));
  }
  const LoggedEffect& logged = all_[next_++];
  if (logged.error) std::rethrow_exception(logged.error);
  return logged;
}

// Marks on the tensors that effects passed to outer handlers, and on values computed from them.
class CallEffectLog::Marks {
 public:
  struct Mark {
    int number = -1;  // -1: not one of these tensors
    std::uint64_t sources = 0;
  };
  explicit Marks(const char* name) : notes_(make_intrusive<NotesState>(name)) {}
  Tensor number(const Tensor& x, int number) const {
    return notes_.put(clone_node(x), {number, TracksValues::source(static_cast<std::size_t>(number))});
  }
  const Mark* find(const Tensor& x) const noexcept { return notes_.find(x); }

  /// Tracks which marked tensors a value is computed from, while a handler answers.
  class Spreading final : public TracksValues {
   public:
    explicit Spreading(const Marks& marks) noexcept : notes_(marks.notes_) {}
    std::uint64_t sources(const Tensor& x) const noexcept override {
      const Mark* const mark = notes_.find(x);
      return mark ? mark->sources : 0;
    }
    Tensor made_of(Tensor x, std::uint64_t sources) const override { return notes_.put(std::move(x), {-1, sources}); }

   private:
    const Notes<Mark>& notes_;
  };

 private:
  Notes<Mark> notes_;
};

// Performs the effect, which the handlers around the call answer. The effect's tensors are marked,
// so that they are recognised in the answer. `tensor` later returns the function's own tensors in
// their place, whose notes transforms inside the function may need.
CallEffectLog::LoggedEffect CallEffectLog::performed(const EffectType& type, std::any effect, std::any bare,
                                                     std::size_t first) {
  auto number = static_cast<int>(first);
  type.recordable->visit_effect(effect, [&](Tensor& x) {
    if (!marks_) marks_ = std::make_shared<Marks>(name_);
    if (x.defined()) x = marks_->number(x, number);
    ++number;
  });
  LoggedEffect logged{&type, std::move(bare)};
  try {
    const std::shared_ptr<const Marks> marks = marks_;
    std::optional<Marks::Spreading> spreading;
    if (marks) spreading.emplace(*marks);
    logged.answer = type.recordable->perform(effect);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    logged.error = std::current_exception();
    return logged;
  }
  type.recordable->visit_answer(logged.answer, [&](Tensor& x) {
    const Marks::Mark* const mark = marks_ ? marks_->find(x) : nullptr;
    const bool passed = mark && mark->number >= 0;
    logged.passed_before.push_back(passed ? mark->number : -1);
    logged.made_of.push_back(mark && !passed ? mark->sources : 0);
    logged.tensors.push_back(passed ? Tensor() : x);
    x = Tensor();
  });
  return logged;
}

Tensor CallEffectLog::tensor(const LoggedEffect& logged, std::size_t i) const {
  if (const int passed = logged.passed_before[i]; passed >= 0) return passed_[static_cast<std::size_t>(passed)];
  const std::uint64_t sources = logged.made_of[i];
  if (sources == 0) return logged.tensors[i];
  std::vector<Tensor> made_of;
  for (std::size_t number = 0; number < passed_.size(); ++number)
    if (sources & TracksValues::source(number)) made_of.push_back(passed_[number]);
  return mark_lost(logged.tensors[i], made_of);
}

std::any CallEffectLog::answer(const EffectType& type, std::any effect) {
  const LoggedEffect& logged = ask(type, std::move(effect));
  std::any answer = logged.answer;
  std::size_t next = 0;
  type.recordable->visit_answer(answer, [&](Tensor& x) { x = tensor(logged, next++); });
  return answer;
}

}  // namespace stave_detail
