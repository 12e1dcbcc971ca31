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
// pointer names the top. A tensor operation is one kind of effect (op.h): it gets a slot of its own in the frame, which
// saves a look-up. Start reading at `Frame`, then `perform`.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <stave/core/intrusive.h>
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
  /// Whether it promises to run no code of the user's while it handles: what a caller holds stays as it is meanwhile. For the
  /// library's own.
  virtual bool discreet() const noexcept { return false; }
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
  enum class Kind : std::uint8_t { handler, computation, scope, interception, uncancellable, log };

  Frame* below;
  Frame* nearest;              // the first frame, from this one down, that may answer tensor operations
  AnyHandler* handler;         // of a handler's frame
  Handling<Call>* operations;  // what answers tensor operations; null: they pass this frame by
  Kind kind;
  bool discreet;  // of a handler: it and all below it are

  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  Frame(Frame* below, Kind kind) noexcept
      : below(below), nearest(nearest_of(below)), handler(nullptr), operations(nullptr), kind(kind), discreet(false) {}
  Frame(Frame* below, Kind kind, AnyHandler* handler, Handling<Call>* operations) noexcept
      : below(below), nearest(operations ? this : nearest_of(below)), handler(handler), operations(operations),
        kind(kind), discreet(operations && handler->discreet() && (!nearest_of(below) || nearest_of(below)->discreet)) {
  }
  ~Frame() = default;
  static Frame* nearest_of(Frame* frame) noexcept { return frame ? frame->nearest : nullptr; }
};

/// An installed handler.
struct HandlerFrame : Frame {
  // Whether a frame still stands, for those who might want to stand it up again after its end (carried.h).
  struct Standing : RefCounted {
    bool stands = true;
  };
  const std::shared_ptr<AnyHandler>* owner = nullptr;  // of a handler that is shared
  IntrusivePtr<Standing> standing;                     // null until somebody asks

  HandlerFrame(Frame* below, AnyHandler* handler, Handling<Call>* operations, Kind kind = Kind::handler) noexcept
      : Frame(below, kind, handler, operations) {}
  ~HandlerFrame() {
    if (standing) standing->stands = false;
  }
};

/// A `handle` that is running. Errors and traces read from these what surrounds them.
struct Interception : Frame {
  Frame* performer;  // the top of the stack when the effect was performed
  Frame* answering;  // the handler's frame

  Interception(Frame* performer, Frame* answering) noexcept
      : Frame(answering->below, Kind::interception), performer(performer), answering(answering) {}
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

namespace stave_detail {

// The answers to the effects of a function that will run again and must do then what it did. Tensor operations are not effects
// here: they are computed anew.
struct EffectLog : RefCounted {
  std::vector<std::any> answers;
  bool complete = false;
};
struct LogFrame : HandlerFrame {
  LogFrame(Frame* below, EffectLog& log) noexcept
      : HandlerFrame(below, nullptr, nullptr, Kind::log), log(log), replays(log.complete) {
    if (!replays) log.answers.clear();
  }
  /// In place of another one that still stands.
  LogFrame(Frame* below, LogFrame& other) noexcept
      : HandlerFrame(below, nullptr, nullptr, Kind::log), log(other.log), replays(other.replays),
        original(other.original) {}
  EffectLog& log;
  const bool replays;
  LogFrame* original = this;
  std::size_t next = 0;  // of the original
};
std::any& next_answer(LogFrame& frame);
[[noreturn]] void throw_not_copyable(const std::type_info& effect);

template <class E>
typename E::Result perform_from(Frame* frame, E& effect);

template <class E>
typename E::Result logged(LogFrame& frame, E& effect) {
  using R = typename E::Result;
  if constexpr (std::is_void_v<R>) {
    if (!frame.replays) perform_from(frame.below, effect);  // answered once
  } else if constexpr (std::is_copy_constructible_v<R>) {
    if (frame.replays) return std::any_cast<R>(next_answer(*frame.original));
    R answer = perform_from(frame.below, effect);
    frame.log.answers.emplace_back(answer);
    return answer;
  } else {
    throw_not_copyable(typeid(E));
  }
}

// The innermost handler of E from `frame` down answers.
template <class E>
typename E::Result perform_from(Frame* frame, E& effect) {
  for (; frame; frame = frame->below) {
    if (frame->kind == Frame::Kind::log) return logged(static_cast<LogFrame&>(*frame), effect);
    if (!frame->handler) continue;
    if (void* handling = frame->handler->handling(effect_tag<E>)) {
      Intercept intercept(frame);
      return static_cast<Handling<E>*>(handling)->handle(effect);
    }
  }
  if constexpr (requires { effect.unhandled(); }) return effect.unhandled();
  else throw_unhandled(typeid(E));
}

}  // namespace stave_detail

namespace stave {

/// A scope handles nothing and says what runs.
struct ScopeFrame : Frame {
  const NamePtr name;

  ScopeFrame(Frame* below, NamePtr scope) noexcept : Frame(below, Kind::scope), name(std::move(scope)) {
    ++stave_detail::open_scopes;
  }
  ~ScopeFrame() { --stave_detail::open_scopes; }
};

/// Performs a user's effect: the innermost handler of E answers; if there is none, E::unhandled() does, if it exists.
template <class E>
  requires(!std::is_same_v<E, Call>)
typename E::Result perform(E effect) {
  return stave_detail::perform_from(stave_detail::current, effect);
}

/// Runs body with `handler` installed on top of the stack; returns what body returns. A handler object may be installed
/// several times, nested in itself too. On the way out the stack is what it was, exceptions included.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, std::remove_reference_t<H>>
decltype(auto) with(H&& handler, Body&& body) {
  void* operations = handler.handling(stave_detail::effect_tag<Call>);
  HandlerFrame frame(stave_detail::current, &handler, static_cast<Handling<Call>*>(operations));
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// The same with a handler that is kept alive by whatever runs again under it later, such as a checkpoint's function.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, H>
decltype(auto) with(const std::shared_ptr<H>& handler, Body&& body) {
  const std::shared_ptr<AnyHandler> owner = handler;
  void* operations = handler->handling(stave_detail::effect_tag<Call>);
  HandlerFrame frame(stave_detail::current, owner.get(), static_cast<Handling<Call>*>(operations));
  frame.owner = &owner;
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
