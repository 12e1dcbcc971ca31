// A child of fork() has one thread, and finds every mutex as it was: one that another thread held would stay locked for ever.
#pragma once

#include <stave/core/effects/settings.h>

#include <pthread.h>

#include <mutex>

namespace stave_detail {

inline void nothing_in_child() {}

/// Beside each mutex of the library: fork() waits until it is free, and parent and child find it so. `in_child` is what the child
/// does first, with the mutex locked.
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

/// For the pool's mutex (pool.cpp), which may be taken under others': fork() takes first what was registered last.
void hold_pool_over_fork() noexcept;

}  // namespace stave_detail
