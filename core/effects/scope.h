// Scopes are names that a program gives to its parts. This file also finds where an operation
// was performed: the frames around it and the scopes among them, which a tape remembers for its
// backward pass.
#pragma once

#include <list>
#include <string>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/function_ref.h>

namespace stave_detail {

// The number of open scopes on this thread, in all its computations. If it is 0, no search
// is needed.
extern constinit thread_local int open_scopes;

}  // namespace stave_detail

namespace stave {

/// Names the code that runs during the scope's lifetime: `Scope layer("layer1");`.
/// A scope handles nothing; its name shows in errors, traces, profiles and graphs. Scopes nest.
/// The backward pass performs the derivative of an operation in the scopes of that operation, too.
class Scope {
 public:
  [[nodiscard]] explicit Scope(std::string name) : Scope(make_intrusive<const SharedName>(std::move(name))) {}
  [[nodiscard]] explicit Scope(NamePtr name) noexcept
      : handler_(std::move(name)), frame_(stave_detail::current, &handler_), install_(&frame_) {}

 private:
  class NameOnly final : public AnyHandler {
   public:
    explicit NameOnly(NamePtr name) noexcept : AnyHandler(0), name_(std::move(name)) { ++stave_detail::open_scopes; }
    ~NameOnly() override { --stave_detail::open_scopes; }
    std::string describe() const override { return name_->text; }
    void* handling(const EffectType&) override { return nullptr; }
    const NamePtr* scope_name() const noexcept override { return &name_; }

   private:
    const NamePtr name_;
  } handler_;
  HandlerFrame frame_;
  stave_detail::UnderFrame install_;
};

/// The scopes around this point of the program, from inside out. In a handler they include those
/// of the program that performed the effect.
std::vector<std::string> scopes();

/// Returns true if a pullback performs the current operation. It is for handlers that are installed
/// outside grad, jacrev or vjp, and for code inside their rules.
bool in_backward_pass();

}  // namespace stave

namespace stave_detail {

/// Calls visit with the frames from `first` outwards to `last` (null: all). An interception hides
/// the frames from the effect's performer to the answering handler; they are visited right after
/// the interception. An interception outside all handlers (`answering` is null) hides frames that
/// are installed again inside it; these hidden frames are not visited.
void visit_frames(const Frame* first, const Frame* last, FunctionRef<void(const Frame&)> visit);

/// The name of a scope's frame; null for other frames.
inline const NamePtr* scope_of(const Frame& frame) noexcept {
  return frame.handler ? frame.handler->scope_name() : nullptr;
}

/// Names of scopes, innermost first. Never empty.
struct ScopePath : RefCounted {
  std::vector<NamePtr> names;
};
using ScopePathPtr = IntrusivePtr<const ScopePath>;

ScopePathPtr find_scopes_of_performer(ScopePathPtr& last);

/// A handler that is answering an effect calls this. It returns the scopes around the code that
/// performed the effect, up to the handler's installation; null if there are none. `last` is the
/// previous result for the same caller, so that all operations of a scope share one path.
inline ScopePathPtr scopes_of_performer(ScopePathPtr& last) {
  return open_scopes == 0 ? nullptr : find_scopes_of_performer(last);
}

/// While this object lives, effects are performed in the scopes of `path` (null: none), inside
/// the scopes that are open already.
class ReenteredScopes {
 public:
  explicit ReenteredScopes(const ScopePath* path) : restore_(current) {
    if (path) enter(*path);
  }

 private:
  void enter(const ScopePath& path);

  UnderFrame restore_;
  std::list<Scope> scopes_;
};

}  // namespace stave_detail
