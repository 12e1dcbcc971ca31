// Computations with a stack of their own, which can be suspended anywhere and resumed later: the ground of handlers that
// hold the rest of the program. Nothing here knows of effects.
//
//   Fiber fiber(entry, argument);   // void entry(void*), not started yet
//   fiber.resume();                 // runs it, until it is suspended or has ended
//   fiber.suspend();                // inside: the resume() above returns; a later one continues here
//
// Fibers nest. Whoever runs inside an inner fiber may suspend an outer one: the whole chain, from there down to and
// including the outer fiber, stands still as one, and continues at that very point.
//
// A fiber stays on the thread that started it. What the C++ runtime knows of exceptions (which are caught, how many are in
// flight) belongs to the fiber and is exchanged at each switch, so fibers may be suspended inside catch blocks and in
// destructors that an exception runs. The handler stack and all other thread-local variables are the thread's, and shared.
#pragma once

#include <cstddef>

#include <stave/core/effects/context.h>
#include <stave/core/effects/function_ref.h>

namespace stave_detail {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  /// Takes a stack; throws std::bad_alloc if there is no memory for one. `entry` must not throw: that terminates.
  Fiber(Entry entry, void* argument);
  /// Of a fiber that was never started or has ended; that of a suspended one terminates, since its stack holds objects.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues the computation where it was suspended, or starts it; returns when it is suspended again or has ended (its
  /// stack is then given back). Throws stave::Error if it has ended, is running, or belongs to another thread.
  void resume();
  /// From inside, at any depth: suspends this fiber and all that were resumed inside it and still run. Throws
  /// stave::Error if the calling code does not run inside it.
  void suspend();

  bool started() const noexcept;
  bool finished() const noexcept { return !state_; }
  /// Whether resume() would continue it: started, not ended, and suspended itself (not as part of an outer fiber).
  bool suspended() const noexcept;
  /// Whether the calling code runs inside this fiber.
  bool running() const noexcept;
  /// Whether it started on this thread; true as well before it starts and after it has ended.
  bool on_its_thread() const noexcept;

  struct State;

  /// The same, inlined (fiber_state.h); and in two parts, between which somebody leaves the stack.
  void resume_here();
  void suspend_here();
  Departure begin_resume();
  void finish_resume(Context* left);
  Departure begin_suspend();
  void finish_suspend(Context* left) noexcept;

 private:
  bool stands_still() const noexcept;
  void prepare_first();
  void check_inside() const;
  void hop_or_end();

  State* state_;  // at the high end of its stack; null when it has ended
};

/// Whether the calling code runs on a fiber's stack.
bool on_fiber() noexcept;

/// Whether little is left of the stack on which the calling code runs: too little for another program to run on it.
bool stack_is_nearly_full() noexcept;

/// Runs `function` on the thread's own stack: a plain call if this is it already. Its exceptions come back. For code that
/// needs much stack, and for oneTBB, which measures how deep it waits by the address of the stack: on a fiber's it would
/// not run other tasks while it waits. As long as `function` runs, the fibers that called it cannot be suspended; it may
/// run others. Hops take no room on the thread's stack, however many.
void on_thread_stack(stave::FunctionRef<void()> function);

/// The usable size of the stacks of fibers made from now on, rounded up to whole pages; 256 KiB by default. Throws
/// stave::Error for less than 32 KiB (a signal's frame alone takes 11 KiB with AMX) or more than 1 GiB.
void set_fiber_stack_size(std::size_t bytes);

}  // namespace stave_detail
