// Effects and handlers: the mechanism on which the whole library is built. It does not depend
// on what programs compute with.
//
// A program *performs* an effect: a value of some type E with a member type `Result`.
// The innermost installed *handler* of E answers it with an E::Result. While a handler runs, only
// the handlers installed outside it are current, so an effect that it performs goes to an outer
// handler and never back to itself. If no handler of E is installed, the effect's default
// `E::unhandled()` answers; without one, `perform` throws.
//
//   struct LearningRate { using Result = float; };                    // an effect
//   struct Constant : Handles<LearningRate> {                         // a handler
//     float handle(LearningRate&) override { return 0.1f; }
//   };
//   Constant constant;
//   with(constant, [] { return perform(LearningRate{}); });            // 0.1f
//
// The stack of handlers is a linked list of frames. The frame of a handler is a local variable of
// the `with` that installed the handler; the frame of a controller is a member of its computation.
// A thread-local pointer, `current`, points to the top, which is the innermost frame; `below`
// points to the next outer frame. There are three kinds of frames: an installed handler, the
// controller of a computation (controller.h), and an interception, which is a running
// `handle`. One type of effects, which programs perform millions of times, is the slot effect: each
// frame stores a pointer to the part of its handler that answers the slot effect, which saves a
// look-up. Start reading at `Frame`, then `perform`.
#pragma once

#include <stave/core/effects/settings.h>

#include <any>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <stave/core/effects/intrusive.h>
#include <stave/core/effects/name.h>
#include <stave/core/effects/recordable.h>

namespace stave_detail {

class CapturedHandlers;  // higher_order.h

// The FNV-1a hash of the compiler's spelling of E. It is the same in all files and libraries.
template <class E>
consteval unsigned long long hash_of_type() {
  const char* name = __PRETTY_FUNCTION__;
  while (!(name[0] == 'E' && name[1] == ' ' && name[2] == '=')) ++name;
  unsigned long long hash = 0xcbf29ce484222325;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3;
  return hash;
}
// A mask with two of 64 bits set. A handler whose `effects` lacks one of them is skipped without
// a call.
template <class E>
inline constexpr std::uint64_t bits_of_effect =
    std::uint64_t{1} << (hash_of_type<E>() >> 58) | std::uint64_t{1} << (hash_of_type<E>() >> 52 & 63);

}  // namespace stave_detail

namespace stave {

/// The slot effect: the one type of effects with a member `static constexpr bool has_slot = true`.
/// The layer that defines this type also performs it, through the frames' `slot`.
template <class E>
concept SlotEffect = requires { requires E::has_slot; };

/// Identifies one installation of a handler, or another owner of notes. An id is unique
/// in the process, is never reused and is never 0.
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

/// The Handling<E> of the slot effect E, or none.
class SlotHandling {
 public:
  constexpr SlotHandling() noexcept = default;
  template <SlotEffect E>
  constexpr SlotHandling(Handling<E>* handling) noexcept : handling_(handling) {}
  explicit operator bool() const noexcept { return handling_; }
  template <SlotEffect E>
  Handling<E>& as() const noexcept {
    return *static_cast<Handling<E>*>(handling_);
  }

