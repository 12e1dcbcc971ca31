// The watchdog reports on stderr when this process has waited long for other processes.
// This header is internal to ranks.
//
// A process that waits inside MPI cannot report anything itself, so a separate thread does. The
// first report comes after the number of seconds in the environment variable STAVE_RANKS_TIMEOUT.
// The default is 60, and 0 disables reports. Further reports come after twice, four times ... that
// time. The wait continues, because another process may be busy with a long task, such as writing a
// file.
#pragma once

#include <chrono>
#include <string>

#include <stave/core/effects/function_ref.h>

namespace stave_detail {

/// Starts the thread, once. Throws Error if STAVE_RANKS_TIMEOUT is not a valid number of seconds.
void start_watchdog();
/// Ends the thread; called before the process ends.
void stop_watchdog() noexcept;

class Watchdog;

/// An object of this class exists while this thread waits for other processes. It costs two
/// uncontended locks of a mutex.
class Waiting {
 public:
  /// `say(duration)` returns the text of a report: "rank 0 of 2 of "batch" ... in psum of float32
  /// [3]". The watchdog's thread calls `say` while this thread waits.
  explicit Waiting(stave::FunctionRef<std::string(const std::string& duration)> say);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  friend class Watchdog;
  const stave::FunctionRef<std::string(const std::string& duration)> say_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> next_report_{};
  Watchdog* watchdog_;  // null if reports are disabled
  Waiting* next_ = nullptr;
};

}  // namespace stave_detail
