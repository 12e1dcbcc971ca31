#include <stave/handlers/transforms/answered.h>

namespace stave_detail {

bool may_be_answered(const stave::EffectType& effect) {
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    const auto answers = frame->handler->answered_effects();
    if ((answers && answers(effect)) || frame->handler->properties().replays_answers) return true;
  }
  perform(Unanswered{effect});
  return false;
}

}  // namespace stave_detail