 private:
  void* handling_ = nullptr;
};

/// A number that a layer above declares for effects of type E. Only that layer knows its meaning.
/// The layer specialises this template for types that have a member of one of the layer's own
/// types, so that a specialisation is visible wherever such a type can be written.
template <class E>
struct EffectTraits {
  static constexpr std::uint8_t value = 0;
};

struct RecordableEffect;

/// The run-time description of a type of effects. A program, its libraries and its plugins may each
/// have a description of the same type, depending on the visibility of the type's symbols. So types
/// whose descriptions have different addresses are compared by name.
struct EffectType {
  const std::type_info& type;
  // The Handling<E> of handlers that remember answers (`Remembers`). Null: answers are not
  // remembered, and each run performs the effect again.
  void* remembering;
  // Null: the effect or its answer is not recordable.
  const RecordableEffect* recordable;
  // A hash of the type's name; names are compared only if the hashes agree.
  std::uint64_t hash;
  std::uint8_t traits;  // EffectTraits<E>::value
  friend bool operator==(const EffectType& a, const EffectType& b) noexcept {
    return &a == &b || (a.hash == b.hash && a.type == b.type);
  }
};
template <class E>
const EffectType& effect_type() noexcept;

/// The functions with which a recording compares, visits and performs effects of one type E and
/// their answers. An answer of type void is an empty std::any.
struct RecordableEffect {
  void* handling;  // the Handling<E> that forwards to AnyHandler::answer_recordable
  bool (*same_effect)(const std::any&, const std::any&);
  bool (*same_answer)(const std::any&, const std::any&);
  void (*visit_effect)(std::any&, FunctionRef<void(stave_detail::Leaf)>);
  void (*visit_answer)(std::any&, FunctionRef<void(stave_detail::Leaf)>);
  bool has_answer;
  /// Performs the effect as `stave::perform` does.
  std::any (*perform)(std::any& effect);
};

/// The properties that a handler declares; by default none.
struct HandlerProperties {
  /// The handler runs no user code while it handles, and it answers each slot effect as its
  /// performer expects. Then the performer's values do not change while the handler runs, and the
  /// answers need no check. Only for the library's own handlers.
  bool runs_no_user_code : 1 = false;
  /// The handler accepts a recorded program as one slot effect (a closed call). Other handlers see
  /// each effect of the program separately.
  bool takes_closed_calls : 1 = false;
  /// Nothing that the program computes depends on this handler. A function that runs again after
  /// the handler's end may then run without it.
  bool only_observes : 1 = false;
  /// The handler counts slot effects and identifies each by its number, so it must see each one.
  bool counts_slot_effects : 1 = false;
  /// The handler can record all steps of a loop as one slot effect, a loop operation.
  bool records_loops : 1 = false;
  /// The handler replays answers in their order, so it must see each effect.
  bool replays_answers : 1 = false;
};

/// Base class of all handlers: the interface that a frame uses.
class AnyHandler {
 public:
  virtual ~AnyHandler() = default;
  /// The bits (bits_of_effect) of the effects that this handler may answer. All bits are set if
  /// `handling` alone decides.
  const std::uint64_t effects;
  /// The handler's name in errors and traces. By default it is the name of the class.
  virtual std::string describe() const;
  virtual HandlerProperties properties() const noexcept { return {}; }
  /// This handler's Handling<E> as a void pointer, or null; `effect` is effect_type<E>().
  virtual void* handling(const EffectType& effect) = 0;
  /// The answer to a recordable effect, for a handler whose `handling`
  /// returned `effect.recordable->handling`.
  virtual std::any answer_recordable(const EffectType& effect, std::any performed);
  /// This handler's Handling<E> for the slot effect E, or none.
  virtual SlotHandling slot() noexcept { return {}; }
  /// A function that returns true if the handlers of one class answer an effect.
  using Answers = bool (*)(const EffectType&) noexcept;
  /// The function of this handler's class; it may be called after the handler's end. Null: only
  /// `handling` knows which effects this handler answers.
  virtual Answers answered_effects() const noexcept { return nullptr; }
  /// The name of a scope; null for other handlers.
  virtual const NamePtr* scope_name() const noexcept { return nullptr; }

 protected:
  static constexpr std::uint64_t all_effects = ~std::uint64_t{0};
  explicit AnyHandler(std::uint64_t effects_ = all_effects) noexcept : effects(effects_) {}
  AnyHandler(const AnyHandler& other) noexcept : effects(other.effects) {}
  AnyHandler& operator=(const AnyHandler&) noexcept { return *this; }
};

/// A handler of the effects Es: derive from it and override `handle` for each.
template <class... Es>
class Handles : public AnyHandler, public Handling<Es>... {
 public:
  using Handling<Es>::handle...;
  Handles() noexcept : AnyHandler(((SlotEffect<Es> ? 0 : stave_detail::bits_of_effect<Es>) | ... | 0)) {}
  void* handling(const EffectType& effect) override {
    void* found = nullptr;
    static_cast<void>(((is_itself<Es>(effect) && (found = static_cast<Handling<Es>*>(this))) || ...));
    return found ? found : handling_by_name(effect);
  }
  SlotHandling slot() noexcept override {
    SlotHandling found;
    const auto look = [&]<class E>(Handling<E>* handling) {
      if constexpr (SlotEffect<E>) found = handling;
    };
    (look(static_cast<Handling<Es>*>(this)), ...);
    return found;
  }
  Answers answered_effects() const noexcept override {
    return [](const EffectType& effect) noexcept { return (is<Es>(effect) || ...); };
  }

