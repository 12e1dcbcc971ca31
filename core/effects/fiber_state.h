// The implementation of fiber.h: the state of a fiber, the state of a thread, and the switch
// between two stacks, which is inlined because it takes only a few nanoseconds. Start at `Point`,
// then `Fiber::resume_here`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <stave/core/effects/context.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/effects/fiber_stack.h>
#include <stave/core/effects/sanitize.h>

#if STAVE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if STAVE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace stave_detail {

// __cxa_eh_globals of the Itanium C++ ABI, 2.2.2; cxxabi.h only declares it.
struct ExceptionState {
  void* caught;
  unsigned uncaught;
#ifdef __ARM_EABI_UNWINDER__
  void* propagating;
#endif
};

// A point at which a stack was left, and at which it will be continued.
struct Point : Context {
  ExceptionState exceptions;
#if STAVE_ASAN
  void* fake_stack = nullptr;
  const void* low = nullptr;
  std::size_t size = 0;
#endif
#if STAVE_TSAN
  void* tsan_fiber = nullptr;
#endif
};

// The state is at the high end of the fiber's stack, just above the first frame, in a page
// that is touched anyway.
struct Fiber::State {
  enum class Activity : unsigned char { fresh, active, suspended, ended };

  State(Entry of, void* with, const FiberStack& on) noexcept : entry(of), argument(with), stack(on) {}

  Entry entry;
  void* argument;
  FiberStack stack;
  Activity activity = Activity::fresh;
  std::uint64_t thread = 0;  // the id of the thread that started this fiber; 0: not started yet
  // The fiber that resumed this one; null: code on the thread's own stack resumed it.
  State* resumer = nullptr;
  // While suspended: the fiber on whose stack resume() continues, which is this one or one that was
  // resumed inside it.
  State* innermost = this;
  Point continues{};    // while suspended: the point where this fiber continues
  Point resumer_point;  // while active: the point in resume() where the resumer continues
};

struct ThreadStackCall;  // a function that is to run on the thread's own stack

// The state of one thread that runs fibers.
struct FiberThread {
  Fiber::State* innermost;  // the fiber on whose stack the code runs; null: the thread's own stack
  // The fiber that was resumed on the thread's own stack; valid while `innermost` is set.
  Fiber::State* outermost;
  ThreadStackCall* requested;  // the function to run on the thread's own stack now
  // Functions that run on the thread's own stack while fibers wait, from inside out.
  ThreadStackCall* running;
  std::uint64_t id;  // never reused, never 0 once the thread is prepared
  ExceptionState* exceptions;
  const char* stack_low;  // the lowest address of the thread's own stack
  std::size_t stack_size;
};
extern constinit thread_local FiberThread fiber_thread;

/// Returns true if an exception is in flight: std::uncaught_exceptions() > 0, read from the saved
/// address once the thread has run a fiber.
inline bool exceptions_in_flight() noexcept {
  const ExceptionState* const exceptions = fiber_thread.exceptions;
  return exceptions ? exceptions->uncaught > 0 : std::uncaught_exceptions() > 0;
}

inline void check_stack(const Fiber::State& state) noexcept {
  if (state.stack.slab && !state.stack.intact()) [[unlikely]]
    terminate_overflown(state.stack);
}

/// The inline form of stack_is_nearly_full (fiber.h).
[[gnu::always_inline]] inline bool little_stack_is_left() noexcept {
  const Fiber::State* const fiber = fiber_thread.innermost;
  const char* const low = fiber ? fiber->stack.low : fiber_thread.stack_low;
  const std::size_t size = fiber ? fiber->stack.size : fiber_thread.stack_size;
  // The reserve is for an exception that is thrown because little is left, and for the destructors
  // that the exception runs.
  const std::size_t reserve = std::min<std::size_t>(size / 4, 128 << 10);
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - reinterpret_cast<std::uintptr_t>(low) < reserve;
}

// ---- the switch ---------------------------------------------------------------------------------
// To leave a stack, code calls `leave` and then `exchange`. The first thing that the
// resumed stack does is call `arrive`.

/// Prepares to leave this stack: saves the exception state in `here`, and notifies the sanitizers.
/// `for_good`: this stack will not be continued.
[[gnu::always_inline]] inline void leave(Point& here, [[maybe_unused]] const Point& to,
                                         [[maybe_unused]] bool for_good = false) noexcept {
  here.exceptions = *fiber_thread.exceptions;
#if STAVE_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &here.fake_stack, to.low, to.size);
#endif
#if STAVE_TSAN
  here.tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

/// Completes the switch to a fiber that begins.
inline void arrive_first([[maybe_unused]] const Point& here, [[maybe_unused]] Context* left) noexcept {
#if STAVE_ASAN
  Point& from = *static_cast<Point*>(left);
  __sanitizer_finish_switch_fiber(here.fake_stack, &from.low, &from.size);
#endif
  *fiber_thread.exceptions = here.exceptions;
}

/// Completes the switch to a point that was left earlier.
inline void arrive(const Point& here, Context* left) noexcept {
  here.restore_floats(*left);
  arrive_first(here, left);
}

[[gnu::always_inline]] inline void switch_stack(Point& here, const Point& to) noexcept {
  leave(here, to);
  arrive(here, exchange(here, to));
}

// ---- fibers -------------------------------------------------------------------------------------

inline bool Fiber::is_suspended() const noexcept { return state_ && state_->activity == State::Activity::suspended; }

[[gnu::always_inline]] inline Departure Fiber::begin_resume() {
  if (!is_suspended() || state_->thread != fiber_thread.id) [[unlikely]]
    prepare_first();
  State& state = *state_;
  state.activity = State::Activity::active;
  state.resumer = fiber_thread.innermost;
  if (!state.resumer) fiber_thread.outermost = &state;
  else check_stack(*state.resumer);
  fiber_thread.innermost = state.innermost;
  leave(state.resumer_point, state.continues);
  return {&state.resumer_point, &state.continues};
}

[[gnu::always_inline]] inline void Fiber::finish_resume(Context* left) {
  arrive(state_->resumer_point, left);
  if (!is_suspended()) [[unlikely]]
    hop_or_end();
}

[[gnu::always_inline]] inline void Fiber::resume_here() { finish_resume(begin_resume().leave()); }

[[gnu::always_inline]] inline Departure Fiber::begin_suspend() {
  State* const innermost = fiber_thread.innermost;
  if (!state_ || state_ != innermost) [[unlikely]]
    check_inside();
  check_stack(*innermost);
  State& state = *state_;
  state.activity = State::Activity::suspended;
  state.innermost = innermost;
  fiber_thread.innermost = state.resumer;
  leave(state.continues, state.resumer_point);
  return {&state.continues, &state.resumer_point};
}

[[gnu::always_inline]] inline void Fiber::finish_suspend(Context* left) noexcept { arrive(state_->continues, left); }

[[gnu::always_inline]] inline void Fiber::suspend_here() { finish_suspend(begin_suspend().leave()); }

}  // namespace stave_detail
