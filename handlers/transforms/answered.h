// Effects that usually have no handler: they are performed only if a handler may answer them.
#pragma once

#include <utility>

#include <stave/core/effects/effect.h>

namespace stave_detail {

/// The effect that is performed in place of one that is skipped because no handler would answer it.
/// A handler of Unanswered also passes it on.
struct Unanswered {
  static constexpr bool remembered = false;
  using Result = void;
  const stave::EffectType& effect;
  static void unhandled() noexcept {}
};

/// Returns true if an installed handler may answer the effect; otherwise performs Unanswered and
/// returns false. Only handlers that list their effects (AnyHandler::answered_effects) count, and
/// the effect log of a checkpoint: it replays its answers in order, so it must see the effect each
/// time the checkpoint's function runs.
bool may_be_answered(const stave::EffectType& effect);

/// Returns perform(effect) if a handler may answer it, and otherwise the effect's default.
/// If an effect is performed that `compile` cannot record, `compile` calls the function itself from
/// then on; an effect that it can record becomes a guard. This function avoids both where no
/// handler would answer.
template <class E>
typename E::Result perform_if_answered(E effect) {
  return may_be_answered(stave::effect_type<E>()) ? stave::perform(std::move(effect)) : effect.unhandled();
}

}  // namespace stave_detail
