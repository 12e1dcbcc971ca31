// The effect log of one call of a compiled function: the effects that handlers outside of the
// function answer.
//
// Each effect happens once for the call, in order, however often the function is replayed
// and run for it. After a replay that finds something new, the function runs from its start,
// and its first effects are answered from the log.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/op/recorded_answer.h>

namespace stave_detail {

/// Returns true if effects of this type are the library's own, which are not recorded.
bool is_of_the_library(const EffectType& effect) noexcept;

class CallEffectLog {
 public:
  /// `name` is the name of the compiled function in errors; it is not copied.
  explicit CallEffectLog(const char* name) : name_(name), tensors_(name) {}

  /// A logged effect, without its tensors, and its answer.
  struct LoggedEffect : RecordedAnswer {
    std::any effect;
    // For each tensor of the answer, a mask of the effects' tensors from which it was computed
    // (TracksValues).
    std::vector<std::uint64_t> made_of = {};
    std::exception_ptr error = nullptr;  // null if the effect was answered
  };

  /// Starts a replay, or a run of the function.
  void begin() noexcept {
    next_ = 0;
    tensors_.clear();
    deferred_ = false;
  }
  /// Starts a run of the function on examples of its arguments, in which it is recorded for
  /// transforms. The run performs no effect that holds tensors. The replay that follows performs
  /// such an effect, if it has no answer and no other effect follows it. Otherwise the run throws
  /// TransformError and sets `refused`.
  void begin_example() noexcept {
    begin();
    at_example_ = true;
  }
  void end_example() noexcept { at_example_ = false; }
  bool at_example() const noexcept { return at_example_; }

  /// Returns the next entry of the log, if its effect equals this one. Otherwise drops the rest of
  /// the log, performs the effect and logs it. Rethrows the exception that the effect's handler
  /// throws. The result is valid until `ask` is called again.
  const LoggedEffect& ask(const EffectType& type, std::any effect);
  /// Returns tensor i of an answer. A tensor that an effect of this call passed is returned with
  /// the notes that it has in the current replay or run. If a handler computed the tensor from such
  /// tensors, marks its derivative as lost for the transforms inside the function that trace them.
  Tensor tensor(const LoggedEffect& logged, std::size_t i) const;
  /// Returns the answer that `ask` returns, with its tensors.
  std::any answer(const EffectType& type, std::any effect);

  /// Runs f(), the function itself, and answers its first effects from the log.
  template <class F>
  auto run(F&& f) && {
    if (all_.empty()) return f();
    begin();
    return with(answering(std::move(*this)), f);
  }

  /// The reason why the function cannot be recorded; empty if it can.
  std::string refused;
  /// Sets `refused`. Throws TransformError in a run on examples.
  void refuse(const EffectType& effect, const char* why);

 private:
  static std::shared_ptr<AnyHandler> answering(CallEffectLog asked);
  bool is_next(const EffectType& type, const std::any& bare) const;
  LoggedEffect performed(const EffectType& type, std::any effect, int first);

  const char* name_;
  std::vector<LoggedEffect> all_;
  std::size_t next_ = 0;
  EffectTensors tensors_;  // the tensors of the effects so far
  bool at_example_ = false, deferred_ = false;
  LoggedEffect none_;
};

}  // namespace stave_detail
