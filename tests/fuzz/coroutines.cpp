// Random programs of effects, controllers and interceptors, each run twice from one seed: on the
// library, and on a model in which each computation is a thread that waits for its turn
// (threads.h). Both must write the same log: the answer of each effect, what unwinds and when, the
// result of each `with`, the errors, and the exceptions in flight or caught at each effect. At the
// end nothing of the program is left: no handler, no stack, no memory.
#include <array>
#include <cstdlib>
#include <new>
#include <thread>
#include <variant>

#include "generator.h"
#include "options.h"
#include "threads.h"

namespace {
std::atomic<long> live_news = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  ++live_news;
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory) --live_news;
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

using namespace stave_fuzz;

// ---- the library, behind the model's interface --------------------------------------------------

template <int kind>
struct Effect {
  using Result = int;
  int unhandled() const { return 100 + kind; }
};

struct Library {
  using Uncancellable = stave::Uncancellable;

  class Rest {
   public:
    template <int kind>
    Rest(Resumption<Effect<kind>> rest) : rest_(std::move(rest)) {}
    void resume(int answer) {
      std::visit([&](auto& rest) { rest.resume(answer); }, rest_);
    }
    void resume_last(int answer) {
      std::visit([&](auto& rest) { rest.resume_last(answer); }, rest_);
    }
    void resume_throwing(std::exception_ptr exception) {
      std::visit([&](auto& rest) { rest.resume_throwing(exception); }, rest_);
    }
    void drop() {
      std::visit([](auto& rest) { rest.drop(); }, rest_);
    }

   private:
    std::variant<Resumption<Effect<0>>, Resumption<Effect<1>>> rest_;
  };
  using Handle = std::function<void(int kind, Rest rest)>;
  using Answer = std::function<int(int kind)>;
  using Body = std::function<void()>;

  static int perform(int kind) { return kind == 0 ? stave::perform(Effect<0>()) : stave::perform(Effect<1>()); }
  static void yield() { stave::yield(); }
  static void concurrently(const std::vector<Body>& bodies) { stave::concurrently(bodies); }
  static void elsewhere(const Body& body) { std::thread(body).join(); }

  /// Installs a controller of the effects in the mask. Returns true if the body ran to its end.
  static bool with_controller(int mask, bool shared, Handle handle, Body body) {
    if (mask == 1) return with_kinds<0>(shared, std::move(handle), std::move(body));
    if (mask == 2) return with_kinds<1>(shared, std::move(handle), std::move(body));
    return with_kinds<0, 1>(shared, std::move(handle), std::move(body));
  }
  static void with_interceptor(int mask, const Answer& answer, const Body& body) {
    if (mask == 1) return intercept<0>(answer, body);
    if (mask == 2) return intercept<1>(answer, body);
    intercept<0, 1>(answer, body);
  }
  static void check_end() {
    if (!current_handlers().empty()) throw std::logic_error("handlers still stand: " + current_handlers());
    if (stave_detail::on_fiber()) throw std::logic_error("this is not the thread's own stack");
  }

 private:
  template <class Base, int kind>
  struct HandlesKind : Base {
    using Base::Base;
    using Base::handle;
    void handle(Effect<kind>&, Resumption<Effect<kind>> rest) override { this->handler(kind, Rest(std::move(rest))); }
  };
  template <int... kinds>
  struct With : Controls<Effect<kinds>...> {
    Handle handler;
  };
  struct First final : HandlesKind<With<0>, 0> {};
  struct Second final : HandlesKind<With<1>, 1> {};
  struct Both final : HandlesKind<HandlesKind<With<0, 1>, 0>, 1> {};
  template <int... kinds>
  using Controlling =
      std::conditional_t<sizeof...(kinds) == 2, Both, std::conditional_t<((kinds == 0) && ...), First, Second>>;

  template <int... kinds>
  static bool with_kinds(bool shared, Handle handle, Body body) {
    auto controller = std::make_shared<Controlling<kinds...>>();
    controller->handler = std::move(handle);
    if (shared) return with(std::move(controller), std::move(body)).has_value();
    return with(*controller, body).has_value();
  }

  template <class Base, int kind>
  struct AnswersKind : Base {
    using Base::handle;
    int handle(Effect<kind>&) override { return this->answer(kind); }
  };
  template <int... kinds>
  struct Handling : Handles<Effect<kinds>...> {
    Answer answer;
  };
  struct AnswersFirst final : AnswersKind<Handling<0>, 0> {};
  struct AnswersSecond final : AnswersKind<Handling<1>, 1> {};
  struct AnswersBoth final : AnswersKind<AnswersKind<Handling<0, 1>, 0>, 1> {};
  template <int... kinds>
  static void intercept(const Answer& answer, const Body& body) {
    std::conditional_t<sizeof...(kinds) == 2, AnswersBoth,
                       std::conditional_t<((kinds == 0) && ...), AnswersFirst, AnswersSecond>>
        handler;
    handler.answer = answer;
    with(handler, body);
  }
};

// ---- scripts ------------------------------------------------------------------------------------

