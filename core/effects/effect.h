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
// pointer names the top. There are three kinds: an installed handler, the controller of a computation (controller.h), and
// an interception, which is a handler at work. One effect, `Call`, has a slot of its own in each frame, which saves a
// look-up: a program of tensors performs millions of it. Start reading at `Frame`, then `perform`.
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
#include <stave/core/effects/kept.h>
#include <stave/core/effects/name.h>

namespace stave_detail {

class Surroundings;  // carried.h

// FNV-1a of the name of E as compilers spell it, alike in all files and libraries.
template <class E>
consteval unsigned long long hash_of_type() {
  const char* name = __PRETTY_FUNCTION__;
  while (!(name[0] == 'E' && name[1] == ' ' && name[2] == '=')) ++name;
  unsigned long long hash = 0xcbf29ce484222325;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3;
  return hash;
}
// Two of 64 bits: a handler whose effects have not both is passed by without a call.
template <class E>
inline constexpr std::uint64_t bits_of_effect =
    std::uint64_t{1} << (hash_of_type<E>() >> 58) | std::uint64_t{1} << (hash_of_type<E>() >> 52 & 63);

}  // namespace stave_detail

namespace stave {

struct Call;  // the effect with the slot; what it is stands in op.h

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

struct KeptEffect;

/// What vmap makes of an effect that its function performs: a declaration of the effect's type, which must be one that can be kept
/// (kept.h).
///   struct Measure {
///     static constexpr AcrossLanes across_lanes = AcrossLanes::each;
///     using Result = Tensor;
///     Tensor where;
///   };
enum class AcrossLanes : std::uint8_t {
  shared,  ///< it happens once, for all lanes, which have the same answer; tensors in it pass as they are. The default
  each,    ///< it happens once for each lane, in their order, with that lane's tensors; each has its own answer
  together,  ///< it happens once, and its tensors, and those of the answer, carry the lanes as axis 0
};

/// A type of effects at run time. A program, a library and a plugin mean the same one by the same type, whatever the visibility
/// of its symbols: types compare by name where their addresses differ.
struct EffectType {
  const std::type_info& type;
  void* remembering;  // the Handling<E> by which those answer who remember answers; null: it is asked anew each time
  const KeptEffect* kept;  // null: it cannot be, or its answers cannot
  std::uint64_t hash;      // of the type's name: names are compared only where it agrees
  AcrossLanes lanes;
  friend bool operator==(const EffectType& a, const EffectType& b) noexcept {
    return &a == &b || (a.hash == b.hash && a.type == b.type);
  }
};
template <class E>
const EffectType& effect_type() noexcept;

/// What a recording does with effects of one type, E, and their answers: copies of them. An answer of type void is an empty std::any.
struct KeptEffect {
  void* handling;  // the Handling<E> by which AnyHandler::answer_kept does
  bool (*same_effect)(const std::any&, const std::any&);
  bool (*same_answer)(const std::any&, const std::any&);
  void (*visit_effect)(std::any&, FunctionRef<void(Tensor&)>);
  void (*visit_answer)(std::any&, FunctionRef<void(Tensor&)>);
  bool has_answer;
  /// As `perform` does.
  std::any (*perform)(std::any& effect);
};

/// Base of all handlers, as a frame sees them.
class AnyHandler {
 public:
  virtual ~AnyHandler() = default;
  /// The bits of the effects that it may answer; all where `handling` alone decides.
  const std::uint64_t effects;
  /// For errors and traces: "vmap", "grad". By default the name of the class.
  virtual std::string describe() const;
  /// Whether it promises to run no code of the user's while it handles, and to answer as each operation infers: what a caller
  /// holds stays as it is meanwhile, and the answers need no check. For the library's own.
  virtual bool discreet() const noexcept { return false; }
  /// Whether it takes what a compiled function performs as one operation that carries functions, with rules for all transforms. To
  /// others each operation is shown.
  virtual bool takes_programs() const noexcept { return false; }
  /// This handler's Handling<E> as a void pointer, or null; `effect` is effect_type<E>().
  virtual void* handling(const EffectType& effect) = 0;
  /// Of one whose `handling` gave `effect.kept->handling`: the answer to such an effect.
  virtual std::any answer_kept(const EffectType& effect, std::any performed);
  /// The same as `handling` for Call.
  virtual Handling<Call>* handling_calls() noexcept { return nullptr; }
  /// Whether a handler of this type answers an effect: to be asked after its end. Null: it answers none.
  using Answers = bool (*)(const EffectType&) noexcept;
  virtual Answers answered_effects() const noexcept { return nullptr; }
  /// Whether nothing that the program computes depends on it: what runs again after its end may run without it.
  virtual bool only_observes() const noexcept { return false; }
  /// Of a scope, its name; else null.
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
  Handles() noexcept : AnyHandler(((is_call<Es> ? 0 : stave_detail::bits_of_effect<Es>) | ... | 0)) {}
  void* handling(const EffectType& effect) override {
    void* found = nullptr;
    static_cast<void>(((is_itself<Es>(effect) && (found = static_cast<Handling<Es>*>(this))) || ...));
    return found ? found : handling_by_name(effect);
  }
  Handling<Call>* handling_calls() noexcept override {
    if constexpr ((std::is_same_v<Es, Call> || ...)) return this;
    else return nullptr;
  }
  Answers answered_effects() const noexcept override {
    return [](const EffectType& effect) noexcept { return (is<Es>(effect) || ...); };
  }

