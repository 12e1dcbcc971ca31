// Effects and handlers: the mechanism on which everything stands. It knows nothing of tensors.
//
// A program *performs* an effect: a value of some type E with a member type `Result`. The innermost *handler* of E that
// is installed answers it with an E::Result; while the handler runs, the handlers below it are current, so whatever it
// performs goes down, never back to itself. An effect that nobody handles gets its default, `E::unhandled()`, or throws.
//
//   struct LearningRate { using Result = float; };                    // an effect
//   struct Constant : Handles<LearningRate> {                         // a handler
//     float handle(LearningRate&) override { return 0.1f; }
//   };
//   Constant constant;
//   with(constant, [] { return perform(LearningRate{}); });            // 0.1f
//
// The stack of handlers is a list of frames, each a local variable of the `with` that installed it; one thread-local
// pointer names the top. A tensor operation is one kind of effect (call.h): it gets a slot of its own in the frame, which
// saves a look-up. Start reading at `Frame`, then `perform`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <stave/core/name.h>

namespace stave {

/// Names an installation of a handler, or another owner of notes. Process-wide, never used twice, never 0.
using InstallationId = std::uint64_t;
InstallationId next_installation_id() noexcept;

/// The part of a handler that answers effects of type E.
template <class E>
class Handling {
 public:
  virtual typename E::Result handle(E& effect) = 0;

 protected:
  ~Handling() = default;
};

/// Base of all handlers, as a frame sees them.
class AnyHandler {
 public:
  virtual ~AnyHandler() = default;
  /// For errors and traces: "vmap", "grad".
  virtual std::string describe() const { return "a handler"; }
  /// This handler's Handling<E> as a void pointer, or null; `effect` is effect_tag<E>.
  virtual void* handling(const void* effect) noexcept = 0;
};

}  // namespace stave

namespace stave_detail {

// The address names the type E, in every shared library alike.
template <class E>
inline constexpr char effect_tag_storage = 0;
template <class E>
inline constexpr const void* effect_tag = &effect_tag_storage<E>;

[[noreturn]] void throw_unhandled(const std::type_info& effect);

}  // namespace stave_detail

namespace stave {

/// A handler of the effects Es: derive from it and override `handle` for each.
template <class... Es>
class Handles : public AnyHandler, public Handling<Es>... {
 public:
  using Handling<Es>::handle...;
  void* handling(const void* effect) noexcept override {
    void* found = nullptr;
    ((effect == stave_detail::effect_tag<Es> ? void(found = static_cast<Handling<Es>*>(this)) : void()), ...);
    return found;
  }
};

struct Call;  // a tensor operation: op.h

/// An entry of a thread's stack: an installed handler (an interceptor, or the controller of a computation: controller.h), a
/// scope (`Scope`), an interception (a handler at work, which hides the frames down to its own), or a guard. Frames live in the C++ frames of whoever made them.
struct Frame {
  enum class Kind : std::uint8_t { handler, computation, scope, interception, uncancellable };

  Frame* below;
  Frame* nearest;              // the first frame, from this one down, that may answer tensor operations
  AnyHandler* handler;         // of a handler's frame
  Handling<Call>* operations;  // what answers tensor operations; null: they pass this frame by
  const char* label;           // of a scope
  Kind kind;

  /// A handler's frame.
  Frame(Frame* below, AnyHandler* handler, Handling<Call>* operations) noexcept
      : below(below), nearest(operations ? this : nearest_of(below)), handler(handler), operations(operations),
        label(nullptr), kind(Kind::handler) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  Frame(Frame* below, const char* label, Kind kind) noexcept
      : below(below), nearest(nearest_of(below)), handler(nullptr), operations(nullptr), label(label), kind(kind) {}
  static Frame* nearest_of(Frame* frame) noexcept { return frame ? frame->nearest : nullptr; }
};

/// A `handle` that is running. Errors and traces read from these what surrounds them.
struct Interception : Frame {
  Frame* performer;  // the top of the stack when the effect was performed
  Frame* answering;  // the handler's frame

  Interception(Frame* performer, Frame* answering) noexcept
      : Frame(answering->below, nullptr, Kind::interception), performer(performer), answering(answering) {}
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

// The top of this thread's stack.
extern constinit thread_local Frame* current;
// The scopes that stand on this thread, in all its computations: where there are none, nobody need look for them.
extern constinit thread_local int open_scopes;

// Makes `frame` the top, or restores what was: exceptions included.
class UnderFrame {
 public:
  explicit UnderFrame(Frame* top) noexcept : saved_(current) { current = top; }
  ~UnderFrame() { current = saved_; }
  UnderFrame(const UnderFrame&) = delete;
  UnderFrame& operator=(const UnderFrame&) = delete;

 private:
  Frame* saved_;
};

// The time during which `frame` answers an effect: the frames below it are current.
class Intercept {
 public:
  explicit Intercept(Frame* frame) noexcept : interception_(current, frame) { current = &interception_; }
  ~Intercept() { current = interception_.performer; }
  Intercept(const Intercept&) = delete;
  Intercept& operator=(const Intercept&) = delete;

 private:
  Interception interception_;
};

}  // namespace stave_detail

namespace stave {

/// A scope handles nothing and says what runs.
struct ScopeFrame : Frame {
  const NamePtr name;

  ScopeFrame(Frame* below, NamePtr scope) noexcept
      : Frame(below, scope->text.c_str(), Kind::scope), name(std::move(scope)) {
    ++stave_detail::open_scopes;
  }
  ~ScopeFrame() { --stave_detail::open_scopes; }
};

/// Performs a user's effect: the innermost handler of E answers; if there is none, E::unhandled() does, if it exists.
template <class E>
  requires(!std::is_same_v<E, Call>)
typename E::Result perform(E effect) {
  for (Frame* frame = stave_detail::current; frame; frame = frame->below) {
    if (!frame->handler) continue;
    if (void* handling = frame->handler->handling(stave_detail::effect_tag<E>)) {
      stave_detail::Intercept intercept(frame);
      return static_cast<Handling<E>*>(handling)->handle(effect);
    }
  }
  if constexpr (requires { effect.unhandled(); }) return effect.unhandled();
  else stave_detail::throw_unhandled(typeid(E));
}

/// Runs body with `handler` installed on top of the stack; returns what body returns. A handler object may be installed
/// several times, nested in itself too. On the way out the stack is what it was, exceptions included.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, std::remove_reference_t<H>>
decltype(auto) with(H&& handler, Body&& body) {
  void* operations = handler.handling(stave_detail::effect_tag<Call>);
  Frame frame(stave_detail::current, &handler, static_cast<Handling<Call>*>(operations));
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// Names what runs while it stands: `Scope layer("layer1");`. It handles nothing, and shows in errors, traces, profiles and
/// graphs. Scopes nest. What the backward pass performs for an operation is performed in the scopes of that operation, too.
class Scope {
 public:
  [[nodiscard]] explicit Scope(std::string name) : Scope(make_intrusive<const Name>(std::move(name))) {}
  [[nodiscard]] explicit Scope(NamePtr name) noexcept
      : frame_(stave_detail::current, std::move(name)), install_(&frame_) {}

 private:
  ScopeFrame frame_;
  stave_detail::UnderFrame install_;
};

/// What stands around this point of the program, from inside out: "vmap", "backward of grad", "grad".
std::string current_handlers();

}  // namespace stave
