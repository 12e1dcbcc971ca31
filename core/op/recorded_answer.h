// The answers to effects in the logs of functions that run more than once: in those of checkpoint
// (function.cpp), of vmap's paths (paths_effects.cpp) and of compiled functions
// (call_effect_log.cpp). The three logs differ in which effects get a logged answer again.
//
// An answer may hold tensors that came with an effect. In another run these tensors carry other
// notes, of transforms inside the function. So a log stores such a tensor as a number, and each run
// puts its own tensor of that number in its place.
#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// An answer to a recordable effect, apart from its tensors.
struct RecordedAnswer {
  const EffectType* type = nullptr;
  std::any answer = {};  // with empty tensors
  std::vector<Tensor> tensors = {};
  /// For each tensor, its number among the tensors of the effects (EffectTensors), if it is one of
  /// these; the tensor itself is empty then. -1 for another tensor.
  std::vector<int> passed = {};

  RecordedAnswer() = default;
  /// Takes the tensors out of an answer. `passed` is -1 for each of them.
  RecordedAnswer(const EffectType& effect, std::any given);
  /// Returns the answer with tensor(i) in the place of tensor i.
  std::any with(FunctionRef<Tensor(std::size_t)> tensor) const;
};

/// The tensors of effects, numbered in their order. Outer handlers receive marked copies, which are
/// recognised in their answers.
class EffectTensors {
 public:
  struct Mark {
    int number = -1;  // -1: not one of these tensors
    // A mask of the tensors from which this one was computed, if it was not passed itself
    // (TracksValues).
    std::uint64_t sources = 0;
  };

  /// `name` names the marks in errors; it is not copied.
  explicit EffectTensors(const char* name) noexcept : name_(name) {}

  /// Takes the tensors out of an effect, and gives them the next numbers. Returns the first of
  /// these.
  int add(const EffectType& type, std::any& effect);
  /// Puts marked copies of the tensors from number `first` on into an effect from which they were
  /// taken. With `replace`, they are copies of replace(x) for each defined tensor x.
  void put_marked(const EffectType& type, std::any& effect, int first) const;
  void put_marked(const EffectType& type, std::any& effect, int first,
                  FunctionRef<Tensor(const Tensor&)> replace) const;
  /// Returns the number of the tensor of which x is a marked copy; -1 if it is none.
  int number_of(const Tensor& x) const noexcept;
  /// Finds the tensors of the answer that are marked copies, and stores them by their numbers.
  void recognise(RecordedAnswer& answer) const;

  const Tensor& operator[](int number) const { return tensors_[static_cast<std::size_t>(number)]; }
  int size() const noexcept { return static_cast<int>(tensors_.size()); }
  /// Forgets the tensors, so that the next one has number 0. Their copies remain marked.
  void clear() noexcept { tensors_.clear(); }
  /// The marks; null if no tensor has been marked.
  const Notes<Mark>* marks() const noexcept { return marks_ ? &*marks_ : nullptr; }

 private:
  const char* name_;
  std::vector<Tensor> tensors_;
  mutable std::optional<Notes<Mark>> marks_;
};

/// Returns what a log remembers as the answer to an effect of this type: an A, which is
/// a RecordedAnswer or derived from it. Rethrows the exception if the effect's handler threw one.
template <class A>
const A& recorded_as(const std::any& known, const EffectType& type) {
  if (const auto* threw = std::any_cast<Remembers::Threw>(&known)) std::rethrow_exception(threw->what);
  const A* const recorded = std::any_cast<A>(&known);
  if (!recorded || !(*recorded->type == type)) throw_other_effect(type.type);
  return *recorded;
}

}  // namespace stave_detail
