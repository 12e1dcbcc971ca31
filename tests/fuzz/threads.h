// A model of controllers (stave/core/effects/controller.h) in which each computation is a thread:
// one runs, and the others wait for their turn. The operating system provides stacks, exceptions
// and thread-local frames; the rest is the contract of controllers, implemented once more.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace stave_fuzz {

class Threads {
  struct Computation;

 public:
  class Rest;
  using Handle = std::function<void(int kind, Rest rest)>;
  using Answer = std::function<int(int kind)>;
  using Body = std::function<void()>;

 private:
  struct Frame {
    Frame* below = nullptr;
    Frame* performer = nullptr;  // for a hiding frame: the frame that performed
    enum { answering, hiding, guard } kind = answering;
    int mask = 0;
    const Answer* answer = nullptr;
    Computation* computation = nullptr;
    bool unwinding = false;
  };
  static constexpr int yields = 2;  // the kind of effect by which computations take turns
  static bool dropped_around();
  static Frame*& top() {
    static thread_local Frame* top = nullptr;
    return top;
  }
  struct Under {
    Frame* saved;
    explicit Under(Frame* frame) : saved(std::exchange(top(), frame)) {}
    ~Under() { top() = saved; }
  };

 public:
  /// The rest of a computation, which can be used once.
  class Rest {
   public:
    Rest(std::shared_ptr<Computation> of, int ticket) : of_(std::move(of)), ticket_(ticket) {}
    Rest(Rest&&) = default;
    Rest& operator=(Rest&&) = default;
    ~Rest() {
      if (!of_) return;
      if (is_elsewhere()) {
        given_up().emplace_back(std::move(of_), ticket_);
        return;
      }
      if (of_->ended || of_->pending != ticket_) return;
      try {
        drop();
      } catch (...) {
      }
    }
    void resume(int answer) { use(&Computation::value, answer)->run(); }
    void resume_last(int answer) { use(&Computation::value, answer)->goes_on = true; }
    void resume_throwing(std::exception_ptr exception) { use(&Computation::exception, exception)->run(); }
    void drop() {
      check();
      const std::shared_ptr<Computation> of = std::move(of_);
      of->cancel();
    }

   private:
    void check() const {
      if (!of_ || is_elsewhere() || of_->ended || of_->pending != ticket_)
        throw std::logic_error("this rest cannot be used");
    }
    template <class T>
    std::shared_ptr<Computation> use(T Computation::*member, T answer) {
      check();
      (*of_).*member = answer;
      return std::move(of_);
    }
    std::shared_ptr<Computation> of_;
    int ticket_;
  };

  static int perform(int kind) {
    for (Frame* frame = top(); frame; frame = frame->below) {
      if (!(frame->mask >> kind & 1)) continue;
      Frame hides{.below = frame->below, .performer = top(), .kind = Frame::hiding};
      const Under under(&hides);
      if (!frame->computation) return (*frame->answer)(kind);
      const int value = frame->computation->suspend(kind, hides);
      return kind == yields ? perform(yields) : value;  // outer computations take turns as well
    }
    return 100 + kind;
  }
  static void yield() { perform(yields); }
  static bool with_controller(int mask, bool shared, Handle handle, Body body) {
    const auto computation = make(mask, std::move(handle), std::move(body));
    try {
      computation->run();
    } catch (...) {
      if (!shared) computation->cancel_quietly();
      throw;
    }
    if (!shared) computation->cancel();
    // It is suspended while a computation around it unwinds.
    else if (!computation->ended && dropped_around()) throw Cancelled();
    return computation->ended && !computation->failed && !computation->cancelled;
  }
  static void concurrently(const std::vector<Body>& bodies) {
    std::vector<std::shared_ptr<Computation>> all;
    std::vector<Rest> rests;
    try {
      for (const Body& body : bodies) {
        all.push_back(make(
            1 << yields, [&](int, Rest rest) { rests.push_back(std::move(rest)); }, body));
        all.back()->run();
      }
      for (bool ended = false; !ended;) {
        ended = true;
        for (const auto& computation : all)
          if (!computation->ended) computation->run(), ended = false;
      }
    } catch (...) {
      for (const auto& computation : all) computation->cancel_quietly();
      throw;
    }
  }
  /// Runs body on another thread, where no rest can be used.
  static void elsewhere(const Body& body) {
    std::thread([&] {
      is_elsewhere() = true;
      body();
    }).join();
  }
  static void with_interceptor(int mask, const Answer& answer, const Body& body) {
    Frame frame{.below = top(), .mask = mask, .answer = &answer};
    const Under under(&frame);
    body();
  }
  class Uncancellable {
   public:
    Uncancellable() : under_(&frame_) {}

