// Marks the results of an operation as values with a lost derivative, if a transform that
// differentiates the inputs does not see the operation. Start at `LostDerivativeMarks`.
#include <stave/core/op/lost_derivatives.h>

#include <algorithm>

#include <stave/core/effects/controller.h>
#include <stave/core/effects/scope.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

constinit thread_local int answered_outside = 0;

namespace {

constinit thread_local TracksValues* trackers = nullptr;

bool is_or_stands_for(const AnyHandler* handler, const AnyHandler* transform) noexcept {
  if (!handler) return false;
  if (handler == transform) return true;
  const auto* const other = dynamic_cast<const RepresentsTransform*>(handler);
  return other && other->stands_for() == transform;
}

// Returns true if the transform sees the operations performed here, or performs them itself.
bool sees(const AnyHandler* transform) noexcept {
  for (const Frame* frame = current; frame; frame = frame->below)
    if (is_or_stands_for(frame->handler, transform)) return true;
  bool at_work = false;
  visit_frames(current, nullptr, [&](const Frame& frame) {
    if (frame.kind != Frame::Kind::interception) return;
    const Frame* const answering = static_cast<const Interception&>(frame).answering;
    at_work |= answering && is_or_stands_for(answering->handler, transform);
  });
  return at_work;
}

const FollowsDerivatives* transform_of(const NotesState& owner) noexcept {
  if (!owner.differentiates || owner.thread != id_of_this_thread()) return nullptr;
  if (!owner.running.load(std::memory_order_acquire)) return nullptr;
  return dynamic_cast<const FollowsDerivatives*>(owner.differentiates);
}

}  // namespace

void* AnsweredOutside::handling(const EffectType& effect) {
  if (effect == effect_type<WhichFloat>() || effect == effect_type<UncancellableMark>()) return nullptr;
  if (effect.remembering) effect_ = &effect;
  return effect.remembering;
}

void fail_lost(const char* transform, const std::string& effect) {
  fail<TransformError>(
      "{0}: {1} was answered outside of {0} with a value computed there from values that {0} differentiates, and the "
      "result depends on it: its derivative would be lost. Compute it inside of {0} (install the handler there, or "
      "answer with the tensors of the effect themselves), or write stop_gradient(x) if a constant is meant",
      transform, effect);
}

TracksValues::TracksValues() noexcept : next_(trackers) {
  if (next_) next_->previous_ = this;
  trackers = this;
  ++answered_outside;
}
TracksValues::~TracksValues() {
  --answered_outside;
  (previous_ ? previous_->next_ : trackers) = next_;
  if (next_) next_->previous_ = previous_;
}

LostDerivativeMarks::LostDerivativeMarks(const Op& op, std::span<const Tensor> inputs) {
  if (op.derivative == Derivative::zero) return;
  look_for_transforms(inputs);
  for (TracksValues* tracker = trackers; tracker; tracker = tracker->next_) {
    std::uint64_t sources = 0;
    for (const Tensor& x : inputs) sources |= tracker->sources(x);
    if (sources) trackers_.push_back({tracker, sources});
  }
}

void LostDerivativeMarks::look_for_transforms(std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs)
    for (const Note* note = x.defined() ? x.node_ptr()->notes : nullptr; note; note = note->next) {
      if (!note->live() || !transform_of(*note->owner)) continue;
      const auto is_it = [&](const IntrusivePtr<NotesState>& known) { return known.get() == note->owner; };
      if (std::any_of(transforms_.begin(), transforms_.end(), is_it) || sees(note->owner->differentiates)) continue;
      transforms_.push_back(IntrusivePtr<NotesState>(note->owner));
    }
}

Tensor LostDerivativeMarks::marked(Tensor x) const {
  if (!x.defined() || !is_inexact(x.dtype())) return x;
  for (const IntrusivePtr<NotesState>& owner : transforms_)
    if (const FollowsDerivatives* const transform = transform_of(*owner)) x = transform->lost(std::move(x));
  for (const auto& [tracker, sources] : trackers_)
    for (const TracksValues* at = trackers; at; at = at->next_)  // `tracker` may no longer exist
      if (at == tracker) x = tracker->made_of(std::move(x), sources);
  return x;
}

Outputs LostDerivativeMarks::operator()(Outputs outputs) const {
  if (transforms_.empty() && trackers_.empty()) return outputs;
  for (Tensor& output : outputs) output = marked(std::move(output));
  return outputs;
}

Tensor mark_lost(Tensor y, std::span<const Tensor> xs) { return LostDerivativeMarks(xs).marked(std::move(y)); }

std::vector<const FollowsDerivatives*> transforms_passed() {
  std::vector<const FollowsDerivatives*> passed;
  if (!current || current->kind != Frame::Kind::interception) return passed;
  const auto& at_work = static_cast<const Interception&>(*current);
  visit_frames(at_work.performer, at_work.answering, [&](const Frame& frame) {
    const AnyHandler* handler = frame.handler;
    if (const auto* const other = dynamic_cast<const RepresentsTransform*>(handler)) handler = other->stands_for();
    const auto* const transform = dynamic_cast<const FollowsDerivatives*>(handler);
    if (transform && std::find(passed.begin(), passed.end(), transform) == passed.end()) passed.push_back(transform);
  });
  return passed;
}

}  // namespace stave_detail