struct Action {
  enum Kind { ask, yield, raise, guard, protect, swallow, recover, deep, together, controller, interceptor, use_kept };
  Kind kind;
  int mask;     // effects: 1, 2 or 3; `together`: how many bodies
  bool choice;  // `controller`: is shared; `guard`: its destructor performs
  std::vector<Action> inside;
};
using Script = std::vector<Action>;

Script random_script(Random& random, int depth) {
  using enum Action::Kind;
  static constexpr Action::Kind kinds[] = {ask,        ask,         yield,       yield,      raise,     use_kept,
                                           use_kept,   guard,       guard,       deep,       protect,   swallow,
                                           recover,    interceptor, interceptor, together,   together,  together,
                                           controller, controller,  controller,  controller, controller};
  Script script;
  for (std::size_t i = 0, count = 1 + below(3, random); i < count; ++i) {
    Action action{depth > 0 && below(4, random) ? kinds[below(std::size(kinds), random)] : ask,
                  1 + static_cast<int>(below(3, random)),
                  below(2, random) == 0,
                  {}};
    const bool block = action.kind >= guard && action.kind <= interceptor;
    if (block) action.inside = random_script(random, depth - 1);
    script.push_back(std::move(action));
  }
  return script;
}

std::string to_text(const Script& script) {
  static constexpr std::array names{"ask",     "yield", "raise",    "guard",      "try",         "swallow",
                                    "recover", "deep",  "together", "controller", "interceptor", "use_kept"};
  std::string text;
  for (const Action& action : script) {
    text += (text.empty() ? "" : "; ") + std::string(names[action.kind]) + " " + std::to_string(action.mask);
    if (action.choice && action.kind == Action::controller) text += " shared";
    if (action.choice && action.kind == Action::guard) text += " that asks";
    if (!action.inside.empty()) text += " { " + to_text(action.inside) + " }";
  }
  return text;
}

struct Raised {
  int number;
};

/// Runs a script on a world (the library or the model). Choices on the way are drawn from one seed,
/// in the order in which they come up.
template <class World>
class Play {
 public:
  explicit Play(std::uint64_t seed) : random_(seed) {}

  std::string log_of(const Script& script) {
    outermost("program", [&] { run(script); });
    do {
      while (!kept_.empty()) outermost("end", [&] { use_kept(); });
      // When a computation begins, resumptions that were destroyed on other threads are dropped.
      World::with_controller(
          1, false, [](int, Rest) {}, [] {});
    } while (!kept_.empty());
    World::check_end();
    if (std::uncaught_exceptions() || std::current_exception()) throw std::logic_error("an exception is left");
    return log_;
  }

 private:
  using Rest = typename World::Rest;

  std::size_t decide(std::size_t n) { return below(n, random_); }
  void log(const std::string& what) { log_ += what + "\n"; }
  static std::string exceptions() {
    return (std::uncaught_exceptions() ? ", in flight " + std::to_string(std::uncaught_exceptions()) : "") +
           (std::current_exception() ? ", caught" : "");
  }
  Raised raised() {
    log("raise " + std::to_string(++raised_));
    return {raised_};
  }
  static int kind_of(int mask, std::size_t decided) { return mask == 3 ? static_cast<int>(decided) : mask - 1; }

  template <class Body>
  void outermost(const std::string& name, const Body& body) {
    try {
      body();
      log(name + " ends");
    } catch (const Raised&) {
      log(name + " raises");
    } catch (const std::exception&) {
      log(name + ": an error");
    } catch (...) {
      log(name + ": Cancelled comes out");
    }
  }

  void ask(int mask) {
    const int kind = kind_of(mask, decide(2));
    log("ask " + std::to_string(kind) + exceptions());
    log("got " + std::to_string(World::perform(kind)));
  }

  struct AtEnd {
    Play& play;
    const Action& action;
    const int number;
    ~AtEnd() {
      play.log("guard " + std::to_string(number) + " ends");
      if (!action.choice) return;
      const typename World::Uncancellable uncancellable;
      try {
        play.ask(action.mask);
      } catch (const Raised&) {
        play.log("raised in a guard");
      }
    }
  };

  void run(const Script& script) {
    for (const Action& action : script) run(action);
  }
  void run(const Action& action) {
    const auto body = [this, &action] { run(action.inside); };
    switch (action.kind) {
      case Action::ask: return ask(action.mask);
      case Action::yield: World::yield(); return log("goes on" + exceptions());
      case Action::raise: throw raised();
      case Action::guard: {
        const AtEnd at_end{*this, action, ++guards_};
        return body();
      }
      case Action::protect: try { return body();
        } catch (const Raised& raised) {
          return log("caught " + std::to_string(raised.number));
        }
      case Action::swallow: try { return body();
        } catch (...) {
          return log("swallowed");
        }
      case Action::recover:  // runs the body inside a catch block
        try {
          try {
            throw raised();
          } catch (const Raised&) {
            body();
            throw;
          }
        } catch (const Raised& raised) {
          return log("recovered " + std::to_string(raised.number));
        }
      case Action::deep: deep(100, body); return;
      case Action::together:
        World::concurrently(std::vector<typename World::Body>(static_cast<std::size_t>(action.mask), body));
        return log("together");
      case Action::controller: {
        const bool ended = World::with_controller(
            action.mask, action.choice, [this](int kind, Rest rest) { control(kind, std::move(rest)); }, body);
        return log(ended ? "with ends" : "with is empty");
      }
      case Action::interceptor:
        return World::with_interceptor(
            action.mask, [this](int kind) { return intercept(kind); }, body);
      default:
        if (!kept_.empty()) use_kept();
    }
  }

