// Fibers on Boost.Context's fcontext, which exchanges the registers and the stack pointer; all else that a switch takes
// stands in `leave` and `arrive`. (boost::context::fiber would bring its own notion of who resumes whom, a ucontext build
// under sanitizers, 40 times slower, and unwinds by a foreign exception.) Start at `Point`, then `Fiber::begin_resume`.
#include <stave/core/effects/fiber.h>

#include <cxxabi.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include <boost/context/detail/fcontext.hpp>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fiber_stack.h>
#include <stave/core/effects/sanitize.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif
#if STAVE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if STAVE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace stave_detail {
namespace {

namespace context = boost::context::detail;
using context::fcontext_t;
using context::transfer_t;

// __cxa_eh_globals of the Itanium C++ ABI, 2.2.2; cxxabi.h only declares it.
struct ExceptionState {
  void* caught = nullptr;
  unsigned uncaught = 0;
#ifdef __ARM_EABI_UNWINDER__
  void* propagating = nullptr;
#endif
};

// A point at which a stack was left, to be continued there.
struct Point {
  fcontext_t context = nullptr;
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

enum class Activity : unsigned char { fresh, active, suspended, ended };

}  // namespace

// At the high end of its stack, just above the first frame: in a page that is touched anyway.
struct Fiber::State {
  Entry entry;
  void* argument;
  FiberStack stack;
  Activity activity = Activity::fresh;
  std::uint64_t thread = 0;   // where it was started
  State* resumer = nullptr;   // the fiber that resumed it; null: on the thread's own stack
  State* innermost = this;    // while suspended: the fiber that continues, itself or one that was resumed inside it
  Point continues{};          // while suspended: where
  Point resumer_continues{};  // while active: in its resumer's resume()
};

namespace {

using State = Fiber::State;

// A function on its way to the thread's own stack.
struct Hop {
  stave::FunctionRef<void()> function;
  State* innermost;
  State* outermost;
  Hop* outer;  // during which this one was made
  Point caller{};
  std::exception_ptr exception{};
};

// What runs on this thread.
struct Thread {
  State* innermost;  // the fiber whose stack this is; null: the thread's own
  State* outermost;  // the fiber that was resumed on the thread's own stack, while there is an innermost
  Hop* requested;    // to run on the thread's own stack now
  Hop* running;      // functions on the thread's own stack that fibers wait for, from inside out
  std::uint64_t id;  // never used twice, never 0
  ExceptionState* exceptions;
  bool carries_flags;     // see carry_flags
  const char* stack_low;  // of the thread's own stack
  std::size_t stack_size;
};
constinit thread_local Thread thread{};

// The flags of floating-point exceptions are sticky and the thread's, like errno; rounding and masks are the fiber's, as
// Boost has it. But Boost exchanges all of MXCSR, and where two stacks differ in any flag, every switch between them
// empties the pipeline: 270 ns for two switches instead of 15 (Sapphire Rapids). So the flags go along with the switch.
#ifdef __x86_64__
constexpr unsigned flags = _MM_EXCEPT_MASK;

/// Whether a suspended context begins with its MXCSR, as it does in Boost 1.74 unless built with BOOST_USE_TSX.
bool context_begins_with_mxcsr() {
  alignas(16) char stack[512];
  const unsigned own = _mm_getcsr();
  bool found = true;
  for (const unsigned value : {own ^ _MM_ROUND_TOWARD_ZERO, own ^ flags}) {
    _mm_setcsr(value);
    const fcontext_t made = context::make_fcontext(stack + sizeof stack, sizeof stack, nullptr);
    found &= std::memcmp(made, &value, sizeof value) == 0;
  }
  _mm_setcsr(own);
  return found;
}
void carry_flags(fcontext_t to) noexcept {
  if (!thread.carries_flags) return;
  unsigned value;
  std::memcpy(&value, to, sizeof value);
  const unsigned carried = (value & ~flags) | (_mm_getcsr() & flags);
  if (carried != value) std::memcpy(to, &carried, sizeof carried);
}
#else
bool context_begins_with_mxcsr() { return false; }
void carry_flags(fcontext_t) noexcept {}
#endif

// Without this knowledge a stack counts as endless.
void find_stack() {
  pthread_attr_t attributes;
  void* low = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &thread.stack_size) == 0) thread.stack_low = static_cast<char*>(low);
  pthread_attr_destroy(&attributes);
}

