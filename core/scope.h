// Where an operation was performed: the frames around it, and the scopes (effect.h) among them, which a tape remembers for its
// backward pass.
#pragma once

#include <list>
#include <vector>

#include <stave/core/effect.h>
#include <stave/core/function_ref.h>

namespace stave_detail {

/// The frames from `first` down to `last` (null: all), from inside out. An interception hides frames: those of the program
/// that performed, down to the handler that answers. They come right after it.
void visit_frames(const Frame* first, const Frame* last, FunctionRef<void(const Frame&)> visit);

/// Names of scopes, innermost first. Never empty.
struct ScopePath : RefCounted {
  std::vector<NamePtr> names;
};
using ScopePathPtr = IntrusivePtr<const ScopePath>;

ScopePathPtr find_scopes_of_performer(ScopePathPtr& last);

/// For a handler that is answering: the scopes entered above it where the effect was performed; null if there are none.
/// `last` is what the same caller was given last: one path serves all operations of a scope.
inline ScopePathPtr scopes_of_performer(ScopePathPtr& last) {
  return open_scopes == 0 ? nullptr : find_scopes_of_performer(last);
}

/// While it stands, what is performed is so in the scopes of `path` (null: none), inside those that stand already.
class ReenteredScopes {
 public:
  explicit ReenteredScopes(const ScopePath* path) : restore_(current) {
    if (path) enter(*path);
  }

 private:
  void enter(const ScopePath& path);

  UnderFrame restore_;
  std::list<ScopeFrame> frames_;
};

}  // namespace stave_detail
