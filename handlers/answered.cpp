#include <stave/handlers/answered.h>

namespace stave_detail {

bool may_be_answered(const stave::EffectType& effect) noexcept {
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    const auto answers = frame->handler->answered_effects();
    if ((answers && answers(effect)) || dynamic_cast<const Remembers*>(frame->handler)) return true;
  }
  return false;
}

}  // namespace stave_detail