 protected:
  explicit Handles(std::uint64_t effects_) noexcept : AnyHandler(effects_) {}

 private:
  template <class E>
  static constexpr bool is_call = std::is_same_v<E, Call>;  // it has its slot
  template <class E>
  static bool is_itself(const EffectType& effect) noexcept {
    if constexpr (is_call<E>) return false;
    else return &effect == &effect_type<E>();
  }
  template <class E>
  static bool is(const EffectType& effect) noexcept {
    if constexpr (is_call<E>) return false;
    else return effect == effect_type<E>();
  }
  [[gnu::noinline]] void* handling_by_name(const EffectType& effect) noexcept {
    void* found = nullptr;
    static_cast<void>(((is<Es>(effect) && (found = static_cast<Handling<Es>*>(this))) || ...));
    return found;
  }
};

/// A computation that stands still inside a `handle` that runs on its stack (controller.h).
class SuspendedInside {
 public:
  /// The handler's installation ends.
  virtual void installation_ends(const std::string& handler, bool shared) noexcept = 0;

 protected:
  ~SuspendedInside() = default;
};

/// An entry of a thread's stack. Frames live in the C++ frames of whoever made them.
struct Frame {
  enum class Kind : std::uint8_t { handler, computation, interception };

  Frame* below;
  Frame* nearest;              // the first frame, from this one down, that answers tensor operations
  AnyHandler* handler;         // of a handler's or computation's frame
  Handling<Call>* operations;  // what answers tensor operations; null: they pass this frame by
  Kind kind;
  bool trusted;   // the handler is discreet
  bool discreet;  // it and all below it are

  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  explicit Frame(Frame* below_) noexcept  // of an interception
      : below(below_), nearest(nearest_of(below_)), handler(nullptr), operations(nullptr), kind(Kind::interception),
        trusted(false), discreet(false) {}
  Frame(Frame* below_, Kind kind_, AnyHandler* handler_, Handling<Call>* operations_) noexcept
      : below(below_), nearest(operations_ ? this : nearest_of(below_)), handler(handler_), operations(operations_),
        kind(kind_), trusted(operations_ && handler_->discreet()),
        discreet(trusted && (!nearest_of(below_) || nearest_of(below_)->discreet)) {}
  ~Frame() = default;
  static Frame* nearest_of(Frame* frame) noexcept { return frame ? frame->nearest : nullptr; }
};

/// An installed handler.
struct HandlerFrame : Frame {
  /// What outlives the frame and knows whether it still stands.
  struct Standing : RefCounted {
    bool stands = true;
    std::vector<SuspendedInside*> inside;
  };
  const std::shared_ptr<AnyHandler>* owner = nullptr;  // of a handler that is shared
  IntrusivePtr<Standing> known;                        // null until somebody asks
  const stave_detail::Surroundings* again = nullptr;   // of a handler that stands up again: by these

  HandlerFrame(Frame* below_, AnyHandler* handler_) noexcept
      : HandlerFrame(below_, handler_, handler_->handling_calls()) {}
  HandlerFrame(Frame* below_, AnyHandler* handler_, Handling<Call>* operations_, Kind kind_ = Kind::handler) noexcept
      : Frame(below_, kind_, handler_, operations_) {}
  ~HandlerFrame() {
    if (known) end();
  }
  Standing& standing() {
    if (!known) known = make_intrusive<Standing>();
    return *known;
  }

 private:
  void end() noexcept;
};

/// A `handle` that is running. Errors and traces read from these what surrounds them.
struct Interception : Frame {
  Frame* performer;  // the top of the stack when the effect was performed
  Frame* answering;  // the handler's frame; null: below all handlers

