// Effects that most often nobody answers.
#pragma once

#include <utility>

#include <stave/core/effects/effect.h>

namespace stave_detail {

/// Whether a handler may answer. The log of a checkpoint counts: it answers in order, so it must be asked whenever its function runs.
bool may_be_answered(const stave::EffectType& effect) noexcept;

/// perform(effect), where somebody may answer; else its default. `compile` takes each effect that comes by for one that something outside
/// answers, and calls the function itself from then on; of this it hears only where there is somebody.
template <class E>
typename E::Result perform_if_answered(E effect) {
  return may_be_answered(stave::effect_type<E>()) ? stave::perform(std::move(effect)) : effect.unhandled();
}

}  // namespace stave_detail