  // Calls body about 100 KiB deeper on the stack.
  template <class Body>
  [[gnu::noinline]] static int deep(int depth, const Body& body) {
    std::array<volatile char, 1024> room{};
    if (depth > 0) deep(depth - 1, body);
    else body();
    return room[0];  // read after the call, so that the call is no tail call
  }

  int intercept(int kind) {
    log("intercept " + std::to_string(kind));
    switch (decide(6)) {
      case 0: return 10 + World::perform(kind);
      case 1: return 20 + World::perform(1 - kind);
      case 2: throw raised();
      default: return 30;
    }
  }

  void control(int kind, Rest rest) {
    log("control " + std::to_string(kind));
    if (decide(5) == 0) log("below: " + std::to_string(World::perform(kind)));
    const std::size_t decided = decide(10);
    switch (decided) {
      case 0:
        log("drop");
        rest.drop();
        break;
      case 1:
        log("throw into it");
        rest.resume_throwing(std::make_exception_ptr(raised()));
        break;
      case 2:
        log("keep");
        kept_.push_back(std::move(rest));
        break;
      case 3:
        log("resume");
        rest.resume(40);
        use_again(rest);
        break;
      case 4: log("raise in handle"); throw raised();
      case 5:
        log("resume, raise in handle");
        rest.resume_last(50);
        throw raised();
      case 6: log("leave it"); break;
      case 7:
        log("keep");
        kept_.push_back(std::move(rest));
        if (decide(2)) use_kept();
        break;
      default:
        log("resume last");
        rest.resume_last(60);
        if (decide(4) == 0) use_again(rest);
        break;
    }
    log("handled");
  }

  void use_again(Rest& rest) {
    try {
      if (decide(2)) rest.resume(90);
      else rest.drop();
      log("used twice");
    } catch (const std::exception&) {
      log("is used");
    }
  }
  void use_elsewhere(Rest rest) {
    log("use a kept one elsewhere");
    const bool ends_there = decide(2);
    World::elsewhere([&] {
      try {
        rest.resume(80);
        log("resumed");
      } catch (const std::exception&) {
        log("not here");
      }
      if (ends_there) const Rest end = std::move(rest);
    });
  }

  void use_kept() {
    const std::size_t i = decide(kept_.size());
    Rest rest = std::move(kept_[i]);
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    switch (decide(5)) {
      case 4: return use_elsewhere(std::move(rest));
      case 0:
        log("drop a kept one");
        rest.drop();
        break;
      case 1:
        log("throw into a kept one");
        rest.resume_throwing(std::make_exception_ptr(raised()));
        break;
      case 2: log("destroy a kept one"); break;
      default:
        log("resume a kept one");
        rest.resume(70);
        break;
    }
  }

  Random random_;
  std::string log_;
  std::vector<Rest> kept_;
  int raised_ = 0, guards_ = 0;
};

void print(const char* name, const std::string& log, const std::string& other) {
  std::printf("---- %s\n", name);
  std::size_t at = 0;
  while (at < log.size()) {
    const std::size_t end = log.find('\n', at) + 1;
    const bool same = other.compare(0, end, log, 0, end) == 0;
    std::printf("%s %s", same ? " " : "!", log.substr(at, end - at).c_str());
    at = end;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  stave_detail::set_fiber_stack_size(std::size_t{1} << 20);  // room for `deep` within `deep`
  return fuzz(options, [&](std::uint64_t seed) {
    Random random(seed);
    const auto fails = [&](const Script& script) {
      const std::string log = Play<Library>(seed).log_of(script);
      const long before = live_news;
      if (Play<Library>(seed).log_of(script) != log) return std::puts("it does something else the second time"), true;
      if (live_news > before) return std::puts("memory is left"), true;
      return log != Play<Threads>(seed).log_of(script);
    };
    Script script = random_script(random, 5);
    if (!fails(script)) return true;
    // Shrinks the script by leaving out actions of the outermost level.
    for (std::size_t i = 0; i < script.size();) {
      Script less = script;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(less)) script = less;
      else ++i;
    }
    const std::string log = Play<Library>(seed).log_of(script), expected = Play<Threads>(seed).log_of(script);
    std::printf("fuzz_coroutines --only %llu: %s\n", static_cast<unsigned long long>(seed), to_text(script).c_str());
    print("expected", expected, log);
    print("logged", log, expected);
    return false;
  });
}
