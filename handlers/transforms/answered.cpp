#include <stave/handlers/transforms/answered.h>

#include <stave/core/op/lost_derivatives.h>
#include <stave/handlers/transforms/paths.h>

namespace stave_detail {

bool may_be_answered(const stave::EffectType& effect) {
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    const auto answers = frame->handler->answered_effects();
    if (answers && answers(effect)) return true;
    if (!dynamic_cast<const Remembers*>(frame->handler)) continue;
    // The logs of vmap's paths do not count: the same outer handlers are installed in each run.
    const bool logs =
        !dynamic_cast<const PathEffects*>(frame->handler) && !dynamic_cast<const AnsweredOutside*>(frame->handler);
    if (logs) return true;
  }
  for (const Frame* frame = current; frame; frame = frame->below)
    if (auto* const notes = dynamic_cast<NotesUnasked*>(frame->handler)) notes->unasked(effect);
  return false;
}

}  // namespace stave_detail
