// The watchdog says on stderr when this process has waited long for the others. Internal to ranks.
//
// A process that waits inside MPI can say nothing itself, so a thread of its own does.
// STAVE_RANKS_TIMEOUT in the environment is the time in seconds after which it speaks, 60 if it is
// not set; 0 keeps it silent. The wait goes on: another process may be busy with something long,
// such as writing a file.
#pragma once

#include <chrono>
#include <string>

#include <stave/core/effects/function_ref.h>

namespace stave_detail {

/// Starts the thread, once. Throws Error if STAVE_RANKS_TIMEOUT is no number of seconds.
void start_watchdog();
/// Ends the thread: before the process does.
void stop_watchdog() noexcept;

/// Stands while this thread waits for other processes. It costs two locks of a mutex that is free.
class Waiting {
 public:
  /// `say` gives who waits and in what: "rank 0 of 2 of "batch" ... in psum of float32 [3]". It is
  /// called on the watchdog's thread while this one waits.
  explicit Waiting(stave::FunctionRef<std::string(const std::string& duration)> say);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  friend class Watchdog;
  const stave::FunctionRef<std::string(const std::string& duration)> say_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> next_report_{};
  Waiting* next_ = nullptr;
};

}  // namespace stave_detail