   private:
    Frame frame_{.below = top(), .kind = Frame::guard};
    Under under_;
  };
  static void check_end() {
    if (top()) throw std::logic_error("the model's frames still stand");
  }

 private:
  struct Cancelled {};
  static bool& is_elsewhere() {
    static thread_local bool elsewhere = false;
    return elsewhere;
  }
  /// Rests that were destroyed on other threads, to be dropped when a computation begins.
  static std::vector<std::pair<std::shared_ptr<Computation>, int>>& given_up() {
    static std::vector<std::pair<std::shared_ptr<Computation>, int>> list;
    return list;
  }
  static std::shared_ptr<Computation> make(int mask, Handle handle, Body body) {
    for (auto& [computation, ticket] : std::exchange(given_up(), {}))
      if (const Rest dropped(std::move(computation), ticket); true) continue;
    return std::make_shared<Computation>(mask, std::move(handle), std::move(body));
  }

  struct Computation : std::enable_shared_from_this<Computation> {
    Computation(int mask, Handle handle, Body body) : handle(std::move(handle)), body(std::move(body)) {
      frame.mask = mask;
      frame.computation = this;
    }
    ~Computation() {
      if (thread.joinable()) thread.join();
    }

    Handle handle;
    Body body;
    Frame frame;
    std::thread thread;
    std::binary_semaphore to_resumer{0}, to_performer{0};
    int tickets = 0, pending = 0, kind = 0;  // `pending` is the ticket of the waiting effect, or 0
    Frame* hides = nullptr;                  // the waiting effect's frame
    Frame* at_work = nullptr;                // the controller's frame while it handles
    int value = 0;
    std::exception_ptr exception, thrown;
    bool goes_on = false, ended = false, failed = false, cancelled = false, unwound_by_another = false;

    void run() {
      const auto alive = shared_from_this();
      if (at_work) at_work->performer = nullptr;  // the hidden frames continue
      do {
        goes_on = false;
        frame.below = top();
        frame.unwinding = std::uncaught_exceptions() > 0;
        if (pending) {
          hides->below = top();
          pending = 0;
          to_performer.release();
        } else {
          thread = std::thread([this] { live(); });
        }
        to_resumer.acquire();
        if (ended) thread.join();
        else give_to_controller();
      } while (goes_on);
      if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
      if (!std::exchange(unwound_by_another, false)) return;
      if (dropped_around()) throw Cancelled();
      cancelled = true;  // cancelled by a computation around it that is gone
    }
    void live() {
      top() = &frame;
      try {
        body();
      } catch (const Cancelled&) {
        failed = true;
        unwound_by_another = !cancelled;
      } catch (...) {
        failed = true;
        thrown = std::current_exception();
      }
      ended = true;
      to_resumer.release();
    }
    void give_to_controller() {
      Frame working{.below = frame.below, .performer = hides->performer, .kind = Frame::hiding};
      const Under under(&working);
      struct End {
        Frame*& at_work;
        Frame* self;
        ~End() {
          if (at_work == self) at_work = nullptr;
        }
      } end{at_work, at_work = &working};
      try {
        handle(kind, Rest(shared_from_this(), pending));
      } catch (...) {
        if (std::exchange(goes_on, false)) cancel_quietly();
        throw;
      }
    }
    int suspend(int of, Frame& hiding) {
      if (!cancelled) {
        kind = of;
        pending = ++tickets;
        hides = &hiding;
        to_resumer.release();
        to_performer.acquire();
        if (exception) std::rethrow_exception(std::exchange(exception, nullptr));
        if (!cancelled) return value;
      }
      if (may_throw()) throw Cancelled();
      return of == yields ? 0 : perform(of);
    }
    bool may_throw() const {
      if (std::uncaught_exceptions() > 0) return false;
      for (const Frame* at = top(); at && at != &frame; at = at->performer ? at->performer : at->below)
        if (at->kind == Frame::guard || at->unwinding) return false;
      return true;
    }
    void cancel() {
      if (ended) return;
      cancelled = true;
      if (pending) run();
    }
    void cancel_quietly() {
      try {
        cancel();
      } catch (...) {
      }
    }
  };
};

inline bool Threads::dropped_around() {
  for (Frame* at = top(); at; at = at->performer ? at->performer : at->below)
    if (at->computation && at->computation->cancelled) return true;
  return false;
}

}  // namespace stave_fuzz
