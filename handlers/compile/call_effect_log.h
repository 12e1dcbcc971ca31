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
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// Returns true if effects of this type are the library's own, which are not recorded.
bool is_of_the_library(const EffectType& effect) noexcept;

class CallEffectLog {
 public:
  /// `name` is the name of the compiled function in errors; it is not copied.
  explicit CallEffectLog(const char* name) : name_(name) {}

  /// A logged effect and its answer, both without their tensors.
  struct LoggedEffect {
    const EffectType* type = nullptr;
    std::any effect, answer = {};
    std::vector<Tensor> tensors = {};  // tensors of the answer
    /// For each tensor of the answer, its number among the tensors of the call's effects if it is
    /// one of these; -1 for a new tensor.
    std::vector<int> passed_before = {};
    // For each tensor of the answer, a mask of the effects' tensors from which it was computed
    // (TracksValues).
    std::vector<std::uint64_t> made_of = {};
    std::exception_ptr error = nullptr;  // null if the effect was answered
  };

  /// Starts a replay, or a run of the function.
  void begin() noexcept {
    next_ = 0;
    passed_.clear();
    deferred_ = false;
  }
  /// Starts a run of the function on examples of its arguments, in which it is recorded for
  /// transforms. The run performs no effects that hold tensors. An effect without an answer is left
  /// to the replay that follows; if that is not possible, the run throws and sets `refused`.
  void begin_example() noexcept {
    begin();
    at_example_ = true;
  }
  void end_example() noexcept { at_example_ = false; }
  bool at_example() const noexcept { return at_example_; }

  /// Returns the logged effect and answer, if this effect is the next one of the call's last replay
  /// or run. Otherwise performs the effect now. Rethrows the exception that the effect's handler
  /// throws. The result is valid until the next call.
  const LoggedEffect& ask(const EffectType& type, std::any effect);
  /// Returns tensor i of an answer. If the tensor is one of those of the call's effects, returns it
  /// with the notes that it has in the current replay or run. If a handler computed it from such
  /// tensors, the transforms inside the function that trace them have lost its derivative.
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
  LoggedEffect performed(const EffectType& type, std::any effect, std::any bare, std::size_t first);

  const char* name_;
  std::vector<LoggedEffect> all_;
  std::size_t next_ = 0;
  class Marks;
  std::vector<Tensor> passed_;    // the tensors of the effects so far
  std::shared_ptr<Marks> marks_;  // the marks on the tensors that outer handlers receive
  bool at_example_ = false, deferred_ = false;
  LoggedEffect none_;
};

}  // namespace stave_detail