 protected:
  explicit Handles(std::uint64_t effects_) noexcept : AnyHandler(effects_) {}

 private:
  template <class E>
  static bool is_itself(const EffectType& effect) noexcept {
    if constexpr (SlotEffect<E>) return false;
    else return &effect == &effect_type<E>();
  }
  template <class E>
  static bool is(const EffectType& effect) noexcept {
    if constexpr (SlotEffect<E>) return false;
    else return effect == effect_type<E>();
  }
  [[gnu::noinline]] void* handling_by_name(const EffectType& effect) noexcept {
    void* found = nullptr;
    static_cast<void>(((is<Es>(effect) && (found = static_cast<Handling<Es>*>(this))) || ...));
    return found;
  }
};

/// An object that is notified when the installation of a handler ends. The listeners are
/// computations that are suspended inside a `handle`, which runs on their stack (controller.h).
class InstallationListener {
 public:
  /// Called when the handler's installation ends. `shared`: a std::shared_ptr keeps the handler
  /// itself alive.
  virtual void installation_ends(const std::string& handler, bool shared) noexcept = 0;

 protected:
  ~InstallationListener() = default;
};

/// An entry of a thread's handler stack.
struct Frame {
  enum class Kind : std::uint8_t { handler, computation, interception };

  Frame* below;
  // The innermost frame that answers the slot effect: this one, or the nearest one outside it.
  Frame* nearest;
  AnyHandler* handler;  // null for an interception
  SlotHandling slot;    // none: the slot effect skips this frame
  Kind kind;
  bool answers_need_no_check;  // the handler `runs_no_user_code` and answers the slot effect
  // `answers_need_no_check` holds for this frame and for each outer frame that answers the slot
  // effect
  bool runs_no_user_code;

  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  Frame(Frame* below_, Kind kind_) noexcept  // makes a frame without a handler
      : below(below_), nearest(nearest_of(below_)), handler(nullptr), kind(kind_), answers_need_no_check(false),
        runs_no_user_code(false) {}
  Frame(Frame* below_, AnyHandler* handler_, SlotHandling slot_) noexcept
      : below(below_), nearest(slot_ ? this : nearest_of(below_)), handler(handler_), slot(slot_), kind(Kind::handler),
        answers_need_no_check(slot_ && handler_->properties().runs_no_user_code),
        runs_no_user_code(answers_need_no_check && (!nearest_of(below_) || nearest_of(below_)->runs_no_user_code)) {}
  ~Frame() = default;
  static Frame* nearest_of(Frame* frame) noexcept { return frame ? frame->nearest : nullptr; }
};

/// The frame of an installed handler.
struct HandlerFrame : Frame {
  /// A record that outlives the frame and says whether the handler is still installed.
  struct Installation : RefCounted {
    bool installed = true;
    std::vector<InstallationListener*> listeners;
  };
  const std::shared_ptr<AnyHandler>* owner = nullptr;  // set if the handler is shared
  IntrusivePtr<Installation> known;                    // null until `installation()` is called
  // The captured handler stack that reinstalled this handler; else null.
  const stave_detail::CapturedHandlers* reinstalled_by = nullptr;

  HandlerFrame(Frame* below_, AnyHandler* handler_) noexcept : HandlerFrame(below_, handler_, handler_->slot()) {}
  HandlerFrame(Frame* below_, AnyHandler* handler_, SlotHandling slot_) noexcept : Frame(below_, handler_, slot_) {}
  explicit HandlerFrame(Kind kind_) noexcept : Frame(nullptr, kind_) {}  // the handler is set later
  ~HandlerFrame() {
    if (known) end();
  }
  Installation& installation() {
    if (!known) known = make_intrusive<Installation>();
    return *known;
  }

 private:
  void end() noexcept;
};

/// The frame of a running `handle`. It hides the frames from `performer` to `answering`: the search
/// for a handler does not reach them. Errors and traces find in them where the effect came from.
struct Interception : Frame {
  Frame* performer;  // the top of the stack when the effect was performed
  Frame* answering;  // the handler's frame; null: the code runs outside all handlers

