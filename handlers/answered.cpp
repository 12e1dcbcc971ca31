#include <stave/handlers/answered.h>

#include <stave/handlers/paths.h>

namespace stave_detail {

bool may_be_answered(const stave::EffectType& effect) {
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    const auto answers = frame->handler->answered_effects();
    if (answers && answers(effect)) return true;
    const bool logs = dynamic_cast<const Remembers*>(frame->handler);
    if (logs && !dynamic_cast<const PathEffects*>(frame->handler))
      return true;  // of paths: who is around is there in each
  }
  for (const Frame* frame = current; frame; frame = frame->below)
    if (auto* const notes = dynamic_cast<NotesUnasked*>(frame->handler)) notes->unasked(effect);
  return false;
}

}  // namespace stave_detail
