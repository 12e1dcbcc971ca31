// Fibers: computations with a stack of their own, which can be suspended anywhere and resumed
// later. Handlers that receive the rest of the program are built on them. Nothing here knows
// of effects.
//
//   Fiber fiber(entry, argument);   // void entry(void*), not started yet
//   fiber.resume();                 // runs it, until it is suspended or has ended
//   fiber.suspend();                // inside: resume() above returns; a later one continues here
//
// Fibers nest. Code inside an inner fiber may suspend an outer one: then the whole chain of fibers,
// from the running one to the outer one inclusive, is suspended as a unit, and later continues at
// that very point.
//
// A fiber stays on the thread that started it. The state of the C++ runtime about exceptions
// (which are caught, how many are in flight) belongs to the fiber and is exchanged at each switch.
// So fibers may be suspended inside catch blocks, and in destructors that run because
// of an exception. The handler stack and all other thread-local variables belong to the thread
// and are shared.
#pragma once

#include <cstddef>

#include <stave/core/effects/context.h>
#include <stave/core/effects/function_ref.h>

namespace stave_detail {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  /// Takes a stack, but does not start the computation. Throws std::bad_alloc if there is no memory
  /// for a stack. `entry` must not throw: an exception terminates the program.
  Fiber(Entry entry, void* argument);
  /// Destroys a fiber that was never started or has ended. Destroying a suspended fiber terminates
  /// the program, since its stack still holds objects.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Starts the computation, or continues it where it was suspended. Returns when it is suspended
  /// again or has ended (its stack is then given back). Throws stave::Error if it has ended,
  /// is running, or belongs to another thread.
  void resume();
  /// Suspends this fiber and all fibers that were resumed inside it and still run.
  /// The caller runs inside this fiber, in a function or an inner fiber at any depth. Throws
  /// stave::Error if it does not.
  void suspend();

  bool started() const noexcept;
  bool finished() const noexcept { return !state_; }
  /// Returns true if resume() would continue this fiber: it has started, has not ended, and was
  /// suspended itself, not as a part of an outer fiber.
  bool suspended() const noexcept;
  /// Returns true if the calling code runs inside this fiber.
  bool running() const noexcept;
  /// Returns false if this fiber was started on another thread and has not ended.
  bool on_its_thread() const noexcept;

  struct State;

  /// Inline forms of resume and suspend (fiber_state.h). Each also exists as two functions, begin_
  /// and finish_, between which the caller leaves the stack.
  void resume_here();
  void suspend_here();
  Departure begin_resume();
  void finish_resume(Context* left);
  Departure begin_suspend();
  void finish_suspend(Context* left) noexcept;

 private:
  bool is_suspended() const noexcept;
  void prepare_first();
  void check_inside() const;
  void hop_or_end();

  State* state_;  // stored at the high end of the fiber's stack; null when the fiber has ended
};

/// Returns true if the calling code runs on a fiber's stack.
bool on_fiber() noexcept;

/// Returns true if so little is left of the current stack that no further program should run on it.
bool stack_is_nearly_full() noexcept;

/// Runs `function` on the thread's own stack: a plain call if that is the current stack. Its
/// exceptions are rethrown here. It serves code that needs much stack, and oneTBB, which measures
/// the depth of nested waits by the address of the stack: on a fiber's stack oneTBB would not run
/// other tasks while it waits. While `function` runs, its calling fibers cannot be suspended;
/// `function` may run other fibers. Repeated calls need no more of the thread's stack than one.
void on_thread_stack(stave::FunctionRef<void()> function);

/// Sets the usable size of the stacks of fibers that are made from now on,
/// rounded up to whole pages; 256 KiB by default. Throws stave::Error for less than 32 KiB
/// (a signal's frame alone takes 11 KiB with AMX) or more than 1 GiB.
void set_fiber_stack_size(std::size_t bytes);

}  // namespace stave_detail
