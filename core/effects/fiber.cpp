// Fibers: their beginning and end, functions that run on the thread's own stack,
// and errors of misuse. The switch itself is in fiber_state.h;
// it uses the fcontext of Boost.Context where context.h has no code of its own.
// (boost::context::fiber would add its own record of which fiber resumed which, a ucontext build
// under sanitizers that is 40 times slower, and unwinding by an exception of its own.)
#include <stave/core/effects/fiber.h>

#include <cxxabi.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fiber_stack.h>
#include <stave/core/effects/fiber_state.h>
#include <stave/core/effects/sanitize.h>

namespace stave_detail {

constinit thread_local FiberThread fiber_thread{};

// A function that is to run on the thread's own stack.
struct ThreadStackCall {
  stave::FunctionRef<void()> function;
  Fiber::State* innermost;
  Fiber::State* outermost;
  ThreadStackCall* outer;  // the hop that was running when this one was made
  Point caller{};
  std::exception_ptr exception{};
};

namespace {

using State = Fiber::State;
using Activity = State::Activity;

// Finds the bounds of the thread's own stack. If this fails, the stack counts as endless.
void find_stack() {
  pthread_attr_t attributes;
  void* low = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &fiber_thread.stack_size) == 0)
    fiber_thread.stack_low = static_cast<char*>(low);
  pthread_attr_destroy(&attributes);
}

[[gnu::noinline]] void prepare_thread() {
  static constinit std::atomic<std::uint64_t> ids{0};
  fiber_thread.exceptions = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  find_stack();
  fiber_thread.id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
}

void run_entry(const State& state) noexcept {
  try {
    state.entry(state.argument);
  } catch (...) {
    std::fputs("stave: an exception left the entry function of a Fiber, which must not throw\n", stderr);
    std::terminate();  // here, where the runtime still knows the exception and names it
  }
}

/// The first frame of every fiber.
void begin(Context* left) {
  State& state = *fiber_thread.innermost;
  arrive_first(state.continues, left);
  run_entry(state);
  check_stack(state);
  fiber_thread.innermost = state.resumer;
  state.activity = Activity::ended;
  leave(state.continues, state.resumer_point, true);
  exchange(state.continues, state.resumer_point);
  std::terminate();  // not reached: a computation that has ended is not resumed
}

// ---- the thread's own stack ---------------------------------------------------------------------

/// Runs the function as if its caller called it, with the caught and in-flight exceptions
/// of that caller.
void run_hop(ThreadStackCall& hop) noexcept {
  const ExceptionState own = std::exchange(*fiber_thread.exceptions, hop.caller.exceptions);
  fiber_thread.innermost = nullptr;
  fiber_thread.running = &hop;
  try {
    hop.function();
  } catch (...) {
    hop.exception = std::current_exception();
  }
  fiber_thread.running = hop.outer;
  fiber_thread.innermost = hop.innermost;
  fiber_thread.outermost = hop.outermost;
  *fiber_thread.exceptions = own;
}

// ---- misuse -------------------------------------------------------------------------------------

bool contains(const State* innermost, const State* state) noexcept {
  while (innermost && innermost != state) innermost = innermost->resumer;
  return innermost;
}

[[noreturn, gnu::noinline]] void throw_cannot_resume(const State* state) {
  if (!state)
    throw stave::Error("Fiber::resume: the computation has ended, and a Fiber runs only once: make another Fiber");
  if (state->thread != fiber_thread.id)
    throw stave::Error("Fiber::resume: the computation was started on another thread; resume it on that thread");
  if (contains(fiber_thread.innermost, state))
    throw stave::Error("Fiber::resume: the computation is running, and this call is inside it; suspend it first");
  throw stave::Error(
      "Fiber::resume: the computation waits for a computation that it resumed, or for a function that runs on the "
      "thread's own stack; resume the outermost computation, or return from the function");
}