  explicit Interception(Frame* performer_) noexcept
      : Frame(nullptr, Kind::interception), performer(performer_), answering(nullptr) {}
  Interception(Frame* performer_, Frame* answering_) noexcept
      : Frame(answering_->below, Kind::interception), performer(performer_), answering(answering_) {}
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

// The top of this thread's handler stack.
extern constinit thread_local Frame* current;

// While this object lives, `top` is the top of the handler stack. The destructor restores the old
// top.
class UnderFrame {
 public:
  explicit UnderFrame(Frame* top) noexcept : saved_(current) { current = top; }
  ~UnderFrame() { current = saved_; }
  UnderFrame(const UnderFrame&) = delete;
  UnderFrame& operator=(const UnderFrame&) = delete;

 private:
  Frame* saved_;
};

// While this object lives, `frame` answers an effect: the frames outside it are current.
class Intercept {
 public:
  explicit Intercept(Frame* frame) noexcept : interception_(current, frame) { current = &interception_; }
  ~Intercept() { current = interception_.performer; }
  Intercept(const Intercept&) = delete;
  Intercept& operator=(const Intercept&) = delete;

 private:
  Interception interception_;
};

/// The name of a type as a program writes it: "(anonymous namespace)::Ask".
std::string type_name(const std::type_info& type);
[[noreturn]] void throw_unhandled(const std::type_info& effect);
[[noreturn]] void throw_not_copyable(const std::type_info& effect);
[[noreturn]] void throw_other_effect(const std::type_info& effect);

// Performs an effect: the innermost handler of E answers it, starting the search
// at `frame` and going outwards.
template <class E>
inline typename E::Result perform_from(Frame* frame, E& effect) {
  constexpr std::uint64_t bits = bits_of_effect<E>;
  for (; frame; frame = frame->below) {
    if (!frame->handler || (frame->handler->effects & bits) != bits) continue;
    if (void* handling = frame->handler->handling(effect_type<E>())) {
      Interception interception(current, frame);
      // `install` saves `current` a second time, besides `interception.performer`, because a copy
      // in an object whose address does not escape can stay in a register.
      const UnderFrame install(&interception);
      return static_cast<Handling<E>*>(handling)->handle(effect);
    }
  }
  if constexpr (requires { effect.unhandled(); }) return effect.unhandled();
  else throw_unhandled(typeid(E));
}

// Base class of handlers that answer all effects of a function that runs more than once.
// In the first run the outer handlers answer; later runs get the same answers. Slot effects do not
// count as effects here.
class Remembers : public AnyHandler {
 public:
  void* handling(const EffectType& effect) override { return effect.remembering; }
  /// The remembered answer to the next effect. Null: there is none yet; the outer handlers answer,
  /// and `remember` is called.
  virtual const std::any* next_answer() = 0;
  virtual void remember(std::any answer) = 0;
  /// Called in place of `remember` if the next answer cannot be copied.
  virtual void forget(const std::type_info& effect) = 0;
  /// A pointer to this handler's count of the effects that outer handlers are answering now; null
  /// if the handler keeps no count.
  virtual int* at_work() noexcept { return nullptr; }

  struct Threw {
    std::exception_ptr what;
  };
  struct Forgotten {};
};

template <class E>
class Remembering final : public Handling<E> {
 public:
  using Result = typename E::Result;
  Result handle(E& effect) override {
    auto& memory = static_cast<Remembers&>(*static_cast<Interception*>(current)->answering->handler);
    if (const std::any* known = memory.next_answer()) return again(*known);
    constexpr bool copyable = std::is_void_v<Result> || std::is_copy_constructible_v<Result>;
    if constexpr (!copyable) memory.forget(typeid(E));
    try {
      if constexpr (std::is_void_v<Result>) {
        answered_below(memory, effect);
        memory.remember({});
      } else if constexpr (copyable) {
        Result answer = answered_below(memory, effect);
        memory.remember(answer);
        return answer;
      } else {
        return answered_below(memory, effect);
      }
    } catch (...) {
      if constexpr (copyable) memory.remember(Remembers::Threw{std::current_exception()});
      throw;
    }
  }