  explicit Interception(Frame* performer_) noexcept : Frame(nullptr), performer(performer_), answering(nullptr) {}
  Interception(Frame* performer_, Frame* answering_) noexcept
      : Frame(answering_->below), performer(performer_), answering(answering_) {}
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

// The top of this thread's stack.
extern constinit thread_local Frame* current;

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

/// As written in a program: "(anonymous namespace)::Ask".
std::string type_name(const std::type_info& type);
[[noreturn]] void throw_unhandled(const std::type_info& effect);
[[noreturn]] void throw_not_copyable(const std::type_info& effect);
[[noreturn]] void throw_other_effect(const std::type_info& effect);

// The innermost handler of E from `frame` down answers.
template <class E>
inline typename E::Result perform_from(Frame* frame, E& effect) {
  constexpr std::uint64_t bits = bits_of_effect<E>;
  for (; frame; frame = frame->below) {
    if (!frame->handler || (frame->handler->effects & bits) != bits) continue;
    if (void* handling = frame->handler->handling(effect_type<E>())) {
      Interception interception(current, frame);
      const UnderFrame install(&interception);  // beside it, its copy of the performer can stay in a register
      return static_cast<Handling<E>*>(handling)->handle(effect);
    }
  }
  if constexpr (requires { effect.unhandled(); }) return effect.unhandled();
  else throw_unhandled(typeid(E));
}

// Answers all effects of a function that runs more than once: the first time by what is below, later as then. Tensor operations are
// not effects here.
class Remembers : public AnyHandler {
 public:
  void* handling(const EffectType& effect) override { return effect.remembering; }
  /// The answer to the next effect, if there was one; null: it is to be asked for, and remembered.
  virtual const std::any* next_answer() = 0;
  virtual void remember(std::any answer) = 0;
  /// The next answer cannot be copied.
  virtual void forget(const std::type_info& effect) = 0;
  /// Handlers that are at work on an answer.
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

// Hands effects on to handlers that know no types.
template <class E>
class Keeping final : public Handling<E> {
 public:
  typename E::Result handle(E& effect) override {
    AnyHandler& handler = *static_cast<Interception*>(current)->answering->handler;
    std::any answer = handler.answer_kept(effect_type<E>(), effect);
    if constexpr (!std::is_void_v<typename E::Result>) return std::any_cast<typename E::Result>(std::move(answer));
  }
};

template <class E>
constexpr bool keeps_effect() {
  using R = typename E::Result;
  if constexpr (!is_kept<E>()) return false;
  else return std::is_void_v<R> || is_kept<R>();
}

template <class E>
inline constinit Keeping<E> keeping{};

template <class E>
struct KeptOf {
  template <class T>
  static bool same(const std::any& a, const std::any& b) {
    if constexpr (std::is_void_v<T>) return true;
    else return same_kept(*std::any_cast<T>(&a), *std::any_cast<T>(&b));
  }
  template <class T>
  static void visit(std::any& kept, FunctionRef<void(Tensor&)> f) {
    if constexpr (!std::is_void_v<T>) visit_kept(*std::any_cast<T>(&kept), f);
  }
  static std::any perform(std::any& effect) {
    E& performed = *std::any_cast<E>(&effect);
    if constexpr (std::is_void_v<typename E::Result>) return perform_from(current, performed), std::any();
    else return perform_from(current, performed);
  }
  using R = typename E::Result;
  static constexpr KeptEffect value{
      static_cast<Handling<E>*>(&keeping<E>), same<E>, same<R>, visit<E>, visit<R>, !std::is_void_v<R>, perform};
};

template <class E>
constexpr const KeptEffect* kept_effect() {
  if constexpr (keeps_effect<E>()) return &KeptOf<E>::value;
  else return nullptr;
}

template <class E>
constexpr void* remembering_of() noexcept {
  if constexpr (requires { requires !E::remembered; }) return nullptr;
  else return static_cast<Handling<E>*>(&remembering<E>);
}
template <class E>
constexpr AcrossLanes across_lanes_of() noexcept {
  if constexpr (requires { E::across_lanes; }) {
    static_assert(keeps_effect<E>(),
                  "stave: an effect that says what it is across lanes, and its answer, must be what can be "
                  "copied and compared (stave/core/effects/kept.h)");
    return E::across_lanes;
  } else {
    return AcrossLanes::shared;
  }
}
template <class E>
inline constinit const EffectType effect_type_storage{typeid(E), remembering_of<E>(), kept_effect<E>(),
                                                      hash_of_type<E>(), across_lanes_of<E>()};

}  // namespace stave_detail

namespace stave {

template <class E>
const EffectType& effect_type() noexcept {
  return stave_detail::effect_type_storage<E>;
}

/// Performs a user's effect: the innermost handler of E answers; if there is none, E::unhandled() does, if it exists.
template <class E>
  requires(!std::is_same_v<E, Call>)
inline typename E::Result perform(E effect) {
  return stave_detail::perform_from(stave_detail::current, effect);
}

/// Runs body with `handler` installed on top of the stack; returns what body returns. A handler object may be installed
/// several times, nested in itself too. On the way out the stack is what it was, exceptions included.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, std::remove_reference_t<H>>
decltype(auto) with(H&& handler, Body&& body) {
  HandlerFrame frame(stave_detail::current, &handler);
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// The same with a handler that is kept alive by whatever runs again under it later, such as a checkpoint's function.
template <class H, class Body>
  requires std::is_base_of_v<AnyHandler, H>
decltype(auto) with(const std::shared_ptr<H>& handler, Body&& body) {
  const std::shared_ptr<AnyHandler> owner = handler;
  HandlerFrame frame(stave_detail::current, owner.get());
  frame.owner = &owner;
  stave_detail::UnderFrame install(&frame);
  return std::forward<Body>(body)();
}

/// What stands around this point of the program, from inside out: "vmap", "backward of grad", "grad".
std::string current_handlers();

}  // namespace stave
