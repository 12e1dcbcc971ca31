// Effects that most often nobody answers.
#pragma once

#include <utility>

#include <stave/core/effects/effect.h>

namespace stave_detail {

/// What is to know of effects that were not performed because nobody would answer.
class NotesUnasked {
 public:
  virtual void unasked(const stave::EffectType& effect) = 0;

 protected:
  ~NotesUnasked() = default;
};

/// Whether a handler may answer; if not, those around that are to know of it do. The log of a checkpoint counts: it answers in order, so
/// it must be asked whenever its function runs.
bool may_be_answered(const stave::EffectType& effect);

/// perform(effect), where somebody may answer; else its default. For effects that `compile` cannot keep: it would call the function itself
/// from then on. So it does only where there is somebody.
template <class E>
typename E::Result perform_if_answered(E effect) {
  return may_be_answered(stave::effect_type<E>()) ? stave::perform(std::move(effect)) : effect.unhandled();
}

}  // namespace stave_detail