[[gnu::noinline]] void prepare_thread() {
  static constinit std::atomic<std::uint64_t> ids{0};
  thread.exceptions = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  thread.carries_flags = context_begins_with_mxcsr();
  find_stack();
  thread.id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
}

// ---- the switch --------------------------------------------------------------------------------------------
// A stack is left by `leave` and `jump`, and `arrive` is what the one that continues does first.

/// `here` becomes the point at which this stack will be continued, if it ever is.
inline void leave(Point& here, const Point& to, [[maybe_unused]] bool for_good = false) noexcept {
  here.exceptions = *thread.exceptions;
#if STAVE_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &here.fake_stack, to.low, to.size);
#endif
#if STAVE_TSAN
  here.tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  carry_flags(to.context);
}

/// Jumps; returns when somebody has jumped back. At the end of a function it becomes that function's tail, hence the cast:
/// the types of what both return must agree, and transfer_t is Boost's.
inline Fiber::Arrival jump(Point& here, const Point& to) {
  static_assert(sizeof(Fiber::Arrival) == sizeof(transfer_t) && std::is_same_v<fcontext_t, void*>);
  const auto untyped = reinterpret_cast<void (*)()>(&context::jump_fcontext);  // so that no warning is due
  return reinterpret_cast<Fiber::Arrival (*)(fcontext_t, void*)>(untyped)(to.context, &here);
}

/// At the point `here`: the beginning of a fiber, or one that was left.
inline void arrive(const Point& here, Fiber::Arrival from) noexcept {
  Point& left = *static_cast<Point*>(from.left);
  left.context = from.context;
#if STAVE_ASAN
  __sanitizer_finish_switch_fiber(here.fake_stack, &left.low, &left.size);
#endif
  *thread.exceptions = here.exceptions;
}

inline void switch_stack(Point& here, const Point& to) {
  leave(here, to);
  arrive(here, jump(here, to));
}

void check_stack(const State& state) noexcept {
  if (state.stack.slab && !state.stack.intact()) [[unlikely]]
    terminate_overflown(state.stack);
}

void run_entry(const State& state) noexcept {
  try {
    state.entry(state.argument);
  } catch (...) {
    std::fputs("stave: an exception left the entry function of a Fiber, which must not throw\n", stderr);
    std::terminate();  // here, where the runtime still knows the exception, and says which it was
  }
}

/// The first frame of every fiber.
void begin(transfer_t from) {
  State& state = *thread.innermost;
  arrive(state.continues, {from.fctx, from.data});
  run_entry(state);
  check_stack(state);
  thread.innermost = state.resumer;
  state.activity = Activity::ended;
  leave(state.continues, state.resumer_continues, true);
  jump(state.continues, state.resumer_continues);
  std::terminate();  // nobody continues a computation that has ended
}

// ---- the thread's own stack --------------------------------------------------------------------------------

/// As if its caller called it: under the exceptions that are caught and in flight there.
void run_hop(Hop& hop) noexcept {
  const ExceptionState own = std::exchange(*thread.exceptions, hop.caller.exceptions);
  thread.innermost = nullptr;
  thread.running = &hop;
  try {
    hop.function();
  } catch (...) {
    hop.exception = std::current_exception();
  }
  thread.running = hop.outer;
  thread.innermost = hop.innermost;
  thread.outermost = hop.outermost;
  *thread.exceptions = own;
}

// ---- misuse ------------------------------------------------------------------------------------------------

bool contains(const State* innermost, const State* state) noexcept {
  while (innermost && innermost != state) innermost = innermost->resumer;
  return innermost;
}

[[noreturn, gnu::noinline]] void throw_cannot_resume(const State* state) {
  if (!state) throw stave::Error("Fiber::resume: the computation has ended; it runs once: make another Fiber");
  if (state->thread != thread.id)
    throw stave::Error(
        "Fiber::resume: the computation was started on another thread, and stays there; resume it there");
  if (contains(thread.innermost, state))
    throw stave::Error("Fiber::resume: the computation is running, and this is inside it; suspend it first");
  throw stave::Error(
      "Fiber::resume: the computation waits for another one, which it resumed and in which all were suspended, or for "
      "a function on the thread's own stack; resume the outer one, or return from the function");
}

