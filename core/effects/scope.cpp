// Finds scopes: it walks over the frames of the handler stack, hidden frames included.
#include <stave/core/effects/scope.h>

namespace stave {

std::vector<std::string> scopes() {
  std::vector<std::string> names;
  stave_detail::visit_frames(stave_detail::current, nullptr, [&](const Frame& frame) {
    if (const NamePtr* name = stave_detail::scope_of(frame)) names.push_back((*name)->text);
  });
  return names;
}

bool in_backward_pass() {
  bool found = false;
  stave_detail::visit_frames(stave_detail::current, nullptr, [&](const Frame& frame) {
    const NamePtr* name = stave_detail::scope_of(frame);
    found |= name && (*name)->backward;
  });
  return found;
}

}  // namespace stave

namespace stave_detail {

constinit thread_local int open_scopes = 0;

void visit_frames(const Frame* first, const Frame* last, FunctionRef<void(const Frame&)> visit) {
  for (const Frame* frame = first; frame; frame = frame->below) {
    visit(*frame);
    if (frame == last) break;
    if (frame->kind != Frame::Kind::interception) continue;
    const auto& interception = static_cast<const Interception&>(*frame);
    if (interception.answering) visit_frames(interception.performer, interception.answering, visit);
  }
}

ScopePathPtr find_scopes_of_performer(ScopePathPtr& last) {
  if (!current || current->kind != Frame::Kind::interception) return nullptr;
  std::vector<NamePtr> names;
  const auto& interception = static_cast<const Interception&>(*current);
  visit_frames(interception.performer, interception.answering, [&](const Frame& frame) {
    if (const NamePtr* name = scope_of(frame)) names.push_back(*name);
  });
  if (names.empty()) return nullptr;
  if (last && last->names == names) return last;
  auto path = make_intrusive<ScopePath>();
  path->names = std::move(names);
  return last = path;
}

void ReenteredScopes::enter(const ScopePath& path) {
  for (auto name = path.names.rbegin(); name != path.names.rend(); ++name) scopes_.emplace_back(*name);
}

}  // namespace stave_detail