[[noreturn, gnu::noinline]] void throw_cannot_suspend(const State* state) {
  for (const ThreadStackCall* hop = fiber_thread.running; hop; hop = hop->outer)
    if (contains(hop->innermost, state))
      throw stave::Error(
          "Fiber::suspend: the computation waits for a function that on_thread_stack runs, and this call is inside "
          "that function; return from the function first");
  throw stave::Error(
      "Fiber::suspend: this call is not inside the computation; only code that runs inside it can suspend it");
}

}  // namespace

// ---- fibers -------------------------------------------------------------------------------------

namespace {

// Returns the number of bytes between the high end of a stack's memory and the point where the
// stack begins. If all stacks began at the same offset in a page, they would compete for a few
// cache lines: a round trip through 1,000 fibers would take three times as long. There are 16
// offsets, from multiples of the golden ratio.
std::size_t stagger(const FiberStack& stack) noexcept {
  constexpr std::size_t step = 128;
  const std::uint64_t place = reinterpret_cast<std::uintptr_t>(stack.low) / 4096 * 0x9E3779B97F4A7C15u;
  return (place >> 60) * step;
}

}  // namespace

Fiber::Fiber(Entry entry, void* argument) {
  const FiberStack stack = take_stack();
  char* high = stack.high() - stagger(stack) - sizeof(State);
  high -= reinterpret_cast<std::uintptr_t>(high) % alignof(std::max_align_t);
  state_ = new (high) State(entry, argument, stack);
  const std::size_t rest = static_cast<std::size_t>(high - stack.low);
  state_->continues.begin_at(high, rest, begin);
#if STAVE_ASAN
  state_->continues.low = stack.low;
  state_->continues.size = rest;
#endif
}

Fiber::~Fiber() {
  if (!state_) return;
  if (state_->activity != Activity::fresh) {
    std::fputs("stave: a Fiber was destroyed before its computation had ended; resume it until it has\n", stderr);
    std::terminate();
  }
  give_stack(FiberStack(state_->stack));
}

void Fiber::resume() { resume_here(); }
void Fiber::suspend() { suspend_here(); }

/// Prepares the start of a fiber that is not suspended; throws if it cannot be started.
void Fiber::prepare_first() {
  if (!state_ || state_->activity != Activity::fresh) throw_cannot_resume(state_);
  if (!fiber_thread.id) prepare_thread();
  state_->thread = fiber_thread.id;
#if STAVE_TSAN
  state_->continues.tsan_fiber = __tsan_create_fiber(0);
#endif
}

/// Called when control comes back from a fiber that is not suspended: it runs requested functions
/// on the thread's own stack, or frees the stack of a fiber that has ended.
void Fiber::hop_or_end() {
  State& state = *state_;
  while (ThreadStackCall* hop = std::exchange(fiber_thread.requested, nullptr)) {
    run_hop(*hop);
    switch_stack(state.resumer_point, hop->caller);
  }
  if (state.activity != Activity::ended) return;
#if STAVE_TSAN
  __tsan_destroy_fiber(state.continues.tsan_fiber);
#endif
  give_stack(FiberStack(std::exchange(state_, nullptr)->stack));
}

void Fiber::check_inside() const {
  if (!running()) throw_cannot_suspend(state_);
}

bool Fiber::started() const noexcept { return !state_ || state_->activity != Activity::fresh; }
bool Fiber::suspended() const noexcept { return is_suspended(); }
bool Fiber::running() const noexcept { return state_ && contains(fiber_thread.innermost, state_); }
bool Fiber::on_its_thread() const noexcept { return !state_ || !state_->thread || state_->thread == fiber_thread.id; }

bool on_fiber() noexcept { return fiber_thread.innermost; }

bool stack_is_nearly_full() noexcept { return little_stack_is_left(); }

void on_thread_stack(stave::FunctionRef<void()> function) {
  if (!fiber_thread.innermost) return function();
  check_stack(*fiber_thread.innermost);
  ThreadStackCall hop{function, fiber_thread.innermost, fiber_thread.outermost, fiber_thread.running};
  fiber_thread.requested = &hop;
  switch_stack(hop.caller, fiber_thread.outermost->resumer_point);
  if (hop.exception) std::rethrow_exception(std::move(hop.exception));
}

}  // namespace stave_detail
