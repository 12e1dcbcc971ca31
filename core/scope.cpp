#include <stave/core/scope.h>

namespace stave_detail {

void visit_frames(const Frame* first, const Frame* last, FunctionRef<void(const Frame&)> visit) {
  for (const Frame* frame = first; frame; frame = frame->below) {
    visit(*frame);
    if (frame == last) break;
    if (frame->kind != Frame::Kind::interception) continue;
    const auto& interception = static_cast<const Interception&>(*frame);
    visit_frames(interception.performer, interception.answering, visit);
  }
}

ScopePathPtr find_scopes_of_performer(ScopePathPtr& last) {
  if (!current || current->kind != Frame::Kind::interception) return nullptr;
  std::vector<NamePtr> names;
  const auto& interception = static_cast<const Interception&>(*current);
  visit_frames(interception.performer, interception.answering, [&](const Frame& frame) {
    if (frame.kind == Frame::Kind::scope) names.push_back(static_cast<const ScopeFrame&>(frame).name);
  });
  if (names.empty()) return nullptr;
  if (last && last->names == names) return last;
  auto path = make_intrusive<ScopePath>();
  path->names = std::move(names);
  return last = path;
}

void ReenteredScopes::enter(const ScopePath& path) {
  for (auto name = path.names.rbegin(); name != path.names.rend(); ++name)
    current = &frames_.emplace_back(current, *name);
}

}  // namespace stave_detail
