// The effects of one call of a compiled function that something outside of it answers.
//
// Each happens once for the call, in order, however often the function is replayed and run for it: a replay that meets what was not met
// before is followed by a run of the function from its start, in which the first effects are answered as in the replay.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// Whether effects of this type are the library's own, which nobody records.
bool is_of_the_library(const EffectType& effect) noexcept;

class AskedOutside {
 public:
  /// `name`: what errors call the compiled function; it is not copied.
  explicit AskedOutside(const char* name) : name_(name) {}

  /// An effect and its answer, both without their tensors.
  struct Asked {
    const EffectType* type = nullptr;
    std::any effect, answer = {};
    std::vector<Tensor> tensors = {};  // of the answer
    std::vector<int> passed_before =
        {};  // of each, which of the call's effects' tensors it is, by number; -1: none of them
    std::vector<std::uint64_t> made_of = {};  // of each, which of those it was computed from (TracksValues)
    std::exception_ptr error = nullptr;       // null: it was answered
  };

  /// A replay, or a run of the function, begins.
  void begin() noexcept {
    next_ = 0;
    passed_.clear();
    deferred_ = false;
  }
  /// A run at an example of the arguments begins: effects that hold tensors do not happen in it. What has no answer is left for the
  /// replay that follows; else it throws, and `refused` says so.
  void begin_example() noexcept {
    begin();
    at_example_ = true;
  }
  void end_example() noexcept { at_example_ = false; }
  bool at_example() const noexcept { return at_example_; }

  /// The answer, if it is as of this call's last replay or run; else the effect is performed now. Throws what whoever answers throws.
  /// Valid until the next.
  const Asked& ask(const EffectType& type, std::any effect);
  /// A tensor of an answer: of one that an effect had before, as this replay or run has it.
  /// Transforms inside of the run that follow what it was computed from have lost its derivative.
  Tensor tensor(const Asked& asked, std::size_t i) const;
  /// The same as `ask`, with its tensors.
  std::any answer(const EffectType& type, std::any effect);

  /// f(), the function itself, whose first effects are answered from here.
  template <class F>
  auto run(F&& f) && {
    if (all_.empty()) return f();
    begin();
    return with(answering(std::move(*this)), f);
  }

  /// Why the function cannot be recorded; empty: it may be.
  std::string refused;
  /// Says so; throws, in a run at an example.
  void refuse(const EffectType& effect, const char* why);

 private:
  static std::shared_ptr<AnyHandler> answering(AskedOutside asked);
  bool is_next(const EffectType& type, const std::any& bare) const;
  Asked performed(const EffectType& type, std::any effect, std::any bare, std::size_t first);

  const char* name_;
  std::vector<Asked> all_;
  std::size_t next_ = 0;
  class Marks;
  std::vector<Tensor> passed_;    // the tensors of the effects so far
  std::shared_ptr<Marks> marks_;  // on them, as they are outside: their numbers
  bool at_example_ = false, deferred_ = false;
  Asked none_;
};

}  // namespace stave_detail
