// Mutexes and fork(). A child process has one thread and finds every mutex in its state at
// the fork: a mutex that another thread held would stay locked for ever.
#pragma once

#include <stave/core/effects/settings.h>

#include <pthread.h>

#include <mutex>

namespace stave_detail {

inline void nothing_in_child() {}

/// Declared beside each mutex of the library. fork() waits until the mutex is free, and parent
/// and child find it free. `in_child` runs first in the child, while the mutex is locked.
///   constinit std::mutex mutex;
///   const HeldOverFork<mutex> held_over_fork;
template <std::mutex& mutex, void (*in_child)() = nothing_in_child>
struct HeldOverFork {
  HeldOverFork() noexcept { pthread_atfork(lock, unlock, unlock_in_child); }

 private:
  static void lock() { mutex.lock(); }
  static void unlock() { mutex.unlock(); }
  static void unlock_in_child() {
    in_child();
    mutex.unlock();
  }
};

/// Registers the pool's mutex (pool.cpp). A thread may lock it while it holds another mutex.
/// The owner of the other mutex calls this function before it registers that mutex, because fork()
/// locks mutexes in the reverse order of registration.
void hold_pool_over_fork() noexcept;

}  // namespace stave_detail
