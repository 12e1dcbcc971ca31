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

struct Call;  // a tensor operation: call.h

/// One installed handler. Frames form the stack; they live in the C++ frames of the `with` that made them.
struct Frame {
  Frame* below;
  AnyHandler* handler;          // null: a scope that handles nothing and only says what runs (see `Context`)
  Handling<Call>* operations;   // null: tensor operations pass this frame by
  const char* label = nullptr;  // of a scope
};

/// One handler at work: a `handle` that is running. Errors read from these what surrounds them.
struct Interception {
  Frame* performer;     // the top of the stack when the effect was performed
  Frame* handling;      // the frame that is answering
  Interception* outer;  // the one during which the effect was performed
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

// What is current on this thread. A suspended computation keeps its own piece.
struct Current {
  Frame* top;
  Interception* interception;
};
extern constinit thread_local Current current;

// Makes `frame` the top, or restores what was: exceptions included.
class UnderFrame {
 public:
  explicit UnderFrame(Frame* top) noexcept : saved_(current.top) { current.top = top; }
  ~UnderFrame() { current.top = saved_; }
  UnderFrame(const UnderFrame&) = delete;
  UnderFrame& operator=(const UnderFrame&) = delete;

 private:
  Frame* saved_;
};

// The time during which `frame` answers an effect: the frames below it are current.
class Intercept {
 public:
  explicit Intercept(Frame* frame) noexcept : saved_(current), self_{saved_.top, frame, saved_.interception} {
    current = {frame->below, &self_};
  }
  ~Intercept() { current = saved_; }
  Intercept(const Intercept&) = delete;
  Intercept& operator=(const Intercept&) = delete;

 private:
  Current saved_;
  Interception self_;
};

}  // namespace stave_detail

namespace stave {

/// Performs a user's effect: the innermost handler of E answers; if there is none, E::unhandled() does, if it exists.
template <class E>
  requires(!std::is_same_v<E, Call>)
typename E::Result perform(E effect) {
  for (Frame* frame = stave_detail::current.top; frame; frame = frame->below) {
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
  Frame frame{stave_detail::current.top, &handler, static_cast<Handling<Call>*>(operations)};
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// A scope that handles nothing and shows in errors and traces: Context backward("backward of grad");
class Context {
 public:
  explicit Context(const char* label) noexcept
      : frame_{stave_detail::current.top, nullptr, nullptr, label}, install_(&frame_) {}

 private:
  Frame frame_;
  stave_detail::UnderFrame install_;
};

/// What stands around this point of the program, from inside out: "vmap", "backward of grad", "grad".
std::string current_handlers();

}  // namespace stave