 private:
  static Result again(const std::any& known) {
    if (const auto* threw = std::any_cast<Remembers::Threw>(&known)) std::rethrow_exception(threw->what);
    if (known.type() == typeid(Remembers::Forgotten)) throw_not_copyable(typeid(E));
    if constexpr (std::is_void_v<Result>) {
      if (known.has_value()) throw_other_effect(typeid(E));
    } else if constexpr (std::is_copy_constructible_v<Result>) {
      if (const Result* answer = std::any_cast<Result>(&known)) return *answer;
      throw_other_effect(typeid(E));
    } else {
      throw_other_effect(typeid(E));
    }
  }
  static Result answered_below(Remembers& memory, E& effect) {
    struct AtWork {
      int* const count;
      explicit AtWork(int* at_work) : count(at_work) {
        if (count) ++*count;
      }
      ~AtWork() {
        if (count) --*count;
      }
    } at_work(memory.at_work());
    return perform_from(current->below, effect);
  }
};

template <class E>
inline constinit Remembering<E> remembering{};

// Hands effects to handlers that do not know the effects' types, by AnyHandler::answer_recordable.
template <class E>
class AnswersRecordable final : public Handling<E> {
 public:
  typename E::Result handle(E& effect) override {
    AnyHandler& handler = *static_cast<Interception*>(current)->answering->handler;
    std::any answer = handler.answer_recordable(effect_type<E>(), effect);
    if constexpr (!std::is_void_v<typename E::Result>) return std::any_cast<typename E::Result>(std::move(answer));
  }
};

template <class E>
constexpr bool is_recordable_effect() {
  using R = typename E::Result;
  if constexpr (!is_recordable<E>()) return false;
  else return std::is_void_v<R> || is_recordable<R>();
}

template <class E>
inline constinit AnswersRecordable<E> answers_recordable{};

template <class E>
struct RecordableEffectOf {
  template <class T>
  static bool same(const std::any& a, const std::any& b) {
    if constexpr (std::is_void_v<T>) return true;
    else return same_besides_leaves(*std::any_cast<T>(&a), *std::any_cast<T>(&b));
  }
  template <class T>
  static void visit(std::any& recorded, FunctionRef<void(Leaf)> f) {
    if constexpr (!std::is_void_v<T>) visit_leaves(*std::any_cast<T>(&recorded), f);
  }
  static std::any perform(std::any& effect) {
    E& performed = *std::any_cast<E>(&effect);
    if constexpr (std::is_void_v<typename E::Result>) return perform_from(current, performed), std::any();
    else return perform_from(current, performed);
  }
  using R = typename E::Result;
  static constexpr RecordableEffect value{static_cast<Handling<E>*>(&answers_recordable<E>),
                                          same<E>,
                                          same<R>,
                                          visit<E>,
                                          visit<R>,
                                          !std::is_void_v<R>,
                                          perform};
};

template <class E>
constexpr const RecordableEffect* recordable_effect() {
  if constexpr (is_recordable_effect<E>()) return &RecordableEffectOf<E>::value;
  else return nullptr;
}

template <class E>
constexpr void* remembering_of() noexcept {
  if constexpr (requires { requires !E::remembered; }) return nullptr;
  else return static_cast<Handling<E>*>(&remembering<E>);
}
template <class E>
inline constinit const EffectType effect_type_storage{typeid(E), remembering_of<E>(), recordable_effect<E>(),
                                                      hash_of_type<E>(), EffectTraits<E>::value};

}  // namespace stave_detail

namespace stave {

template <class E>
const EffectType& effect_type() noexcept {
  return stave_detail::effect_type_storage<E>;
}

/// Performs a user's effect: the innermost handler of E answers it. Without a handler
/// E::unhandled() answers if it exists; else TransformError is thrown.
template <class E>
  requires(!SlotEffect<E>)
inline typename E::Result perform(E effect) {
  return stave_detail::perform_from(stave_detail::current, effect);
}

/// Runs body with `handler` installed on top of the stack; returns what body returns. A handler
/// object may be installed several times, also nested in itself. The old stack is restored on
/// the way out, also by an exception.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, std::remove_reference_t<H>>
decltype(auto) with(H&& handler, Body&& body) {
  HandlerFrame frame(stave_detail::current, &handler);
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// Runs body with a shared handler installed. A handler stack that is captured inside body owns the
/// handler as well, so code that runs under that stack after body has ended still finds it.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, H>
decltype(auto) with(const std::shared_ptr<H>& handler, Body&& body) {
  const std::shared_ptr<AnyHandler> owner = handler;
  HandlerFrame frame(stave_detail::current, owner.get());
  frame.owner = &owner;
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// The names of the handlers around this point of the program, from inside out, separated by
/// commas; "" if there are none.
std::string current_handlers();

}  // namespace stave
