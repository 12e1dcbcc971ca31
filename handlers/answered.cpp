#include <stave/handlers/answered.h>

#include <stave/handlers/paths.h>

namespace stave_detail {

bool may_be_answered(const stave::EffectType& effect) noexcept {
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    const auto answers = frame->handler->answered_effects();
    if (answers && answers(effect)) return true;
    const bool logs = dynamic_cast<const Remembers*>(frame->handler);
    if (logs && !dynamic_cast<const PathEffects*>(frame->handler))
      return true;  // of paths: who is around is there in each
  }
  return false;
}

}  // namespace stave_detail