[[noreturn, gnu::noinline]] void throw_cannot_suspend(const State* state) {
  for (const Hop* hop = thread.running; hop; hop = hop->outer)
    if (contains(hop->innermost, state))
      throw stave::Error(
          "Fiber::suspend: the computation waits for a function that on_thread_stack runs, and this is inside it; "
          "return from the function first");
  throw stave::Error("Fiber::suspend: this is not inside the computation; only what runs inside it can suspend it");
}

}  // namespace

// ---- fibers ------------------------------------------------------------------------------------------------

namespace {

// How far below its end a stack begins. If all began at the same offset in a page, they would compete for a few lines of the
// caches: a round trip through 1,000 fibers took three times as long. 16 offsets, from the golden ratio's multiples.
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
  state_ = new (high) State{entry, argument, stack};
  const std::size_t rest = static_cast<std::size_t>(high - stack.low);
  state_->continues.context = context::make_fcontext(high, rest, begin);
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

Fiber::Arrival Fiber::begin_resume() {
  if (!state_) throw_cannot_resume(nullptr);
  State& state = *state_;
  if (state.activity == Activity::fresh) {
    if (!thread.id) prepare_thread();
    state.thread = thread.id;
#if STAVE_TSAN
    state.continues.tsan_fiber = __tsan_create_fiber(0);
#endif
  } else if (state.activity != Activity::suspended || state.thread != thread.id) {
    throw_cannot_resume(state_);
  }
  state.activity = Activity::active;
  state.resumer = thread.innermost;
  if (!state.resumer) thread.outermost = &state;
  else check_stack(*state.resumer);
  thread.innermost = state.innermost;
  leave(state.resumer_continues, state.continues);
  return jump(state.resumer_continues, state.continues);
}

void Fiber::finish_resume(Arrival from) {
  State& state = *state_;
  arrive(state.resumer_continues, from);
  while (Hop* hop = std::exchange(thread.requested, nullptr)) {
    run_hop(*hop);
    switch_stack(state.resumer_continues, hop->caller);
  }
  if (state.activity == Activity::ended) end();
}

void Fiber::end() noexcept {
#if STAVE_TSAN
  __tsan_destroy_fiber(state_->continues.tsan_fiber);
#endif
  give_stack(FiberStack(std::exchange(state_, nullptr)->stack));
}

Fiber::Arrival Fiber::begin_suspend() {
  State* const innermost = thread.innermost;
  if (!state_ || !contains(innermost, state_)) throw_cannot_suspend(state_);
  check_stack(*innermost);
  State& state = *state_;
  state.activity = Activity::suspended;
  state.innermost = innermost;
  thread.innermost = state.resumer;
  leave(state.continues, state.resumer_continues);
  return jump(state.continues, state.resumer_continues);
}

void Fiber::finish_suspend(Arrival from) noexcept { arrive(state_->continues, from); }

bool Fiber::started() const noexcept { return !state_ || state_->activity != Activity::fresh; }
bool Fiber::suspended() const noexcept { return state_ && state_->activity == Activity::suspended; }
bool Fiber::running() const noexcept { return state_ && contains(thread.innermost, state_); }
bool Fiber::on_its_thread() const noexcept { return !state_ || !state_->thread || state_->thread == thread.id; }

bool on_fiber() noexcept { return thread.innermost; }

bool stack_is_nearly_full() noexcept {
  const char* const low = thread.innermost ? thread.innermost->stack.low : thread.stack_low;
  const std::size_t size = thread.innermost ? thread.innermost->stack.size : thread.stack_size;
  const std::size_t reserve = std::min<std::size_t>(size / 4, 128 << 10);  // for exceptions, and what they unwind
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - reinterpret_cast<std::uintptr_t>(low) < reserve;
}

void on_thread_stack(stave::FunctionRef<void()> function) {
  if (!thread.innermost) return function();
  check_stack(*thread.innermost);
  Hop hop{function, thread.innermost, thread.outermost, thread.running};
  thread.requested = &hop;
  switch_stack(hop.caller, thread.outermost->resumer_continues);
  if (hop.exception) std::rethrow_exception(std::move(hop.exception));
}

}  // namespace stave_detail
