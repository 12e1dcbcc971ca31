// Effects that usually have no handler: they are performed only if a handler may answer them.
#pragma once

#include <utility>

#include <stave/core/effects/effect.h>

namespace stave_detail {

/// Interface of handlers that record effects that were not performed because no handler would
/// answer.
class NotesUnasked {
 public:
  virtual void unasked(const stave::EffectType& effect) = 0;

 protected:
  ~NotesUnasked() = default;
};

/// Returns true if a handler may answer the effect. If not, it notifies the NotesUnasked handlers
/// around. The effect log of a checkpoint counts as such a handler: it answers in order,
/// so it must see the effect each time its function runs.
bool may_be_answered(const stave::EffectType& effect);

/// Returns perform(effect) if a handler may answer it, and otherwise the effect's default.
/// It is meant for effects that `compile` cannot record: performing one makes `compile` call
/// the function itself from then on, so it is performed only if a handler exists.
template <class E>
typename E::Result perform_if_answered(E effect) {
  return may_be_answered(stave::effect_type<E>()) ? stave::perform(std::move(effect)) : effect.unhandled();
}

}  // namespace stave_detail
